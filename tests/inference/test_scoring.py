"""Scores of words: those of the model's own distributions, whatever the batches, and those of training's evaluation."""

import functools
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

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.inference import scoring
from hf_elmo.inference.scoring import ElmoScorer, ScoreTotals, join_directions, log_probabilities, zipf_frequencies
from hf_elmo.pretraining.evaluation import measure_perplexity
from hf_elmo.pretraining.objective import LaneObjective
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.spelling import SPELLING_FILE, SpellingModel
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


def make_scorer(model=None, tokenizer=TOKENIZER, **options):
    return ElmoScorer(model or make_model(), tokenizer=tokenizer, vocabulary=VOCABULARY, **options)


def score(sentences, model=None, carry_state=False, **options):
    return make_scorer(model, **options).score_sentences(sentences, carry_state)


def score_by_hand(model, words):
    """The scores of one sentence from the logits of a plain call of the model, (3, T), and of the special tokens."""
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


def test_words_are_lower_cased_as_the_tokenizer_reads_them():
    tokenizer = ElmoCharTokenizer(do_lower_case=True)
    cased, lower = make_scorer(tokenizer=tokenizer).score_sentences([["The", "CAT"], "The CAT"])
    assert cased.words == ["The", "CAT"] and lower.words == ["the", "cat"]
    assert not cased.is_unknown.any()
    assert_close(as_array(cased), as_array(lower))


# Sums and perplexities


@pytest.mark.parametrize("carry_state", [False, True])
def test_perplexities_are_those_of_the_trainers_evaluation(tmp_path, carry_state):
    """With the state carried, those on one lane; else those of a sentence a lane, where windows are a word long."""
    sentences = [line for line in SENTENCES if line]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in sentences))
    corpus, model = corpus_from_files([str(tmp_path / "text.txt")]), make_model.__wrapped__(dtype=torch.float32)
    lanes = {"unroll_steps": 4, "num_lanes": 1} if carry_state else {"unroll_steps": 1, "num_lanes": len(sentences)}
    wanted = measure_perplexity(LaneObjective(model), TOKENIZER, VOCABULARY, corpus, Accelerator(cpu=True), **lanes)
    limits = {"max_words_per_batch": 7, "max_words_per_buffer": 12}
    found, other = (make_scorer(model, **limits).totals(sentences, carry) for carry in (carry_state, not carry_state))
    assert found.num_targets == wanted.num_targets
    for name in ("forward", "backward"):
        loss = math.log(getattr(found, f"{name}_perplexity"))
        assert loss == pytest.approx(math.log(getattr(wanted, name)), rel=LOSS_FLOAT32)
    assert found.perplexity == pytest.approx(wanted.mean, rel=10 * LOSS_FLOAT32)
    assert abs(other.perplexity - found.perplexity) > 1e-3


def test_totals_are_sums_over_sentences():
    each = [scores.totals for scores in score(SENTENCES)]
    totals = sum(each, ScoreTotals())
    assert (totals.num_sentences, totals.num_words, totals.num_unknown) == (6, 25, 1)
    assert totals.num_targets == 31
    scored = [scores for scores in score(SENTENCES) if scores.words]
    joint = np.concatenate([scores.joint for scores in scored])
    assert totals.pseudo_perplexity == pytest.approx(math.exp(-joint.mean()))
    assert totals.forward_sum == pytest.approx(sum(part.forward_sum for part in each))
    for direction in ("forward", "backward", "joint"):
        bits = make_scorer().surprisals(SENTENCES[0], direction)
        assert_close(2.0**-bits, np.exp(getattr(scored[0], direction)))
    assert math.isnan(ScoreTotals().perplexity)
    assert ScoreTotals(forward_sum=-1e6, num_sentences=1).forward_perplexity == math.inf
    assert ScoreTotals(forward_sum=-20.0, num_sentences=2).forward_perplexity == pytest.approx(math.exp(10))


# Streams and memory


@pytest.mark.parametrize(("chunk_size", "block"), [(1, 2048), (4, 5), (64, 1), (64, 16)])
def test_no_more_scores_than_asked_for_are_held(chunk_size, block, monkeypatch):
    expected, shapes, logits = score(SENTENCES), [], scoring._logits

    def record(*arguments):
        scores = logits(*arguments)
        shapes.append(scores.shape)
        return scores

    monkeypatch.setattr(scoring, "_logits", record)
    monkeypatch.setattr(scoring, "_BLOCK", block)
    found = score(SENTENCES, chunk_size=chunk_size)
    assert max(rows for rows, _ in shapes) <= chunk_size and max(words for _, words in shapes) <= block
    # What is read so far is scored once where sentences begin or end alike.
    assert sum(rows * words for rows, words in shapes) <= 2 * 31 * len(VOCABULARY)
    for one, other in zip(found, expected, strict=True):
        for name in ("forward", "backward", "joint"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=REORDERED_FLOAT64)


