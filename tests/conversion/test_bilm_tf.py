"""bilm-tf checkpoints read: numbers, wrong keys and shapes, and the directory that is written."""

import hashlib

import numpy as np
import pytest
import tolerances
import torch
from bilm_tf_files import (
    assert_conversion_fails,
    changed,
    listing,
    make_options,
    read_datasets,
    run_bilm_tf,
    write_checkpoint,
    write_options,
)
from transformers import AutoModel, AutoTokenizer

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.conversion.bilm_tf import convert_bilm_tf, load_bilm_tf
from hf_elmo.conversion.bilm_tf_export import save_bilm_tf
from hf_elmo.conversion.checked_files import ConversionError

h5py = pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")


@pytest.mark.parametrize(
    "options",
    [
        make_options(),
        make_options(clip=0.3, highways=2),
        make_options(skip=False, activation="tanh"),
        make_options(layers=1, highways=0, clip=None),
        make_options(layers=3),
    ],
    ids=["usual", "clips reached, two highways", "no skips, tanh", "one layer, no highway, no clip", "three layers"],
)
def test_a_converted_model_gives_the_numbers_of_bilm_tf(tmp_path, options):
    arrays = write_checkpoint(tmp_path, options)
    model = load_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5").double()
    inputs = ElmoCharTokenizer()(
        "Ein naïver Satz mit einem 語 und a-word-of-more-than-fifty-bytes" * 3, return_tensors="pt"
    )
    layers = torch.cat(model(**inputs, output_hidden_states=True).hidden_states)
    expected = torch.from_numpy(run_bilm_tf(arrays, options, inputs["input_ids"][0].numpy()))
    torch.testing.assert_close(layers.detach(), expected, rtol=0, atol=tolerances.REORDERED_FLOAT64)


def test_a_one_layer_model_is_also_read_in_the_form_of_bilm_tf_s_inference(tmp_path):
    arrays = write_checkpoint(tmp_path / "trained", make_options(layers=1))
    stacked = {key.replace("/RNN/LSTM", "/RNN/MultiRNNCell/Cell0/LSTM"): array for key, array in arrays.items()}
    assert stacked.keys() != arrays.keys()
    write_checkpoint(tmp_path / "stacked", make_options(layers=1), stacked)
    models = [
        load_bilm_tf(tmp_path / name / "options.json", tmp_path / name / "weights.hdf5")
        for name in ("trained", "stacked")
    ]
    for name, tensor in models[0].state_dict().items():
        assert torch.equal(models[1].state_dict()[name], tensor)


