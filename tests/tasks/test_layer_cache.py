"""Layers that were computed once against the biLM that is run each time, and the files that they are kept in."""

import os
import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from model_cases import assert_close, make_model
from refusals import assert_refused
from transformers import DataCollatorForTokenClassification, Trainer, TrainingArguments

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoEmbeddings,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    TokenClassificationHead,
)
from hf_elmo.model.modeling_elmo import pack_layers
from hf_elmo.tasks import layer_cache
from hf_elmo.tasks.layer_cache import FeaturesWithLayers, LayerCache, collate_with_layers

SENTENCES = [["a", "bb", "c"], ["d"], ["a", "e", "f", "bb", "a"], []]


def encode(sentences=SENTENCES, **settings):
    """One feature for each sentence, as a task has them."""
    tokenizer = ElmoCharTokenizer(**settings)
    return [dict(tokenizer(words, is_split_into_words=True)) for words in sentences]


def labelled(features):
    return [{**one, "labels": [index % 3 for index in range(len(one["input_ids"]))]} for one in features]


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
    assert cache.layers_of(make_model(), encode()) is None
    assert "no more than 90 may be taken" in lines[0] and not names(cache)


# The same numbers


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("cls", [ElmoModel, ElmoForTokenClassification, ElmoForSequenceClassification, ElmoEmbeddings])
def test_cached_layers_give_what_the_bilm_gives(cls, side, cache):
    model, features = make_model(cls, num_mixes=2, mix_normalization="batch"), encode()
    tokenizer = ElmoCharTokenizer(padding_side=side)
    batch = tokenizer.pad(features, return_tensors="pt")
    wanted = model(**batch)
    layers = cache.layers_of(model, features)
    forbid_the_bilm(model)
    collate = collate_with_layers(lambda items: tokenizer.pad(items, return_tensors="pt"))
    items = FeaturesWithLayers(features, layers)
    found = model(**collate([items[index] for index in range(len(items))]))
    assert_close(found[0], wanted[0], torch.float32)


def test_a_sentence_that_many_pairs_share_is_read_once(tmp_path):
    lines = []
    model, tokenizer = make_model(), ElmoCharTokenizer()
    cache = LayerCache(tmp_path, report=lines.append)
    # The last one is the second sentence of one pair and the first of another.
    pairs = [("a bb", "c d e"), ("c", "c d e"), ("c d e", "f g"), ("a bb", "c d e")]
    features = [dict(tokenizer(*pair)) for pair in pairs]
    layers = cache.layers_of(model, features)
    assert "4 sentences" in lines[0]
    for found, pair in zip(layers, pairs, strict=True):
        alone = [model.run_layers(tokenizer(text, return_tensors="pt")["input_ids"])[1] for text in pair]
        wanted = torch.cat([pack_layers(its)[0] for its in alone])
        assert_close(torch.from_numpy(found), wanted, torch.float32)


def test_an_item_reads_no_layers_before_it_is_collated(cache):
    """Grouping by length asks for all items before the first step."""
    features = encode()
    item = FeaturesWithLayers(features, cache.layers_of(make_model(), features))[1]
    assert item["input_ids"] == features[1]["input_ids"] and item["packed_layers"]().shape[0] == 3


def test_long_and_short_sentences_are_computed_in_several_batches(cache, monkeypatch):
    monkeypatch.setattr(layer_cache, "_WORDS_AT_A_TIME", 8)
    model, features = make_model(), encode([["w"] * (index % 7) for index in range(20)])
    layers = cache.layers_of(model, features)
    for index in (0, 6, 13, -1):
        _, wanted, _ = model.run_layers(torch.tensor([features[index]["input_ids"]]))
        assert_close(torch.from_numpy(np.array(layers[index])), pack_layers(wanted)[0], torch.float32)


def test_a_trainer_learns_the_same_with_and_without(cache, tmp_path):
    features, states = labelled(encode(SENTENCES[:3])), []
    collator = DataCollatorForTokenClassification(ElmoCharTokenizer())
    for is_cached in (False, True):
        model = make_model(ElmoForTokenClassification, num_labels=3, head=TokenClassificationHead(dropout=0.0))
        data, collate = features, collator
        if is_cached:
            data = FeaturesWithLayers(features, cache.layers_of(model, features))
            collate = collate_with_layers(collator)
            forbid_the_bilm(model)
        arguments = TrainingArguments(
            str(tmp_path / "run"),
            report_to="none",
            use_cpu=True,
            max_steps=3,
            save_strategy="no",
            learning_rate=0.01,
            per_device_train_batch_size=2,
            disable_tqdm=True,
        )
        Trainer(model, arguments, train_dataset=data, data_collator=collate).train()
        states.append({name: value for name, value in model.state_dict().items() if "mixes" in name or "class" in name})
    for name, value in states[0].items():
        # Adam divides gradients by their own size, which leaves tiny ones little but their rounding.
        torch.testing.assert_close(states[1][name], value, rtol=0, atol=1e-4, msg=name)


