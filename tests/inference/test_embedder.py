"""ElmoEmbedder: the arrays of `embed`, by a checkpoint's name."""

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification, ElmoModel
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.embedding import LAYERS, embed

D = 12  # as in make_tiny_config
SENTENCES = ["Call it!", ["Call", "it!"], "", "a b c d"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("checkpoint"))
    torch.manual_seed(0)
    ElmoModel(make_tiny_config()).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def embedder(checkpoint):
    return ElmoEmbedder(checkpoint, device="cpu")


@pytest.mark.parametrize("layers", [*LAYERS, 1, -1])
def test_arrays_are_those_of_embed(embedder, layers):
    wanted = list(embed(embedder.model, embedder.tokenizer, SENTENCES, layers=layers))
    found = embedder.embed_sentences(SENTENCES, layers)
    assert len(found) == len(SENTENCES)
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


def test_a_string_has_a_vector_for_each_word_that_it_is_cut_into(embedder):
    assert embedder.tokenize("Call it!") == ["Call", "it", "!"]
    assert len(embedder.embed_sentence("Call it!")) == 3


def test_the_settings_are_told(checkpoint):
    described = repr(ElmoEmbedder(checkpoint, device="cpu", dtype="bfloat16"))
    assert all(part in described for part in (repr(checkpoint), "cpu", "bfloat16", "3 layers", "12"))


def test_a_stream_without_an_end_is_embedded(checkpoint):
    embedder = ElmoEmbedder(checkpoint, device="cpu", max_words_per_buffer=50)
    stream = embedder.stream(iter(lambda: ["a", "b"], None))
    assert [next(stream).shape for _ in range(30)] == [(2, D)] * 30


def test_of_a_tagger_the_base_is_taken_and_training_modes_are_left_behind(tmp_path):
    ElmoForTokenClassification(make_tiny_config(num_labels=4, freeze_bilm=False)).train().save_pretrained(tmp_path)
    ElmoCharTokenizer().save_pretrained(tmp_path)
    embedder = ElmoEmbedder(str(tmp_path), device="cpu")
    assert not embedder.model.training
    assert np.array_equal(embedder.embed_sentence("a b"), embedder.embed_sentence("a b"))


def test_what_is_no_sentence_is_refused(embedder):
    for sentence in (7, [["a", "b"]], ["a", 7], None, {"a"}):
        assert_refused(TypeError, "sentence", embedder.embed_sentence, sentence)


def test_wrong_arguments_are_named(checkpoint):
    for change, named in (
        ({"model_name_or_path": "absent"}, "absent"),
        ({"device": "abacus"}, "abacus"),
        ({"dtype": "int8"}, "dtype"),
        ({"max_words_per_batch": 0}, "max_words_per_batch"),
    ):
        given = {"model_name_or_path": checkpoint, "device": "cpu", **change}
        assert_refused((ValueError, OSError), named, ElmoEmbedder, **given)


def test_a_string_in_place_of_sentences_is_refused(embedder):
    for method in (embedder.embed_sentences, embedder.average_words):
        with pytest.raises(TypeError, match="sentences is a string"):
            method("Call it!")
