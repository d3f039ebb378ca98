"""bilm-tf's models of random weights: their numbers, written down a second time; their files; and what is wrong."""

import gzip
import json
import shutil

import h5py
import numpy as np
import pytest
import torch
from bilm_tf_files import (
    are_equal,
    cell_name,
    changed,
    make_options,
    wanted_shapes,
    write_checkpoint,
)
from refusals import assert_refused
from tensor_bundles import variables_of, write_bundle
from transformers import AutoModel, AutoModelForPreTraining

from hf_elmo import ElmoForPreTraining, ElmoModel, load_external
from hf_elmo.conversion.sources import convert
from hf_elmo.text.vocabulary import WordVocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "naïve", "語"]


def write_hdf5(path, arrays):
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file[key] = array


def test_numbers_land_where_the_source_of_bilm_tf_says(tmp_path):
    arrays = write_checkpoint(tmp_path, make_options())
    model = load_external(tmp_path)[0]
    ours = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    expected = {"token_encoder.character_embedding.weight": np.pad(arrays["char_embed"], ((1, 0), (0, 0)))}
    for index in range(3):
        name = f"token_encoder.convolutions.{index}"
        # (1, width, characters, filters)
        expected[f"{name}.weight"] = np.einsum("xwdn->ndw", arrays[f"CNN/W_cnn_{index}"])
        expected[f"{name}.bias"] = arrays[f"CNN/b_cnn_{index}"]
    for part in ("carry", "transform"):
        expected[f"token_encoder.highways.0.{part}.weight"] = arrays[f"CNN_high_0/W_{part}"].T
        expected[f"token_encoder.highways.0.{part}.bias"] = arrays[f"CNN_high_0/b_{part}"]
    expected["token_encoder.projection.weight"] = arrays["CNN_proj/W_proj"].T
    expected["token_encoder.projection.bias"] = arrays["CNN_proj/b_proj"]
    for number, direction in enumerate(("forward", "backward")):
        for layer in range(2):
            theirs, name = cell_name(make_options(), number, layer), f"bilm.layers.{layer}.{direction}_lstm"
            # Columns are the gates i, j (the new values), f, o; rows are those of inputs above those of the state.
            i, j, f, o = np.split(arrays[f"{theirs}/W_0"], 4, axis=1)
            expected[f"{name}.weight_ih"], expected[f"{name}.weight_hh"] = np.split(
                np.hstack([i, f, j, o]).T, 2, axis=1
            )
            i, j, f, o = np.split(arrays[f"{theirs}/B"], 4)
            expected[f"{name}.bias"] = np.hstack([i, f, j, o])
            expected[f"{name}.weight_hr"] = arrays[f"{theirs}/W_P_0"].T
    assert expected.keys() == {name for name in ours if not name.startswith("mixes.")}
    for name, array in expected.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)
    assert model.config.forget_bias == 1 and model.config.cell_clip == 3


