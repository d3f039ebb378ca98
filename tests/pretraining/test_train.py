"""The loop learns, counts right, evaluates each word once, hears signals and ends by the clock."""

import copy
import itertools
import signal
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from run_cases import TINY, make_arguments, write_lines
from tolerances import REORDERED_FLOAT32

from hf_elmo import ElmoState
from hf_elmo.pretraining import train as module
from hf_elmo.pretraining.lanes import LaneFiller, reset_lanes
from hf_elmo.pretraining.objective import LaneObjective
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.train import SIGNALS, LaneTrainer, RunClock, StopSignals

PATTERN = ["the cat sat on the mat .", "a dog ran to the park and back ."]

# Another test's precision is not this one's.
pytestmark = pytest.mark.usefixtures("accelerate_anew")


def run(folder, **changes):
    changes = {"per_device_train_batch_size": 4, "learning_rate": 2e-2, "num_negative_samples": 6, **changes}
    changes = {"config_overrides": TINY.replace("8", "16"), "skip_baselines": True, "save_steps": 0, **changes}
    return run_pretraining(make_arguments(folder, **changes), report=lambda line: None)


class GoneOn(Exception):
    """A run got as far as its first step."""


@pytest.fixture
def make_trainer(tmp_path, monkeypatch):
    """The trainer of a run, before its first step."""

    def make(**changes):
        write_lines(tmp_path, PATTERN)
        made = []

        def keep(trainer):
            made.append(trainer)
            raise GoneOn

        with monkeypatch.context() as patch, pytest.raises(GoneOn):
            patch.setattr(LaneTrainer, "train", keep)
            run(tmp_path, **changes)
        return made[0]

    return make


@pytest.mark.parametrize("objective", ["full", "sampled"])
def test_it_learns_a_text_by_heart(tmp_path, objective):
    text = write_lines(tmp_path, PATTERN)
    results = run(tmp_path, max_steps=80, objective=objective, validation_file=[str(text)])
    assert results["evaluations"][0]["mean"] > 10
    assert results["perplexity"]["mean"] < (3 if objective == "full" else 8)
    assert results["perplexity"]["num_targets"] == 20 * sum(len(line.split()) + 1 for line in PATTERN)
    history = results["history"]
    assert [entry["step"] for entry in history] == [*range(4, 81, 4)]
    assert history[-1]["words"] == results["words_trained"]
    if objective == "sampled":
        # A few negatives make an easier task than all words do.
        assert sum(entry["sampled_loss"] - entry["full_loss"] for entry in history) < 0


def test_a_step_follows_the_mean_loss_of_all_its_words(make_trainer, monkeypatch):
    trainer = make_trainer(max_steps=1, gradient_accumulation_steps=2, reset_probability=0.0)
    model, windows = copy.deepcopy(trainer.bare_objective.model), list(itertools.islice(trainer._windows(), 2))
    trainer.filler.load_state_dict(LaneFiller(trainer.tokenizer, trainer.vocabulary, 4, 5).state_dict())
    found = {}

    def keep_gradients(trainer):
        for name, parameter in trainer.bare_objective.model.named_parameters():
            found[name] = None if parameter.grad is None else parameter.grad.clone()
        return 0.0

    monkeypatch.setattr(LaneTrainer, "_clip_gradients", keep_gradients)
    trainer.train()
    objective, total, state = LaneObjective(model).train(), 0.0, None
    for window in windows:
        sums, state = objective(window, state and state.detach())
        total = total + sums.sum()
    (total / sum(2 * window.num_targets for window in windows)).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=REORDERED_FLOAT32)


def test_some_lanes_start_from_zeros_by_chance(tmp_path, monkeypatch):
    forward, starts = LaneObjective.forward, []

    def watched(objective, window, state=None, negatives=None):
        if objective.training and state is not None:
            starts.extend((state.hidden == 0).flatten(1).all(dim=1).tolist())
        return forward(objective, window, state, negatives)

    monkeypatch.setattr(LaneObjective, "forward", watched)
    write_lines(tmp_path)
    run(tmp_path, max_steps=50, reset_probability=0.25)
    assert len(starts) == 4 * 49
    assert 0.15 < sum(starts) / len(starts) < 0.35


