"""Scores of words: those of the model's own distributions, whatever the batches, and those of training's evaluation."""

import functools
import itertools
import math

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import LOSS_FLOAT32, REORDERED_FLOAT64

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel
from hf_elmo.inference.scoring import (
    ScoreTotals,
    best_substitutes,
    join_directions,
    log_probabilities,
    score_sentences,
    zipf_frequencies,
)
from hf_elmo.pretraining.evaluation import measure_perplexity
from hf_elmo.pretraining.objective import LaneObjective
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

TOKENIZER = ElmoCharTokenizer()
VOCABULARY = WordVocabulary([*SPECIAL_WORDS, *"the cat sat on a mat dog ran to park and back .".split()])
SENTENCES = [
    "the cat sat on the mat .",
    "a dog ran .",
    "",
    "the zebra sat .",
    ".",
    "to and back to the park and back .",
]
SOFTMAXES = {
    "shared": {},
    "one a direction": {"share_word_softmax": False},
    "adaptive": {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [5, 9], "adaptive_softmax_div_value": 2.0},
}
sentence_lists = st.lists(st.lists(st.sampled_from([*VOCABULARY.words[3:], "zebra"]), max_size=9), max_size=8)
limits = st.fixed_dictionaries(
    {
        "max_words_per_batch": st.integers(1, 40),
        "max_words_per_buffer": st.integers(1, 60),
        "chunk_size": st.integers(1, 30),
    }
)


@functools.cache
def make_model(softmax="shared", dtype=torch.float64) -> ElmoForPreTraining:
    """A model in evaluation mode with weights that are large enough for any mistake to show."""
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(VOCABULARY), dropout=0.5, **SOFTMAXES[softmax]))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.7, 0.7)
    return model.to(dtype).eval()


def score(sentences, model=None, **options):
    return list(score_sentences(model or make_model(), TOKENIZER, VOCABULARY, sentences, **options))


def score_by_hand(model, words):
    """The scores of one sentence from the logits of a plain call of the model, each (3, T), and the two markers'."""
    batch = TOKENIZER([words], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**batch)
    forward, backward = (torch.log_softmax(logits[0], -1) for logits in (output.forward_logits, output.backward_logits))
    scores = np.zeros((3, len(words)))
    for place, target in enumerate(VOCABULARY.encode(words)):
        from_left, from_right = forward[place], backward[place + 2]
        product = (from_left + from_right).exp() / zipf_frequencies(len(VOCABULARY))
        scores[:, place] = from_left[target], from_right[target], (product / product.sum()).log()[target]
    return scores, float(forward[len(words), VOCABULARY.eos_id]), float(backward[1, VOCABULARY.bos_id])


def assert_close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=REORDERED_FLOAT64)


def as_array(scores):
    return np.stack([scores.forward, scores.backward, scores.joint])


# What the scores are


@pytest.mark.parametrize("softmax", SOFTMAXES)
@examples(20)
@given(
    sentences=sentence_lists, chunk_size=st.integers(1, 30), budgets=st.tuples(st.integers(1, 40), st.integers(1, 60))
)
def test_scores_are_those_of_the_models_logits_in_the_order_of_the_sentences(softmax, sentences, chunk_size, budgets):
    limits = {"max_words_per_batch": budgets[0], "max_words_per_buffer": budgets[1], "chunk_size": chunk_size}
    found = score(sentences, make_model(softmax), **limits)
    assert [scores.words for scores in found] == sentences
    for scores in found:
        wanted, forward_end, backward_end = score_by_hand(make_model(softmax), scores.words)
        assert_close(as_array(scores), wanted)
        assert_close([scores.forward_end, scores.backward_end], [forward_end, backward_end])


@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_probabilities_of_a_position_sum_to_one(softmax):
    hidden = torch.randn(5, 6, dtype=torch.float64)
    directions = [log_probabilities(make_model(softmax), hidden, direction).detach() for direction in (0, 1)]
    joint = join_directions(*directions, zipf_frequencies(len(VOCABULARY)).log())
    for scores in (*directions, joint):
        assert_close(scores.exp().sum(-1), np.ones(5))
    assert_close(zipf_frequencies(len(VOCABULARY)).sum(), 1.0)


def test_even_frequencies_leave_the_plain_product():
    (scores,) = score(["the cat sat"], frequencies=[7.0] * len(VOCABULARY))
    model, place = make_model(), 1
    candidates = best_substitutes(
        model, TOKENIZER, VOCABULARY, scores.words, place, 99, frequencies=[1.0] * 16, with_special_words=True
    )
    products = {each.word: math.exp(each.forward + each.backward) for each in candidates}
    assert scores.joint[place] == pytest.approx(math.log(products["cat"] / sum(products.values())), abs=1e-9)


def test_each_direction_reads_from_its_own_end():
    base, changed_right, changed_left = score(
        ["the cat sat on the mat", "the cat sat zebra dog .", ". zebra sat on the mat"]
    )
    assert_close(changed_right.forward[:3], base.forward[:3])
    assert_close(changed_left.backward[2:], base.backward[2:])
    assert (np.abs(changed_right.backward[:3] - base.backward[:3]) > 1e-6).all()
    assert (np.abs(changed_left.forward[2:] - base.forward[2:]) > 1e-6).all()