def test_other_forms_of_the_same_numbers_are_read_alike(tmp_path):
    options = make_options(layers=1)
    arrays = write_checkpoint(tmp_path / "trained", options)
    stacked = {key.replace("/RNN/LSTM", "/RNN/MultiRNNCell/Cell0/LSTM"): array for key, array in arrays.items()}
    assert stacked.keys() != arrays.keys()
    write_checkpoint(tmp_path / "stacked", options, stacked)
    write_checkpoint(tmp_path / "big endian", options, {key: array.astype(">f4") for key, array in arrays.items()})
    write_checkpoint(tmp_path / "compressed", options, {})
    with h5py.File(tmp_path / "compressed" / "weights.hdf5", "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array, compression="gzip", shuffle=True)
    model, _ = load_external(tmp_path / "trained")
    assert not model.training and model.mixes[0].weight.tolist() == [0.0, 0.0] and model.config.forget_bias == 1
    for name in ("stacked", "big endian", "compressed"):
        assert are_equal(load_external(tmp_path / name)[0], model), name


def spoil(file, how):
    """Spoil an hdf5 in the way that a name says."""
    if how == "linked":
        del file["CNN_proj"]
        file["CNN_proj"] = h5py.ExternalLink("secret.hdf5", "CNN_proj")
    elif how == "layer":
        file.copy(file["RNN_0/RNN/MultiRNNCell/Cell1"], "RNN_0/RNN/MultiRNNCell/Cell2")
    elif how == "bomb":
        file.create_dataset("zeros", (8_000_000,), "f4", compression="gzip", fillvalue=0)
    elif how == "nan":
        file["CNN_proj/b_proj"][:2] = [np.nan, np.inf]
    else:
        del file["CNN_proj/b_proj"]
        if how == "external":
            file.create_dataset("CNN_proj/b_proj", (6,), "f4", external=[("secret", 0, 24)])
        elif how == "virtual":
            layout = h5py.VirtualLayout((6,), "f4")
            layout[:] = h5py.VirtualSource("secret.hdf5", "a", (6,))
            file.create_virtual_dataset("CNN_proj/b_proj", layout)
        elif how != "missing":
            file["CNN_proj/b_proj"] = np.zeros(6 if how == "float64" else 5, "f8" if how == "float64" else "f4")


def test_wrong_weights_are_named_and_other_files_are_not_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays = write_checkpoint(tmp_path, make_options())
    # What another file holds would fit.
    proj, bias = (arrays[f"CNN_proj/{name}"] for name in ("W_proj", "b_proj"))
    write_hdf5(tmp_path / "secret.hdf5", {"CNN_proj/W_proj": proj, "CNN_proj/b_proj": bias, "a": bias})
    (tmp_path / "secret").write_bytes(bias.tobytes())
    for how, *named in (
        ("missing", "CNN_proj/b_proj", "(6,)", "options.json"),
        ("short", "CNN_proj/b_proj", "(5,)", "(6,)"),
        ("layer", "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B"),
        ("float64", "CNN_proj/b_proj", "float64", "float32"),
        ("nan", "CNN_proj/b_proj", "finite"),
        ("bomb", "bomb.hdf5", "memory"),
        ("linked", "CNN_proj/W_proj"),
        ("external", "CNN_proj/b_proj", "another file"),
        ("virtual", "CNN_proj/b_proj", "another file"),
    ):
        shutil.copy(tmp_path / "weights.hdf5", tmp_path / f"{how}.hdf5")
        with h5py.File(tmp_path / f"{how}.hdf5", "r+") as file:
            spoil(file, how)
        assert "\n" not in assert_refused(ValueError, tuple(named), load_external, tmp_path / f"{how}.hdf5")


def test_wrong_options_are_named(tmp_path):
    write_checkpoint(tmp_path, make_options())
    for path, value, named in (
        ("lstm", [], "lstm"),
        ("lstm.dim", KeyError, "lstm.dim"),
        ("lstm.use_skip_connections", KeyError, "lstm.use_skip_connections"),
        ("lstm.proj_clip", float("nan"), "lstm.proj_clip"),
        ("char_cnn", KeyError, "char_cnn"),
        ("char_cnn.activation", "gelu", "char_cnn.activation"),
        ("char_cnn.n_characters", 60, "char_cnn.n_characters"),
        ("bidirectional", False, "both directions"),
        ("lstm.n_layers", 1, "options.json"),
        ("lstm.dim", 10**12, "options.json"),
        ("char_cnn.filters", [[1, 10**6]], "options.json"),
    ):
        (tmp_path / "options.json").write_text(json.dumps(changed(path, value)))
        message = assert_refused(ValueError, ("options.json", named), load_external, tmp_path)
        assert "\n" not in message and len(message) < 700


def test_options_of_training_and_left_out_ones_describe_the_same_model(tmp_path):
    options = make_options(layers=1, highways=0, clip=None)
    write_checkpoint(tmp_path, options)
    config = load_external(tmp_path)[0].config.to_dict()
    options["char_cnn"]["n_characters"] = 261
    options.update({"bidirectional": True, "dropout": 0.1, "batch_size": 128, "n_tokens_vocab": 793471})
    del options["lstm"]["cell_clip"], options["lstm"]["n_layers"], options["char_cnn"]["n_highway"]
    (tmp_path / "options.json").write_text(json.dumps(options))
    assert load_external(tmp_path)[0].config.to_dict() == config


def test_the_weights_of_a_directory_are_told_by_their_keys(tmp_path):
    write_checkpoint(tmp_path, make_options())
    wanted, _ = load_external(tmp_path)
    (tmp_path / "weights.hdf5").rename(tmp_path / "lm_weights.hdf5")
    # Vectors of a corpus and a cache of word vectors; a list of words that nothing here reads.
    write_hdf5(tmp_path / "embeddings.hdf5", {"0": np.zeros((2, 3), "f4"), "sentence_to_index": np.zeros(2, "f4")})
    write_hdf5(tmp_path / "cache.hdf5", {"embedding": np.zeros((7, 6), "f4")})
    (tmp_path / "damaged.hdf5").write_bytes(b"no hdf5")
    (tmp_path / "vocab.txt").write_text("the\ncat\n")
    assert are_equal(load_external(tmp_path)[0], wanted)
    shutil.copy(tmp_path / "lm_weights.hdf5", tmp_path / "other.hdf5")
    assert_refused(ValueError, ("lm_weights.hdf5", "other.hdf5"), load_external, tmp_path)
    # The names that bilm-tf and simple_elmo give them settle it.
    (tmp_path / "other.hdf5").rename(tmp_path / "model.hdf5")
    assert are_equal(load_external(tmp_path)[0], wanted)
    (tmp_path / "options.json").unlink()
    assert_refused(ValueError, ("options.json", "options_file"), load_external, tmp_path)
    for name in ("model.hdf5", "lm_weights.hdf5"):
        (tmp_path / name).unlink()
    assert_refused(ValueError, ("RNN_0", "cache.hdf5", "embeddings.hdf5"), load_external, tmp_path)


def test_files_under_published_names_belong_together(tmp_path):
    write_checkpoint(tmp_path / "theirs", make_options())
    for name in ("small", "large"):
        shutil.copy(tmp_path / "theirs" / "options.json", tmp_path / f"elmo_{name}_options.json")
        shutil.copy(tmp_path / "theirs" / "weights.hdf5", tmp_path / f"elmo_{name}_weights.hdf5")
    assert are_equal(load_external(tmp_path / "elmo_small_weights.hdf5")[0], load_external(tmp_path / "theirs")[0])
    (tmp_path / "elmo_small_options.json").rename(tmp_path / "elmo_medium_options.json")
    named = ("elmo_large_options.json", "elmo_medium_options.json", "options_file")
    assert_refused(ValueError, named, load_external, tmp_path / "elmo_small_weights.hdf5")


# The word softmax


def write_softmax(folder, words=WORDS, name="softmax.hdf5"):
    """The two files of a softmax over words."""
    rng = np.random.default_rng(1)
    arrays = {"softmax/W": rng.uniform(-1, 1, (len(words), 6)).astype("f4")}
    arrays["softmax/b"] = rng.uniform(-1, 1, len(words)).astype("f4")
    write_hdf5(folder / name, arrays)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return arrays


@pytest.mark.parametrize(
    "words",
    [
        WORDS,
        # The order of the released models' file, and the line that closes it.
        ["</S>", "<S>", "<UNK>", *WORDS[3:], "!!!MAXTERMID"],
        [*WORDS[3:], "<UNK>", "<S>", "</S>"],
    ],
    ids=["ours", "released", "last"],
)
def test_a_directory_with_a_softmax_is_whole_for_both_auto_classes(tmp_path, words):
    write_checkpoint(tmp_path, make_options())
    base, rows = load_external(tmp_path)[0], [word for word in words if word != "!!!MAXTERMID"]
    arrays = write_softmax(tmp_path, rows)
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "vocab-2016-09-10.txt.gz").write_bytes(gzip.compress("\r\n".join(words).encode()))
    _, converted = convert(tmp_path, tmp_path / "elmo")
    assert converted.files.keys() == {"weight_file", "options_file", "softmax_file", "vocab_file"}
    model, loading = AutoModelForPreTraining.from_pretrained(tmp_path / "elmo", output_loading_info=True)
    assert isinstance(model, ElmoForPreTraining) and not any(loading.values())
    found = WordVocabulary.load(tmp_path / "elmo").words
    assert found[:3] == ["<S>", "</S>", "<UNK>"] and sorted(found) == sorted(rows)
    order = [rows.index(word) for word in found]
    assert torch.equal(model.word_softmax.weight, torch.from_numpy(arrays["softmax/W"][order]))
    assert torch.equal(model.word_softmax.bias, torch.from_numpy(arrays["softmax/b"][order]))
    found, loading = AutoModel.from_pretrained(tmp_path / "elmo", output_loading_info=True)
    assert isinstance(found, ElmoModel) and not any(loading.values()) and are_equal(found, base)


