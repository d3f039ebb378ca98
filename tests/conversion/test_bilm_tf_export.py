"""Models written as bilm-tf's files: round trips bit by bit, and what the format cannot hold."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from bilm_tf_files import any_bits, read_datasets, wanted_shapes, write_checkpoint
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, load_external
from hf_elmo.conversion.bilm_tf_export import export_bilm_tf, save_bilm_tf
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


@examples(12)
@given(options=options_of_any_model, seed=st.integers(0, 2**32 - 1))
def test_any_bilm_tf_checkpoint_comes_back_bit_by_bit(options, seed):
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        theirs, back = Path(folder) / "theirs", Path(folder) / "back"
        write_checkpoint(theirs, options, {key: any_bits(shape, rng) for key, shape in wanted_shapes(options).items()})
        save_bilm_tf(load_external(theirs)[0], back)
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
    vocabulary = WordVocabulary(WORDS)
    model = ElmoModel(make_tiny_config(**OWN_MODELS[name]))
    table = model.token_encoder.word_table
    if table is not None:
        build_word_table(ElmoCharTokenizer(), [word for word in WORDS if word != "<UNK>"]).fill(model)
    save_bilm_tf(model, tmp_path / "back", vocabulary)
    back, tokenizer = load_external(tmp_path / "back")
    # Which a model without characters has no use for, and options no place.
    unused = () if table is None else ("filters", "num_highway_layers", "character_embedding_size")
    assert all(
        getattr(back.config, field) == value for field, value in model.config.to_dict().items() if field not in unused
    )
    wanted = model.state_dict()
    assert back.state_dict().keys() == wanted.keys()
    assert all(torch.equal(tensor, wanted[key]) for key, tensor in back.state_dict().items())
    if table is not None:
        rows = torch.from_numpy(tokenizer.encode_words([*WORDS, "zebra"]))
        assert table.indices(rows)[[2, 6]].tolist() == [0, 0] and table.indices(rows).unique().tolist() == list(
            range(6)
        )
        for other in (None, WordVocabulary([*WORDS[:-1], "dog"])):
            assert_refused(ValueError, "vocabulary", save_bilm_tf, model, tmp_path / "new", other)


def test_tasks_models_and_half_precision_go_back(tmp_path):
    task = ElmoForTokenClassification(make_tiny_config(num_labels=3, num_mixes=2))
    for number, model in enumerate((task, ElmoModel(make_tiny_config()).to(torch.bfloat16))):
        source, back = tmp_path / f"{number}", tmp_path / f"{number} back"
        model.save_pretrained(source)
        export_bilm_tf(source, back)
        mine = model.base_model.state_dict()
        for name, tensor in load_external(back)[0].state_dict().items():
            assert name.startswith("mixes.") or torch.equal(tensor, mine[name].float()), name
        assert sorted(path.name for path in back.iterdir()) == ["options.json", "weights.hdf5"]


def test_a_model_that_the_format_cannot_hold_is_refused(tmp_path):
    words = {"token_inputs": "both", "word_table_size": 7, "word_vector_size": 3}
    for config, change, named in (
        ({"forget_bias": 0.0}, None, "forget_bias"),
        ({"vocab_size": 300}, None, "vocab_size"),
        (words, None, "token_inputs"),
        ({}, ElmoModel.double, "float64"),
        (
            {},
            lambda model: model.token_encoder.character_embedding.weight.data.fill_(0.5),
            "character_embedding.weight",
        ),
    ):
        model = ElmoModel(make_tiny_config(**config))
        if change is not None:
            change(model)
        assert_refused(ValueError, named, save_bilm_tf, model, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_softmax_that_the_format_cannot_hold_is_left_out_with_the_reason(tmp_path):
    adaptive = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4]}
    for number, (model_class, fields, words, named) in enumerate(
        (
            (ElmoForPreTraining, {"share_word_softmax": False}, WORDS, "share_word_softmax"),
            (ElmoForPreTraining, adaptive, WORDS, "softmax_type is 'adaptive'"),
            (ElmoForPreTraining, {}, WORDS[:-1], "of 5 words"),
            (ElmoForPreTraining, {}, None, "no word_vocabulary.txt"),
            (ElmoModel, {}, WORDS, "lacks its weights"),
        )
    ):
        folder, back = tmp_path / str(number), tmp_path / f"{number} back"
        model_class(make_tiny_config(word_vocab_size=6, **fields)).save_pretrained(folder)
        if words is not None:
            WordVocabulary(words).save(folder)
        assert named in " ".join(export_bilm_tf(folder, back)), named
        assert sorted(path.name for path in back.iterdir()) == ["options.json", "weights.hdf5"]


def test_a_model_without_all_weights_or_of_another_kind_is_refused(tmp_path):
    for model in (ElmoModel(make_tiny_config()), ElmoModel(make_tiny_config(num_hidden_layers=1))):
        model.save_pretrained(tmp_path / "model")
    make_tiny_config().save_pretrained(tmp_path / "model")
    assert_refused(ValueError, "bilm.layers.1", export_bilm_tf, tmp_path / "model", tmp_path / "out")
    (tmp_path / "model" / "config.json").write_text('{"model_type": "bert"}')
    assert_refused(ValueError, ("'bert'", "'elmo'"), export_bilm_tf, tmp_path / "model", tmp_path / "out")
    assert_refused(ValueError, "output_dir", export_bilm_tf, tmp_path / "model", tmp_path / "model", True)
    assert not (tmp_path / "out").exists() and (tmp_path / "model" / "config.json").exists()
