"""bilm-tf checkpoints in and out: numbers, round trips, and every kind of bad file."""

import copy
import hashlib
import json
import logging
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tolerances
import torch
from conftest import make_tiny_config
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from hf_elmo import ElmoCharTokenizer, ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.conversion import bilm_tf_export, bilm_tf_layouts
from hf_elmo.conversion.bilm_tf import convert_bilm_tf, load_bilm_tf
from hf_elmo.conversion.bilm_tf_export import export_bilm_tf, save_bilm_tf
from hf_elmo.conversion.bilm_tf_keys import WEIGHT_RULES, expand_weight_rules
from hf_elmo.conversion.bilm_tf_options import options_from_config, read_config
from hf_elmo.conversion.checked_files import ConversionError
from hf_elmo.inference.scoring import score_sentences
from hf_elmo.text.vocabulary import WordVocabulary

h5py = pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")


# bilm-tf, written down a second time, from its own source


def make_options(layers=2, highways=1, activation="relu", clip=3, skip=True):
    return {
        "lstm": {
            "use_skip_connections": skip,
            "projection_dim": 6,
            "cell_clip": clip,
            "proj_clip": clip,
            "dim": 10,
            "n_layers": layers,
        },
        "char_cnn": {
            "activation": activation,
            "filters": [[1, 3], [2, 5], [3, 6]],
            "n_highway": highways,
            "embedding": {"dim": 4},
            "n_characters": 262,
            "max_characters_per_token": 50,
        },
    }


def cell_name(options, number, layer):
    stack = f"MultiRNNCell/Cell{layer}/" if options["lstm"]["n_layers"] > 1 else ""
    return f"RNN_{number}/RNN/{stack}LSTMCell"


def wanted_shapes(options):
    """Every key of the hdf5 and its shape, as bilm-tf's graph defines them."""
    lstm, cnn = options["lstm"], options["char_cnn"]
    projection, cell, character = lstm["projection_dim"], lstm["dim"], cnn["embedding"]["dim"]
    filters = sum(count for _, count in cnn["filters"])
    shapes = {
        "char_embed": (261, character),
        "CNN_proj/W_proj": (filters, projection),
        "CNN_proj/b_proj": (projection,),
    }
    for index, (width, count) in enumerate(cnn["filters"]):
        shapes[f"CNN/W_cnn_{index}"] = (1, width, character, count)
        shapes[f"CNN/b_cnn_{index}"] = (count,)
    for index in range(cnn["n_highway"]):
        for name in ("carry", "transform"):
            shapes[f"CNN_high_{index}/W_{name}"] = (filters, filters)
            shapes[f"CNN_high_{index}/b_{name}"] = (filters,)
    for number in range(2):
        for layer in range(lstm["n_layers"]):
            root = cell_name(options, number, layer)
            shapes[f"{root}/W_0"] = (2 * projection, 4 * cell)
            shapes[f"{root}/B"] = (4 * cell,)
            shapes[f"{root}/W_P_0"] = (cell, projection)
    return shapes


def write_checkpoint(folder, options, arrays=None, seed=0):
    rng = np.random.default_rng(seed)
    if arrays is None:
        arrays = {key: rng.uniform(-1, 1, shape).astype("f4") for key, shape in wanted_shapes(options).items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array)
    return arrays


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def encode_words(arrays, options, rows):
    """bilm-tf's token encoder in float64: character ids (T, C) to (T, P)."""
    characters = np.concatenate([np.zeros((1, arrays["char_embed"].shape[1])), arrays["char_embed"]])[rows]
    features = []
    for index, (width, _) in enumerate(options["char_cnn"]["filters"]):
        kernel = arrays[f"CNN/W_cnn_{index}"][0].astype(float)
        windows = np.stack([characters[:, at : at + width] for at in range(rows.shape[1] - width + 1)], axis=1)
        found = np.einsum("tpkd,kdn->tpn", windows, kernel) + arrays[f"CNN/b_cnn_{index}"]
        features.append(found.max(axis=1))
    vectors = np.concatenate(features, axis=-1)
    vectors = np.tanh(vectors) if options["char_cnn"]["activation"] == "tanh" else np.maximum(vectors, 0)
    for index in range(options["char_cnn"]["n_highway"]):
        weights = {name: array.astype(float) for name, array in arrays.items() if f"CNN_high_{index}/" in name}
        carry = sigmoid(vectors @ weights[f"CNN_high_{index}/W_carry"] + weights[f"CNN_high_{index}/b_carry"])
        transform = vectors @ weights[f"CNN_high_{index}/W_transform"] + weights[f"CNN_high_{index}/b_transform"]
        vectors = carry * np.maximum(transform, 0) + (1 - carry) * vectors
    return vectors @ arrays["CNN_proj/W_proj"].astype(float) + arrays["CNN_proj/b_proj"]