def test_a_softmax_may_lie_elsewhere_or_in_the_weights_and_wants_its_words(tmp_path):
    arrays = write_checkpoint(tmp_path / "theirs", make_options())
    (tmp_path / "apart").mkdir()
    softmax = write_softmax(tmp_path / "apart")
    files = {"softmax_file": tmp_path / "apart" / "softmax.hdf5", "vocab_file": tmp_path / "apart" / "vocab.txt"}
    apart, _ = load_external(tmp_path / "theirs", **files)
    for name, value in files.items():
        assert_refused(ValueError, files.keys(), load_external, tmp_path / "theirs", **{name: value})
    # Where nobody asked for it, the model is given without.
    shutil.copy(files["softmax_file"], tmp_path / "theirs")
    _, converted = convert(tmp_path / "theirs", tmp_path / "ours")
    assert type(converted.model) is ElmoModel and any("vocab_file" in note for note in converted.notes)
    (tmp_path / "theirs" / "softmax.hdf5").unlink()
    write_checkpoint(tmp_path / "theirs", make_options(), {**arrays, **softmax})
    assert are_equal(load_external(tmp_path / "theirs", vocab_file=files["vocab_file"])[0], apart)


# Training checkpoints


def write_training(folder, words=WORDS, without=(), **bundle):
    """A tiny training checkpoint of random weights."""
    options = {**make_options(), "n_tokens_vocab": len(WORDS)}
    options["char_cnn"]["n_characters"] = 261
    rng = np.random.default_rng(0)
    shapes = {**wanted_shapes(options), "softmax/W": (len(WORDS), 6), "softmax/b": (len(WORDS),)}
    arrays = variables_of({key: rng.uniform(-1, 1, shape).astype("f4") for key, shape in shapes.items()})
    arrays |= {f"{name}/Adagrad": np.ones_like(array) for name, array in arrays.items()}
    arrays["global_step"] = np.array(3, dtype=np.float32)
    write_bundle(folder, {name: array for name, array in arrays.items() if name not in without}, **bundle)
    (folder / "options.json").write_text(json.dumps(options))
    if words is not None:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    return arrays


