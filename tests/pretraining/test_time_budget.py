"""A run that has hours ends within them, its schedule with it, and goes on from a checkpoint as if nothing had been."""

import json
from types import SimpleNamespace

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from run_cases import make_arguments, write_lines
from safetensors.torch import load_file

from hf_elmo.pretraining import lane_trainer, time_budget
from hf_elmo.pretraining.lane_trainer import LaneTrainer
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.run_state import RunCheckpoints
from hf_elmo.pretraining.time_budget import TimeBudget


class Clock:
    """Goes on where it is told to."""

    def __init__(self):
        self.now = 1000.0

    @property
    def seconds(self):
        return self.now - 1000.0


def simulate(budget, clock, seconds_of_step):
    """Take the steps of a run without training anything; the progress after each."""
    step, train_seconds, progress = 0, 0.0, [0.0]
    while not budget.decisions or step < budget.decisions[-1].max_steps:
        if budget.is_used_up(step, train_seconds) and (
            not budget.decisions or step + 1 != budget.decisions[-1].max_steps
        ):
            budget.end_after(step + 1, train_seconds)
        clock.now += seconds_of_step(step)
        train_seconds += seconds_of_step(step)
        step += 1
        progress.append(budget.progress(step))
        if budget.is_due(step):
            budget.decide(step, train_seconds)
    return step, progress


