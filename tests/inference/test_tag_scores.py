"""Probes find what a layer tells of tags and no more, and words are counted in the sets they belong to."""

import numpy as np
import pytest
import torch
from conftest import make_tiny_config

from hf_elmo import ElmoModel
from hf_elmo.inference.embedding import embed
from hf_elmo.inference.tag_scores import (
    TaggedVectors,
    embed_tagged,
    right_by_frequency,
    right_by_probe,
    score_tags,
)


def drawn(count, seed):
    """Words whose tags layer 1 tells, far from zero and on a scale of its own, and layer 0 does not."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 3, count)
    noise = rng.normal(size=(count, 4))
    telling = 50 + 0.01 * (np.eye(4)[numbers] * 5 + rng.normal(size=(count, 4)) * 0.5) * 10
    layers = torch.from_numpy(np.stack([noise, telling])).half()
    return TaggedVectors([f"w{number}" for number in numbers], [f"T{number}" for number in numbers], layers)


def test_a_probe_finds_what_a_layer_tells():
    train, validation, test = drawn(3000, 0), drawn(300, 1), drawn(1000, 2)
    right = [right_by_probe(train, validation, test, layer, learning_rate=0.01) for layer in (0, 1)]
    assert right[0].mean() < 0.45 and right[1].mean() > 0.95
    again = right_by_probe(train, validation, test, 0, learning_rate=0.01)
    other = right_by_probe(train, validation, test, 0, seed=1, learning_rate=0.01)
    assert (again == right[0]).all() and (other != right[0]).any()


def test_a_tag_that_training_has_not_is_never_found():
    train, test = drawn(300, 0), drawn(30, 1)
    unknown = TaggedVectors(test.words, ["T9"] * 30, test.layers)
    assert not right_by_probe(train, test, unknown, 1, epochs=1).any()


def words(*pairs):
    each = [pair.split("/") for pair in pairs]
    return TaggedVectors([word for word, _ in each], [tag for _, tag in each], torch.empty(0))


def test_the_most_frequent_tag_and_the_sets_of_words():
    train = words("a/D", "a/D", "a/X", "dog/N", "cat/N", "go/V", "go/V")
    test = words("a/D", "a/X", "go/V", "go/N", "fox/N", "run/V")
    right = right_by_frequency(train, test)
    assert right.tolist() == [True, False, True, False, True, False]
    scores, shares = score_tags(train, test, {"w": [right, ~right], "v": [right, right]})
    assert shares["several tags"]["w"].tolist() == [0.5, 0.5] and shares["new words"]["v"].tolist() == [1, 0]
    assert scores["all words"]["w"]["accuracy"] == [0.5, 0.5]
    assert scores["several tags"]["w"]["accuracy"] == [0.5, 0.5]
    assert scores["new words"]["w"]["accuracy"] == [0.5, 0.5]
    assert "new words" not in score_tags(train, words("a/D"), {"w": [np.array([True])]})[0]


def test_words_have_the_vectors_of_their_sentences(tokenizer):
    model = ElmoModel(make_tiny_config()).eval()
    sentences = [["they", "play"], [], ["a", "good", "play"]]
    tagged = embed_tagged(model, tokenizer, sentences, [["P", "V"], [], ["D", "A", "N"]])
    assert (tagged.words, tagged.tags) == (["they", "play", "a", "good", "play"], [*"PVDAN"])
    wanted = np.concatenate(list(embed(model, tokenizer, sentences, layers="all")), axis=1)
    np.testing.assert_allclose(tagged.layers.float().numpy(), wanted, atol=1e-3)
    assert pytest.approx(0) != float(np.abs(wanted).max())
