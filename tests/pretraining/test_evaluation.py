"""Held-out figures against sums by hand: each direction, bits per character, carried states and zeros."""

import math

import pytest
import torch
from accelerate import Accelerator
from conftest import make_tiny_config

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.kernels import token_encoder
from hf_elmo.pretraining import evaluation
from hf_elmo.pretraining.evaluation import measure_perplexity
from hf_elmo.pretraining.objective import LaneObjective
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.vocabulary import WordVocabulary

LINES = ["the cat sat on the mat .", "a dog", "the dog sat ."]


@pytest.fixture
def measure(tmp_path):
    tokenizer = ElmoCharTokenizer()
    words = sorted({word for line in LINES for word in line.split()})
    vocabulary = WordVocabulary(["<S>", "</S>", "<UNK>", *words])
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(vocabulary), dropout=0.5))

    def measure(lines=LINES, num_lanes=2, reset_state="never", separator="\n", **options):
        file = tmp_path / "heldout.txt"
        file.write_text("".join(f"{line}{separator}" for line in lines))
        corpus = corpus_from_files([str(file)], by_document=reset_state == "document")
        objective, accelerator = LaneObjective(model), Accelerator(cpu=True)
        options |= {"num_lanes": num_lanes, "reset_state": reset_state, "unroll_steps": 4}
        return measure_perplexity(objective, tokenizer, vocabulary, corpus, accelerator, **options)

    measure.model, measure.tokenizer, measure.vocabulary = model, tokenizer, vocabulary
    return measure


def sums_by_hand(measure):
    """-log p of each sentence alone, in both directions, from the model's own labels."""
    forward = backward = 0.0
    measure.model.eval()
    for line in LINES:
        words = ["<S>", *line.split(), "</S>"]
        with torch.no_grad():
            batch = measure.tokenizer(line, return_tensors="pt")
            output = measure.model(**batch, labels=torch.tensor([measure.vocabulary.encode(words)]))
        forward += float(output.forward_loss) * (len(words) - 1)
        backward += float(output.backward_loss) * (len(words) - 1)
    return forward, backward


def test_figures_from_zeros_are_those_of_each_sentence_alone(measure):
    forward, backward = sums_by_hand(measure)
    found = measure(zero_state=True)
    count = sum(len(line.split()) + 1 for line in LINES)
    assert found.num_targets == count
    assert found.forward == pytest.approx(math.exp(forward / count), rel=1e-5)
    assert found.backward == pytest.approx(math.exp(backward / count), rel=1e-5)
    assert found.mean == pytest.approx((found.forward + found.backward) / 2)
    # What a file of the text holds: spaces and line ends count, one behind each word.
    num_characters = sum(len(line) + 1 for line in LINES)
    assert found.bits_per_character == pytest.approx((forward + backward) / 2 / math.log(2) / num_characters, rel=1e-5)


def test_carried_states_change_what_is_found_and_zeros_do_not_depend_on_the_lanes(measure):
    assert measure(num_lanes=1).mean != pytest.approx(measure(zero_state=True).mean, rel=1e-4)
    assert measure(num_lanes=1, zero_state=True).mean == pytest.approx(
        measure(num_lanes=3, zero_state=True).mean, rel=1e-5
    )
    # A lane for each sentence carries nothing from one to another.
    assert measure(num_lanes=3).mean == pytest.approx(measure(zero_state=True).mean, rel=1e-5)


@pytest.mark.parametrize("options", [{}, {"reset_state": "epoch"}, {"zero_state": True}], ids=str)
def test_how_much_is_scored_at_a_time_changes_no_figure(measure, monkeypatch, options):
    lines = [" ".join(LINES[0].split()[start:]) for start in (0, 3, 1, 5, 2, 4)] * 3
    together = measure(lines, **options)
    assert not is_caching(measure.model)
    monkeypatch.setattr(evaluation, "_ENTRIES_AT_A_TIME", 1)
    window_by_window = measure(lines, **options)
    assert together.num_targets == window_by_window.num_targets
    assert together.forward == pytest.approx(window_by_window.forward, rel=1e-5)
    assert together.backward == pytest.approx(window_by_window.backward, rel=1e-5)


def is_caching(model):
    return model.elmo.token_encoder in token_encoder._CACHES


def test_documents(measure):
    alone, each_alone = measure(zero_state=True), measure(reset_state="document", separator="\n\n")
    assert (each_alone.mean, each_alone.bits_per_character) == pytest.approx(
        (alone.mean, alone.bits_per_character), rel=1e-5
    )
    assert measure(reset_state="document", num_lanes=1).mean == pytest.approx(measure(num_lanes=1).mean, rel=1e-5)


def test_nothing_to_score(measure):
    with pytest.raises(ValueError, match="holds no words"):
        measure(lines=[" ", " "])