# The files


def test_another_text_tokenizer_or_checkpoint_never_finds_a_file(cache):
    model = make_model()
    cache.layers_of(model, encode())
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
        cache.layers_of(changed, features)
        assert len(names(cache)) == len(before) + 1
    # Types alone are another text: the sentences are read apart.
    types = [{**one, "token_type_ids": [0, *[1] * (len(one["input_ids"]) - 1)]} for one in encode()]
    before = names(cache)
    cache.layers_of(model, types)
    assert len(names(cache)) == len(before) + 1


def test_another_head_or_mix_takes_the_file_that_is_there(cache):
    cache.layers_of(make_model(), encode())
    model = make_model(ElmoForTokenClassification, num_labels=5, num_mixes=2, mixed_layers="top")
    model.elmo.load_state_dict(make_model(num_mixes=2).state_dict())
    forbid_the_bilm(model)
    assert len(cache.layers_of(model, encode())) == len(SENTENCES)
    assert len(names(cache)) == 1


def test_what_was_used_longest_ago_makes_room(cache):
    model = make_model()
    paths = []
    for index, word in enumerate("abc"):
        paths.append(cache.layers_of(model, encode([[word] * 10])).path)
        os.utime(paths[-1], (index, index))
    cache.max_bytes = 3 * paths[0].stat().st_size
    kept = cache.layers_of(model, encode([["a"] * 10]))  # now used last
    cache.layers_of(model, encode([["d"] * 10]))
    assert [path.exists() for path in paths] == [True, False, True]
    assert sum(path.stat().st_size for path in cache.directory.iterdir()) <= cache.max_bytes
    assert np.isfinite(kept[0]).all()


def test_what_would_never_fit_is_not_kept(tmp_path):
    lines = []
    cache = LayerCache(tmp_path / "layers", max_bytes=100, report=lines.append)
    assert cache.layers_of(make_model(), encode()) is None
    assert not names(cache) and "no more than 100 may be taken" in lines[0]


def test_a_failure_leaves_no_file(cache, monkeypatch):
    model = make_model()
    with monkeypatch.context() as patched:
        patched.setattr(layer_cache, "pack_layers", lambda layers: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cache.layers_of(model, encode())
    (cache.directory / ".of-a-dead-writer.partial").mkdir()
    cache.layers_of(model, encode())
    assert len(names(cache)) == 1 and not list(cache.directory.glob(".*.partial"))


def test_of_two_threads_one_makes_the_file(cache):
    features, barrier, found, lines = encode(), threading.Barrier(2), [], []
    cache._report = lines.append
    # Made here: threads would draw each other's random weights.
    models = [make_model(), make_model()]

    def run(model):
        barrier.wait()
        found.append(cache.layers_of(model, features))

    threads = [threading.Thread(target=run, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(cache)) == len(lines) == 1 and len(found) == 2
    assert all(np.array_equal(found[0][index], found[1][index]) for index in range(len(features)))


def test_a_pickle_names_the_file_and_does_not_copy_it(cache):
    layers = cache.layers_of(make_model(), encode([["a"] * 500]))
    pickled = pickle.dumps(layers)
    assert len(pickled) < layers.path.stat().st_size / 10
    assert np.array_equal(pickle.loads(pickled)[0], layers[0])


# What is refused


def test_a_bilm_that_is_trained_is_refused(cache):
    for model in (make_model(freeze_bilm=False), make_model(ElmoForPreTraining, word_vocab_size=9)):
        assert_refused(ValueError, "freeze_bilm", cache.layers_of, model, encode())
    model, batch = make_model(freeze_bilm=False), ElmoCharTokenizer()("a b", return_tensors="pt")
    assert_refused(ValueError, "freeze_bilm", model, **batch, packed_layers=torch.zeros(1, 4, 30))


def test_layers_of_other_words_are_refused(cache):
    model, batch = make_model(), ElmoCharTokenizer()("a b", return_tensors="pt")
    assert_refused(RuntimeError, ("4", "3"), model, **batch, packed_layers=torch.zeros(1, 3, 30))
    assert_refused(IndexError, "range", cache.layers_of(model, encode()).__getitem__, 4)


def test_a_sentence_that_is_there_many_times_is_kept_once(tmp_path):
    lines = []
    model, cache = make_model(), LayerCache(tmp_path, report=lines.append)
    once, many = encode(), encode([SENTENCES[place] for place in (2, 0, 2, 1, 3, 0)])
    layers = cache.layers_of(model, many)
    assert len(layers) == 6 and "4 sentences" in lines[0]
    for place, wanted in zip((2, 0, 2, 1, 3, 0), layers, strict=True):
        assert np.array_equal(cache.layers_of(model, once)[place], wanted)
    assert np.array_equal(pickle.loads(pickle.dumps(layers))[2], layers[0])
