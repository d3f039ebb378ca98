"""Rounds are interleaved; ratios are of rounds."""

import pytest
from benchmark.timing import LEAST_ROUNDS, fastest, median_ratio, summarize, time_interleaved


def order_of_calls(rounds: int) -> list[str]:
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in "abc"}
    seconds = time_interleaved(functions, rounds=rounds)
    assert {name: len(values) for name, values in seconds.items()} == dict.fromkeys("abc", rounds)
    return ["".join(calls[start : start + 3]) for start in range(0, len(calls), 3)]


def test_each_round_calls_all_and_each_comes_behind_each_other():
    warm_up, *rounds = order_of_calls(30)
    assert warm_up == "abc" and {"".join(sorted(order)) for order in rounds} == {"abc"}
    neighbours = [order[place : place + 2] for order in rounds for place in (0, 1)]
    assert all(neighbours.count(pair) >= 5 for pair in ("ab", "ba", "bc", "cb", "ac", "ca"))


def test_the_orders_are_those_of_every_run():
    assert order_of_calls(10) == order_of_calls(10)


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