def test_the_state_of_lanes_that_start_anew_is_zeros():
    state = ElmoState(hidden=torch.randn(3, 2, 2, 4), cell=torch.randn(3, 2, 2, 5))
    never = torch.zeros(3, dtype=torch.bool)
    assert reset_lanes(state, never) is state
    assert reset_lanes(None, ~never) is None
    found = reset_lanes(state, torch.tensor([False, True, False]))
    for before, after in ((state.hidden, found.hidden), (state.cell, found.cell)):
        assert torch.equal(after[[0, 2]], before[[0, 2]]) and not after[1].any()


@pytest.mark.parametrize("reset_state", ["never", "epoch", "document"])
def test_states_are_reset_when_asked(tmp_path, reset_state):
    """Sentences that are documents have the perplexity that each has alone, from zeros."""
    text = write_lines(tmp_path, [f"{line}\n" for line in PATTERN])
    results = run(tmp_path, max_steps=30, reset_state=reset_state, validation_file=[str(text)])
    found, alone = results["perplexity"], results["perplexity_cold"]
    assert found["num_targets"] == alone["num_targets"]
    assert (found["mean"] == pytest.approx(alone["mean"], rel=1e-5)) is (reset_state == "document")


def test_the_sampled_and_the_full_loss_of_a_window_are_measured_without_a_trace(make_trainer):
    trainer = make_trainer(objective="sampled")
    window, trainer.train_seconds = next(trainer._windows()), 1.0
    drawn, random = trainer.sampler.generator.get_state(), torch.get_rng_state()
    trainer._log(window, None)
    assert torch.equal(trainer.sampler.generator.get_state(), drawn)
    assert torch.equal(torch.get_rng_state(), random)
    with torch.no_grad():
        objective = trainer.bare_objective.eval()
        sums = [objective(window, None, negatives)[0] for negatives in (trainer.sampler.draw_pair(), None)]
    found = [trainer.history[0][name] for name in ("sampled_loss", "full_loss")]
    assert found == pytest.approx([each.mean().item() / window.num_targets for each in sums], abs=1e-5)


def test_an_evaluation_beyond_all_numbers_says_that_the_run_has_diverged(make_trainer):
    trainer = make_trainer()
    with torch.no_grad():
        trainer.bare_objective.model.word_softmax.weight.mul_(1e6)
    with pytest.raises(FloatingPointError, match=r"at step 0 .*diverged.*out/checkpoint-N\) with a lower"):
        trainer.evaluate()


# Signals


@pytest.mark.parametrize("number", SIGNALS)
def test_in_the_loop_the_first_signal_is_noted_and_a_later_one_ends_the_process(monkeypatch, capfd, number):
    now, ended = [100.0], []
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(module.os, "_exit", ended.append)
    with StopSignals() as signals:
        signal.raise_signal(number)
        assert signals.number == number
        assert "checkpoint" in capfd.readouterr().err
        # A launcher passes on what the whole group of processes got.
        signal.raise_signal(number)
        assert ended == [] and capfd.readouterr().err == ""
        now[0] += 5
        signal.raise_signal(number)
    assert ended == [128 + number]


def test_handlers_come_back_and_ignored_signals_stay_ignored():
    before = [signal.getsignal(number) for number in SIGNALS]
    with StopSignals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before[0])
    with ThreadPoolExecutor(1) as pool:
        # Python would refuse a handler there.
        pool.submit(StopSignals().__enter__).result()


# The clock


