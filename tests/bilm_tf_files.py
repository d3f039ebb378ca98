"""Files as bilm-tf writes them."""

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


def are_equal(model, other):
    ours, theirs = model.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all((ours[name] == theirs[name]).all() for name in ours)
