"""What is no whole ELMo checkpoint is refused by the argument's name; what is one comes back as it was saved."""

import json
from pathlib import Path

import pytest
import torch
from conftest import make_tiny_config
from model_cases import save_in_half_precision

from hf_elmo import ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.checkpoints.loading import find_file, load_config, load_model, load_tokenizer, load_what_is_there


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_in_half_precision(tmp_path_factory.mktemp("checkpoint"))


def test_a_checkpoint_comes_back_in_float32(checkpoint):
    model = load_model(ElmoForPreTraining, checkpoint)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert load_tokenizer(checkpoint, model.config).do_lower_case


def test_what_a_head_has_no_weights_for_is_named(checkpoint):
    with pytest.raises(ValueError, match=r"'classifier\.bias'.*ElmoForTokenClassification"):
        load_model(ElmoForTokenClassification, checkpoint)
    _, lacking = load_what_is_there(ElmoForTokenClassification, checkpoint, load_config(checkpoint))
    assert lacking == ["classifier.bias", "classifier.weight"]


def test_wrong_places_are_refused_by_the_arguments_name(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    make_tiny_config().save_pretrained(tmp_path / "no-weights")
    with pytest.raises(FileNotFoundError, match=r"^config_name '.*empty'.*config\.json"):
        load_config(str(tmp_path / "empty"), "config_name")
    with pytest.raises(ValueError, match=r"^config_name '.*bert'.*'bert'.*'elmo'"):
        load_config(str(tmp_path / "bert"), "config_name")
    (tmp_path / "bert" / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"^config_name '.*bert'.*config\.json"):
        load_config(str(tmp_path / "bert"), "config_name")
    for name in (str(tmp_path / "no-weights"), str(tmp_path / "absent"), "no/where"):
        with pytest.raises(FileNotFoundError, match=r"^model_name_or_path '") as error:
            load_model(ElmoModel, name)
        assert name in str(error.value) and "\n" not in str(error.value)


def test_weights_that_are_cut_off_are_refused(checkpoint, tmp_path):
    for path in Path(checkpoint).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes()[: 1000 if path.suffix == ".safetensors" else None])
    with pytest.raises(ValueError, match=r"^model_name_or_path '.*cut off"):
        load_model(ElmoModel, str(tmp_path))


def test_a_tokenizer_has_to_be_there_and_to_fit(checkpoint, tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    assert find_file(str(tmp_path), "tokenizer_config.json") is None
    assert find_file(str(tmp_path / "config.json"), "tokenizer_config.json") is None
    with pytest.raises(FileNotFoundError, match=r"tokenizer_config\.json"):
        load_tokenizer(str(tmp_path), make_tiny_config())
    with pytest.raises(ValueError, match=r"max_characters_per_word=50.*20"):
        load_tokenizer(checkpoint, make_tiny_config(max_characters_per_word=20))
