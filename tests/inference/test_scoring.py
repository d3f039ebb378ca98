"""Scores of words: those of the model's own distributions, whatever the batches, and those of training's evaluation."""

import copy
import functools
import math
import shutil

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

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.inference import scoring
from hf_elmo.inference.scoring import ElmoScorer, ScoreTotals
from hf_elmo.pretraining.evaluation import measure_perplexity
from hf_elmo.pretraining.objective import LaneObjective
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.spelling import SPELLING_FILE, SpellingModel
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

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


@pytest.fixture(scope="module")
def scorer_of(tmp_path_factory):
    """Scorers of checkpoints with weights that are large enough for any mistake to show, by their softmax."""

    @functools.cache
    def folder_of(softmax, lower_case):
        folder = tmp_path_factory.mktemp("checkpoint")
        model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(VOCABULARY), dropout=0.5, **SOFTMAXES[softmax]))
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.uniform_(-0.7, 0.7)
        model.save_pretrained(folder)
        ElmoCharTokenizer(do_lower_case=lower_case).save_pretrained(folder)
        VOCABULARY.save(folder)
        return str(folder)

    @functools.cache
    def make(softmax="shared", lower_case=False, dtype=torch.float64, **options):
        scorer = ElmoScorer(folder_of(softmax, lower_case), device="cpu", **options)
        scorer.model.to(dtype)
        return scorer

    return make


@pytest.fixture
def scorer(scorer_of):
    return scorer_of()


def score_by_hand(model, words):
    """The scores of one sentence from the logits of a plain call of the model, (3, T), and of the special tokens."""
    batch = ElmoCharTokenizer()([words], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**batch)
    forward, backward = (torch.log_softmax(logits[0], -1) for logits in (output.forward_logits, output.backward_logits))
    scores = np.zeros((3, len(words)))
    for place, target in enumerate(VOCABULARY.encode(words)):
        from_left, from_right = forward[place], backward[place + 2]
        # By Zipf's law a word's frequency falls with its number.
        product = (from_left + from_right).exp() / torch.log1p(1 / torch.arange(1, 17, dtype=torch.float64))
        scores[:, place] = from_left[target], from_right[target], (product / product.sum()).log()[target]
    return scores, float(forward[len(words), VOCABULARY.eos_id]), float(backward[1, VOCABULARY.bos_id])


def assert_close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=REORDERED_FLOAT64)


def as_array(scores):
    return np.stack([scores.forward, scores.backward, scores.joint])


# What the scores are


@pytest.mark.parametrize("softmax", SOFTMAXES)
@examples(20)
@given(sentence_lists, st.integers(1, 30), st.integers(1, 40), st.integers(1, 60))
def test_scores_are_those_of_the_models_logits_in_the_order_of_the_sentences(
    scorer_of, softmax, sentences, chunk_size, batch, buffer
):
    scorer = copy.copy(scorer_of(softmax))
    scorer.chunk_size, scorer.embedder = chunk_size, copy.copy(scorer.embedder)
    scorer.embedder.max_words_per_batch, scorer.embedder.max_words_per_buffer = batch, buffer
    found = scorer.score_sentences(sentences)
    assert [scores.words for scores in found] == sentences
    for scores in found:
        # It is read by its characters, and has the probability of <UNK>.
        assert scores.is_unknown.tolist() == [word == "zebra" for word in scores.words]
        wanted, forward_end, backward_end = score_by_hand(scorer.model, scores.words)
        assert_close(as_array(scores), wanted)
        assert_close([scores.forward_end, scores.backward_end], [forward_end, backward_end])


def test_words_are_lower_cased_as_the_tokenizer_reads_them(scorer_of):
    cased, lower = scorer_of(lower_case=True).score_sentences([["The", "CAT"], "The CAT"])
    assert cased.words == ["The", "CAT"] and lower.words == ["the", "cat"]
    assert not cased.is_unknown.any()
    assert_close(as_array(cased), as_array(lower))


# Sums and perplexities


