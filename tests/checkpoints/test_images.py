"""A recipe folder with weights is a checkpoint: it loads without the package, in the dtype of training, rounded."""

import fresh_process
import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused
from safetensors.torch import load_file

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.checkpoints.cards import write_conversion_card, write_recipe
from hf_elmo.checkpoints.images import add_weights
from hf_elmo.checkpoints.sharing import check_checkpoint
from hf_elmo.commands.render_card import CardArguments, render_cards
from hf_elmo.text.vocabulary import SPECIAL_WORDS

WORDS = [*SPECIAL_WORDS, "the", "cat", "sat"]
LOAD = """
import sys, torch
from transformers import AutoModelForPreTraining, AutoTokenizer
model = AutoModelForPreTraining.from_pretrained(sys.argv[1], trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
print(next(model.parameters()).dtype, model.words[-1], tokenizer("the cat", return_tensors="pt")["input_ids"].shape[1])
"""


def save_checkpoint(directory):
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(WORDS)))
    model.words = WORDS
    model.save_pretrained(directory)
    ElmoCharTokenizer().save_pretrained(directory)
    write_conversion_card(directory, "bilm-tf", {})
    return model


def take_in(checkpoint, folder, **settings):
    render_cards(
        CardArguments(model_name_or_path=str(checkpoint), name=folder.name, model_cards=str(folder.parent), **settings)
    )


@pytest.fixture
def checkpoint(tmp_path):
    save_checkpoint(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_weights_are_those_of_the_checkpoint_rounded(checkpoint, tmp_path, dtype):
    folder = tmp_path / "cards" / "elmo-x"
    take_in(checkpoint, folder, weights_dtype=dtype)
    kept, original = (load_file(path / "model.safetensors") for path in (folder, checkpoint))
    assert kept.keys() == original.keys()
    for name, weight in original.items():
        torch.testing.assert_close(kept[name], weight.to(getattr(torch, dtype)), rtol=0, atol=0)
    assert [path.name for path in check_checkpoint(folder)] == [path.name for path in check_checkpoint(checkpoint)]
    assert "elmo-x" in (folder / "README.md").read_text()
    model = ElmoForPreTraining.from_pretrained(folder)
    assert model.dtype == torch.float32 and model.words == tuple(WORDS)


def test_it_loads_without_the_package(checkpoint, tmp_path):
    folder = tmp_path / "cards" / "elmo-x"
    take_in(checkpoint, folder, weights_dtype="float16")
    done = fresh_process.run(
        ["-c", fresh_process.WITHOUT_OUR_PACKAGE + LOAD, folder], cwd=tmp_path, modules=fresh_process.LIBRARIES
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["torch.float32", "sat", "4"]


def test_nothing_of_an_earlier_checkpoint_stays(checkpoint, tmp_path):
    folder = tmp_path / "cards" / "elmo-x"
    take_in(checkpoint, folder, weights_dtype="float16")
    (folder / "task.json").write_text("{}")
    (folder / "modeling_elmo.py").write_text("1 / 0\n")
    model = save_checkpoint(tmp_path / "later")
    take_in(tmp_path / "later", folder, weights_dtype="float16")
    found = load_file(folder / "model.safetensors")["word_softmax.weight"]
    assert torch.equal(found, model.word_softmax.weight.half())
    assert "1 / 0" not in (folder / "modeling_elmo.py").read_text()
    take_in(tmp_path / "later", folder)
    wanted = ["README.md", "config.json", "conversion.json", "task.json", "tokenizer_config.json"]
    assert sorted(path.name for path in folder.iterdir()) == wanted


def test_what_no_half_can_hold_is_refused_and_leaves_the_folder(checkpoint, tmp_path):
    model = ElmoForPreTraining.from_pretrained(checkpoint)
    with torch.no_grad():
        model.word_softmax.bias[1] = 1e5
    model.save_pretrained(checkpoint)
    folder = tmp_path / "cards" / "elmo-x"
    write_recipe(checkpoint, folder, "elmo-x")
    before = sorted(folder.iterdir())
    assert_refused(ValueError, ("word_softmax.bias", "100000", "65504"), add_weights, checkpoint, folder, torch.float16)
    assert sorted(folder.iterdir()) == before


def test_flags_that_want_others():
    assert_refused(
        ValueError, ("--weights_dtype", "--model_name_or_path"), render_cards, CardArguments(weights_dtype="float16")
    )
    settings = {"weights_dtype": "int8", "name": "elmo-x", "model_name_or_path": "somewhere"}
    assert_refused(ValueError, ("--weights_dtype", "int8", "float16"), render_cards, CardArguments(**settings))