def run_cell(arrays, options, root, inputs):
    """TensorFlow's LSTMCell with a projection over (T, P), in float64."""
    lstm = options["lstm"]
    clip_cell, clip_hidden = lstm["cell_clip"] or np.inf, lstm["proj_clip"] or np.inf
    hidden, cell, outputs = np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]), []
    for vector in inputs:
        gates = np.concatenate([vector, hidden]) @ arrays[f"{root}/W_0"].astype(float) + arrays[f"{root}/B"]
        i, j, f, o = np.split(gates, 4)
        cell = np.clip(sigmoid(f + 1.0) * cell + sigmoid(i) * np.tanh(j), -clip_cell, clip_cell)
        hidden = (sigmoid(o) * np.tanh(cell)) @ arrays[f"{root}/W_P_0"].astype(float)
        hidden = np.clip(hidden, -clip_hidden, clip_hidden)
        outputs.append(hidden)
    return np.stack(outputs)


def run_bilm_tf(arrays, options, rows):
    """All layers of bilm-tf, (L + 1, T, 2P), for one sentence of character ids (T, C)."""
    tokens = encode_words(arrays, options, rows)
    layers = [np.concatenate([tokens, tokens], axis=-1)]
    forward, backward = tokens, tokens
    for layer in range(options["lstm"]["n_layers"]):
        outputs = []
        for number, inputs in enumerate((forward, backward)):
            order = slice(None, None, -1 if number else 1)
            output = run_cell(arrays, options, cell_name(options, number, layer), inputs[order])[order]
            outputs.append(output + inputs if layer and options["lstm"]["use_skip_connections"] else output)
        forward, backward = outputs
        layers.append(np.concatenate(outputs, axis=-1))
    return np.stack(layers)


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


# Round trips


def read_datasets(weight_file):
    """Every dataset of an hdf5 as (shape, dtype, bytes)."""
    datasets = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            datasets[name] = (item.shape, item.dtype.str, item[()].tobytes())

    with h5py.File(weight_file) as file:
        file.visititems(keep)
    return datasets


def any_bits(shape, rng):
    """Float32 of any finite bit pattern: tiny, huge, minus zero."""
    values = rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)
    return np.where(np.isfinite(values), values, np.float32(-0.0))


options_of_any_model = st.fixed_dictionaries(
    {
        "lstm": st.fixed_dictionaries(
            {
                "use_skip_connections": st.booleans(),
                "projection_dim": st.integers(1, 7),
                "cell_clip": st.sampled_from([None, 3, 0.5]),
                "proj_clip": st.sampled_from([None, 3, 2.5]),
                "dim": st.integers(1, 9),
                "n_layers": st.integers(1, 3),
            }
        ),
        "char_cnn": st.fixed_dictionaries(
            {
                "activation": st.sampled_from(["relu", "tanh"]),
                "filters": st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)).map(list), min_size=1, max_size=4),
                "n_highway": st.integers(0, 2),
                "embedding": st.fixed_dictionaries({"dim": st.integers(1, 5)}),
                "n_characters": st.just(262),
                "max_characters_per_token": st.integers(5, 60),
            }
        ),
    }
)


@settings(max_examples=25)
@given(options=options_of_any_model, seed=st.integers(0, 2**32 - 1))
def test_any_bilm_tf_checkpoint_comes_back_bit_by_bit(options, seed):
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        theirs, back = Path(folder) / "theirs", Path(folder) / "back"
        write_checkpoint(theirs, options, {key: any_bits(shape, rng) for key, shape in wanted_shapes(options).items()})
        model = load_bilm_tf(theirs / "options.json", theirs / "weights.hdf5")
        save_bilm_tf(model, back / "options.json", back / "weights.hdf5")
        assert read_datasets(back / "weights.hdf5") == read_datasets(theirs / "weights.hdf5")
        assert json.loads((back / "options.json").read_text()) == options


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("highways", [0, 1, 2])
@pytest.mark.parametrize(("activation", "clip"), [("relu", 3.0), ("tanh", None)])
def test_any_model_of_ours_comes_back_bit_by_bit(tmp_path, layers, highways, activation, clip):
    config = make_tiny_config(
        num_hidden_layers=layers,
        num_highway_layers=highways,
        filter_activation=activation,
        cell_clip=clip,
        projection_clip=clip,
    )
    model = ElmoModel(config)
    save_bilm_tf(model, tmp_path / "options.json", tmp_path / "weights.hdf5")
    back = load_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert back.config.to_diff_dict() == config.to_diff_dict()
    assert back.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(back.state_dict()[name].view(torch.int32), tensor.view(torch.int32)), name
    assert set(read_datasets(tmp_path / "weights.hdf5")) == set(wanted_shapes(options_from_config(config)))


def test_the_key_table_names_every_parameter_once():
    config = make_tiny_config()
    named = [name for rule in expand_weight_rules(config, stacked=True) for name in rule.parameters]
    wanted = [name for name in ElmoModel(config).state_dict() if not name.startswith("mixes.")]
    assert sorted(named) == sorted(wanted)


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


# Options


def write_options(folder, options):
    (folder / "options.json").write_text(json.dumps(options))
    return folder / "options.json"