def test_a_clock_counts_earlier_legs_and_keeps_time_for_the_end(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    clock = RunClock(max_hours=1.0, earlier_seconds=600.0)
    now[0] += 300
    assert clock.seconds == 900 and clock.fraction() == pytest.approx(900 / (3600 - 36))
    clock.evaluation_seconds, clock.checkpoint_seconds = 50.0, 232.0
    assert clock.fraction() == pytest.approx(900 / 3000) and not clock.is_used_up()
    now[0] += 2091
    clock.step_seconds = 5.0
    assert not clock.is_used_up()
    now[0] += 2
    assert clock.is_used_up() and clock.fraction() < 1
    now[0] += 9999
    assert clock.fraction() == 1
    assert RunClock().fraction() == 0 and not RunClock().is_used_up()


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """A step takes half a second, later a whole one, an evaluation two; nothing else takes time."""
    write_lines(tmp_path)
    clock = SimpleNamespace(now=1000.0)
    times = SimpleNamespace(monotonic=lambda: clock.now, perf_counter=lambda: clock.now)
    monkeypatch.setattr(module, "time", times)
    step, evaluate = LaneTrainer._take_step, LaneTrainer.evaluate

    def slow_step(trainer, windows):
        clock.now += 0.5 if trainer.step < 40 else 1.0
        return step(trainer, windows)

    def slow_evaluate(trainer, zero_state=False):
        clock.now += 2.0
        return evaluate(trainer, zero_state)

    monkeypatch.setattr(LaneTrainer, "_take_step", slow_step)
    monkeypatch.setattr(LaneTrainer, "evaluate", slow_evaluate)
    return clock


def run_timed(tmp_path, name, **changes):
    changes = {"max_steps": -1, "max_hours": 60 / 3600, "optim": "adamw", "skip_baselines": True, **changes}
    arguments = make_arguments(tmp_path, output_dir=str(tmp_path / name), **changes)
    return run_pretraining(arguments, report=lambda line: None)


def test_a_run_ends_in_time_with_its_schedule(tmp_path, clock):
    results = run_timed(tmp_path, "out")
    seconds = clock.now - 1000
    assert 55 < seconds <= 60 and results["hours"] == pytest.approx(seconds / 3600, abs=1e-4)
    # Forty in twenty seconds, and the rest with two evaluations before and two kept for the end.
    assert 60 < results["settings"]["max_steps"] == results["evaluations"][-1]["step"] < 75
    assert len(results["evaluations"]) == 3
    rates = [entry["learning_rate"] for entry in results["history"]]
    assert max(rates) > 5e-3 and rates[-1] < 1e-4 and rates[3:] == sorted(rates[3:], reverse=True)
    assert (tmp_path / "out" / "model.safetensors").exists() and results["num_legs"] == 1
    # However fast the steps are, there are so many evaluations and entries of the history.
    results = run_timed(tmp_path, "more", max_hours=120 / 3600, save_steps=0, early_stopping_patience=9)
    assert len(results["evaluations"]) == 11 and 50 < len(results["history"]) <= 100


def test_steps_that_are_bounded_end_earlier_and_the_schedule_with_them(tmp_path, clock):
    results = run_timed(tmp_path, "out", max_steps=12, eval_steps=6)
    assert results["settings"]["max_steps"] == results["evaluations"][-1]["step"] == 12
    assert clock.now - 1000 < 15 and results["history"][-1]["learning_rate"] < 1e-3
    # Time can be over before the first step.
    results = run_timed(tmp_path, "short", max_hours=1 / 3600)
    assert results["settings"]["max_steps"] == 1 and len(results["evaluations"]) == 2


def test_a_run_resumes_with_its_hours_or_with_more(tmp_path, clock):
    run_timed(tmp_path, "out", save_total_limit=0, save_steps=10)
    checkpoint, continued = str(tmp_path / "out" / "checkpoint-20"), []
    for name, hours in (("same", 60 / 3600), ("more", 90 / 3600)):
        # What it stood still for is not counted.
        clock.now += 5000.0
        results = run_timed(tmp_path, name, max_hours=hours, resume_from_checkpoint=checkpoint)
        assert results["resumed_from_steps"] == [20] and 0.9 * hours < results["hours"] <= hours
        rates = [entry["learning_rate"] for entry in results["history"] if entry["step"] > 20]
        assert rates[-1] < 1e-4
        continued.append(rates[0])
    assert continued[0] < continued[1]