def test_without_a_vocabulary_there_is_no_softmax_and_the_card_says_so(tmp_path):
    arrays = write_training(tmp_path / "theirs", words=None)
    _, converted = convert(tmp_path / "theirs", tmp_path / "ours")
    assert type(converted.model) is ElmoModel
    card = (tmp_path / "ours" / "README.md").read_text()
    assert "vocab_file" in card and "Adagrad" in card and "model.ckpt-7.data-00000-of-00001" in card
    (tmp_path / "words").write_text("".join(f"{word}\n" for word in WORDS))
    model, _ = load_external(tmp_path / "theirs" / "model.ckpt-7.index", vocab_file=tmp_path / "words")
    assert np.array_equal(model.word_softmax.weight.detach().numpy(), arrays["lm/softmax/W"])
    # The trainer takes missing skip connections for none.
    options = json.loads((tmp_path / "theirs" / "options.json").read_text())
    del options["lstm"]["use_skip_connections"]
    (tmp_path / "theirs" / "options.json").write_text(json.dumps(options))
    assert load_external(tmp_path / "theirs")[0].config.use_skip_connections is False


def test_what_does_not_belong_together_is_refused(tmp_path):
    for number, (changes, *named) in enumerate(
        (
            ({"without": ["lm/softmax/W"]}, "softmax/W", "(8, 6)"),
            ({"words": WORDS[:-1]}, "softmax/W", "(8, 6)", "(7, 6)", "vocab.txt"),
            ({"words": [word for word in WORDS if word != "<UNK>"]}, "vocab.txt", "<UNK>"),
            ({"words": [*WORDS, "cat"]}, "vocab.txt", "'cat'"),
            ({"shards": 3}, "3 shards"),
        )
    ):
        write_training(tmp_path / str(number), **changes)
        assert_refused(ValueError, tuple(named), load_external, tmp_path / str(number))