def test_options_in_their_training_form_describe_the_same_model(tmp_path):
    options = make_options()
    config = read_config(write_options(tmp_path, options))
    options["char_cnn"]["n_characters"] = 261
    options.update({"bidirectional": True, "dropout": 0.1, "batch_size": 128, "n_tokens_vocab": 793471})
    training_config = read_config(write_options(tmp_path, options))
    assert training_config.to_dict() == config.to_dict()
    assert options_from_config(training_config)["char_cnn"]["n_characters"] == 262


def test_absent_and_null_options_take_the_defaults_of_bilm_tf(tmp_path):
    options = make_options()
    for section, names in {"lstm": ["cell_clip", "proj_clip", "n_layers"], "char_cnn": ["n_highway"]}.items():
        for name in names:
            del options[section][name]
    config = read_config(write_options(tmp_path, options))
    assert (config.cell_clip, config.projection_clip, config.num_hidden_layers) == (None, None, 1)
    assert config.num_highway_layers == 0
    options["char_cnn"]["n_highway"] = options["lstm"]["cell_clip"] = None
    assert read_config(write_options(tmp_path, options)).to_dict() == config.to_dict()


def changed(path, value):
    options = copy.deepcopy(make_options())
    *sections, name = path.split(".")
    section = options
    for level in sections:
        section = section[level]
    if value is KeyError:
        del section[name]
    else:
        section[name] = value
    return options


BAD_OPTIONS = [
    ("lstm", KeyError),
    ("lstm", []),
    ("lstm.dim", KeyError),
    ("lstm.dim", 10.0),
    ("lstm.dim", "10"),
    ("lstm.dim", True),
    ("lstm.dim", 0),
    ("lstm.dim", None),
    ("lstm.dim", 10**12),
    ("lstm.projection_dim", -6),
    ("lstm.n_layers", 0),
    ("lstm.use_skip_connections", KeyError),
    ("lstm.use_skip_connections", 1),
    ("lstm.cell_clip", 0),
    ("lstm.proj_clip", "3"),
    ("lstm.proj_clip", float("nan")),
    ("char_cnn", KeyError),
    ("char_cnn.activation", "gelu"),
    ("char_cnn.activation", KeyError),
    ("char_cnn.filters", []),
    ("char_cnn.filters", [[1, 3], [2]]),
    ("char_cnn.filters", [[1, 3], [60, 5]]),
    ("char_cnn.n_highway", -1),
    ("char_cnn.embedding", 4),
    ("char_cnn.n_characters", 60),
    ("char_cnn.n_characters", 262.0),
    ("char_cnn.n_characters", KeyError),
    ("char_cnn.max_characters_per_token", 2),
    ("bidirectional", False),
]


