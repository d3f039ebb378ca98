"""Figures of layers are averaged and tabled, and which layer leads is said with care."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.hub.scores import averaged, markdown_table, paired_errors, scores_table, what_leads

ACCURACIES = {"most frequent tag": [0.8], "layer 0": [0.81, 0.83], "layer 1": [0.9, 0.94], "layer 2": [0.91, 0.89]}
# Of each two ways.
ERRORS = {way: dict.fromkeys(ACCURACIES, 0.015) for way in ACCURACIES}
RESULTS = {
    "kind": "tags",
    "data": {"train": {"source": "a.conllu", "words": 1200}},
    "repeats": 2,
    "scores": averaged(
        {name: {way: {"accuracy": values} for way, values in ACCURACIES.items()} for name in ("all words", "new words")}
    ),
    "standard_errors": {"all words": ERRORS, "new words": ERRORS},
}


def test_the_table_has_a_row_for_each_way():
    rows = [line.split(" | ") for line in scores_table(RESULTS).splitlines()]
    assert len(rows) == 2 + len(ACCURACIES) and all(len(row) == 3 for row in rows[2:])
    assert "| layer 1 | 92.00 ± 2.83 | 92.00 ± 2.83 |" in scores_table(RESULTS)
    assert "| most frequent tag | 80.00 | 80.00 |" in scores_table(RESULTS)


@pytest.mark.parametrize(
    ("second", "error", "start", "named"),
    [
        ([0.85, 0.85], 0.015, "Layer 1 has 7.00 more than layer 2, which is more than", ("(2.83) and", "(1.50).")),
        ([0.91, 0.89], 0.015, "No layer leads: layer 1 has 2.00 more than layer 2, which is no more", ("(2.83).",)),
        ([0.85, 0.85], 0.08, "No layer leads: layer 1 has 7.00 more", ("no more than the standard error", "(8.00).")),
        ([0.91, 0.89], 0.08, "No layer leads: layer 1 has 2.00 more", ("(2.83) and the standard error", "(8.00).")),
    ],
)
def test_a_layer_leads_where_neither_repeats_nor_the_tests_words_could_turn_it_round(second, error, start, named):
    ways = {**ACCURACIES, "layer 2": second}
    scores = averaged({"all words": {way: {"accuracy": values} for way, values in ways.items()}})
    errors = {way: dict.fromkeys(ways, error) for way in ways}
    said = what_leads({"kind": "tags", "scores": scores, "standard_errors": {"all words": errors}})
    assert said.startswith(start) and all(name in said for name in named) and "needs no model" not in said


def test_a_way_without_a_model_that_is_above_every_layer_is_told():
    scores = {"bag of words": [0.97, 0.95], "most frequent sense": [0.93], "layer 0": [0.5], "layer 1": [0.92]}
    results = averaged({"line": {way: {"accuracy": values} for way, values in scores.items()}})
    errors = {"line": {way: dict.fromkeys(scores, 0.02) for way in scores}}
    said = what_leads({"kind": "senses", "scores": results, "standard_errors": errors})
    assert (
        "The bag of words, which needs no model, has 4.00 more than every layer on line (standard error 2.00)" in said
    )
    assert "most frequent" not in said and "the test's uses" in said


def test_the_standard_error_is_that_of_a_paired_bootstrap():
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 200))
    second = np.round(first + 0.3 * second)
    error = paired_errors({"w": {"a": first, "b": second}})["w"]["b"]["a"]
    drawn = [(second - first)[rng.integers(0, 200, 200)].mean() for _ in range(4000)]
    assert error == pytest.approx(np.std(drawn), rel=0.05)
    # Far below that of each by itself: both find the same words.
    assert paired_errors({"w": {"a": first, "b": first}})["w"]["a"]["b"] == 0


@given(st.lists(st.lists(st.text(st.characters(exclude_characters="\\")), min_size=3, max_size=3), max_size=4))
def test_every_line_of_a_table_has_as_many_columns_as_the_head(rows):
    lines = markdown_table(["a", "b", "c"], rows, names=2).split("\n")
    assert len(lines) == len(rows) + 2 and lines[1] == "| --- | --- | ---: |"
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 4 for line in lines)
