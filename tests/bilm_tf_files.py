"""Files as bilm-tf writes them, and what it computes from them, written down a second time from its own source."""

import json

import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")


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


def changed(path, value):
    options = make_options()
    *sections, name = path.split(".")
    section = options
    for level in sections:
        section = section[level]
    if value is KeyError:
        del section[name]
    else:
        section[name] = value
    return options


def listing(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