def test_wrong_options_are_named_and_leave_nothing_behind(tmp_path):
    for number, (path, value) in enumerate(BAD_OPTIONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_checkpoint(folder, make_options())
        write_options(folder, changed(path, value))
        assert_conversion_fails(folder, ConversionError, re.escape(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is not JSON \(Expecting value"),
        (b'{"lstm": {', r"is not JSON"),
        (b"\x89HDF\r\n\x1a\n\xff\xfe", r"is not JSON"),
        (b"[1, 2]", r"holds a list, wanted an object with the keys 'lstm' and 'char_cnn'"),
    ],
)
def test_options_that_are_no_json_object_are_refused(tmp_path, content, message):
    write_checkpoint(tmp_path, make_options())
    (tmp_path / "options.json").write_bytes(content)
    assert_conversion_fails(tmp_path, ConversionError, message)


# Weights


def listing(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_conversion_fails(folder, error, message):
    """Both where there is no output directory yet and where a full one is to be replaced."""
    before = listing(folder)
    with pytest.raises(error, match=message) as caught:
        convert_bilm_tf(folder / "options.json", folder / "weights.hdf5", folder / "new")
    assert "\n" not in str(caught.value)
    assert listing(folder) == before
    assert not (folder / "new").exists()
    (folder / "full").mkdir()
    (folder / "full" / "precious").write_text("mine")
    before = listing(folder)
    with pytest.raises(error, match=message):
        convert_bilm_tf(folder / "options.json", folder / "weights.hdf5", folder / "full", overwrite=True)
    assert listing(folder) == before


def replace(file, key, **dataset):
    del file[key]
    return file.create_dataset(key, **dataset)


def fill_one_chunk(file):
    replace(file, "CNN_proj/W_proj", shape=(14, 6), dtype="f4", chunks=(7, 6))[:7] = 1.0


CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"

BAD_WEIGHTS = {
    "key missing": (
        lambda file: file.pop(f"{CELL}/B"),
        rf"lacks the key '{CELL}/B', wanted with the shape \(40,\)\. .*lstm.n_layers.* get both files again",
    ),
    "direction missing": (
        lambda file: file.pop("RNN_1"),
        r"lacks the key 'RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0', .*\(12, 40\) \(and 5 more like it\)",
    ),
    "no projection of words": (
        lambda file: file.pop("CNN_proj"),
        r"lacks the key 'CNN_proj/W_proj'.*bilm-tf writes none where the filters already add up to lstm.projection_dim",
    ),
    "no projection of cells": (
        lambda file: file.pop(f"{CELL}/W_P_0"),
        r"W_P_0'.*bilm-tf writes none where lstm.projection_dim is not less than lstm.dim",
    ),
    "group in place of array": (
        lambda file: (file.pop("char_embed"), file.create_group("char_embed")),
        r"lacks the key 'char_embed', wanted with the shape \(261, 4\)",
    ),
    "array in place of group": (
        lambda file: replace(file, "CNN", data=np.zeros(3, "f4")),
        r"lacks the key 'CNN/W_cnn_0', wanted with the shape \(1, 1, 4, 3\) \(and 5 more like it\)",
    ),
    "type in place of array": (
        lambda file: (file.pop("char_embed"), file.__setitem__("char_embed", np.dtype("f4"))),
        r"lacks the key 'char_embed'",
    ),
    "shape": (
        lambda file: replace(file, "CNN/W_cnn_1", data=np.zeros((1, 2, 4, 4), "f4")),
        r"key 'CNN/W_cnn_1' has the shape \(1, 2, 4, 4\), wanted \(1, 2, 4, 5\)\. .*follows from char_cnn.filters",
    ),
    "transposed": (
        lambda file: replace(file, "CNN_proj/W_proj", data=np.zeros((6, 14), "f4")),
        r"key 'CNN_proj/W_proj' has the shape \(6, 14\), wanted \(14, 6\)",
    ),
    "padding row inside": (
        lambda file: replace(file, "char_embed", data=np.zeros((262, 4), "f4")),
        r"key 'char_embed' has the shape \(262, 4\), wanted \(261, 4\)",
    ),
    "scalar": (
        lambda file: replace(file, "CNN_proj/b_proj", data=np.float32(0)),
        r"key 'CNN_proj/b_proj' has the shape \(\), wanted \(6,\)",
    ),
    "no shape": (
        lambda file: replace(file, "CNN_proj/b_proj", data=h5py.Empty("f4")),
        r"key 'CNN_proj/b_proj' has the shape None, wanted \(6,\)",
    ),
    "a third layer": (
        lambda file: file.copy(file["RNN_0/RNN/MultiRNNCell/Cell1"], "RNN_0/RNN/MultiRNNCell/Cell2"),
        r"holds the key 'RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B' of shape \(40,\), for which options_file has no "
        r"place \(and 2 more like it\)\. Check lstm.n_layers",
    ),
    "word embeddings": (
        lambda file: file.create_dataset("embedding", data=np.zeros((7, 6), "f4")),
        r"holds the key 'embedding' of shape \(7, 6\)",
    ),
    "float64": (
        lambda file: replace(file, "CNN_proj/b_proj", data=np.zeros(6, "f8")),
        r"key 'CNN_proj/b_proj' has the dtype float64, wanted float32",
    ),
    "float16": (
        lambda file: replace(file, "CNN_proj/b_proj", data=np.zeros(6, "f2")),
        r"key 'CNN_proj/b_proj' has the dtype float16, wanted float32",
    ),
    "integers": (
        lambda file: replace(file, "CNN_proj/b_proj", data=np.zeros(6, "i4")),
        r"key 'CNN_proj/b_proj' has the dtype int32, wanted float32",
    ),
    "never filled": (
        lambda file: replace(file, "CNN_proj/W_proj", shape=(14, 6), dtype="f4"),
        r"key 'CNN_proj/W_proj' of shape \(14, 6\) was made but never filled.*half-written",
    ),
    "half filled": (
        fill_one_chunk,
        r"key 'CNN_proj/W_proj' of shape \(14, 6\) was made but never filled.*half-written",
    ),
    "not a number": (
        lambda file: file["CNN_proj/W_proj"].__setitem__((0, slice(0, 2)), [np.nan, np.inf]),
        r"key 'CNN_proj/W_proj' holds 2 values that are infinite or not a number",
    ),
}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_wrong_weights_are_named_and_leave_nothing_behind(tmp_path, name):
    spoil, message = BAD_WEIGHTS[name]
    write_checkpoint(tmp_path, make_options())
    with h5py.File(tmp_path / "weights.hdf5", "r+") as file:
        spoil(file)
    assert_conversion_fails(tmp_path, ConversionError, message)


@pytest.mark.parametrize(
    ("name", "value"), [("lstm.n_layers", 1), ("lstm.n_layers", 3), ("lstm.dim", 11), ("char_cnn.n_highway", 2)]
)
def test_options_of_another_model_are_refused(tmp_path, name, value):
    write_checkpoint(tmp_path, make_options())
    write_options(tmp_path, changed(name, value))
    assert_conversion_fails(tmp_path, ConversionError, rf"weights\.hdf5'.* the key '.*{name.split('_')[0]}")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_truncated_weights_are_refused(tmp_path, share):
    write_checkpoint(tmp_path, make_options())
    content = (tmp_path / "weights.hdf5").read_bytes()
    (tmp_path / "weights.hdf5").write_bytes(content[: int(share * len(content))])
    assert_conversion_fails(
        tmp_path, ConversionError, r"is not a readable hdf5 file \(.*\): it is truncated or damaged"
    )


@settings(max_examples=60)
@given(place=st.floats(0, 1), length=st.integers(1, 5000), byte=st.integers(0, 255))
def test_damaged_weights_are_read_or_refused_but_never_crash(damaged_folder, place, length, byte):
    content = bytearray((damaged_folder / "whole.hdf5").read_bytes())
    start = int(place * (len(content) - 1))
    content[start : start + length] = bytes([byte]) * len(content[start : start + length])
    (damaged_folder / "weights.hdf5").write_bytes(content)
    try:
        model = load_bilm_tf(damaged_folder / "options.json", damaged_folder / "weights.hdf5")
    except ConversionError as error:
        assert "weights.hdf5" in str(error)
    else:
        assert all(tensor.isfinite().all() for tensor in model.state_dict().values())


@pytest.fixture(scope="module")
def damaged_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    write_checkpoint(folder, make_options())
    shutil.copy(folder / "weights.hdf5", folder / "whole.hdf5")
    return folder


def test_weights_with_a_broken_index_are_refused(tmp_path):
    write_checkpoint(tmp_path, make_options())
    content = (tmp_path / "weights.hdf5").read_bytes()
    assert content.count(b"TREE") > 1
    (tmp_path / "weights.hdf5").write_bytes(content.replace(b"TREE", b"EERT"))
    assert_conversion_fails(tmp_path, ConversionError, r"is not a readable hdf5 file \(.*signature.*\)")


def test_weights_that_are_another_kind_of_file_are_refused(tmp_path):
    write_checkpoint(tmp_path, make_options())
    (tmp_path / "weights.hdf5").write_text("<html>404</html>")
    assert_conversion_fails(tmp_path, ConversionError, "is not a readable hdf5 file")


@pytest.mark.parametrize("name", ["options.json", "weights.hdf5"])
def test_missing_files_are_named(tmp_path, name):
    write_checkpoint(tmp_path, make_options())
    (tmp_path / name).unlink()
    assert_conversion_fails(tmp_path, FileNotFoundError, rf"_file '.*{name}' is not there; name an existing file")
    (tmp_path / name).mkdir()
    with pytest.raises(FileNotFoundError, match="is a directory; name an existing file"):
        load_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5")


def test_a_missing_h5py_says_how_to_get_it(tmp_path, monkeypatch):
    write_checkpoint(tmp_path, make_options())
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert_conversion_fails(tmp_path, ImportError, r"pip install 'hf_elmo\[conversion\]'")
    with pytest.raises(ImportError, match=r"pip install 'hf_elmo\[conversion\]'"):
        save_bilm_tf(ElmoModel(make_tiny_config()), tmp_path / "o.json", tmp_path / "w.hdf5")


# The directory that is written


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
    with pytest.raises(ValueError, match="pre_tokenizer is 'spaces'"):
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
    with pytest.raises(ConversionError, match=r"output_dir .* holds options_file .*name another directory"):
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


# The way back


@pytest.mark.parametrize("head", ["pre-training", "token classification", "half precision"])
def test_every_kind_of_checkpoint_goes_back(tmp_path, head):
    if head == "pre-training":
        model = ElmoForPreTraining(make_tiny_config(word_vocab_size=9))
    elif head == "token classification":
        model = ElmoForTokenClassification(make_tiny_config(num_labels=3, num_mixes=2))
    else:
        model = ElmoModel(make_tiny_config()).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "model")
    export_bilm_tf(tmp_path / "model", tmp_path / "out" / "options.json", tmp_path / "out" / "weights.hdf5")
    back = load_bilm_tf(tmp_path / "out" / "options.json", tmp_path / "out" / "weights.hdf5")
    mine = model.base_model.state_dict()
    for name, tensor in back.state_dict().items():
        if not name.startswith("mixes."):
            assert torch.equal(tensor, mine[name].float()), name
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["options.json", "weights.hdf5"]


def widen(model):
    model.double()


def fill_padding_row(model):
    with torch.no_grad():
        model.token_encoder.character_embedding.weight[0, 1] = 0.5


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        ({"forget_bias": 0.0}, None, r"forget_bias is 0.0; bilm-tf always adds 1.0"),
        ({"vocab_size": 300}, None, r"vocab_size is 300; bilm-tf's byte scheme has 262"),
        (
            {"token_inputs": "both", "word_table_size": 7, "word_vector_size": 3},
            None,
            r"token_inputs is 'both'; bilm-tf's files for inference hold models that read characters alone",
        ),
        ({}, widen, r"has the dtype torch.float64; bilm-tf's files hold float32"),
        ({}, fill_padding_row, r"row 0 of token_encoder.character_embedding.weight.*is not zero"),
    ],
)
def test_a_model_that_the_format_cannot_hold_is_refused(tmp_path, config, change, message):
    model = ElmoModel(make_tiny_config(**config))
    if change is not None:
        change(model)
    with pytest.raises(ConversionError, match=message):
        save_bilm_tf(model, tmp_path / "out" / "options.json", tmp_path / "out" / "weights.hdf5")
    assert not list(tmp_path.iterdir())