@pytest.mark.parametrize("carry_state", [False, True])
def test_perplexities_are_those_of_the_trainers_evaluation(scorer_of, tmp_path, carry_state):
    """With the state carried, those on one lane; else those of a sentence a lane, where windows are a word long."""
    sentences = [line for line in SENTENCES if line]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in sentences))
    corpus, scorer = corpus_from_files([str(tmp_path / "text.txt")]), scorer_of(dtype=torch.float32)
    lanes = {"unroll_steps": 4, "num_lanes": 1} if carry_state else {"unroll_steps": 1, "num_lanes": len(sentences)}
    objective, tokenizer = LaneObjective(copy.deepcopy(scorer.model)), scorer.tokenizer
    wanted = measure_perplexity(objective, tokenizer, VOCABULARY, corpus, Accelerator(cpu=True), **lanes)
    found, other = (scorer.totals(sentences, carry) for carry in (carry_state, not carry_state))
    assert found.num_targets == wanted.num_targets
    for name in ("forward", "backward"):
        loss = math.log(getattr(found, f"{name}_perplexity"))
        assert loss == pytest.approx(math.log(getattr(wanted, name)), rel=LOSS_FLOAT32)
    assert found.perplexity == pytest.approx(wanted.mean, rel=10 * LOSS_FLOAT32)
    assert abs(other.perplexity - found.perplexity) > 1e-3


def test_totals_are_sums_over_sentences(scorer):
    scored, totals = scorer.score_sentences(SENTENCES), scorer.totals(SENTENCES)
    assert (totals.num_sentences, totals.num_words, totals.num_unknown, totals.num_targets) == (6, 25, 1, 31)
    joint = np.concatenate([scores.joint for scores in scored])
    assert totals.pseudo_perplexity == pytest.approx(math.exp(-joint.mean()))
    assert totals.forward_sum == pytest.approx(sum(scores.forward.sum() + scores.forward_end for scores in scored))
    assert totals.backward_sum == pytest.approx(sum(scores.backward.sum() + scores.backward_end for scores in scored))
    for direction in ("forward", "backward", "joint"):
        bits = scorer.surprisals(SENTENCES[0], direction)
        assert_close(2.0**-bits, np.exp(getattr(scored[0], direction)))
    assert scorer.perplexity(SENTENCES) == totals.perplexity
    assert math.isnan(scorer.perplexity([]))
    assert ScoreTotals(forward_sum=-1e6, num_sentences=1).forward_perplexity == math.inf
    assert ScoreTotals(forward_sum=-20.0, num_sentences=2).forward_perplexity == pytest.approx(math.exp(10))


# Streams and memory


@pytest.mark.parametrize(("chunk_size", "block"), [(4, 5), (64, 1)])
def test_no_more_scores_than_asked_for_are_held(scorer, chunk_size, block, monkeypatch):
    expected, shapes, logits = scorer.score_sentences(SENTENCES), [], scoring._logits

    def record(*arguments):
        scores = logits(*arguments)
        shapes.append(scores.shape)
        return scores

    monkeypatch.setattr(scoring, "_logits", record)
    monkeypatch.setattr(scoring, "_BLOCK", block)
    monkeypatch.setattr(scorer, "chunk_size", chunk_size)
    found = scorer.score_sentences(SENTENCES)
    assert max(rows for rows, _ in shapes) <= chunk_size and max(words for _, words in shapes) <= block
    # What is read so far is scored once where sentences begin or end alike.
    assert sum(rows * words for rows, words in shapes) <= 2 * 31 * len(VOCABULARY)
    for one, other in zip(found, expected, strict=True):
        assert_close(as_array(one), as_array(other))


