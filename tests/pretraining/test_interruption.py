"""Signals while a run is on: the first is raised or noted, a later one ends the process."""

import signal
import threading

import pytest

from hf_elmo.pretraining import interruption
from hf_elmo.pretraining.interruption import SIGNALS, Interruption, Stopped


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(interruption.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_outside_of_the_loop_a_signal_stops_at_once(number, code):
    with pytest.raises(Stopped) as stopped, Interruption():
        signal.raise_signal(number)
    assert stopped.value.exit_code == code and stopped.value.step is None


@pytest.mark.parametrize("number", SIGNALS)
def test_in_the_loop_the_first_signal_is_noted_and_a_later_one_ends_the_process(monkeypatch, clock, capfd, number):
    ended = []
    monkeypatch.setattr(interruption.os, "_exit", ended.append)
    with Interruption() as heeded, heeded.noted():
        signal.raise_signal(number)
        assert heeded.signal_number == number
        assert "checkpoint" in capfd.readouterr().err
        # A launcher passes on what the whole group of processes got.
        signal.raise_signal(number)
        assert ended == [] and capfd.readouterr().err == ""
        clock[0] += 5
        signal.raise_signal(number)
    assert ended == [128 + number]


def test_what_was_there_before_comes_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interruption():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_of_the_main_thread_nothing_is_heeded():
    failures = []

    def enter():
        try:
            with Interruption():
                pass
        except ValueError as error:
            failures.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert failures == []