def test_a_word_that_the_softmax_lacks_has_the_score_of_unk_but_is_read_by_its_characters():
    zebra, giraffe, unk = score([f"the {word} sat" for word in ("zebra", "giraffe", "<UNK>")])
    assert zebra.is_unknown.tolist() == [False, True, False] == unk.is_unknown.tolist()
    assert_close([zebra.forward[1], zebra.backward[1]], [giraffe.forward[1], giraffe.backward[1]])
    assert_close(zebra.joint[1], unk.joint[1])
    assert abs(zebra.forward[2] - giraffe.forward[2]) > 1e-6


def test_a_sentence_without_words_has_its_markers_alone():
    (scores,) = score([[]])
    assert scores.forward.shape == scores.joint.shape == (0,)
    assert scores.totals.num_targets == 1
    assert scores.totals.forward_perplexity == pytest.approx(math.exp(-scores.forward_end))
    assert math.isnan(scores.totals.pseudo_perplexity)


def test_words_are_lower_cased_as_the_tokenizer_reads_them():
    tokenizer = ElmoCharTokenizer(do_lower_case=True)
    cased, lower = score_sentences(make_model(), tokenizer, VOCABULARY, [["The", "CAT"], "The CAT"])
    assert cased.words == ["The", "CAT"] and lower.words == ["the", "cat"]
    assert not cased.is_unknown.any()
    assert_close(as_array(cased), as_array(lower))


# Sums and perplexities


@pytest.mark.parametrize("sentences", [SENTENCES[:1], [line for line in SENTENCES if line]], ids=["one", "several"])
def test_perplexities_are_those_of_the_trainers_evaluation_with_one_sentence_a_lane(tmp_path, sentences):
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in sentences))
    corpus = corpus_from_files([str(tmp_path / "text.txt")])
    model = make_model.__wrapped__(dtype=torch.float32)
    # A lane takes a sentence at a time where its windows are a word long.
    options = {"unroll_steps": 1, "num_lanes": len(sentences)}
    wanted = measure_perplexity(LaneObjective(model), TOKENIZER, VOCABULARY, corpus, Accelerator(cpu=True), **options)
    found = sum((scores.totals for scores in score(sentences, model)), ScoreTotals())
    assert found.num_targets == wanted.num_targets
    for name in ("forward", "backward"):
        loss = math.log(getattr(found, f"{name}_perplexity"))
        assert loss == pytest.approx(math.log(getattr(wanted, name)), rel=LOSS_FLOAT32)
    assert found.perplexity == pytest.approx(wanted.mean, rel=10 * LOSS_FLOAT32)


def test_with_a_carried_state_they_are_those_of_the_trainers_evaluation_on_one_lane(tmp_path):
    sentences = [line for line in SENTENCES if line]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in sentences))
    model = make_model.__wrapped__(dtype=torch.float32)
    corpus, options = corpus_from_files([str(tmp_path / "text.txt")]), {"unroll_steps": 4, "num_lanes": 1}
    wanted = measure_perplexity(LaneObjective(model), TOKENIZER, VOCABULARY, corpus, Accelerator(cpu=True), **options)
    limits = {"max_words_per_batch": 7, "max_words_per_buffer": 12}
    found = sum((scores.totals for scores in score(sentences, model, carry_state=True, **limits)), ScoreTotals())
    assert found.num_targets == wanted.num_targets
    assert found.perplexity == pytest.approx(wanted.mean, rel=10 * LOSS_FLOAT32)
    cold = sum((scores.totals for scores in score(sentences, model)), ScoreTotals())
    assert abs(cold.perplexity - found.perplexity) > 1e-3


def test_totals_are_sums_over_sentences():
    each = [scores.totals for scores in score(SENTENCES)]
    totals = sum(each, ScoreTotals())
    assert (totals.num_sentences, totals.num_words, totals.num_unknown) == (6, 25, 1)
    assert totals.num_targets == 31
    scored = [scores for scores in score(SENTENCES) if scores.words]
    joint = np.concatenate([scores.joint for scores in scored])
    assert totals.pseudo_perplexity == pytest.approx(math.exp(-joint.mean()))
    assert totals.forward_sum == pytest.approx(sum(part.forward_sum for part in each))
    bits = scored[0].forward_surprisal
    assert_close(2.0**-bits, np.exp(scored[0].forward))
    assert math.isnan(ScoreTotals().perplexity)
    assert ScoreTotals(forward_sum=-1e6, num_sentences=1).forward_perplexity == math.inf


# Streams and memory


@pytest.mark.parametrize("chunk_size", [1, 4, 64])
def test_no_more_distributions_than_asked_for_are_held(chunk_size):
    model, rows = make_model(), []
    hook = model.word_softmax.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    try:
        score(SENTENCES, chunk_size=chunk_size)
    finally:
        hook.remove()
    assert max(rows) <= chunk_size
    assert sum(rows) == 2 * 31


