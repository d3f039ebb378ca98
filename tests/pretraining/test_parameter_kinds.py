"""Matrices, tables and biases are told apart in each model, and groups are split by them."""

import pytest
import torch
from conftest import make_tiny_config

from hf_elmo import ElmoForPreTraining
from hf_elmo.pretraining.layer_rates import drop_frozen_gradients, parameter_groups
from hf_elmo.pretraining.parameter_kinds import matrices_of, split_groups

TABLE = {"token_inputs": "both", "word_table_size": 4, "word_vector_size": 3}


def make_model(**fields):
    return ElmoForPreTraining(make_tiny_config(word_vocab_size=7, **fields))


def names_of(model, parameters):
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {names[parameter] for parameter in parameters}


def test_matrices_are_those_between_the_layers():
    model = make_model(**TABLE, num_highway_layers=1, num_hidden_layers=1)
    lstms = [f"elmo.bilm.layers.0.{direction}_lstm" for direction in ("forward", "backward")]
    expected = {f"{lstm}.weight_{part}": 4 for lstm in lstms for part in ("ih", "hh")}
    expected |= {f"{lstm}.weight_hr": 1 for lstm in lstms}
    encoder = "elmo.token_encoder"
    expected |= {f"{encoder}.highways.0.{part}.weight": 1 for part in ("carry", "transform")}
    expected[f"{encoder}.projection.weight"] = 1
    names = {parameter: name for name, parameter in model.named_parameters()}
    assert {names[matrix]: count for matrix, count in matrices_of(model).items()} == expected


def test_a_model_without_projections_has_no_matrices_of_theirs():
    model = make_model(projection_size=14, cell_size=14, project_tokens=False, project_hidden=False)
    names = names_of(model, matrices_of(model))
    assert len(names) == 2 * 2 * 2 + 2 and not any("weight_hr" in name or "projection" in name for name in names)


def test_biases_and_tables_do_not_decay():
    model = make_model(**TABLE)
    groups = split_groups(parameter_groups(model, 1e-3, weight_decay=0.1), model)
    spared = [parameter for group in groups if not group["weight_decay"] for parameter in group["params"]]
    wanted = {name for name, parameter in model.named_parameters() if name.endswith("bias") and parameter.requires_grad}
    wanted |= {"elmo.token_encoder.character_embedding.weight", "elmo.token_encoder.word_table.weight"}
    assert names_of(model, spared) == wanted
    assert {group["weight_decay"] for group in groups} == {0.0, 0.1}


@pytest.mark.parametrize("matrix_rate", [None, 0.5])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_each_parameter_stays_in_one_group_of_its_layer(weight_decay, matrix_rate):
    model = make_model()
    whole = parameter_groups(model, 1.0, 0.5, weight_decay)
    parts = split_groups(whole, model, matrix_rate)
    for group in whole:
        of_layer = [part for part in parts if part["name"] == group["name"]]
        assert sorted(id(p) for part in of_layer for p in part["params"]) == sorted(map(id, group["params"]))
        for part in of_layer:
            assert part["lr"] == group["lr"] * (matrix_rate if "num_maps" in part else 1)
    matrices = {parameter for part in parts if "num_maps" in part for parameter in part["params"]}
    assert matrices == (set(matrices_of(model)) if matrix_rate else set())
    if not weight_decay and matrix_rate is None:
        assert parts == whole


def test_all_groups_of_a_layer_rest_together():
    model = make_model()
    groups = split_groups(parameter_groups(model, 1.0, weight_decay=0.1), model, 1.0)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    drop_frozen_gradients(groups, step=2, unfreeze_steps=2)
    trained = {group["name"] for group in groups for parameter in group["params"] if parameter.grad is not None}
    rests = {group["name"] for group in groups for parameter in group["params"] if parameter.grad is None}
    assert trained == {"word_softmax", "layer_2"} and rests == {"layer_1", "token_encoder"}
