"""What is no whole ELMo checkpoint is refused by the argument's name; what is one comes back as it was saved."""

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from conftest import make_tiny_config
from model_cases import save_in_half_precision
from refusals import Code, assert_refused

from hf_elmo import ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.hub.loading import find_file, load_config, load_model, load_tokenizer, load_what_is_there


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_in_half_precision(tmp_path_factory.mktemp("checkpoint"))


def test_a_checkpoint_comes_back_in_float32_and_what_a_head_has_no_weights_for_is_named(checkpoint):
    model = load_model(ElmoForPreTraining, checkpoint)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert load_tokenizer(checkpoint, model.config).do_lower_case
    head = ElmoForTokenClassification
    assert_refused(ValueError, ("'classifier.bias'", head.__name__), load_model, head, checkpoint)
    assert load_what_is_there(head, checkpoint, model.config)[1] == ["classifier.bias", "classifier.weight"]


def test_wrong_places_are_refused_by_the_arguments_name(tmp_path):
    for name, content in (("empty", None), ("bert", '{"model_type": "bert"}'), ("broken", "{")):
        (tmp_path / name).mkdir()
        if content is not None:
            (tmp_path / name / "config.json").write_text(content)
    make_tiny_config().save_pretrained(tmp_path / "no-weights")
    for name, error, named in (
        ("empty", FileNotFoundError, "config.json"),
        ("bert", ValueError, ("'bert'", "'elmo'")),
        ("broken", ValueError, "config.json"),
    ):
        message = assert_refused(error, named, load_config, str(tmp_path / name))
        assert message.startswith(f"model_name_or_path {str(tmp_path / name)!r}")
    for name in (str(tmp_path / "no-weights"), str(tmp_path / "absent"), "no/where"):
        message = assert_refused(FileNotFoundError, f"model_name_or_path {name!r}", load_model, ElmoModel, name)
        assert "\n" not in message


def test_a_tokenizer_has_to_be_there_and_to_fit(checkpoint, tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    assert find_file(str(tmp_path / "config.json"), "tokenizer_config.json") is None
    assert_refused(FileNotFoundError, "tokenizer_config.json", load_tokenizer, str(tmp_path), make_tiny_config())
    ids = {"padding_character_id": 4, "bos_token_id": 5, "eos_token_id": 6}
    for fields, named in (
        ({"max_characters_per_word": 20}, ("max_characters_per_word 50 in tokenizer_config.json", "20")),
        ({"character_scheme": "dictionary", **ids}, ("'bytes'", "'dictionary'")),
    ):
        assert_refused(ValueError, named, load_tokenizer, checkpoint, make_tiny_config(**fields))


@pytest.fixture
def copy(checkpoint, tmp_path):
    return Path(shutil.copytree(checkpoint, tmp_path / "copy"))


def as_code(model, path):
    path.write_bytes(pickle.dumps(Code(path.with_name("ran")), protocol=2))


def as_code_in_zip(model, path):
    torch.save({**model.state_dict(), "extra": Code(path.with_name("ran"))}, path)


@pytest.mark.parametrize("write", [as_code, as_code_in_zip, lambda _, path: path.write_bytes(b"j" * 99)])
def test_weights_as_a_bad_pickle_are_refused_in_a_line_and_never_run(copy, write):
    model = load_model(ElmoModel, str(copy))
    (copy / "model.safetensors").unlink()
    torch.save(model.state_dict(), copy / "pytorch_model.bin")
    assert load_model(ElmoModel, str(copy))
    write(model, copy / "pytorch_model.bin")
    message = assert_refused(ValueError, str(copy), load_model, ElmoModel, str(copy))
    assert len(message) < 600 and "\n" not in message and "weights_only" not in message
    assert not (copy / "ran").exists()


@pytest.mark.parametrize("name", ["../other.safetensors", "/etc/passwd"])
def test_an_index_that_names_files_elsewhere_is_refused(copy, name):
    (copy / "model.safetensors").rename(copy.parent / "other.safetensors")
    index = {"metadata": {}, "weight_map": {"elmo.mixes.0.weight": name}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    assert_refused(ValueError, ("model.safetensors.index.json", name), load_model, ElmoModel, str(copy))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", '{"model_type": "elmo", "cell_size": 1000000000000}'),
        ("tokenizer_config.json", '{"max_characters_per_word": 1000000}'),
        ("special_tokens_map.json", "{"),
        ("model.safetensors.index.json", '{"weight_map": [1]}'),
    ],
)
def test_files_of_json_that_make_no_sense_are_named(copy, file, content):
    (copy / file).write_text(content)

    def load():
        model = load_model(ElmoModel, str(copy))
        load_tokenizer(str(copy), model.config)

    message = assert_refused(ValueError, (str(copy), file), load)
    assert len(message) < 700 and "\n" not in message


def test_sizes_that_the_weights_there_cannot_have_are_refused_before_memory_is_taken(copy):
    config = json.loads((copy / "config.json").read_text())
    config.pop("hidden_size")
    (copy / "config.json").write_text(json.dumps({**config, "cell_size": 100_000_000}))
    named = (ValueError, str(copy), load_what_is_there, ElmoForTokenClassification, str(copy))
    assert_refused(*named, load_config(str(copy)))
    (copy / "config.json").write_text(json.dumps({**config, "word_vocab_size": 100_000_000}))
    assert_refused(ValueError, str(copy), load_model, ElmoForPreTraining, str(copy))
