"""Baselines against plain definitions."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.pretraining.baselines import CONCENTRATIONS, count_baselines
from hf_elmo.text.vocabulary import WordVocabulary

VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
texts = st.lists(st.lists(st.sampled_from("abcx"), min_size=1, max_size=6), min_size=1, max_size=8)


def plain_perplexity(train, held_out, k):
    """Forward bigram perplexity, by counting with strings."""

    def known(words):
        return [word if word in VOCABULARY else "<UNK>" for word in words]

    unigrams, bigrams, contexts = Counter(), Counter(), Counter()
    for words in map(known, train):
        for context, word in zip(["<S>", *words], [*words, "</S>"], strict=True):
            unigrams[word] += 1
            bigrams[context, word] += 1
            contexts[context] += 1
    total, log_likelihood, count = unigrams.total(), 0.0, 0
    for words in map(known, held_out):
        for context, word in zip(["<S>", *words], [*words, "</S>"], strict=True):
            prior = (unigrams[word] + 1) / (total + len(VOCABULARY) - 1)
            posterior = prior if k is None else (bigrams[context, word] + k * prior) / (contexts[context] + k)
            log_likelihood += math.log(posterior)
            count += 1
    return math.exp(-log_likelihood / count)


@given(texts, texts)
def test_against_plain_counting(train, held_out):
    found = count_baselines(train, held_out, VOCABULARY)
    assert found["unigram"] == pytest.approx(plain_perplexity(train, held_out, None), rel=1e-6)
    for name in ("bigram_forward", "bigram_backward"):
        best = min(plain_perplexity(train, held_out, k) for k in CONCENTRATIONS)
        assert found[name] == pytest.approx(best, rel=1e-6)
        # Backward is forward of the reversed text.
        train, held_out = ([sentence[::-1] for sentence in text] for text in (train, held_out))
    words = [word for sentence in held_out for word in sentence]
    assert found["unknown_rate"] == pytest.approx(words.count("x") / len(words))
    assert found["bigram"] == pytest.approx((found["bigram_forward"] + found["bigram_backward"]) / 2)


def test_no_held_out_text():
    with pytest.raises(ValueError, match="held_out_sentences is empty"):
        count_baselines([["a"]], [], VOCABULARY)
