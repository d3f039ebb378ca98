"""Other programs' formats, told by their files and read in one way."""

import shutil
import typing

import h5py
import pytest
import torch
from bilm_tf_files import listing, make_options, write_checkpoint
from refusals import assert_refused
from transformers import AutoModel, AutoTokenizer

from hf_elmo import load_foreign
from hf_elmo.commands.convert import ConversionArguments
from hf_elmo.conversion.bilm_tf import load_bilm_tf
from hf_elmo.conversion.checked_files import ConversionError
from hf_elmo.conversion.formats import FORMATS, convert_foreign


@pytest.fixture
def source(tmp_path):
    """A directory with the files of a tiny bilm-tf model."""
    folder = tmp_path / "theirs"
    write_checkpoint(folder, make_options())
    return folder


def are_equal(model, other):
    ours, theirs = model.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_directory_or_an_hdf5_with_its_options_beside_it_is_read(source):
    wanted = load_bilm_tf(source / "options.json", source / "weights.hdf5")
    for given, format in ((source, None), (str(source), "bilm-tf"), (source / "weights.hdf5", None)):
        model, tokenizer = load_foreign(given, format)
        assert are_equal(model, wanted) and not model.training
        assert tokenizer.pre_tokenizer == "whitespace"
    assert load_foreign(source, tokenizer_options={"do_lower_case": True})[1].do_lower_case


def test_files_under_published_names_belong_together(tmp_path, source):
    for name in ("small", "large"):
        (tmp_path / f"elmo_{name}_options.json").write_bytes((source / "options.json").read_bytes())
        (tmp_path / f"elmo_{name}_weights.hdf5").write_bytes((source / "weights.hdf5").read_bytes())
    model, _ = load_foreign(tmp_path / "elmo_small_weights.hdf5")
    assert are_equal(model, load_foreign(source)[0])
    message = assert_refused(ConversionError, "options_file", load_foreign, tmp_path)
    assert "elmo_large_options.json" in message and "elmo_small_options.json" in message
    names = {"options_file": tmp_path / "elmo_small_options.json", "weight_file": tmp_path / "elmo_large_weights.hdf5"}
    assert are_equal(load_foreign(tmp_path, **names)[0], model)


def test_of_several_hdf5_the_one_with_the_keys_of_weights_is_taken(tmp_path, source):
    wanted = load_foreign(source)[0]
    (source / "weights.hdf5").rename(source / "of_a_model.hdf5")
    with h5py.File(source / "an_embedding.hdf5", "w") as file:
        file["0"] = [[1.0, 2.0]]
    (source / "words.hdf5").write_bytes(b"no hdf5")
    for given in ({}, {"format": "simple-elmo"}):
        assert are_equal(load_foreign(source, **given)[0], wanted)
        (source / "vocab.txt").write_text("the\ncat\n")  # simple-elmo's third file
    shutil.copy(source / "of_a_model.hdf5", source / "of_another.hdf5")
    named = ("weight_file", "of_a_model.hdf5", "of_another.hdf5")
    assert "an_embedding" not in assert_refused(ConversionError, named, load_foreign, source)


def test_a_conversion_writes_a_directory_and_says_what_it_is_made_from(tmp_path, source):
    origin, foreign = convert_foreign(source, tmp_path / "ours")
    assert origin.name == "bilm-tf"
    assert are_equal(AutoModel.from_pretrained(tmp_path / "ours"), foreign.model)
    assert AutoTokenizer.from_pretrained(tmp_path / "ours").max_characters_per_word == 50
    card = (tmp_path / "ours" / "README.md").read_text()
    assert "weights.hdf5" in card and "Apache-2.0" in card


@pytest.mark.parametrize("kind", ["zip", "gztar"])
def test_an_archive_may_hold_the_files_or_the_folder_that_they_lie_in(kind, tmp_path, source):
    wanted = load_foreign(source)[0]
    (tmp_path / "around" / "__MACOSX").mkdir(parents=True)
    shutil.copytree(source, tmp_path / "around" / "elmo" / "theirs")
    for folder in (source, tmp_path / "around"):
        archive = shutil.make_archive(tmp_path / f"of-{folder.name}", kind, folder)
        _, foreign = convert_foreign(archive, tmp_path / f"ours-{folder.name}")
        assert are_equal(foreign.model, wanted)
        assert archive.rpartition("/")[2] in (tmp_path / f"ours-{folder.name}" / "README.md").read_text()
    (tmp_path / "around" / "elmo" / "theirs" / "options.json").unlink()
    archive = shutil.make_archive(tmp_path / "half", kind, tmp_path / "around")
    named = (archive, "options_file")
    assert_refused(ConversionError, named, convert_foreign, archive, tmp_path / "new", "bilm-tf")
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_read_is_refused_by_name_and_leaves_nothing(tmp_path, source):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("no model\n")
    before = listing(tmp_path)
    for error, named, given, options in (
        (FileNotFoundError, "'nowhere'", "nowhere", {}),
        (ConversionError, ("empty", "bilm-tf"), tmp_path / "empty", {}),
        (ConversionError, ("text.txt", "bilm-tf"), tmp_path / "text.txt", {}),
        (ConversionError, ("empty", "options_file"), tmp_path / "empty", {"format": "bilm-tf"}),
        (ConversionError, ("'glove'", "bilm-tf"), source, {"format": "glove"}),
        (ConversionError, ("softmax_fil", "softmax_file"), source, {"softmax_fil": "x"}),
    ):
        assert_refused(error, named, convert_foreign, given, tmp_path / "ours", **options)
        assert listing(tmp_path) == before and not (tmp_path / "ours").exists()
    for target in (source, tmp_path):
        assert_refused(ConversionError, "source", convert_foreign, source, target, overwrite=True)
        assert listing(tmp_path) == before


def test_the_command_knows_every_format():
    choices = typing.get_args(typing.get_type_hints(ConversionArguments)["format"])[0]
    assert [origin.name for origin in FORMATS] == list(typing.get_args(choices))