def test_big_endian_float32_is_float32(tmp_path):
    options = make_options()
    arrays = write_checkpoint(tmp_path / "little", options)
    write_checkpoint(tmp_path / "big", options, {key: array.astype(">f4") for key, array in arrays.items()})
    model = load_bilm_tf(tmp_path / "big" / "options.json", tmp_path / "big" / "weights.hdf5")
    save_bilm_tf(model, tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert read_datasets(tmp_path / "weights.hdf5") == read_datasets(tmp_path / "little" / "weights.hdf5")


def replace(file, key, **dataset):
    del file[key]
    return file.create_dataset(key, **dataset)


def fill_one_chunk(file):
    replace(file, "CNN_proj/W_proj", shape=(14, 6), dtype="f4", chunks=(7, 6))[:7] = 1.0


CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"

# What is done to the weights, and what the error names: the key, and the option that it follows from.
BAD_WEIGHTS = {
    "key missing": (lambda file: file.pop(f"{CELL}/B"), (f"{CELL}/B", "(40,)", "lstm.n_layers")),
    "direction missing": (lambda file: file.pop("RNN_1"), ("RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0", "5 more")),
    "no projection of words": (lambda file: file.pop("CNN_proj"), ("CNN_proj/W_proj", "lstm.projection_dim")),
    "no projection of cells": (lambda file: file.pop(f"{CELL}/W_P_0"), (f"{CELL}/W_P_0", "lstm.dim")),
    "group in place of array": (
        lambda file: (file.pop("char_embed"), file.create_group("char_embed")),
        ("char_embed", "(261, 4)"),
    ),
    "array in place of group": (
        lambda file: replace(file, "CNN", data=np.zeros(3, "f4")),
        ("CNN/W_cnn_0", "(1, 1, 4, 3)", "5 more", "options.json"),
    ),
    "type in place of array": (
        lambda file: (file.pop("char_embed"), file.__setitem__("char_embed", np.dtype("f4"))),
        "char_embed",
    ),
    "shape": (
        lambda file: replace(file, "CNN/W_cnn_1", data=np.zeros((1, 2, 4, 4), "f4")),
        ("CNN/W_cnn_1", "(1, 2, 4, 4)", "(1, 2, 4, 5)", "char_cnn.filters", "options.json"),
    ),
    "transposed": (
        lambda file: replace(file, "CNN_proj/W_proj", data=np.zeros((6, 14), "f4")),
        ("CNN_proj/W_proj", "(6, 14)", "(14, 6)"),
    ),
    "padding row inside": (
        lambda file: replace(file, "char_embed", data=np.zeros((262, 4), "f4")),
        ("char_embed", "(262, 4)", "(261, 4)"),
    ),
    "scalar": (lambda file: replace(file, "CNN_proj/b_proj", data=np.float32(0)), ("CNN_proj/b_proj", "(6,)")),
    "no shape": (lambda file: replace(file, "CNN_proj/b_proj", data=h5py.Empty("f4")), ("CNN_proj/b_proj", "(6,)")),
    "a third layer": (
        lambda file: file.copy(file["RNN_0/RNN/MultiRNNCell/Cell1"], "RNN_0/RNN/MultiRNNCell/Cell2"),
        ("RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B", "2 more", "options.json", "lstm.n_layers"),
    ),
    "word embeddings": (lambda file: file.create_dataset("embedding", data=np.zeros((7, 6), "f4")), "'embedding'"),
    "float64": (
        lambda file: replace(file, "CNN_proj/b_proj", data=np.zeros(6, "f8")),
        ("CNN_proj/b_proj", "float64", "float32"),
    ),
    "float16": (
        lambda file: replace(file, "CNN_proj/b_proj", data=np.zeros(6, "f2")),
        ("CNN_proj/b_proj", "float16", "float32"),
    ),
    "integers": (
        lambda file: replace(file, "CNN_proj/b_proj", data=np.zeros(6, "i4")),
        ("CNN_proj/b_proj", "int32", "float32"),
    ),
    "never filled": (
        lambda file: replace(file, "CNN_proj/W_proj", shape=(14, 6), dtype="f4"),
        ("CNN_proj/W_proj", "never filled"),
    ),
    "half filled": (fill_one_chunk, ("CNN_proj/W_proj", "never filled")),
    "not a number": (
        lambda file: file["CNN_proj/W_proj"].__setitem__((0, slice(0, 2)), [np.nan, np.inf]),
        ("CNN_proj/W_proj", "2 values"),
    ),
}


def test_wrong_weights_are_named_and_leave_nothing_behind(tmp_path):
    for name, (spoil, named) in BAD_WEIGHTS.items():
        write_checkpoint(tmp_path / name, make_options())
        with h5py.File(tmp_path / name / "weights.hdf5", "r+") as file:
            spoil(file)
        assert_conversion_fails(tmp_path / name, ConversionError, named)


def test_options_of_another_model_are_refused(tmp_path):
    for path, value in (("lstm.n_layers", 1), ("lstm.n_layers", 3), ("lstm.dim", 11), ("char_cnn.n_highway", 2)):
        folder = tmp_path / f"{path} {value}"
        write_checkpoint(folder, make_options())
        write_options(folder, changed(path, value))
        assert_conversion_fails(folder, ConversionError, ("weights.hdf5", f"{path.split('.')[0]}."))


def test_the_directory_has_the_whole_model_and_its_tokenizer(tmp_path):
    options = make_options()
    options["char_cnn"]["max_characters_per_token"] = 20
    write_checkpoint(tmp_path, options)
    written = convert_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5", tmp_path / "elmo")
    model, loading = AutoModel.from_pretrained(tmp_path / "elmo", output_loading_info=True)
    assert isinstance(model, ElmoModel)
    assert not any(loading.values())
    for name, tensor in written.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name
    assert model.mixes[0].weight.tolist() == [0.0, 0.0, 0.0] and model.mixes[0].scale.tolist() == [1.0]
    assert model.config.forget_bias == 1.0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "elmo")
    assert isinstance(tokenizer, ElmoCharTokenizer)
    assert (tokenizer.pre_tokenizer, tokenizer.max_characters_per_word) == ("whitespace", 20)
    assert not list(tmp_path.glob(".*"))


