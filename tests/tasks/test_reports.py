"""Of several seeds: which is kept, and what is told of all of them."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.tasks.reports import best_of, summarize

scores = st.lists(st.floats(0, 1), min_size=2, max_size=5)


@given(scores)
def test_the_best_on_the_validation_data_is_kept_and_of_equals_the_first(values):
    runs = {7 + place: {"eval_f1": value, "predict_f1": 1 - value} for place, value in enumerate(values)}
    assert best_of(runs, "f1", True) == best_of(runs, "eval_f1", True) == 7 + values.index(max(values))
    assert best_of(runs, "eval_f1", False) == 7 + values.index(min(values))
    assert best_of({seed: {"predict_f1": run["predict_f1"]} for seed, run in runs.items()}, "f1", True) == 7


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