def test_of_an_adaptive_softmax_few_distributions_are_held(scorer_of, monkeypatch):
    rows, distributions, scorer = [], ElmoScorer._distributions, scorer_of("adaptive")
    expected = scorer.score_sentences(SENTENCES)

    def record(self, forward, backward):
        rows.append(len(forward))
        return distributions(self, forward, backward)

    monkeypatch.setattr(ElmoScorer, "_distributions", record)
    monkeypatch.setattr(scoring, "_DISTRIBUTIONS", 5)
    found = scorer.score_sentences(SENTENCES)
    assert max(rows) == 5 and sum(rows) == 31
    for one, other in zip(found, expected, strict=True):
        assert_close(as_array(one), as_array(other))


# Substitutes


def test_substitutes_are_the_most_probable_words_by_both_sides(scorer):
    words, place = "the cat sat on the mat .".split(), 2
    found = scorer.substitutes(words, place, k=5)
    changed = [[*words[:place], word, *words[place + 1 :]] for word in VOCABULARY.words[3:]]
    wanted = dict(zip(VOCABULARY.words[3:], scorer.score_sentences(changed), strict=True))
    best = sorted(wanted, key=lambda word: -wanted[word].joint[place])
    assert [each.word for each in found] == best[:5]
    # Special words are never among them.
    assert [each.word for each in scorer.substitutes(" ".join(words), "sat", 99)] == best
    for each in found:
        assert_close([each.forward, each.backward, each.joint], as_array(wanted[each.word])[:, place])
    # The word itself is not seen.
    for one, other in zip(
        *(scorer.substitutes([*words[:place], word, *words[place + 1 :]], place, k=5) for word in ("dog", "zebra")),
        strict=True,
    ):
        assert one.word == other.word
        assert_close([one.forward, one.backward, one.joint], [other.forward, other.backward, other.joint])


def test_what_cannot_be_scored_is_refused(scorer, tmp_path):
    for position in ("mat", "the", "zebra", 9, -1):
        named = f"is {position!r}"
        assert_refused(ValueError, named, scorer.substitutes, "the cat sat on the mat mat".split(), position)
    assert_refused(TypeError, "sentences[0]", scorer.score_sentence, [["the", "cat"]])
    assert_refused(TypeError, "sentences is a string", scorer.perplexity, "the cat")
    shutil.copytree(scorer.name, tmp_path / "few")
    WordVocabulary([*SPECIAL_WORDS, "a"]).save(tmp_path / "few")
    for change, named in (
        ({"model_name_or_path": "absent"}, "absent"),
        ({"device": "abacus"}, "abacus"),
        ({"max_words_per_batch": 0}, "max_words_per_batch"),
        ({"spell_unknown": True}, SPELLING_FILE),
        ({"model_name_or_path": tmp_path / "few"}, ("4 words", "16")),
    ):
        given = {"model_name_or_path": scorer.name, "device": "cpu", **change}
        assert_refused((ValueError, OSError), named, ElmoScorer, **given)


def test_unknown_words_get_their_part_of_unk(scorer_of, tmp_path):
    before, spelling = scorer_of(lower_case=True), SpellingModel.fit(["zebra", "zebu", "okapi"], VOCABULARY.words[3:])
    shutil.copytree(before.name, tmp_path / "spelled")
    spelling.save(tmp_path / "spelled")
    after = ElmoScorer(str(tmp_path / "spelled"), "cpu", spell_unknown=True)
    after.model.double()
    after.chunk_size, sentences = 3, [*SENTENCES, "the Zebra and the okapi ran"]
    for plain, spelled in zip(*(each.score_sentences(sentences) for each in (before, after)), strict=True):
        assert plain.is_unknown.tolist() == spelled.is_unknown.tolist()
        unknown = [word.lower() for word, is_one in zip(plain.words, plain.is_unknown, strict=True) if is_one]
        expected = np.zeros(len(plain.words))
        expected[plain.is_unknown] = spelling.log_probabilities(unknown)
        np.testing.assert_allclose(as_array(spelled), as_array(plain) + expected, rtol=1e-9, atol=1e-9)
        assert_close([spelled.forward_end, spelled.backward_end], [plain.forward_end, plain.backward_end])
    assert plain.is_unknown.tolist() == [False, True, False, False, True, False]