def test_sentences_are_read_as_scores_are_asked_for():
    stream = score_sentences(
        make_model(), TOKENIZER, VOCABULARY, itertools.cycle(SENTENCES), max_words_per_buffer=20, chunk_size=8
    )
    first = list(itertools.islice(stream, 12))
    assert [" ".join(scores.words) for scores in first] == SENTENCES * 2
    assert_close(as_array(first[0]), as_array(first[6]))


def test_dropout_is_off_and_the_mode_is_kept():
    model = make_model.__wrapped__().train()
    (found,), (wanted,) = score(["the cat sat"], model), score(["the cat sat"])
    assert model.training and model.elmo.bilm.output_dropout.training
    assert_close(as_array(found), as_array(wanted))


# Substitutes


def test_substitutes_are_the_most_probable_words_by_both_sides():
    words, place = "the cat sat on the mat .".split(), 2
    found = best_substitutes(make_model(), TOKENIZER, VOCABULARY, words, place, k=5)
    wanted = {word: score([[*words[:place], word, *words[place + 1 :]]])[0] for word in VOCABULARY.words[3:]}
    best = sorted(wanted, key=lambda word: -wanted[word].joint[place])[:5]
    assert [each.word for each in found] == best
    for each in found:
        assert_close([each.forward, each.backward, each.joint], as_array(wanted[each.word])[:, place])


def test_the_word_itself_is_not_seen():
    left, right = (
        best_substitutes(make_model(), TOKENIZER, VOCABULARY, ["the", word, "sat"], 1) for word in ("cat", "zebra")
    )
    assert left == right


def test_special_words_are_left_out_unless_asked_for():
    def substitutes(**options):
        return best_substitutes(make_model(), TOKENIZER, VOCABULARY, ["the"], 0, k=1000, **options)

    found, with_special_words = substitutes(), substitutes(with_special_words=True)
    assert sorted(each.word for each in found) == sorted(VOCABULARY.words[3:])
    assert sorted(each.word for each in with_special_words) == sorted(VOCABULARY.words)
    assert sum(math.exp(each.joint) for each in with_special_words) == pytest.approx(1)
    assert [each for each in with_special_words if each.word not in SPECIAL_WORDS] == found


def test_a_model_that_knows_a_text_proposes_its_words():
    sentences = [line.split() for line in ("the cat sat on a mat .", "a dog ran to the park and back .")]
    model = ElmoForPreTraining(
        make_tiny_config(word_vocab_size=len(VOCABULARY), dropout=0.0, projection_size=16, cell_size=32)
    ).train()
    batch = TOKENIZER(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    labels = torch.full(batch["attention_mask"].shape, -100)
    for row, words in enumerate(sentences):
        labels[row, : len(words) + 2] = torch.tensor(VOCABULARY.encode(["<S>", *words, "</S>"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(60):
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    for words in sentences:
        for place, word in enumerate(words):
            (best,) = best_substitutes(model, TOKENIZER, VOCABULARY, words, place, k=1)
            assert best.word == word
    known = sum((scores.totals for scores in score(sentences, model)), ScoreTotals())
    assert known.pseudo_perplexity < known.perplexity < 2


# Errors


def test_errors_name_the_argument():
    arguments = {"model": make_model(), "tokenizer": TOKENIZER, "vocabulary": VOCABULARY, "sentences": ["the"]}
    for change, error, named in (
        ({"model": ElmoModel(make_tiny_config())}, TypeError, ("model", "ElmoModel")),
        ({"vocabulary": WordVocabulary([*SPECIAL_WORDS, "a"])}, ValueError, ("vocabulary", "4 words", "16")),
        ({"sentences": "the cat"}, TypeError, "sentences"),
        ({"sentences": ["the", 3]}, TypeError, "sentences[1]"),
        ({"chunk_size": 0}, ValueError, "chunk_size is 0"),
        ({"max_words_per_batch": 0}, ValueError, "max_words_per_batch is 0"),
        ({"frequencies": [1.0, 2.0]}, ValueError, ("frequencies", "(2,)", "(16,)")),
        ({"frequencies": [0.0] * 16}, ValueError, "frequencies"),
    ):
        assert_refused(error, named, lambda given: list(score_sentences(**given)), {**arguments, **change})


def test_errors_of_substitutes_name_the_argument():
    arguments = {
        "model": make_model(),
        "tokenizer": TOKENIZER,
        "vocabulary": VOCABULARY,
        "words": ["the", "cat"],
        "position": 0,
    }
    for change, error, named in (
        ({"words": "the cat"}, TypeError, "words"),
        ({"position": 2}, ValueError, "position is 2"),
        ({"position": -1}, ValueError, "position is -1"),
        ({"k": 0}, ValueError, "k is 0"),
        ({"vocabulary": WordVocabulary([*SPECIAL_WORDS, "a"])}, ValueError, ("vocabulary", "4 words")),
    ):
        assert_refused(error, named, best_substitutes, **{**arguments, **change})
