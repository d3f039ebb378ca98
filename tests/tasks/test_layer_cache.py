"""Layers that were computed once against the biLM that is run each time, and the files that they are kept in."""

from types import SimpleNamespace

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
from hf_elmo.tasks.layer_cache import collate_with_layers, keep_layers

SENTENCES = [["a", "bb", "c"], ["d"], ["a", "e", "f", "bb", "a"], []]


def encode(sentences=SENTENCES, **settings):
    """One feature for each sentence, as a task has them."""
    tokenizer = ElmoCharTokenizer(**settings)
    return [dict(tokenizer(words, is_split_into_words=True)) for words in sentences]


@pytest.fixture
def keep(tmp_path):
    """A call of keep_layers, which returns what it reported and what it gives."""

    def call(model, features):
        lines = []
        return lines, keep_layers(model, features, tmp_path / "layers", lines.append)

    return call


def count(tmp_path):
    return len(list((tmp_path / "layers").glob("*.npy")))


def forbid_the_bilm(model):
    model.base_model.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run"))


# The same numbers


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("cls", [ElmoModel, ElmoForTokenClassification, ElmoForSequenceClassification, ElmoEmbeddings])
def test_kept_layers_give_what_the_bilm_gives(cls, side, keep):
    model, features = make_model(cls, num_mixes=2, mix_normalization="batch"), encode()
    tokenizer = ElmoCharTokenizer(padding_side=side)
    wanted = model(**tokenizer.pad(features, return_tensors="pt"))
    _, layers = keep(model, features)
    forbid_the_bilm(model)
    collate = collate_with_layers(lambda rows: tokenizer.pad(rows, return_tensors="pt"), layers)
    assert_close(model(**collate(features))[0], wanted[0], torch.float32)


def test_a_sentence_that_many_pairs_share_is_read_once_in_batches_of_one_length(keep, monkeypatch):
    monkeypatch.setattr(layer_cache, "_WORDS_AT_A_TIME", 8)
    model, tokenizer = make_model(), ElmoCharTokenizer()
    # "c d e" is the second sentence of two pairs and the first of another.
    pairs = [("a bb", "c d e"), ("c", "c d e"), ("c d e", "f g"), ("a bb", "c d e")]
    pairs += [("w " * (number % 7), "a bb") for number in range(12)]
    features = [dict(tokenizer(*pair)) for pair in pairs]
    lines, layers = keep(model, features)
    assert f" {4 + 7} sentences" in lines[0] and len(layers) == 4 + 7
    collate = collate_with_layers(lambda rows: tokenizer.pad(rows, return_tensors="pt"), layers)
    for feature, pair in zip(features, pairs, strict=True):
        alone = [model.run_layers(tokenizer(text, return_tensors="pt")["input_ids"])[1] for text in pair]
        wanted = torch.cat([pack_layers(its)[0] for its in alone])
        assert_close(collate([feature])["packed_layers"][0], wanted, torch.float32)


# The files

CHANGED = {
    "use_skip_connections": False,
    "filter_activation": "tanh",
    "forget_bias": 0.5,
    "cell_clip": 2.0,
    "projection_clip": 2.0,
}


def with_setting(name, value):
    model = make_model()
    setattr(model.config, name, value)
    return model


def test_another_text_tokenizer_or_checkpoint_never_finds_a_file(keep, tmp_path):
    model, other = make_model(), make_model()
    with torch.no_grad():
        other.bilm.layers[0].forward_lstm.bias[0] += 1
    # Types alone are another text: the sentences are read apart.
    types = [{**one, "token_type_ids": [0, *[1] * (len(one["input_ids"]) - 1)]} for one in encode()]
    for number, (changed, features) in enumerate(
        [
            (model, encode()),
            (model, encode(SENTENCES[1:])),
            (model, encode([["A", "bb", "c"], *SENTENCES[1:]])),
            (model, types),
            (other, encode()),
            *((with_setting(name, value), encode()) for name, value in CHANGED.items()),
        ],
        start=1,
    ):
        keep(changed, features)
        assert count(tmp_path) == number


def test_another_head_mix_or_order_takes_the_file_that_is_there(keep, tmp_path):
    _, layers = keep(make_model(), encode())
    model = make_model(ElmoForTokenClassification, num_labels=5, num_mixes=2, mixed_layers="top")
    model.elmo.load_state_dict(make_model(num_mixes=2).state_dict())
    forbid_the_bilm(model)
    for sentences in (SENTENCES, SENTENCES[::-1]):
        lines, again = keep(model, encode(sentences))
        assert not lines and count(tmp_path) == 1
        assert {digest: its.tolist() for digest, its in again.items()} == {
            digest: its.tolist() for digest, its in layers.items()
        }


def test_what_would_fill_half_of_the_disk_is_not_kept(keep, tmp_path, monkeypatch):
    monkeypatch.setattr(layer_cache.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    lines, layers = keep(make_model(), encode())
    assert "50 may be taken" in lines[0] and not layers and not count(tmp_path)
    assert collate_with_layers(list, layers)([{}]) == [{}]


def test_a_failure_leaves_no_file(keep, tmp_path, monkeypatch):
    model = make_model()
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(layer_cache, "pack_layers", lambda layers: 1 / 0)
        keep(model, encode())
    (tmp_path / "layers" / ".of-a-dead-writer.partial").mkdir()
    keep(model, encode())
    assert count(tmp_path) == 1 and not list((tmp_path / "layers").glob(".*.partial"))


def test_a_bilm_that_is_trained_and_layers_of_other_words_are_refused(keep):
    for model in (make_model(freeze_bilm=False), make_model(ElmoForPreTraining, word_vocab_size=9)):
        assert_refused(ValueError, "freeze_bilm", keep, model, encode())
    model, batch = make_model(), ElmoCharTokenizer()("a b", return_tensors="pt")
    assert_refused(RuntimeError, ("4", "3"), model, **batch, packed_layers=torch.zeros(1, 3, 30))