def test_sizes_that_bilm_tf_itself_reads_otherwise_are_warned_of(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        save_bilm_tf(ElmoModel(make_tiny_config()), tmp_path / "o.json", tmp_path / "w.hdf5")
        assert not caplog.records
        save_bilm_tf(ElmoModel(make_tiny_config(cell_size=6)), tmp_path / "o2.json", tmp_path / "w2.hdf5")
    assert "projection_size is 6, with cell_size 6" in caplog.text


def test_existing_files_are_replaced_only_when_asked(tmp_path):
    model = ElmoModel(make_tiny_config())
    (tmp_path / "weights.hdf5").write_text("mine")
    with pytest.raises(FileExistsError, match=r"weight_file .*is there already.*--overwrite_output_dir"):
        save_bilm_tf(model, tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert listing(tmp_path) == {Path("weights.hdf5"): b"mine"}
    save_bilm_tf(model, tmp_path / "options.json", tmp_path / "weights.hdf5", overwrite=True)
    assert load_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5").config.cell_size == 10


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (("same", "same"), ConversionError, "give the two files a name each"),
        (("folder", "weights"), FileExistsError, "options_file .* is a directory; name a file to write"),
    ],
)
def test_names_that_cannot_be_written_are_refused(tmp_path, names, error, message):
    (tmp_path / "folder").mkdir()
    with pytest.raises(error, match=message):
        save_bilm_tf(ElmoModel(make_tiny_config()), *(tmp_path / name for name in names), overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_failure_while_writing_back_leaves_the_old_files(tmp_path, monkeypatch):
    def fail(rule, parameters):
        if rule.key == "CNN_proj/b_proj":
            raise OSError("no space left on device")
        return written(rule, parameters)

    (tmp_path / "options.json").write_text("mine")
    written = bilm_tf_export.to_theirs
    monkeypatch.setattr(bilm_tf_export, "to_theirs", fail)
    with pytest.raises(OSError, match="no space left"):
        save_bilm_tf(
            ElmoModel(make_tiny_config()), tmp_path / "options.json", tmp_path / "weights.hdf5", overwrite=True
        )
    assert listing(tmp_path) == {Path("options.json"): b"mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["options.json"]


def drop_weights(folder):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file({key: value for key, value in weights.items() if "backward" not in key}, folder / "model.safetensors")


def change_model_type(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))


BAD_DIRECTORIES = {
    "no such directory": (shutil.rmtree, FileNotFoundError, "model_name_or_path .*model"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), ConversionError, "cannot be loaded"),
    "truncated weights": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-5]),
        ConversionError,
        "cannot be loaded",
    ),
    "half the weights": (
        drop_weights,
        ConversionError,
        r"lacks the weights 'bilm.layers.0.backward_lstm.bias' \(and 7 more",
    ),
    "config is no JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        ConversionError,
        "model_name_or_path .*config.json",
    ),
    "another model": (change_model_type, ConversionError, "model_name_or_path .*'bert'.*'elmo'"),
}