def test_an_even_speed_uses_the_time():
    clock = Clock()
    budget = TimeBudget(1000.0, clock, evaluation_seconds=5.0)
    steps, progress = simulate(budget, clock, lambda step: 0.25)
    assert steps == (1000 - 10 - 10) * 4 and clock.seconds == 980
    assert progress[-1] == 1 and progress[steps // 2] == pytest.approx(0.5, abs=0.01)
    assert 20 <= len(budget.decisions) <= 25


@examples(15)
@given(
    total=st.floats(20, 1e5),
    speeds=st.lists(st.floats(0.02, 0.3), min_size=1, max_size=9),
    evaluation_seconds=st.floats(0, 3),
)
def test_a_changing_speed_keeps_to_the_time_and_the_schedule_never_turns_back(total, speeds, evaluation_seconds):
    clock = Clock()
    budget = TimeBudget(total, clock, most_steps=5_000, evaluation_seconds=evaluation_seconds)
    # It changes some nine times in the run.
    steps, progress = simulate(budget, clock, lambda step: speeds[min(len(speeds) - 1, int(9 * clock.seconds / total))])
    assert clock.seconds + 2 * evaluation_seconds <= total and steps >= 1
    assert progress == sorted(progress)
    assert progress[-1] == 1 and steps == budget.decisions[-1].max_steps


def test_the_time_can_be_over_before_anything_is_settled():
    clock = Clock()
    clock.now += 50
    budget = TimeBudget(10.0, clock)
    assert simulate(budget, clock, lambda step: 1.0) == (1, [0.0, 1.0])


def test_steps_that_are_bounded_end_earlier_and_the_schedule_with_them():
    clock = Clock()
    steps, progress = simulate(TimeBudget(1000.0, clock, most_steps=100), clock, lambda step: 0.25)
    assert steps == 100 and progress[-1] == 1


@pytest.fixture
def clock(monkeypatch):
    """A step takes half a second, later a whole one, an evaluation two; nothing else takes time."""
    clock = Clock()
    for module in (time_budget, lane_trainer):
        monkeypatch.setattr(
            module, "time", SimpleNamespace(monotonic=lambda: clock.now, perf_counter=lambda: clock.now)
        )
    step, evaluate = LaneTrainer._train_step, LaneTrainer.evaluate

    def slow_step(trainer, windows):
        clock.now += 0.5 if trainer.step < 40 else 1.0
        return step(trainer, windows)

    def slow_evaluate(trainer, cold=False):
        clock.now += 2.0
        return evaluate(trainer, cold)

    monkeypatch.setattr(LaneTrainer, "_train_step", slow_step)
    monkeypatch.setattr(LaneTrainer, "evaluate", slow_evaluate)
    return clock


def make_timed(tmp_path, name, **changes):
    flags = {"max_steps": -1, "max_hours": 60 / 3600, "logging_steps": 4, "optim": "adamw", "skip_baselines": True}
    return make_arguments(tmp_path, output_dir=str(tmp_path / name), **{**flags, **changes})


def test_a_run_ends_in_time_with_its_schedule(tmp_path, clock):
    write_lines(tmp_path)
    results = run_pretraining(make_timed(tmp_path, "out"), report=lambda line: None)
    assert 55 < clock.seconds <= 60 and results["hours"] == pytest.approx(clock.seconds / 3600, abs=1e-4)
    steps = results["evaluations"][-1]["step"]
    assert results["settings"]["max_steps"] == steps == results["settled_by_the_clock"][-1]["max_steps"]
    # By the first speed there would have been more steps.
    assert 50 < steps < results["settled_by_the_clock"][0]["max_steps"]
    rates = [entry["learning_rate"] for entry in results["history"]]
    assert max(rates) > 5e-3 and rates[-1] < 1e-6 and rates[3:] == sorted(rates[3:], reverse=True)
    assert results["evaluations"][0]["seconds"] == 2.0
    assert (tmp_path / "out" / "model.safetensors").exists() and results["num_legs"] == 1


@pytest.mark.parametrize("changes", [{}, {"early_stopping_patience": 9}], ids=["one halfway", "ten"])
def test_evaluations_that_cost_much_come_so_many_times_whatever_the_clock_says(tmp_path, clock, monkeypatch, changes):
    write_lines(tmp_path)
    step = LaneTrainer._train_step

    def slow_at_first(trainer, windows):
        clock.now += 3.0 if trainer.step < 5 else 0.0
        return step(trainer, windows)

    monkeypatch.setattr(LaneTrainer, "_train_step", slow_at_first)
    given = make_timed(tmp_path, "out", max_hours=120 / 3600, logging_steps=None, save_steps=0, **changes)
    results = run_pretraining(given, report=lambda line: None)
    assert 110 < clock.seconds <= 120
    assert len(results["evaluations"]) == (11 if changes else 3) and len(results["history"]) <= 100
    steps = results["settings"]["max_steps"]
    assert steps > 2 * results["settled_by_the_clock"][0]["max_steps"]


class Killed(Exception):
    pass


@pytest.mark.parametrize("killed_at", [3, 47])
def test_a_run_that_was_killed_takes_the_same_steps(tmp_path, clock, monkeypatch, killed_at):
    write_lines(tmp_path)
    whole = run_pretraining(make_timed(tmp_path, "whole"), report=lambda line: None)
    save = RunCheckpoints.save

    def save_and_die(checkpoints, state, best_step):
        target = save(checkpoints, state, best_step)
        if state.step >= killed_at:
            raise Killed
        return target

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(RunCheckpoints, "save", save_and_die)
        clock.now = 1000.0
        run_pretraining(make_timed(tmp_path, "parts"), report=lambda line: None)
    # What it stood still for is not counted.
    clock.now += 5000.0
    parts = run_pretraining(make_timed(tmp_path, "parts", resume_from_checkpoint="last"), report=lambda line: None)
    assert parts["num_legs"] == 2 and parts["hours"] == whole["hours"]
    for key in ("settled_by_the_clock", "evaluations", "history", "settings"):
        assert json.dumps(parts[key]) == json.dumps(whole[key])
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts")]
    assert all(torch.equal(weights[1][name], value) for name, value in weights[0].items())


def test_a_run_goes_on_with_more_time(tmp_path, clock):
    write_lines(tmp_path)
    stopped = run_pretraining(make_timed(tmp_path, "out", save_total_limit=0), report=lambda line: None)
    last = stopped["settings"]["max_steps"]
    middle = sorted(int(path.name.partition("-")[2]) for path in (tmp_path / "out").glob("checkpoint-*"))[-4]
    more = make_timed(
        tmp_path,
        "more",
        max_hours=90 / 3600,
        resume_from_checkpoint=str(tmp_path / "out" / f"checkpoint-{middle}"),
    )
    results = run_pretraining(more, report=lambda line: None)
    assert results["settings"]["max_steps"] > last + 20 and 80 / 3600 < results["hours"] <= 90 / 3600


def test_what_contradicts_the_clock_is_refused(tmp_path, clock):
    write_lines(tmp_path)
    for changes, named in (
        ({"max_hours": 0.0}, "--max_hours is 0.0"),
        ({"num_train_epochs": 2.0}, ("--max_hours", "--num_train_epochs")),
    ):
        given = make_timed(tmp_path, "out", **changes)
        assert_refused(ValueError, named, run_pretraining, given, report=lambda line: None)
    run_pretraining(make_timed(tmp_path, "out", max_steps=8), report=lambda line: None)
    given = make_timed(tmp_path, "out", max_steps=8, max_hours=None, resume_from_checkpoint="last")
    assert_refused(ValueError, "--max_hours", run_pretraining, given, report=lambda line: None)
