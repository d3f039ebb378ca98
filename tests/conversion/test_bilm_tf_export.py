"""Models written back as bilm-tf's files: round trips bit by bit, and what the format cannot hold."""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from bilm_tf_files import any_bits, listing, read_datasets, wanted_shapes, write_checkpoint
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.conversion import bilm_tf_export
from hf_elmo.conversion.bilm_tf import load_bilm_tf
from hf_elmo.conversion.bilm_tf_export import export_bilm_tf, save_bilm_tf
from hf_elmo.conversion.bilm_tf_options import options_from_config
from hf_elmo.conversion.checked_files import ConversionError

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


@examples(12)
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


def test_a_model_that_the_format_cannot_hold_is_refused(tmp_path):
    words = {"token_inputs": "both", "word_table_size": 7, "word_vector_size": 3}
    for config, change, named in (
        ({"forget_bias": 0.0}, None, "forget_bias"),
        ({"vocab_size": 300}, None, "vocab_size"),
        (words, None, "token_inputs"),
        ({}, widen, "float64"),
        ({}, fill_padding_row, "token_encoder.character_embedding.weight"),
    ):
        model = ElmoModel(make_tiny_config(**config))
        if change is not None:
            change(model)
        files = (tmp_path / "out" / "options.json", tmp_path / "out" / "weights.hdf5")
        assert_refused(ConversionError, named, save_bilm_tf, model, *files)
        assert not list(tmp_path.iterdir())


def test_sizes_that_bilm_tf_itself_reads_otherwise_are_warned_of(tmp_path, log_records):
    save_bilm_tf(ElmoModel(make_tiny_config()), tmp_path / "o.json", tmp_path / "w.hdf5")
    assert not log_records
    save_bilm_tf(ElmoModel(make_tiny_config(cell_size=6)), tmp_path / "o2.json", tmp_path / "w2.hdf5")
    assert "projection_size is 6, with cell_size 6" in log_records[0].getMessage()


def test_existing_files_are_replaced_only_when_asked(tmp_path):
    model = ElmoModel(make_tiny_config())
    (tmp_path / "weights.hdf5").write_text("mine")
    with pytest.raises(FileExistsError, match=r"weight_file .*--overwrite_output_dir"):
        save_bilm_tf(model, tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert listing(tmp_path) == {Path("weights.hdf5"): b"mine"}
    save_bilm_tf(model, tmp_path / "options.json", tmp_path / "weights.hdf5", overwrite=True)
    assert load_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5").config.cell_size == 10


def test_names_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    model = ElmoModel(make_tiny_config())
    for names, error, named in (
        (("same", "same"), ConversionError, "same"),
        (("folder", "weights"), FileExistsError, "options_file"),
    ):
        assert_refused(error, named, save_bilm_tf, model, *(tmp_path / name for name in names), overwrite=True)
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
    "no such directory": (shutil.rmtree, FileNotFoundError, "model_name_or_path"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), ConversionError, "model_name_or_path"),
    "truncated weights": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-5]),
        ConversionError,
        "model_name_or_path",
    ),
    "half the weights": (drop_weights, ConversionError, ("bilm.layers.0.backward_lstm.bias", "7 more")),
    "config is no JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        ConversionError,
        ("model_name_or_path", "config.json"),
    ),
    "another model": (change_model_type, ConversionError, ("model_name_or_path", "'bert'", "'elmo'")),
}


def test_a_directory_without_a_whole_model_is_refused(tmp_path):
    files = (tmp_path / "out" / "options.json", tmp_path / "out" / "weights.hdf5")
    for name, (spoil, error, named) in BAD_DIRECTORIES.items():
        ElmoModel(make_tiny_config()).save_pretrained(tmp_path / name)
        spoil(tmp_path / name)
        assert "\n" not in assert_refused(error, named, export_bilm_tf, tmp_path / name, *files)
        assert not (tmp_path / "out").exists()
