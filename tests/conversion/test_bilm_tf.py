"""bilm-tf's models of random weights, both ways: their numbers, written down a second time; files; what is wrong."""

import gzip
import json
import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from bilm_tf_files import (
    any_bits,
    are_equal,
    cell_name,
    changed,
    make_options,
    read_datasets,
    wanted_shapes,
    write_checkpoint,
)
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tensor_bundles import variables_of, write_bundle
from transformers import AutoModel, AutoModelForPreTraining

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, load_external
from hf_elmo.conversion.bilm_tf import export_bilm_tf
from hf_elmo.conversion.sources import convert
from hf_elmo.text.vocabulary import WordVocabulary
from hf_elmo.text.word_vectors import build_word_table

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


# The way back

SIX_WORDS = WORDS[:6]

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


def saved(model, folder, words=None):
    """The folder of a checkpoint, with its words."""
    model.save_pretrained(folder)
    if words is not None:
        WordVocabulary(words).save(folder)
    return folder


@examples(12)
@given(options=options_of_any_model, seed=st.integers(0, 2**32 - 1))
def test_any_bilm_tf_checkpoint_comes_back_bit_by_bit(options, seed):
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        theirs, back = Path(folder) / "theirs", Path(folder) / "back"
        write_checkpoint(theirs, options, {key: any_bits(shape, rng) for key, shape in wanted_shapes(options).items()})
        model, tokenizer = load_external(theirs)
        assert tokenizer.max_characters_per_word == options["char_cnn"]["max_characters_per_token"]
        export_bilm_tf(saved(model, Path(folder) / "ours"), back)
        assert read_datasets(back / "weights.hdf5") == read_datasets(theirs / "weights.hdf5")
        assert json.loads((back / "options.json").read_text()) == options


SAME_SIZES = {"projection_size": 14, "cell_size": 14}
OWN_MODELS = {
    "no projection of words": {"projection_size": 14, "project_tokens": False},
    "no projection of cells": {**SAME_SIZES, "project_hidden": False, "projection_clip": None},
    "no projections": {**SAME_SIZES, "project_tokens": False, "project_hidden": False, "num_hidden_layers": 1},
    "projections of equal sizes": SAME_SIZES,
    "words": {"token_inputs": "words", "word_table_size": 5, "word_vector_size": 6, "project_tokens": False},
}


@pytest.mark.parametrize("name", OWN_MODELS)
def test_a_model_of_our_own_comes_back_as_it_went_out(name, tmp_path):
    model = ElmoModel(make_tiny_config(**OWN_MODELS[name]))
    table = model.token_encoder.word_table
    if table is not None:
        build_word_table(ElmoCharTokenizer(), [word for word in SIX_WORDS if word != "<UNK>"]).fill(model)
    export_bilm_tf(saved(model, tmp_path / "ours", SIX_WORDS), tmp_path / "back")
    back, tokenizer = load_external(tmp_path / "back")
    # Which a model without characters has no use for, and options no place.
    unused = () if table is None else ("filters", "num_highway_layers", "character_embedding_size")
    ours, theirs = make_tiny_config(**OWN_MODELS[name]).to_dict(), back.config.to_dict()
    assert all(theirs[field] == value for field, value in ours.items() if field not in unused)
    assert are_equal(back, model)
    if table is not None:
        rows = table.indices(torch.from_numpy(tokenizer.encode_words([*SIX_WORDS, "zebra"])))
        assert rows[[2, 6]].tolist() == [0, 0] and rows.unique().tolist() == list(range(6))
        for words in ([*SIX_WORDS[:-1], "dog"], None):
            (tmp_path / "ours" / "word_vocabulary.txt").unlink()
            saved(model, tmp_path / "ours", words)
            assert_refused(ValueError, "word_vocabulary.txt", export_bilm_tf, tmp_path / "ours", tmp_path / "new")


def test_tasks_models_and_half_precision_go_back(tmp_path):
    task = ElmoForTokenClassification(make_tiny_config(num_labels=3, num_mixes=2))
    for number, model in enumerate((task, ElmoModel(make_tiny_config()).to(torch.bfloat16))):
        source, back = tmp_path / f"{number}", tmp_path / f"{number} back"
        export_bilm_tf(saved(model, source), back)
        mine = model.base_model.state_dict()
        for name, tensor in load_external(back)[0].state_dict().items():
            assert name.startswith("mixes.") or torch.equal(tensor, mine[name].float()), name
        assert sorted(path.name for path in back.iterdir()) == ["options.json", "weights.hdf5"]


def test_a_model_that_the_format_cannot_hold_is_refused(tmp_path):
    words = {"token_inputs": "both", "word_table_size": 7, "word_vector_size": 3}
    for config, change, named in (
        ({"forget_bias": 0.0}, ElmoModel.float, "forget_bias"),
        ({"vocab_size": 300}, ElmoModel.float, "vocab_size"),
        (words, ElmoModel.float, "token_inputs"),
        ({}, ElmoModel.double, "float64"),
        ({}, lambda each: each.token_encoder.character_embedding.weight.data.fill_(0.5), "character_embedding.weight"),
    ):
        model = ElmoModel(make_tiny_config(**config))
        change(model)
        assert_refused(ValueError, named, export_bilm_tf, saved(model, tmp_path / "ours"), tmp_path / "out")
    for model in (ElmoModel(make_tiny_config()), ElmoModel(make_tiny_config(num_hidden_layers=1))):
        model.save_pretrained(tmp_path / "model")
    make_tiny_config().save_pretrained(tmp_path / "model")
    assert_refused(ValueError, "bilm.layers.1", export_bilm_tf, tmp_path / "model", tmp_path / "out")
    assert_refused(ValueError, "output_dir", export_bilm_tf, tmp_path / "model", tmp_path / "model", True)
    assert not (tmp_path / "out").exists() and (tmp_path / "model" / "config.json").exists()


def test_a_softmax_that_the_format_cannot_hold_is_left_out_and_that_is_said(tmp_path):
    adaptive = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4]}
    for number, (model_class, fields, words) in enumerate(
        (
            (ElmoForPreTraining, {"share_word_softmax": False}, SIX_WORDS),
            (ElmoForPreTraining, adaptive, SIX_WORDS),
            (ElmoForPreTraining, {}, SIX_WORDS[:-1]),
            (ElmoForPreTraining, {}, None),
            (ElmoModel, {}, SIX_WORDS),
        )
    ):
        model, back = model_class(make_tiny_config(word_vocab_size=6, **fields)), tmp_path / f"{number} back"
        notes = export_bilm_tf(saved(model, tmp_path / str(number), words), back)
        assert "softmax was left out" in " ".join(notes)
        assert sorted(path.name for path in back.iterdir()) == ["options.json", "weights.hdf5"]