@pytest.mark.parametrize("name", BAD_DIRECTORIES)
def test_a_directory_without_a_whole_model_is_refused(tmp_path, name):
    spoil, error, message = BAD_DIRECTORIES[name]
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "model")
    spoil(tmp_path / "model")
    with pytest.raises(error, match=message) as caught:
        export_bilm_tf(tmp_path / "model", tmp_path / "out" / "options.json", tmp_path / "out" / "weights.hdf5")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


# The word softmax

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "naïve", "語"]


def write_softmax(folder, words=WORDS, arrays=None, seed=0):
    """The two files of a softmax over words; without arrays, of plain numbers."""
    rng = np.random.default_rng(seed)
    if arrays is None:
        arrays = {
            "softmax/W": rng.uniform(-1, 1, (len(words), 6)).astype("f4"),
            "softmax/b": rng.uniform(-1, 1, len(words)).astype("f4"),
        }
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return arrays


def convert_with_softmax(folder, output="elmo", **files):
    named = {"softmax_file": folder / "softmax.hdf5", "vocab_file": folder / "vocab.txt", **files}
    return convert_bilm_tf(folder / "options.json", folder / "weights.hdf5", folder / output, **named)


def export_with_softmax(model_dir, folder, **changes):
    files = {name: folder / name for name in ("options_file", "weight_file", "softmax_file", "vocab_file")}
    export_bilm_tf(model_dir, **{**files, **changes})


@pytest.mark.parametrize("seed", range(3))
def test_a_word_softmax_comes_back_bit_by_bit(tmp_path, seed):
    rng = np.random.default_rng(seed)
    write_checkpoint(tmp_path, make_options(), seed=seed)
    write_softmax(tmp_path, arrays={"softmax/W": any_bits((8, 6), rng), "softmax/b": any_bits(8, rng)})
    written = convert_with_softmax(tmp_path)
    assert isinstance(written, ElmoForPreTraining) and not written.training
    export_with_softmax(tmp_path / "elmo", tmp_path / "back")
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == [
        "options_file",
        "softmax_file",
        "vocab_file",
        "weight_file",
    ]
    assert read_datasets(tmp_path / "back" / "softmax_file") == read_datasets(tmp_path / "softmax.hdf5")
    assert read_datasets(tmp_path / "back" / "weight_file") == read_datasets(tmp_path / "weights.hdf5")
    assert (tmp_path / "back" / "vocab_file").read_bytes() == (tmp_path / "vocab.txt").read_bytes()


