"""Promises and what became of them."""

import pytest
from benchmark.cases import BILM, TRAINING_STEP, WORDS_TO_VECTORS
from benchmark.targets import TARGETS, judge, to_json


def test_a_ratio_is_to_the_fastest_peer_by_our_fastest():
    seconds = {"plain": [1.0] * 3, "compiled": [0.5] * 3, "nn.LSTM padded": [3.0] * 3, "nn.LSTM packed": [2.0] * 3}
    lstm, floor = judge(BILM, "original", 32, seconds | {"floor": [0.3] * 3})
    assert (lstm.measured, lstm.target, lstm.ours, lstm.peer, lstm.reached) == (
        4.0,
        2.0,
        "compiled",
        "nn.LSTM packed",
        True,
    )
    assert (floor.measured, floor.target, floor.reached) == (pytest.approx(0.6), 0.8, False)


def test_what_was_not_timed_is_neither_reached_nor_missed():
    outcomes = judge(WORDS_TO_VECTORS, "small", 1, {"plain": [1.0], "AllenNLP": [3.0]})
    assert [(outcome.measured, outcome.reached) for outcome in outcomes] == [(3.0, True), (None, None), (None, None)]
    assert to_json(outcomes)[1]["reached"] is None


def test_only_the_columns_of_the_table_are_judged():
    assert judge(TRAINING_STEP, "small", 1, {"plain": [1.0]}) == judge(BILM, "tiny", 32, {"plain": [1.0]}) == []
    cells = [(target.row, *column) for target in TARGETS for column in target.least]
    assert len(cells) == len(set(cells)) == 3 * 4 + 4 + 2 + 2 + 3 * 2
