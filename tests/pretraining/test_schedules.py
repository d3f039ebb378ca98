"""Schedules are those of transformers, at steps and between them, and wrong ones are named before training."""

import pytest
import torch
from refusals import assert_refused

from hf_elmo.pretraining.recipes import OptimizationArguments
from hf_elmo.pretraining.schedules import build_schedule, check_schedule, move_schedule


def make(**changes):
    return OptimizationArguments(**{"warmup_ratio": 0.1, **changes}).with_recipe()


def rates(num_steps, **changes):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    scheduler = build_schedule(make(**changes), optimizer, num_steps)
    found = []
    for _ in range(num_steps + 1):
        found.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return found


def test_a_stable_schedule_falls_in_its_last_share():
    found = rates(100, lr_scheduler_type="warmup_stable_decay", decay_ratio=0.3)
    assert found[:11] == pytest.approx([step / 10 for step in range(11)])
    assert found[10:70] == [1.0] * 60 and found[72] < 1 and found[100] == pytest.approx(0, abs=1e-9)


def test_what_transformers_takes_for_a_schedule_can_be_given():
    options = '{"decay_type": "linear", "min_lr_ratio": 0.1, "num_decay_steps": 40}'
    found = rates(100, lr_scheduler_type="warmup_stable_decay", lr_scheduler_kwargs=options)
    assert found[60] == 1 and found[80] == pytest.approx(0.55) and found[100] == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["cosine", "linear", "warmup_stable_decay", "constant_with_warmup", "polynomial"])
def test_a_place_between_steps_lies_between_their_rates(name):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    scheduler = build_schedule(make(lr_scheduler_type=name), optimizer, 100)
    expected = rates(100, lr_scheduler_type=name)
    optimizer.step()
    for place in (0, 3, 50, 85, 100):
        move_schedule(scheduler, place)
        assert scheduler.get_last_lr()[0] == expected[place]
    for step in (4, 50, 90):
        move_schedule(scheduler, step + 0.5)
        low, high = sorted(expected[step : step + 2])
        assert low <= scheduler.get_last_lr()[0] <= high


def test_wrong_schedules_are_refused():
    for changes, named in (
        ({"lr_scheduler_type": "sawtooth"}, ("--lr_scheduler_type", "'sawtooth'")),
        ({"lr_scheduler_type": "reduce_lr_on_plateau"}, "'reduce_lr_on_plateau'"),
        ({"lr_scheduler_kwargs": '{"min_ratio": 1}'}, ("--lr_scheduler_kwargs", "min_ratio")),
        ({"lr_scheduler_kwargs": "[1]"}, "--lr_scheduler_kwargs"),
    ):
        assert_refused(ValueError, named, lambda changes: check_schedule(make(**changes)), changes)
