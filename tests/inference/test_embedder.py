"""ElmoEmbedder: the arrays of `embed`, by a checkpoint's name."""

import numpy as np
import pytest
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification
from hf_elmo.inference.embedder import ElmoEmbedder, pool_words
from hf_elmo.inference.embedding import LAYERS, embed

D = 12  # as in make_tiny_config
SENTENCES = ["Call it!", ["Call", "it!"], "", "a b c d"]


@pytest.mark.parametrize("layers", [*LAYERS, 1, -1])
def test_arrays_are_those_of_embed(embedder, layers):
    wanted = list(embed(embedder.model, embedder.tokenizer, SENTENCES, layers=layers))
    found = embedder.embed_sentences(SENTENCES, layers)
    for array, other, sentence in zip(found, wanted, SENTENCES, strict=True):
        assert type(array) is np.ndarray and array.dtype == np.float32
        assert np.array_equal(array, other)
        assert np.allclose(embedder.embed_sentence(sentence, layers), other, atol=1e-6)
    means = embedder.average_words(SENTENCES, layers)
    assert means.shape == ((4, 3, D) if layers == "all" else (4, D))
    for mean, array in zip(means, wanted, strict=True):
        assert np.allclose(mean, array.mean(axis=-2) if array.size else 0.0)


def test_no_sentences_give_no_arrays(embedder):
    assert embedder.embed_sentences([]) == []
    assert embedder.average_words([]).shape == (0, D) and embedder.average_words([], "all").shape == (0, 3, D)


def test_of_a_tagger_the_base_is_taken_and_strings_are_cut_by_its_tokenizer(tmp_path):
    ElmoForTokenClassification(make_tiny_config(num_labels=4, freeze_bilm=False)).train().save_pretrained(tmp_path)
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(tmp_path)
    embedder = ElmoEmbedder(str(tmp_path), device="cpu", dtype="bfloat16", max_words_per_buffer=50)
    assert not embedder.model.training and embedder.tokenize("Call it!") == ["Call", "it", "!"]
    stream = embedder.stream(iter(lambda: "Call it!", None))
    assert [next(stream).shape for _ in range(30)] == [(3, D)] * 30


def test_what_is_no_sentence_is_refused(embedder):
    for sentence in (7, [["a", "b"]], ["a", 7], None, {"a"}):
        assert_refused(TypeError, "sentence", embedder.embed_sentence, sentence)
    for method in (embedder.embed_sentences, embedder.average_words):
        assert_refused(TypeError, "sentences is a string", method, "Call it!")


def test_wrong_arguments_are_named(embedder):
    for change, named in (
        ({"model_name_or_path": "absent"}, "absent"),
        ({"device": "abacus"}, "abacus"),
        ({"dtype": "int8"}, "dtype"),
        ({"max_words_per_batch": 0}, "max_words_per_batch"),
    ):
        given = {"model_name_or_path": embedder.name, "device": "cpu", **change}
        assert_refused((ValueError, OSError), named, ElmoEmbedder, **given)


@given(words=st.integers(0, 5), layers=st.integers(1, 3), seed=st.integers(0, 99))
def test_pooling_is_what_its_names_say(words, layers, seed):
    array = np.random.default_rng(seed).normal(size=(layers, words, 4))
    pooled = {name: pool_words(array, name) for name in ("mean", "max", "first-last")}
    assert pool_words(array, "none") is array
    if not words:
        assert all(np.array_equal(each, np.zeros((layers, 4))) for each in pooled.values())
        return
    np.testing.assert_allclose(pooled["mean"], array.sum(axis=1) / words)
    assert np.array_equal(pooled["max"], np.sort(array, axis=1)[:, -1])
    assert np.array_equal(pooled["first-last"], np.concatenate([array[:, -1, :2], array[:, 0, 2:]], axis=1))
