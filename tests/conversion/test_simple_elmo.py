"""Directories and zips of simple_elmo and the NLPL repository: its files, and its vectors where the meaning is one."""

import gzip
import json
import shutil
import zipfile

import h5py
import numpy as np
import pytest
import torch
from bilm_tf_files import make_options, write_checkpoint
from conftest import shared_data
from tolerances import FOREIGN_VECTORS

from hf_elmo import load_foreign
from hf_elmo.conversion.bilm_tf import load_bilm_tf
from hf_elmo.conversion.formats import convert_foreign, find_format

ROWS = 3


def run_as_simple_elmo(model, tokenizer, sentences, warmup):
    """The layers of each sentence without markers, (L + 1, T, 2P): batches of three in order, row r carrying on row r.

    With `warmup` the first batch is run once for its state alone.
    """
    batches = [sentences[start : start + ROWS] for start in range(0, len(sentences), ROWS)]
    state, found = None, []
    for number, batch in enumerate([*batches[:warmup], *batches]):
        encoded = tokenizer(
            batch + [[]] * (ROWS - len(batch)), is_split_into_words=True, padding=True, return_tensors="pt"
        )
        encoded["attention_mask"][len(batch) :] = 0
        with torch.no_grad():
            output = model(**encoded, state=state, output_hidden_states=True)
        state = output.state
        if number >= warmup:
            layers = torch.stack(output.hidden_states).numpy()
            found += [layers[:, row, 1 : 1 + len(words)] for row, words in enumerate(batch)]
    return found


@pytest.mark.parametrize("warmup", [True, False])
@pytest.mark.parametrize("name", ["directory", "model.zip"])
def test_vectors_of_words_are_simple_elmos_with_the_state_carried(name, warmup):
    model, tokenizer = load_foreign(shared_data("zoo/nlpl") / name)
    sentences = json.loads(shared_data("zoo/nlpl/sentences.json").read_text())
    found = run_as_simple_elmo(model, tokenizer, sentences, warmup)
    with np.load(shared_data("zoo/nlpl/expected.npz")) as expected:
        wanted = {layers: expected[f"vectors/{layers}/warmup={warmup}"] for layers in ("all", "top", "average")}
    for number, (words, layers) in enumerate(zip(sentences, found, strict=True)):
        # Beyond a sentence's words there is padding, which there is no vector of here.
        for given, theirs in (
            (layers, wanted["all"][number][:, : len(words)]),
            (layers[-1], wanted["top"][number][: len(words)]),
            (layers.mean(axis=0), wanted["average"][number][: len(words)]),
        ):
            assert np.abs(given - theirs).max() < FOREIGN_VECTORS, words


def test_a_sentence_alone_has_the_vectors_of_an_empty_state():
    """What simple_elmo gives depends on the batches before; here it does where a state is handed on, and else never."""
    model, tokenizer = load_foreign(shared_data("zoo/nlpl/directory"))
    sentences = json.loads(shared_data("zoo/nlpl/sentences.json").read_text())
    carried, fresh = (run_as_simple_elmo(model, tokenizer, sentences, warmup)[0] for warmup in (True, False))
    assert np.abs(carried[1:] - fresh[1:]).max() > 100 * FOREIGN_VECTORS
    (alone,) = run_as_simple_elmo(model, tokenizer, sentences[:1], warmup=False)
    assert np.abs(alone - fresh).max() < FOREIGN_VECTORS


@pytest.fixture
def source(tmp_path):
    """A directory under simple_elmo's names; its vocabulary has neither markers nor all that they would cost there."""
    folder = tmp_path / "theirs"
    write_checkpoint(folder, make_options())
    (folder / "weights.hdf5").rename(folder / "model.hdf5")
    (folder / "vocab.txt").write_text("the\ncat\n")
    return folder


def write_vectors(path):
    with h5py.File(path, "w") as file:
        file["0"] = np.ones((3, 4), np.float32)


def weights(source, options_file="options.json", weight_file="model.hdf5"):
    return load_bilm_tf(source / options_file, source / weight_file).state_dict()


def test_files_are_found_under_the_names_that_simple_elmo_reads(source):
    wanted = weights(source)
    assert find_format(source).name == "simple-elmo"
    for number, change in enumerate(
        (
            lambda: None,
            lambda: (source / "vocab.txt").unlink(),
            lambda: shutil.copy(source / "model.hdf5", source / "other.hdf5"),
            lambda: (source / "vocab.txt.gz").write_bytes(gzip.compress(b"the\ncat\n")),
            lambda: (source / "model.hdf5").unlink(),
            lambda: (source / "zz.hdf5").write_bytes(b"not read: it has no keys"),
            lambda: write_vectors(source / "a.hdf5"),
            lambda: (source / "a_softmax.hdf5").write_bytes(b"not read: it is no biLM"),
        )
    ):
        change()
        assert find_format(source).name == "simple-elmo", number
        found = load_foreign(source)[0].state_dict()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted), number


def test_a_zip_is_read_and_the_card_names_it_and_what_is_done_otherwise(source, tmp_path):
    with zipfile.ZipFile(tmp_path / "160.zip", "w") as archive:
        for file in source.iterdir():
            archive.write(file, file.name)
        archive.writestr("meta.json", "{}")
        archive.writestr("README", "what it was trained on")
    origin, foreign = convert_foreign(tmp_path / "160.zip", tmp_path / "ours")
    assert origin.name == "simple-elmo"
    wanted, found = weights(source), foreign.model.state_dict()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    card = (tmp_path / "ours" / "README.md").read_text()
    assert "160.zip" in card and "warmup" in card and "vocabulary" in card and "GPL-3.0" in card
    assert not (tmp_path / "ours" / "word_vocabulary.txt").exists()


@pytest.mark.parametrize("count", [261, 262])
def test_options_of_training_and_of_inference_are_taken(source, count):
    options = make_options()
    options["char_cnn"]["n_characters"] = count
    (source / "options.json").write_text(json.dumps(options))
    assert load_foreign(source)[0].config.vocab_size == 262
