"""Calls and checkouts take turns; ratios are of rounds."""

import argparse

import pytest
from benchmark import timing
from benchmark.timing import LEAST_ROUNDS, MOST_ROUNDS, compare, measure_checkouts, summarize, time_interleaved

# In place of a benchmark: what PYTHONPATH and its flags were.
STUB = """
import json, os, sys
print("chatter")
print(json.dumps([{"python_path": os.environ["PYTHONPATH"], "flags": sys.argv[1:]}]))
"""


def cell(**seconds):
    return {"case": "biLM", "size": "small", "batch_size": 32, "words": 10, "seconds": seconds}


def order_of_calls(budget):
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in "abc"}
    seconds = time_interleaved(functions, budget)
    rounds = ["".join(calls[start : start + 3]) for start in range(0, len(calls), 3)]
    assert {name: len(values) for name, values in seconds.items()} == dict.fromkeys("abc", len(rounds))
    return rounds


def test_each_round_calls_all_and_each_comes_behind_each_other():
    rounds = order_of_calls(60.0)
    assert len(rounds) == MOST_ROUNDS and {"".join(sorted(order)) for order in rounds} == {"abc"}
    neighbors = [order[place : place + 2] for order in rounds for place in (0, 1)]
    assert all(neighbors.count(pair) >= 15 for pair in ("ab", "ba", "bc", "cb", "ac", "ca"))
    assert order_of_calls(60.0) == rounds
    assert len(order_of_calls(0.0)) == LEAST_ROUNDS


def test_checkouts_take_turns_each_with_its_own_package(tmp_path, capsys):
    (tmp_path / "stub.py").write_text(STUB)
    arguments = argparse.Namespace(rounds=2, other_checkout=str(tmp_path))
    cells = measure_checkouts(str(tmp_path / "stub.py"), ["--sizes", "tiny"], arguments)
    flags = ["--sizes", "tiny", "--worker", "ours"]
    assert cells == {
        "this": [[{"python_path": str(timing.ROOT), "flags": flags}]] * 2,
        "other": [[{"python_path": str(tmp_path), "flags": flags}]] * 2,
    }
    said = [line.split(", ")[1] for line in capsys.readouterr().err.splitlines()]
    assert said == ["this checkout", "other checkout", "other checkout", "this checkout"]
    alone = measure_checkouts(str(tmp_path / "stub.py"), [], argparse.Namespace(rounds=1, other_checkout=None))
    assert alone == {"this": [[{"python_path": str(timing.ROOT), "flags": ["--worker", "all"]}]]}


def test_a_worker_refuses_the_package_of_another_checkout(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(timing.ROOT))
    timing.check_package()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(SystemExit, match="instead of"):
        timing.check_package()


def test_a_ratio_is_the_median_of_the_rounds_and_more_than_one_where_this_is_faster():
    these = [[cell(plain=[1.0, 1.0, 9.0], new=[1.0])], [cell(plain=[100.0])], [cell(plain=[1.0])]]
    others = [[cell(plain=[2.0])], [cell(plain=[150.0])], [cell(plain=[3.0])]]
    (row,) = compare(these, others)
    assert (row["case"], row["function"], row["ratio"], row["least"], row["most"]) == ("biLM", "plain", 2.0, 1.5, 3.0)
    (found,) = summarize([[cell(plain=[1.0, 5.0])], [cell(plain=[2.0])]])
    assert found["functions"]["plain"] == {
        **{"median": 2.0, "fastest": 1.0, "slowest": 5.0, "calls": 3, "words_per_second": 5.0}
    }
