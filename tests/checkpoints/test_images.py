"""A recipe folder with weights is a checkpoint: it loads, and can be sent, in the dtype of training, rounded."""

import shutil

import fresh_process
import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused
from safetensors.torch import load_file

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.checkpoints.cards import write_conversion_card
from hf_elmo.checkpoints.sharing import check_checkpoint
from hf_elmo.commands.render_card import CardArguments, render_cards
from hf_elmo.model.modeling_elmo import WORD_LIST_FILE
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


def test_what_is_sent_of_it_loads_without_the_package(checkpoint, tmp_path):
    image, folder = tmp_path / "cards" / "elmo-x", tmp_path / "sent"
    take_in(checkpoint, image, weights_dtype="float16")
    assert not list(image.glob("*.py"))
    folder.mkdir()
    for path in check_checkpoint(image):
        shutil.copy(path, folder)
    done = fresh_process.run(
        ["-c", fresh_process.WITHOUT_OUR_PACKAGE + LOAD, folder], cwd=tmp_path, modules=fresh_process.TRANSFORMERS
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
    assert not (folder / "modeling_elmo.py").exists()
    take_in(tmp_path / "later", folder)
    wanted = ["README.md", "config.json", "conversion.json", "task.json", "tokenizer_config.json"]
    assert sorted(path.name for path in folder.iterdir()) == wanted


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def overflow(directory):
    model = ElmoForPreTraining.from_pretrained(directory)
    with torch.no_grad():
        model.word_softmax.bias[1] = 1e5
    model.save_pretrained(directory)


def lose_words(directory):
    (directory / WORD_LIST_FILE).unlink()


def lose_weights(directory):
    (directory / "model.safetensors").unlink()


@pytest.mark.parametrize("first", ["float16", None])
@pytest.mark.parametrize(
    ("spoil", "error", "named"),
    [
        (overflow, ValueError, ("word_softmax.bias", "100000", "65504")),
        (lose_words, (ValueError, OSError), WORD_LIST_FILE),
        (lose_weights, (ValueError, OSError), "safetensors"),
    ],
)
def test_a_refused_image_leaves_the_one_before_as_it_was(checkpoint, tmp_path, first, spoil, error, named):
    folder = tmp_path / "cards" / "elmo-x"
    take_in(checkpoint, folder, weights_dtype=first)
    (folder / "task.json").write_text("{}")
    before, beside = contents(folder), sorted(folder.parent.iterdir())
    save_checkpoint(tmp_path / "later")
    spoil(tmp_path / "later")
    assert_refused(error, named, take_in, tmp_path / "later", folder, weights_dtype="float16")
    assert contents(folder) == before and sorted(folder.parent.iterdir()) == beside


@pytest.mark.parametrize("dtype", ["float16", None])
@pytest.mark.parametrize("place", ["", "run"])
def test_a_checkpoint_in_the_folder_that_is_replaced_is_refused(tmp_path, dtype, place):
    folder = tmp_path / "elmo-x"
    save_checkpoint(folder / place)
    before = contents(folder)
    assert_refused(ValueError, ("checkpoint", "recipe"), take_in, folder / place, folder, weights_dtype=dtype)
    assert contents(folder) == before


def test_flags_that_want_others():
    assert_refused(
        ValueError, ("--weights_dtype", "--model_name_or_path"), render_cards, CardArguments(weights_dtype="float16")
    )
    settings = {"weights_dtype": "int8", "name": "elmo-x", "model_name_or_path": "somewhere"}
    assert_refused(ValueError, ("--weights_dtype", "int8", "float16"), render_cards, CardArguments(**settings))
