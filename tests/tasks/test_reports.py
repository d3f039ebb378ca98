"""What the screen says of the scores, and of several seeds: which is kept, and what is told of all of them."""

import dataclasses
import statistics

import pytest
from capitals import Capitals
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.tasks.reports import best_of, describe_scores, summarize

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


def test_the_screen_has_the_cards_scores_and_tables_in_percent():
    card = dataclasses.replace(
        Capitals.describe_card(Capitals, {}),
        scores=["f1", "accuracy"],
        tables={"by_class": "By class", "confusion": "Taken for"},
        labels=["a", "b"],
        notes={"test": ["Always a: 60.00 % right."]},
    )
    row = {"precision": 1.0, "recall": 0.5, "f1": 2 / 3, "number": 4}
    runs = {seed: {"predict_f1": f1, "predict_accuracy": 0.5} for seed, f1 in ((1, 0.4), (2, 0.6))}
    results = {
        "data": {"test": {"source": "test.tsv"}},
        **runs[2],
        **summarize(runs, ["predict_f1", "predict_accuracy"]),
    }
    results |= {"predict_by_class": {"a": row, "b": row}, "predict_confusion": [[1, 2, 0], [0, 3, 0], [1, 0, 0]]}
    lines = "\n".join(describe_scores({**results, "unseen_labels": ["c"]}, card)).strip().split("\n")
    assert lines[0] == "test (test.tsv): f1 60.00, accuracy 50.00"
    assert lines[1] == "Mean and deviation of 2 seeds, test: f1 50.00 ± 14.14, accuracy 50.00 ± 0.00"
    assert [line.split() for line in lines[3:5]] == [
        ["precision", "recall", "f1", "number"],
        ["a", "100.00", "50.00", "66.67", "4"],
    ]
    assert [line.split() for line in lines[7:]] == [
        *(["a", "b", "c"], ["a", "1", "2", "0"], ["b", "0", "3", "0"], ["c", "1", "0", "0"]),
        "Always a: 60.00 % right.".split(),
    ]
