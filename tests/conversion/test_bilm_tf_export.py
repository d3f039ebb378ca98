"""Models written as bilm-tf's files: round trips bit by bit, and what the format cannot hold."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from bilm_tf_files import any_bits, are_equal, read_datasets, wanted_shapes, write_checkpoint
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, load_external
from hf_elmo.conversion.bilm_tf_export import export_bilm_tf
from hf_elmo.text.vocabulary import WordVocabulary
from hf_elmo.text.word_vectors import build_word_table

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat"]

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
        export_bilm_tf(saved(load_external(theirs)[0], Path(folder) / "ours"), back)
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
        build_word_table(ElmoCharTokenizer(), [word for word in WORDS if word != "<UNK>"]).fill(model)
    export_bilm_tf(saved(model, tmp_path / "ours", WORDS), tmp_path / "back")
    back, tokenizer = load_external(tmp_path / "back")
    # Which a model without characters has no use for, and options no place.
    unused = () if table is None else ("filters", "num_highway_layers", "character_embedding_size")
    ours, theirs = make_tiny_config(**OWN_MODELS[name]).to_dict(), back.config.to_dict()
    assert all(theirs[field] == value for field, value in ours.items() if field not in unused)
    assert are_equal(back, model)
    if table is not None:
        rows = table.indices(torch.from_numpy(tokenizer.encode_words([*WORDS, "zebra"])))
        assert rows[[2, 6]].tolist() == [0, 0] and rows.unique().tolist() == list(range(6))
        for words in ([*WORDS[:-1], "dog"], None):
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
            (ElmoForPreTraining, {"share_word_softmax": False}, WORDS),
            (ElmoForPreTraining, adaptive, WORDS),
            (ElmoForPreTraining, {}, WORDS[:-1]),
            (ElmoForPreTraining, {}, None),
            (ElmoModel, {}, WORDS),
        )
    ):
        model, back = model_class(make_tiny_config(word_vocab_size=6, **fields)), tmp_path / f"{number} back"
        notes = export_bilm_tf(saved(model, tmp_path / str(number), words), back)
        assert "softmax was left out" in " ".join(notes)
        assert sorted(path.name for path in back.iterdir()) == ["options.json", "weights.hdf5"]
