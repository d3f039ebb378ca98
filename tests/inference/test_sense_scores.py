"""Splits are even and the same for all, the nearest mean is found, and equal ones go to the most frequent sense."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.inference.sense_scores import (
    BAG_OF_WORDS,
    MOST_FREQUENT,
    deal,
    nearest_sense,
    right_by_layer,
    score_senses,
)
from hf_elmo.inference.word_uses import Use, WordUses


def uses_of(senses, sentences=None):
    sentences = sentences or [["play", f"w{number}"] for number in range(len(senses))]
    uses = [Use(number, 0, tuple(words)) for number, words in enumerate(sentences)]
    return WordUses("play", uses, list(senses), len(uses))


@given(st.lists(st.sampled_from("abc"), min_size=5, max_size=40), st.randoms())
def test_senses_are_dealt_evenly_and_alike_in_every_order(senses, random):
    found = uses_of(senses)
    split_of = deal(found)
    for sense in set(senses):
        counts = np.bincount(split_of[np.array(senses) == sense], minlength=5)
        assert counts.max() - counts.min() <= 1
    order = random.sample(range(len(senses)), len(senses))
    assert deal(found.select(order)).tolist() == split_of[order].tolist()


def test_uses_of_one_sentence_are_tested_together():
    found = uses_of("aaaaaaaa", [["play", str(number // 2)] for number in range(8)])
    split_of = deal(found, 2)
    assert split_of[::2].tolist() == split_of[1::2].tolist()
    assert_refused(ValueError, ("--splits", "5"), deal, found, 5)


@given(st.integers(0, 50))
def test_the_nearest_mean_is_that_with_the_largest_cosine(seed):
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(seed)
    train, test, senses = rng.normal(size=(12, 4)), rng.normal(size=(5, 4)), np.array([*"aabbbcccccab"])
    test /= np.linalg.norm(test, axis=1, keepdims=True)
    means = {sense: train[senses == sense].mean(axis=0) for sense in "cba"}
    wanted = [max(means, key=lambda sense: row @ means[sense] / np.linalg.norm(means[sense])) for row in test]
    assert nearest_sense(train, senses, [*"cba"], test).tolist() == wanted
    rows = [sparse.csr_matrix(each) for each in (train, test)]
    assert nearest_sense(rows[0], senses, [*"cba"], rows[1]).tolist() == wanted


def test_what_a_layer_does_not_tell_apart_has_the_most_frequent_sense():
    pytest.importorskip("sklearn")
    senses = "aaaaaabbb" * 3
    found = uses_of(senses, [["play", f"on{sense}", str(number)] for number, sense in enumerate(senses)])
    same = np.ones((len(senses), 3)) + np.random.default_rng(0).normal(size=(len(senses), 3)) * 1e-9
    telling = np.eye(3)[[int(sense == "b") for sense in senses]]
    split_of = deal(found)
    right = right_by_layer(found, np.stack([same, telling]), split_of)
    assert list(right) == [MOST_FREQUENT, BAG_OF_WORDS, "layer 0", "layer 1"]
    is_frequent = np.array([*senses]) == "a"
    for way in (MOST_FREQUENT, "layer 0"):
        assert right[way].tolist() == is_frequent.tolist()
    # The sentences themselves say which sense it is.
    assert right[BAG_OF_WORDS].all() and right["layer 1"].all()
    scores = score_senses([(found, split_of, right)])[0]["play"]
    tested = [np.array([*senses])[split_of == split] for split in range(5)]
    shares = [Counter(each)["a"] / len(each) for each in tested]
    np.testing.assert_allclose(scores["layer 0"]["accuracy"], shares)
    assert scores["layer 0"]["by sense"] == [0.5] * 5 and scores["layer 1"]["by sense"] == [1.0] * 5


def test_all_words_are_counted_together_and_their_senses_apart():
    first, second = uses_of("aabb"), WordUses("bank", uses_of("ab").uses, ["a", "b"], 2)
    words = [
        (first, np.array([0, 1, 0, 1]), {"layer 0": np.array([True, True, False, True])}),
        (second, np.array([0, 1]), {"layer 0": np.array([True, False])}),
    ]
    scores, right = score_senses(words)
    assert right["all words"]["layer 0"].tolist() == [1, 1, 0, 1, 1, 0]
    assert scores["play"]["layer 0"] == {"accuracy": [0.5, 1.0], "by sense": [0.5, 1.0]}
    np.testing.assert_allclose(scores["all words"]["layer 0"]["accuracy"], [2 / 3, 2 / 3])
    np.testing.assert_allclose(scores["all words"]["layer 0"]["by sense"], [2 / 3, 2 / 3])