def test_of_an_adaptive_softmax_few_distributions_are_held(monkeypatch):
    rows, distributions = [], ElmoScorer._distributions

    def record(self, forward, backward):
        rows.append(len(forward))
        return distributions(self, forward, backward)

    monkeypatch.setattr(ElmoScorer, "_distributions", record)
    monkeypatch.setattr(scoring, "_DISTRIBUTIONS", 5)
    expected, found = (score(SENTENCES, make_model("adaptive"), chunk_size=size) for size in (3, 100))
    assert max(rows) == 5 and sum(rows) == 2 * 31
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.joint, other.joint, atol=REORDERED_FLOAT64)


# Substitutes


def test_substitutes_are_the_most_probable_words_by_both_sides():
    words, place = "the cat sat on the mat .".split(), 2
    found = make_scorer().substitutes(words, place, k=5)
    wanted = {word: score([[*words[:place], word, *words[place + 1 :]]])[0] for word in VOCABULARY.words[3:]}
    best = sorted(wanted, key=lambda word: -wanted[word].joint[place])
    assert [each.word for each in found] == best[:5]
    # Special words are never among them.
    assert [each.word for each in make_scorer().substitutes(words, place, 99)] == best
    for each in found:
        assert_close([each.forward, each.backward, each.joint], as_array(wanted[each.word])[:, place])


def test_the_word_itself_is_not_seen():
    left, right = (make_scorer().substitutes(["the", word, "sat"], 1) for word in ("cat", "zebra"))
    assert left == right


# By a checkpoint's name


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint")
    make_model(dtype=torch.float32).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True).save_pretrained(directory)
    VOCABULARY.save(directory)
    return str(directory)


@pytest.mark.parametrize("carry_state", [False, True])
def test_a_scorer_of_a_checkpoint_is_that_of_its_model(checkpoint, carry_state):
    scorer, sentences = ElmoScorer(checkpoint, device="cpu"), ["The cat sat.", ["the", "zebra", "sat"], "mat"]
    wanted = make_scorer(make_model(dtype=torch.float32), scorer.tokenizer).score_sentences(sentences, carry_state)
    for found, other in zip(scorer.score_sentences(sentences, carry_state), wanted, strict=True):
        assert np.array_equal(as_array(found), as_array(other))
    assert scorer.perplexity(sentences, carry_state) == scorer.totals(sentences, carry_state).perplexity
    assert scorer.totals(sentences, carry_state).num_words == 8
    assert scorer.substitutes("The cat sat", "cat", k=4) == scorer.substitutes(["the", "cat", "sat"], 1, k=4)


def test_what_cannot_be_scored_is_refused(checkpoint):
    scorer = make_scorer()
    for position in ("mat", "the", "zebra", 9, -1):
        named = f"is {position!r}"
        assert_refused(ValueError, named, scorer.substitutes, "the cat sat on the mat mat".split(), position)
    for method in (scorer.score_sentence, scorer.surprisals):
        assert_refused(TypeError, "sentences[0]", method, [["the", "cat"]])
    assert_refused(TypeError, "sentences is a string", scorer.perplexity, "the cat")
    assert math.isnan(scorer.perplexity([]))
    few = WordVocabulary([*SPECIAL_WORDS, "a"])
    for change, named in (
        ({"model": "absent"}, "absent"),
        ({"device": "abacus"}, "abacus"),
        ({"max_words_per_batch": 0}, "max_words_per_batch"),
        ({"model": make_model(), "tokenizer": TOKENIZER, "vocabulary": few}, ("4 words", "16")),
    ):
        assert_refused((ValueError, OSError), named, ElmoScorer, **{"model": checkpoint, "device": "cpu", **change})


def test_unknown_words_get_their_part_of_unk(tmp_path):
    tokenizer = ElmoCharTokenizer(do_lower_case=True)
    make_model().float().save_pretrained(tmp_path)
    VOCABULARY.save(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert_refused(FileNotFoundError, ("spell_unknown", SPELLING_FILE), ElmoScorer, str(tmp_path), spell_unknown=True)
    spelling = SpellingModel.fit(["zebra", "zebu", "okapi"], VOCABULARY.words[3:])
    spelling.save(tmp_path)
    sentences = [*SENTENCES, "the Zebra and the okapi ran"]
    plain, spelled = (
        ElmoScorer(str(tmp_path), "cpu", spell_unknown=spell, chunk_size=3).score_sentences(sentences)
        for spell in (False, True)
    )
    for before, after in zip(plain, spelled, strict=True):
        assert before.is_unknown.tolist() == after.is_unknown.tolist()
        unknown = [word.lower() for word, is_one in zip(before.words, before.is_unknown, strict=True) if is_one]
        expected = np.zeros(len(before.words))
        expected[before.is_unknown] = spelling.log_probabilities(unknown)
        for name in ("forward", "backward", "joint"):
            np.testing.assert_allclose(getattr(after, name), getattr(before, name) + expected, rtol=1e-9, atol=1e-9)
        assert (before.forward_end, before.backward_end) == (after.forward_end, after.backward_end)
    assert plain[-1].is_unknown.tolist() == [False, True, False, False, True, False]
