"""Each trained parameter has a group, its rate and its step: what rests does not move."""

import math

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from transformers import get_scheduler

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.pretraining.lanes import fill_lanes
from hf_elmo.pretraining.layer_rates import drop_frozen_gradients, frozen_groups, parameter_groups
from hf_elmo.pretraining.objectives import FullSoftmaxObjective
from hf_elmo.text.vocabulary import WordVocabulary

WORDS = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on"])
ADAPTIVE = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4], "adaptive_softmax_div_value": 2}


def make_model(**fields):
    """With other numbers than any initialisation gives, also where that gives zeros."""
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(WORDS), **fields))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    return model


@pytest.mark.parametrize("fields", [{}, {"share_word_softmax": False}, ADAPTIVE], ids=["shared", "two", "adaptive"])
def test_each_trained_parameter_is_in_one_group(fields):
    model = make_model(**fields, num_hidden_layers=3)
    groups = parameter_groups(model, 1e-3)
    assert [group["name"] for group in groups] == ["word_softmax", "layer_3", "layer_2", "layer_1", "token_encoder"]
    found = [id(parameter) for group in groups for parameter in group["params"]]
    wanted = [id(parameter) for parameter in model.parameters() if parameter.requires_grad]
    assert sorted(found) == sorted(wanted)
    assert {id(parameter) for parameter in groups[1]["params"]} == {
        id(parameter) for parameter in model.elmo.bilm.layers[2].parameters()
    }


def test_rates_fall_from_layer_to_layer_unless_they_are_named():
    model = make_model()
    rates = {group["name"]: group["lr"] for group in parameter_groups(model, 1.0, layer_decay=0.5)}
    assert rates == {"word_softmax": 1.0, "layer_2": 0.5, "layer_1": 0.25, "token_encoder": 0.125}
    groups = parameter_groups(model, 1.0, 0.5, 0.1, {"layer_2": 3, "token_encoder": 0})
    assert [group["lr"] for group in groups] == [1.0, 3, 0.25, 0]
    assert {group["weight_decay"] for group in groups} == {0.1}


def test_a_part_that_is_fixed_has_no_group_and_does_not_count_as_a_layer_less():
    model = make_model()
    model.elmo.bilm.layers[1].requires_grad_(False)
    rates = {group["name"]: group["lr"] for group in parameter_groups(model, 1.0, layer_decay=0.5)}
    assert rates == {"word_softmax": 1.0, "layer_1": 0.25, "token_encoder": 0.125}


def test_wrong_rates_are_refused():
    for arguments, named in (
        ({"layer_decay": 0.0}, "--layer_learning_rate_decay is 0.0"),
        ({"layer_decay": math.nan}, "--layer_learning_rate_decay is nan"),
        ({"learning_rates": {"layer_3": 1e-3}}, ("'layer_3'", "word_softmax, layer_2, layer_1, token_encoder")),
        ({"learning_rates": {"layer_1": "high"}}, ("--group_learning_rates", "'high'", "'layer_1'")),
        ({"learning_rates": {"layer_1": -1e-3}}, ("--group_learning_rates", "-0.001", "'layer_1'")),
        ({"learning_rates": {"layer_1": True}}, ("--group_learning_rates", "True", "'layer_1'")),
    ):
        assert_refused(ValueError, named, parameter_groups, make_model(), 1e-3, **arguments)


def test_a_schedule_scales_the_rate_of_each_group():
    optimizer = torch.optim.AdamW(parameter_groups(make_model(), 1.0, layer_decay=0.5))
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=10)
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.5, 0.25, 0.125, 0.0625]


# Unfreezing


def test_groups_join_one_after_another_from_the_top():
    rests = [list(frozen_groups(step, unfreeze_steps=3, num_groups=4)) for step in range(11)]
    assert rests == [[1, 2, 3]] * 3 + [[2, 3]] * 3 + [[3]] * 3 + [[]] * 2
    assert list(frozen_groups(0, unfreeze_steps=0, num_groups=4)) == []


@given(step=st.integers(0, 10**9), unfreeze_steps=st.integers(1, 10**6), num_groups=st.integers(1, 50))
def test_the_upper_groups_are_trained_and_none_rests_again(step, unfreeze_steps, num_groups):
    now, later = (set(frozen_groups(at, unfreeze_steps, num_groups)) for at in (step, step + 1))
    assert later <= now < set(range(num_groups))
    assert not set(frozen_groups(unfreeze_steps * (num_groups - 1), unfreeze_steps, num_groups))


@pytest.mark.parametrize(
    "make_optimizer",
    [torch.optim.AdamW, lambda groups: torch.optim.Adagrad(groups, initial_accumulator_value=1.0)],
    ids=["AdamW", "Adagrad"],
)
def test_what_rests_stays_bit_by_bit_until_its_step_and_then_moves(make_optimizer):
    objective = FullSoftmaxObjective(make_model()).train()
    window = next(fill_lanes([["the", "cat"], ["sat", "on"]], ElmoCharTokenizer(), WORDS, 2, 4))
    groups = parameter_groups(objective.model, 1e-2, layer_decay=0.9, weight_decay=0.1)
    optimizer = make_optimizer(groups)
    start = [[parameter.clone() for parameter in group["params"]] for group in groups]
    for step in range(7):
        objective(window).mean.backward()
        assert all(parameter.grad is not None for group in groups for parameter in group["params"])
        drop_frozen_gradients(optimizer.param_groups, step, unfreeze_steps=2)
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        num_trained = 1 + step // 2
        for place, group in enumerate(optimizer.param_groups):
            for parameter, before in zip(group["params"], start[place], strict=True):
                assert torch.equal(parameter, before) == (place >= num_trained)
                steps_taken = int(optimizer.state[parameter]["step"]) if parameter in optimizer.state else 0
                assert steps_taken == max(0, step + 1 - 2 * place)
    assert num_trained == len(groups)
