"""Layers that were computed once against the biLM that is run each time, and the files that they are kept in."""

import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from model_cases import assert_close, make_model
from refusals import assert_refused

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoEmbeddings,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from hf_elmo.model.modeling_elmo import pack_layers
from hf_elmo.tasks import layer_cache
from hf_elmo.tasks.layer_cache import LayerCache, collate_with_layers

SENTENCES = [["a", "bb", "c"], ["d"], ["a", "e", "f", "bb", "a"], []]


def encode(sentences=SENTENCES, **settings):
    """One feature for each sentence, as a task has them."""
    tokenizer = ElmoCharTokenizer(**settings)
    return [dict(tokenizer(words, is_split_into_words=True)) for words in sentences]


@pytest.fixture
def cache(tmp_path):
    return LayerCache(tmp_path / "layers", report=lambda line: None)


def names(cache):
    return sorted(path.name for path in cache.directory.glob("*.npy"))


def forbid_the_bilm(model):
    model.base_model.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run"))


def test_a_disk_that_would_be_filled_keeps_none(cache, monkeypatch):
    lines = []
    cache._report = lines.append
    monkeypatch.setattr(layer_cache.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    features = encode()
    assert cache.with_layers(make_model(), features) is features
    assert "no more than 90 may be taken" in lines[0] and not names(cache)


# The same numbers


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("cls", [ElmoModel, ElmoForTokenClassification, ElmoForSequenceClassification, ElmoEmbeddings])
def test_cached_layers_give_what_the_bilm_gives(cls, side, cache):
    model, features = make_model(cls, num_mixes=2, mix_normalization="batch"), encode()
    tokenizer = ElmoCharTokenizer(padding_side=side)
    batch = tokenizer.pad(features, return_tensors="pt")
    wanted = model(**batch)
    items = cache.with_layers(model, features)
    forbid_the_bilm(model)
    collate = collate_with_layers(lambda items: tokenizer.pad(items, return_tensors="pt"))
    found = model(**collate([items[index] for index in range(len(items))]))
    assert_close(found[0], wanted[0], torch.float32)


def test_a_sentence_that_many_pairs_share_is_read_once(tmp_path):
    lines = []
    model, tokenizer = make_model(), ElmoCharTokenizer()
    cache = LayerCache(tmp_path, report=lines.append)
    # The last one is the second sentence of one pair and the first of another.
    pairs = [("a bb", "c d e"), ("c", "c d e"), ("c d e", "f g"), ("a bb", "c d e")]
    features = [dict(tokenizer(*pair)) for pair in pairs]
    layers = cache.with_layers(model, features)
    assert "4 sentences" in lines[0]
    for found, pair in zip(map(layers.layers, range(4)), pairs, strict=True):
        alone = [model.run_layers(tokenizer(text, return_tensors="pt")["input_ids"])[1] for text in pair]
        wanted = torch.cat([pack_layers(its)[0] for its in alone])
        assert_close(torch.from_numpy(found), wanted, torch.float32)


def test_an_item_reads_no_layers_before_it_is_collated(cache):
    """Grouping by length asks for all items before the first step."""
    features = encode()
    item = cache.with_layers(make_model(), features)[1]
    assert item["input_ids"] == features[1]["input_ids"] and item["packed_layers"]().shape[0] == 3


def test_long_and_short_sentences_are_computed_in_several_batches(cache, monkeypatch):
    monkeypatch.setattr(layer_cache, "_WORDS_AT_A_TIME", 8)
    model, features = make_model(), encode([["w"] * (index % 7) for index in range(20)])
    layers = cache.with_layers(model, features)
    for index in (0, 6, 13, -1):
        _, wanted, _ = model.run_layers(torch.tensor([features[index]["input_ids"]]))
        assert_close(torch.from_numpy(layers.layers(index)), pack_layers(wanted)[0], torch.float32)


# The files


def test_another_text_tokenizer_or_checkpoint_never_finds_a_file(cache):
    model = make_model()
    cache.with_layers(model, encode())
    assert len(names(cache)) == 1
    other = make_model()
    with torch.no_grad():
        other.bilm.layers[0].forward_lstm.bias[0] += 1
    for changed, features in (
        (model, encode(SENTENCES[::-1])),
        (model, encode([["A", "bb", "c"], *SENTENCES[1:]])),
        (model, encode([*SENTENCES[1:], SENTENCES[0]])),
        (other, encode()),
        (make_model(use_skip_connections=False), encode()),
    ):
        before = names(cache)
        cache.with_layers(changed, features)
        assert len(names(cache)) == len(before) + 1
    # Types alone are another text: the sentences are read apart.
    types = [{**one, "token_type_ids": [0, *[1] * (len(one["input_ids"]) - 1)]} for one in encode()]
    before = names(cache)
    cache.with_layers(model, types)
    assert len(names(cache)) == len(before) + 1


def test_another_head_or_mix_takes_the_file_that_is_there(cache):
    cache.with_layers(make_model(), encode())
    model = make_model(ElmoForTokenClassification, num_labels=5, num_mixes=2, mixed_layers="top")
    model.elmo.load_state_dict(make_model(num_mixes=2).state_dict())
    forbid_the_bilm(model)
    assert len(cache.with_layers(model, encode())) == len(SENTENCES)
    assert len(names(cache)) == 1


def test_what_was_used_longest_ago_makes_room(cache):
    model = make_model()
    paths = []
    for index, word in enumerate("abc"):
        paths.append(cache.with_layers(model, encode([[word] * 10])).path)
        os.utime(paths[-1], (index, index))
    cache.max_bytes = 3 * paths[0].stat().st_size
    kept = cache.with_layers(model, encode([["a"] * 10]))  # now used last
    cache.with_layers(model, encode([["d"] * 10]))
    assert [path.exists() for path in paths] == [True, False, True]
    assert sum(path.stat().st_size for path in cache.directory.iterdir()) <= cache.max_bytes
    assert np.isfinite(kept.layers(0)).all()


def test_what_would_never_fit_is_not_kept(tmp_path):
    lines = []
    cache = LayerCache(tmp_path / "layers", max_bytes=100, report=lines.append)
    features = encode()
    assert cache.with_layers(make_model(), features) is features
    assert not names(cache) and "no more than 100 may be taken" in lines[0]


def test_a_failure_leaves_no_file(cache, monkeypatch):
    model = make_model()
    with monkeypatch.context() as patched:
        patched.setattr(layer_cache, "pack_layers", lambda layers: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cache.with_layers(model, encode())
    (cache.directory / ".of-a-dead-writer.partial").mkdir()
    cache.with_layers(model, encode())
    assert len(names(cache)) == 1 and not list(cache.directory.glob(".*.partial"))


def test_a_pickle_names_the_file_and_does_not_copy_it(cache):
    layers = cache.with_layers(make_model(), encode([["a"] * 500]))
    pickled = pickle.dumps(layers)
    assert len(pickled) - len(pickle.dumps(layers.features)) < layers.path.stat().st_size / 10
    assert np.array_equal(pickle.loads(pickled).layers(0), layers.layers(0))


# What is refused


def test_a_bilm_that_is_trained_is_refused(cache):
    for model in (make_model(freeze_bilm=False), make_model(ElmoForPreTraining, word_vocab_size=9)):
        assert_refused(ValueError, "freeze_bilm", cache.with_layers, model, encode())
    model, batch = make_model(freeze_bilm=False), ElmoCharTokenizer()("a b", return_tensors="pt")
    assert_refused(ValueError, "freeze_bilm", model, **batch, packed_layers=torch.zeros(1, 4, 30))


def test_layers_of_other_words_are_refused(cache):
    model, batch = make_model(), ElmoCharTokenizer()("a b", return_tensors="pt")
    assert_refused(RuntimeError, ("4", "3"), model, **batch, packed_layers=torch.zeros(1, 3, 30))
    assert_refused(IndexError, "range", cache.with_layers(model, encode()).layers, 4)
