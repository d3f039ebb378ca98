"""Rounds are interleaved; ratios are of rounds."""

import pytest
from benchmark.timing import LEAST_ROUNDS, fastest, median_ratio, summarize, time_interleaved


def test_each_round_calls_all_and_starts_one_later():
    calls = []
    seconds = time_interleaved({name: lambda name=name: calls.append(name) for name in "abc"}, rounds=4)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert {name: len(values) for name, values in seconds.items()} == {"a": 4, "b": 4, "c": 4}


def test_rounds_fill_the_budget_but_not_less_than_the_least():
    assert len(time_interleaved({"a": lambda: None}, budget=0.0)["a"]) == LEAST_ROUNDS
    assert len(time_interleaved({"a": lambda: None}, budget=60.0)["a"]) == 100


def test_the_clock_is_read_when_the_device_is_done():
    events = []
    time_interleaved({"a": lambda: events.append("call")}, rounds=1, synchronize=lambda: events.append("wait"))
    assert events == ["call", "wait", "call", "wait"]


def test_a_slow_round_does_not_move_the_ratio():
    assert median_ratio([2.0, 200.0, 6.0], [1.0, 100.0, 2.0]) == 2.0


def test_the_fastest_has_the_smallest_median():
    seconds = {"a": [1.0, 9.0, 9.0], "b": [3.0, 3.0, 3.0]}
    assert fastest(seconds, ("a", "b", "absent")) == "b" and fastest(seconds, ("absent",)) is None


def test_summary():
    assert summarize({"a": [0.5, 0.25, 1.0]}, words=10) == {
        "a": {"median": 0.5, "fastest": 0.25, "slowest": 1.0, "words_per_second": pytest.approx(20.0)}
    }