def test_a_directory_with_a_softmax_is_whole_for_both_auto_classes(tmp_path):
    write_checkpoint(tmp_path, make_options())
    arrays = write_softmax(tmp_path)
    convert_with_softmax(tmp_path)
    convert_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5", tmp_path / "plain")
    assert WordVocabulary.load(tmp_path / "elmo").words == WORDS
    model, loading = AutoModelForPreTraining.from_pretrained(tmp_path / "elmo", output_loading_info=True)
    assert isinstance(model, ElmoForPreTraining) and not any(loading.values())
    assert torch.equal(model.word_softmax.weight, torch.from_numpy(arrays["softmax/W"]))
    assert torch.equal(model.word_softmax.bias, torch.from_numpy(arrays["softmax/b"]))
    base, loading = AutoModel.from_pretrained(tmp_path / "elmo", output_loading_info=True)
    assert isinstance(base, ElmoModel) and not any(loading.values())
    plain = AutoModel.from_pretrained(tmp_path / "plain")
    assert {name: tensor.tolist() for name, tensor in base.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in plain.state_dict().items()
    }


@pytest.mark.parametrize(
    "words",
    [
        WORDS,
        # The order of the released models' file, and the line that closes it.
        ["</S>", "<S>", "<UNK>", *WORDS[3:], "!!!MAXTERMID"],
        [*WORDS[3:], "<UNK>", "<S>", "</S>"],
    ],
    ids=["usual", "released", "last"],
)
def test_words_have_the_probabilities_of_bilm_tf_wherever_the_special_ones_stand(tmp_path, words):
    options, rows = make_options(), [word for word in words if word != "!!!MAXTERMID"]
    arrays = write_checkpoint(tmp_path, options)
    weights = write_softmax(tmp_path, rows)
    (tmp_path / "vocab.txt").write_text("\r\n".join(words), encoding="utf-8")
    model = convert_with_softmax(tmp_path).double()
    vocabulary, sentence = WordVocabulary.load(tmp_path / "elmo"), ["the", "naïve", "語", "zebra", "sat"]
    (scores,) = score_sentences(model, ElmoCharTokenizer(), vocabulary, [sentence])
    inputs = ElmoCharTokenizer()(sentence, is_split_into_words=True, return_tensors="np")["input_ids"]
    top = run_bilm_tf(arrays, options, inputs[0])[-1]
    logits = [half @ weights["softmax/W"].T.astype(float) + weights["softmax/b"] for half in np.split(top, 2, axis=1)]
    forward, backward = (scores - np.log(np.exp(scores).sum(1, keepdims=True)) for scores in logits)
    targets = [rows.index(word if word in rows else "<UNK>") for word in ["<S>", *sentence, "</S>"]]
    places = np.arange(len(sentence))
    for found, wanted in (
        ([*scores.forward, scores.forward_end], [*forward[places, targets[1:-1]], forward[-2, targets[-1]]]),
        ([scores.backward_end, *scores.backward], [backward[1, targets[0]], *backward[places + 2, targets[1:-1]]]),
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerances.REORDERED_FLOAT32)