def test_a_card_names_the_files_and_says_how_text_is_cut(tmp_path):
    write_checkpoint(tmp_path, make_options())
    files = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    convert_bilm_tf(*files, tmp_path / "my-elmo")
    card = (tmp_path / "my-elmo" / "README.md").read_text()
    digest = hashlib.sha256(files[1].read_bytes()).hexdigest()
    for part in ('from_pretrained("my-elmo")', "weights.hdf5", digest, "white space"):
        assert part in card, part
    raw = {"pre_tokenizer": "punctuation", "do_lower_case": True}
    convert_bilm_tf(*files, tmp_path / "raw", tokenizer_options=raw)
    assert AutoTokenizer.from_pretrained(tmp_path / "raw").tokenize("It's") == ["it", "'", "s"]
    assert "lower-cased" in (tmp_path / "raw" / "README.md").read_text()


def test_a_wrong_tokenizer_option_leaves_nothing_behind(tmp_path):
    write_checkpoint(tmp_path, make_options())
    before = listing(tmp_path)
    with pytest.raises(ValueError, match="pre_tokenizer"):
        convert_bilm_tf(
            tmp_path / "options.json",
            tmp_path / "weights.hdf5",
            tmp_path / "elmo",
            tokenizer_options={"pre_tokenizer": "spaces"},
        )
    assert listing(tmp_path) == before and not (tmp_path / "elmo").exists()


def test_a_full_directory_is_replaced_only_when_asked(tmp_path):
    write_checkpoint(tmp_path, make_options())
    files = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    (tmp_path / "elmo").mkdir()
    (tmp_path / "elmo" / "old").write_text("mine")
    with pytest.raises(FileExistsError, match="--overwrite_output_dir"):
        convert_bilm_tf(*files, tmp_path / "elmo")
    assert [path.name for path in (tmp_path / "elmo").iterdir()] == ["old"]
    convert_bilm_tf(*files, tmp_path / "elmo", overwrite=True)
    assert not (tmp_path / "elmo" / "old").exists()
    assert (tmp_path / "elmo" / "config.json").exists()


def test_the_files_to_convert_are_never_replaced_by_the_result(tmp_path):
    write_checkpoint(tmp_path / "elmo", make_options())
    before = listing(tmp_path)
    with pytest.raises(ConversionError, match=r"output_dir .*options_file"):
        convert_bilm_tf(
            tmp_path / "elmo" / "options.json", tmp_path / "elmo" / "weights.hdf5", tmp_path / "elmo", overwrite=True
        )
    assert listing(tmp_path) == before


def test_a_failure_while_saving_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("no space left on device")

    write_checkpoint(tmp_path, make_options())
    monkeypatch.setattr(ElmoCharTokenizer, "save_pretrained", fail)
    assert_conversion_fails(tmp_path, OSError, "no space left")
