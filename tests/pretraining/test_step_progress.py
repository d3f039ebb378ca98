"""Steps are shown by a line every half minute where there is no terminal, and by a bar where there is one."""

import io

import pytest

from hf_elmo.pretraining import step_progress
from hf_elmo.pretraining.step_progress import StepProgress
from hf_elmo.pretraining.time_budget import RunClock, TimeBudget


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(step_progress.time, "monotonic", lambda: now[0])
    return now


def run(clock, num_steps, seconds_per_step, **options):
    with StepProgress(num_steps, **options) as progress:
        for step in range(options.get("step", 0) + 1, num_steps + 1):
            clock[0] += seconds_per_step
            progress.update(step, 5.25, 1234.5)


def test_a_file_gets_a_line_every_half_minute_and_one_at_the_end(capsys, clock):
    run(clock, 100, 1.0)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"pre-training: step {step} of 100" for step in (30, 60, 90, 100)]
    assert lines[1] == "pre-training: step 60 of 100, loss 5.250, 1,234 words/s, 01:00 so far, 00:40 left"
    assert all(line.isprintable() for line in lines)


def test_the_time_left_goes_by_the_steps_of_this_process(capsys, clock):
    run(clock, 50, 10.0, step=44)
    first, *_ = capsys.readouterr().err.splitlines()
    assert "step 47 of 50" in first and "00:30 left" in first


def test_with_hours_a_line_says_how_many_are_used(capsys, clock):
    budget = TimeBudget(7200.0, RunClock())
    budget.clock.resume(3000.0)
    with StepProgress(-1, budget=budget) as progress:
        for step, num_steps in ((1, -1), (2, 80), (3, 95)):
            clock[0] += 40.0
            progress.update(step, 5.25, 1234.5, num_steps)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        f"pre-training: step {steps}" for steps in ("1", "2 of 80", "3 of 95")
    ]
    assert lines[2].endswith("1,234 words/s, 0.87 of 2.00 hours")


@pytest.mark.parametrize("options", [{"shown": False}, {"step": 100}])
def test_where_there_is_nothing_to_show_nothing_is(capsys, clock, options):
    run(clock, 100, 1.0, **options)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with StepProgress(3) as progress:
        progress.update(1, 5.25, 1234.5)
        progress.clear()
    assert "1/3" in terminal.getvalue() and "loss 5.250" in terminal.getvalue()