def test_one_hdf5_may_hold_the_softmax_beside_the_rest(tmp_path):
    arrays = write_checkpoint(tmp_path, make_options())
    softmax = write_softmax(tmp_path)
    write_checkpoint(tmp_path, make_options(), {**arrays, **softmax})
    together = convert_with_softmax(tmp_path, softmax_file=tmp_path / "weights.hdf5")
    assert torch.equal(together.word_softmax.weight, torch.from_numpy(softmax["softmax/W"]))
    assert isinstance(load_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5"), ElmoModel)


def set_words(text):
    return lambda folder: (folder / "vocab.txt").write_bytes(text)


def set_softmax(key, array):
    def change(folder):
        with h5py.File(folder / "softmax.hdf5", "r+") as file:
            if key in file:
                del file[key]
            if array is not None:
                file.create_dataset(key, data=array)

    return change


def truncate_softmax(folder):
    content = (folder / "softmax.hdf5").read_bytes()
    (folder / "softmax.hdf5").write_bytes(content[: len(content) // 2])


BAD_SOFTMAXES = {
    "a word too few": (
        set_words("\n".join(WORDS[:-1]).encode()),
        r"softmax.hdf5': the key 'softmax/W' has the shape \(8, 6\), wanted \(7, 6\): 7 words in vocab_file '.*vocab",
    ),
    "another model's": (
        set_softmax("softmax/W", np.zeros((8, 5), "f4")),
        r"'softmax/W' has the shape \(8, 5\), wanted \(8, 6\): .*a projection of 6 \(lstm.projection_dim",
    ),
    "transposed": (set_softmax("softmax/W", np.zeros((6, 8), "f4")), r"has the shape \(6, 8\), wanted \(8, 6\)"),
    "short bias": (set_softmax("softmax/b", np.zeros(7, "f4")), r"'softmax/b' has the shape \(7,\), wanted \(8,\)"),
    "no bias": (
        set_softmax("softmax/b", None),
        r"softmax.hdf5' lacks the key 'softmax/b', wanted with the shape \(8,\)\. bilm-tf's dump_weights leaves",
    ),
    "float64": (set_softmax("softmax/b", np.zeros(8)), r"softmax.hdf5': the key 'softmax/b' has the dtype float64"),
    "not a number": (set_softmax("softmax/b", np.full(8, np.nan, "f4")), r"'softmax/b' holds 8 values that are inf"),
    "truncated": (truncate_softmax, r"softmax_file '.*softmax.hdf5' is not a readable hdf5 file"),
    "no softmax file": (lambda folder: (folder / "softmax.hdf5").unlink(), r"softmax_file '.*' is not there"),
    "no words": (lambda folder: (folder / "vocab.txt").unlink(), r"vocab_file '.*' is not there; name an existing"),
    "no <UNK>": (
        set_words("\n".join(word for word in WORDS if word != "<UNK>").encode()),
        r"vocab.txt' has no line '<UNK>' among its 7 words",
    ),
    "a word twice": (set_words("\n".join([*WORDS, "cat"]).encode()), r"vocab.txt'.*holds 'cat' twice"),
    "Latin-1": (set_words("\n".join(WORDS[:-1]).encode("latin-1")), r"vocab.txt' is not UTF-8: see line 7"),
}


@pytest.mark.parametrize("name", BAD_SOFTMAXES)
def test_a_wrong_softmax_is_named_and_leaves_nothing_behind(tmp_path, name):
    spoil, message = BAD_SOFTMAXES[name]
    write_checkpoint(tmp_path, make_options())
    write_softmax(tmp_path)
    spoil(tmp_path)
    before = listing(tmp_path)
    with pytest.raises((ConversionError, FileNotFoundError), match=message) as caught:
        convert_with_softmax(tmp_path)
    assert "\n" not in str(caught.value)
    assert listing(tmp_path) == before


def test_the_files_of_a_softmax_go_together_and_are_never_replaced(tmp_path):
    write_checkpoint(tmp_path, make_options())
    write_softmax(tmp_path)
    with pytest.raises(ConversionError, match=r"softmax_file is '.*', but vocab_file is left out"):
        convert_with_softmax(tmp_path, vocab_file=None)
    with pytest.raises(ConversionError, match=r"vocab_file is '.*', but softmax_file is left out"):
        export_with_softmax(tmp_path, tmp_path / "back", softmax_file=None)
    (tmp_path / "elmo").mkdir()
    shutil.copy(tmp_path / "vocab.txt", tmp_path / "elmo")
    with pytest.raises(ConversionError, match=r"output_dir .* holds vocab_file"):
        convert_with_softmax(tmp_path, vocab_file=tmp_path / "elmo" / "vocab.txt")


@pytest.mark.parametrize(
    ("fields", "words", "message"),
    [
        ({"share_word_softmax": False}, WORDS, r"share_word_softmax is False; bilm-tf's files hold one full softmax"),
        (
            {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4]},
            WORDS,
            r"softmax_type is 'adaptive' and share_word_softmax is True; bilm-tf's files hold one full softmax",
        ),
        ({}, WORDS[:-1], r"softmax over 8 words, but its word_vocabulary.txt has 7"),
        ({}, None, r"holds no usable word_vocabulary.txt"),
    ],
)
def test_a_softmax_that_the_format_cannot_hold_is_refused(tmp_path, fields, words, message):
    ElmoForPreTraining(make_tiny_config(word_vocab_size=8, **fields)).save_pretrained(tmp_path / "model")
    if words is not None:
        WordVocabulary(words).save(tmp_path / "model")
    with pytest.raises(ConversionError, match=message):
        export_with_softmax(tmp_path / "model", tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("word_vocab_size", [None, 8])
def test_a_checkpoint_without_a_softmax_has_none_to_export(tmp_path, word_vocab_size):
    ElmoModel(make_tiny_config(word_vocab_size=word_vocab_size)).save_pretrained(tmp_path / "model")
    WordVocabulary(WORDS).save(tmp_path / "model")
    with pytest.raises(ConversionError, match=r"word_vocab_size is None|lacks the weights 'word_softmax.bias'"):
        export_with_softmax(tmp_path / "model", tmp_path / "back")
    assert not (tmp_path / "back").exists()
    with pytest.raises(ConversionError, match=r"softmax_file and vocab_file are both .*give the two files"):
        export_with_softmax(tmp_path / "model", tmp_path / "back", vocab_file=tmp_path / "back" / "softmax_file")


def test_the_released_sizes_have_the_keys_of_the_released_files():
    rules = expand_weight_rules(ElmoConfig.original(), stacked=True)
    assert len(rules) == 1 + 2 * 7 + 4 * 2 + 2 + 3 * 2 * 2
    assert "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0" in {rule.key for rule in rules}
    assert {rule.layout for rule in WEIGHT_RULES} == set(bilm_tf_layouts._LAYOUTS)
