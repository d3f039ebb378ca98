"""Several seeds: which is kept, and what is told of all of them."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.tasks.reports import best_of, describe_seeds, summarize

scores = st.lists(st.floats(0, 1), min_size=2, max_size=5)


@given(scores)
def test_the_best_on_the_validation_data_is_kept_and_of_equals_the_first(values):
    runs = [{"eval_f1": value, "predict_f1": 1 - value} for value in values]
    assert best_of(runs, "f1", True) == best_of(runs, "eval_f1", True) == values.index(max(values))
    assert best_of(runs, "eval_f1", False) == values.index(min(values))
    assert best_of([{"predict_f1": value} for value in values], "f1", True) == 0


@given(scores)
def test_mean_and_deviation_are_those_of_a_sample(values):
    runs = {
        7 + place: {"predict_f1": value, "epoch": 3.0, "layer_shares": [[value, 1 - value]]}
        for place, value in enumerate(values)
    }
    summary = summarize(runs, ["predict_f1"])
    assert [row["seed"] for row in summary["seeds"]] == list(range(7, 7 + len(values)))
    assert [row["layer_shares"][0][0] for row in summary["seeds"]] == values
    assert summary["mean"] == {"predict_f1": pytest.approx(statistics.mean(values))}
    assert summary["deviation"] == {"predict_f1": pytest.approx(statistics.stdev(values))}


def test_a_single_seed_has_no_deviation():
    assert summarize({7: {"predict_f1": 0.4}}, ["predict_f1"])["deviation"] == {"predict_f1": None}


def test_a_line_for_each_split_that_was_scored():
    summary = summarize({1: {"predict_f1": 0.4}, 2: {"predict_f1": 0.6}}, ["predict_f1"])
    line = describe_seeds(summary, {"validation": "eval", "test": "predict"}, ("precision", "f1"))
    assert "\n" not in line and "2 seeds, test: f1 50.00 ± 14.14" in line
