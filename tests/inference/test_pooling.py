"""Pooling: what becomes of the words of a sentence, of one layer and of several."""

import numpy as np
import pytest

from hf_elmo.inference.pooling import POOLINGS, pool_words


@pytest.mark.parametrize("layers", [(), (3,)])
def test_a_sentence_is_pooled_over_its_words_alone(layers):
    vectors = np.random.default_rng(0).normal(size=(*layers, 5, 4)).astype(np.float32)
    np.testing.assert_allclose(pool_words(vectors, "mean"), vectors.sum(axis=-2) / 5, rtol=1e-6)
    np.testing.assert_array_equal(pool_words(vectors, "max"), np.sort(vectors, axis=-2)[..., -1, :])
    found = pool_words(vectors, "first-last")
    # Each direction where it has read all words.
    np.testing.assert_array_equal(found[..., :2], vectors[..., 4, :2])
    np.testing.assert_array_equal(found[..., 2:], vectors[..., 0, 2:])
    assert pool_words(vectors, "none") is vectors


@pytest.mark.parametrize("pooling", POOLINGS[1:])
def test_a_sentence_without_words_is_zeros(pooling):
    np.testing.assert_array_equal(pool_words(np.zeros((3, 0, 4), np.float32), pooling), np.zeros((3, 4)))


def test_another_pooling_is_refused():
    with pytest.raises(ValueError, match="'median'"):
        pool_words(np.zeros((1, 4)), "median")
