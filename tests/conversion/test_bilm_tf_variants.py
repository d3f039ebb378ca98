"""The 13 variants of bilm-tf's hdf5, as its own program wrote them, against the vectors that it computed."""

import json

import numpy as np
import pytest
import torch
from bilm_tf_files import read_datasets
from conftest import make_tiny_config, shared_data
from refusals import assert_refused
from tolerances import FOREIGN_VECTORS, REORDERED_FLOAT32

from hf_elmo import ElmoCharTokenizer, ElmoModel, kernels, load_foreign
from hf_elmo.conversion.bilm_tf_export import export_bilm_tf, save_bilm_tf
from hf_elmo.conversion.checked_files import ConversionError
from hf_elmo.conversion.formats import convert_foreign
from hf_elmo.text.vocabulary import WordVocabulary
from hf_elmo.text.word_vectors import build_word_table

BY_CHARACTERS = (
    "layers1",
    "layers3",
    "noskip",
    "highway0",
    "tanh",
    "uneven",
    "no_cnn_projection",
    "no_lstm_projection",
    "noclip",
    "clip",
)
BY_WORDS = ("word_inputs", "word_shared_softmax")
VARIANTS = (*BY_CHARACTERS, *BY_WORDS)


def folder_of(variant):
    return shared_data("zoo/bilm_tf") / variant


def options_of(variant):
    return {"vocab_file": folder_of("vocab.txt")} if variant in BY_WORDS else {}


def run_batches(model, tokenizer):
    """The layers of each sentence of each batch, (L + 1, T, 2P), the state carried from batch to batch, row to row."""
    batches = json.loads(folder_of("batches.json").read_text())
    state, found = None, {}
    for number, batch in enumerate(batches):
        # A row without words keeps its state, as the rows of a smaller batch do there.
        rows = batch + [[]] * (max(map(len, batches)) - len(batch))
        encoded = tokenizer(rows, is_split_into_words=True, padding=True, return_tensors="pt")
        encoded["attention_mask"][len(batch) :] = 0
        with torch.no_grad():
            output = model(**encoded, state=state, output_hidden_states=True)
        state = output.state
        layers = torch.stack(output.hidden_states).numpy()
        found |= {f"call{number}/{row}": layers[:, row, 1 : 1 + len(words)] for row, words in enumerate(batch)}
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_are_those_that_bilm_tf_computed_with_its_state_carried(variant):
    model, tokenizer = load_foreign(folder_of(variant), **options_of(variant))
    found = run_batches(model, tokenizer)
    with np.load(folder_of(variant) / "expected.npz") as expected:
        wanted = {key: expected[key] for key in expected.files if key.startswith("call")}
    assert found.keys() == wanted.keys()
    for key, layers in wanted.items():
        assert np.abs(found[key] - layers).max() < FOREIGN_VECTORS, key


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_saved_conversion_goes_back_bit_by_bit(variant, tmp_path):
    pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")
    convert_foreign(folder_of(variant), tmp_path / "ours", **options_of(variant))
    files = {name: tmp_path / name for name in ("options_file", "weight_file")}
    if variant in BY_WORDS:
        files["vocab_file"] = tmp_path / "vocab_file"
    export_bilm_tf(tmp_path / "ours", **files)
    assert read_datasets(files["weight_file"]) == read_datasets(folder_of(variant) / "weights.hdf5")
    if variant in BY_WORDS:
        assert files["vocab_file"].read_bytes() == folder_of("vocab.txt").read_bytes()
    written, theirs = (
        json.loads(path.read_text()) for path in (files["options_file"], folder_of(variant) / "options.json")
    )
    assert {name for name, value in written["lstm"].items() if value is not None} == set(theirs["lstm"])
    assert written.get("char_cnn") == theirs.get("char_cnn")
    assert written["lstm"].items() >= theirs["lstm"].items()


def test_other_files_of_the_same_models_are_read_alike():
    wanted = load_foreign(folder_of("layers1"))[0].state_dict()
    names = {"options_file": folder_of("layers1") / "options.json"}
    multi = load_foreign(folder_of("layers1") / "weights_multi.hdf5", **names)[0].state_dict()
    assert all(torch.equal(multi[name], wanted[name]) for name in wanted)
    named = {"options_file": folder_of("highway0") / "options_without_key.json"}
    assert load_foreign(folder_of("highway0"), **named)[0].config.num_highway_layers == 0


