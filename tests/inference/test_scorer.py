"""ElmoScorer: the scores of `score_sentences`, by a checkpoint's name."""

import math

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel
from hf_elmo.inference.scorer import ElmoScorer
from hf_elmo.inference.scoring import best_substitutes, score_sentences
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

VOCABULARY = WordVocabulary([*SPECIAL_WORDS, *"the cat sat on a mat . !".split()])
SENTENCES = ["The cat sat .", ["the", "zebra", "sat"], "mat"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(0)
    ElmoForPreTraining(make_tiny_config(word_vocab_size=len(VOCABULARY))).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True).save_pretrained(directory)
    VOCABULARY.save(directory)
    return str(directory)


@pytest.fixture(scope="module")
def scorer(checkpoint):
    return ElmoScorer(checkpoint, device="cpu")


def as_arrays(scores):
    return [np.stack([each.forward, each.backward, each.joint]) for each in scores]


@pytest.mark.parametrize("carry_state", [False, True])
def test_scores_are_those_of_score_sentences(scorer, carry_state):
    parts = (scorer.model, scorer.tokenizer, scorer.vocabulary)
    wanted = list(score_sentences(*parts, SENTENCES, carry_state=carry_state))
    found = scorer.score_sentences(SENTENCES, carry_state=carry_state)
    for array, other in zip(as_arrays(found), as_arrays(wanted), strict=True):
        assert np.array_equal(array, other)
    assert scorer.perplexity(SENTENCES, carry_state) == scorer.totals(SENTENCES, carry_state).perplexity
    assert scorer.totals(SENTENCES, carry_state).num_words == 8


def test_surprisals_are_in_bits_and_in_each_direction(scorer):
    scores = scorer.score_sentence("The cat sat .")
    for direction, wanted in (("forward", scores.forward), ("backward", scores.backward), ("joint", scores.joint)):
        assert np.allclose(2.0 ** -scorer.surprisals("The cat sat .", direction), np.exp(wanted))
    with pytest.raises(ValueError, match="direction is 'both'"):
        scorer.surprisals("The cat", "both")


@pytest.mark.parametrize("position", [1, "cat"])
def test_substitutes_of_a_position_or_of_a_word(scorer, position):
    wanted = best_substitutes(scorer.model, scorer.tokenizer, VOCABULARY, ["the", "cat", "sat"], 1, 4)
    assert scorer.substitutes("The cat sat", position, k=4) == wanted


def test_a_position_that_a_sentence_does_not_have_once_is_refused(scorer):
    for position in ("mat", "the", "zebra", 9):
        assert_refused(ValueError, f"is {position!r}", scorer.substitutes, "the cat sat on the mat mat", position)


@pytest.mark.parametrize("prior", ["uniform", [3.0] * len(VOCABULARY)])
def test_a_prior_by_name_or_by_numbers(checkpoint, scorer, prior):
    even = ElmoScorer(checkpoint, device="cpu", prior=prior).score_sentence("the cat sat").joint
    parts = (scorer.model, scorer.tokenizer, scorer.vocabulary)
    (wanted,) = score_sentences(*parts, ["the cat sat"], frequencies=[1.0] * len(VOCABULARY))
    assert np.allclose(even, wanted.joint)
    assert not np.allclose(even, scorer.score_sentence("the cat sat").joint)


def test_the_words_may_lie_elsewhere_and_the_scorer_tells_its_settings(checkpoint, scorer, tmp_path):
    words = VOCABULARY.save(tmp_path)
    elsewhere = ElmoScorer(checkpoint, vocab_file=str(words), device="cpu")
    assert elsewhere.vocabulary.words == VOCABULARY.words
    assert all(part in repr(scorer) for part in (repr(checkpoint), "cpu", f"{len(VOCABULARY)} words"))


def test_wrong_arguments_are_named_when_it_is_made(checkpoint):
    for change, named in (
        ({"model_name_or_path": "absent"}, "absent"),
        ({"vocab_file": "absent.txt"}, "absent.txt"),
        ({"device": "abacus"}, "abacus"),
        ({"prior": "even"}, "prior"),
        ({"prior": [1.0]}, "frequencies"),
        ({"max_words_per_batch": 0}, "max_words_per_batch"),
        ({"chunk_size": 0}, "chunk_size"),
    ):
        given = {"model_name_or_path": checkpoint, "device": "cpu", **change}
        assert_refused((ValueError, OSError), named, ElmoScorer, **given)


def test_a_checkpoint_without_a_softmax_is_refused(tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="no word softmax"):
        ElmoScorer(str(tmp_path), device="cpu")


def test_what_is_no_sentence_is_refused(scorer):
    for method in (scorer.score_sentence, scorer.surprisals):
        with pytest.raises(TypeError, match="score_sentences"):
            method([["the", "cat"]])
    with pytest.raises(TypeError, match="sentences is a string"):
        scorer.perplexity("the cat")
    assert math.isnan(scorer.perplexity([]))