def test_a_model_of_one_direction_is_refused_with_the_reason():
    files = {
        "options_file": folder_of("forward_only") / "training" / "options.json",
        "weight_file": folder_of("forward_only") / "weights.hdf5",
    }
    named = ("bidirectional", "both directions")
    assert_refused(ConversionError, named, load_foreign, folder_of("forward_only"), "bilm-tf", **files)
    files["options_file"] = folder_of("layers3") / "options.json"
    named = ("rnn/", "both directions")
    assert_refused(ConversionError, named, load_foreign, folder_of("forward_only"), "bilm-tf", **files)


def test_words_are_needed_by_what_reads_them_and_must_be_as_many(tmp_path):
    source = folder_of("word_inputs")
    assert_refused(ConversionError, "vocab_file", load_foreign, source)
    lines = folder_of("vocab.txt").read_text().splitlines()
    for changed, named in (
        (lines[:-1], ("embedding", "(63, 6)", "(62, 6)")),
        ([*lines[3:], "x", "y", "z"], "<S>"),
        ([*lines[:-1], lines[5]], repr(lines[5])),
    ):
        (tmp_path / "vocab.txt").write_text("\n".join(changed) + "\n")
        assert_refused(ConversionError, named, load_foreign, source, vocab_file=tmp_path / "vocab.txt")
    model, _ = load_foreign(source, **options_of("word_inputs"))
    files = {"options_file": tmp_path / "o", "weight_file": tmp_path / "w"}
    assert_refused(ConversionError, "vocab_file", save_bilm_tf, model, **files)
    files["vocab_file"] = tmp_path / "v"
    assert_refused(ConversionError, "vocabulary", save_bilm_tf, model, **files)
    assert not any(path.exists() for path in files.values())


SAME_SIZES = {"projection_size": 14, "cell_size": 14}
WITHOUT = {
    "no projection of words": {"projection_size": 14, "project_tokens": False},
    "no projection of cells": {**SAME_SIZES, "project_hidden": False, "projection_clip": None},
    "no projections": {**SAME_SIZES, "project_tokens": False, "project_hidden": False, "num_hidden_layers": 1},
    "projections of equal sizes": SAME_SIZES,
    "words": {"token_inputs": "words", "word_table_size": 5, "word_vector_size": 6, "project_tokens": False},
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_model_of_our_own_comes_back_as_it_went_out(name, tmp_path):
    pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")
    vocabulary = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "sat"])
    model = ElmoModel(make_tiny_config(**WITHOUT[name]))
    table = model.token_encoder.word_table
    files = {"options_file": tmp_path / "options.json", "weight_file": tmp_path / "weights.hdf5"}
    if table is not None:
        words = [word for word in vocabulary.words if word != "<UNK>"]
        build_word_table(ElmoCharTokenizer(), words).fill(model)
        files["vocab_file"] = tmp_path / "vocab.txt"
    save_bilm_tf(model, **files, vocabulary=vocabulary)
    back, tokenizer = load_foreign(tmp_path, **({} if table is None else {"vocab_file": tmp_path / "vocab.txt"}))
    # Which a model without characters has no use for, and options no place.
    unused = () if table is None else ("filters", "num_highway_layers", "character_embedding_size")
    assert all(
        getattr(back.config, field) == value for field, value in model.config.to_dict().items() if field not in unused
    )
    wanted = model.state_dict()
    assert all(torch.equal(tensor, wanted[key]) for key, tensor in back.state_dict().items())
    if table is not None:
        rows = torch.from_numpy(tokenizer.encode_words([*vocabulary.words, "zebra"]))
        assert table.places(rows)[[2, 6]].tolist() == [0, 0] and table.places(rows).unique().tolist() == list(range(6))
        other = WordVocabulary([*vocabulary.words[:-1], "dog"])
        files = {name: path.with_suffix(".new") for name, path in files.items()}
        assert_refused(ConversionError, "vocabulary", save_bilm_tf, model, **files, vocabulary=other)


@pytest.mark.parametrize("variant", ["no_cnn_projection", "no_lstm_projection", "word_inputs", "uneven"])
def test_every_way_to_compute_a_model_gives_its_vectors(variant):
    """Without a projection of the hidden state the fast scans step aside; where they are asked for they refuse."""
    model, tokenizer = load_foreign(folder_of(variant), **options_of(variant))
    with kernels.use_backend("readable"):
        wanted = run_batches(model, tokenizer)
    for backend in ("auto", "plain", *([] if "compiled" in kernels.why_not() else ["compiled"])):
        with kernels.use_backend(backend):
            if backend != "auto" and not model.config.project_hidden:
                assert_refused(RuntimeError, ("project_hidden", repr(backend)), run_batches, model, tokenizer)
                continue
            found = run_batches(model, tokenizer)
        assert all(np.abs(found[key] - wanted[key]).max() < REORDERED_FLOAT32 for key in wanted), backend
