"""Promises and what became of them."""

import pytest
from benchmark.cases import BILM, TRAINING_STEP, WORDS_TO_VECTORS
from benchmark.targets import TARGETS, judge, to_json


def test_a_ratio_is_to_the_fastest_peer_by_our_fastest():
    seconds = {"plain": [1.0] * 3, "compiled": [0.5] * 3, "nn.LSTM padded": [3.0] * 3, "nn.LSTM packed": [2.0] * 3}
    floor, lstm = judge(BILM, "original", 32, seconds | {"floor": [0.3] * 3})
    assert (lstm.measured, lstm.target, lstm.ours, lstm.peer, lstm.reached) == (
        4.0,
        None,
        "compiled",
        "nn.LSTM packed",
        None,
    )
    assert (floor.measured, floor.target, floor.reached) == (pytest.approx(0.6), 0.65, False)


def test_one_sentence_is_judged_by_the_reading_of_weights_and_by_what_is_outside_of_the_bilm():
    seconds = {"compiled": [1.0], "floor": [0.1], "floor with weights read": [0.95], "whole model, auto": [1.3]}
    outcomes = {outcome.row: outcome for outcome in judge(BILM, "small", 1, seconds)}
    assert set(outcomes) == {
        "biLM alone, share of the floor with weights read",
        "words to vectors, share that the biLM alone takes",
    }
    assert all(outcome.reached for outcome in outcomes.values())
    slower = judge(BILM, "small", 1, seconds | {"whole model, auto": [1.5], "compiled": [1.0]})
    assert [outcome.reached for outcome in slower] == [True, False]


@pytest.mark.parametrize(("seconds", "reached"), [(0.5, True), (1.1, True), (1.2, False)])
def test_bf16_never_loses_to_float32_by_more_than_a_tenth(seconds, reached):
    timed = {"plain": [1.5], "compiled": [1.0], "bf16": [seconds], "bf16 autocast": [seconds]}
    for column in (("small", 1), ("small", 32), ("original", 1), ("original", 32)):
        assert [outcome.reached for outcome in judge(WORDS_TO_VECTORS, *column, timed)] == [reached] * 2


def test_what_was_not_timed_is_neither_reached_nor_missed():
    outcomes = judge(WORDS_TO_VECTORS, "small", 1, {"plain": [1.0], "AllenNLP": [3.0], "bf16": [1.0]})
    assert [(outcome.measured, outcome.reached) for outcome in outcomes] == [
        (1.0, True),
        (None, None),
        (3.0, None),
        (3.0, None),
    ]
    assert to_json(outcomes)[1]["reached"] is None


def test_only_the_columns_of_the_table_are_judged():
    assert judge(TRAINING_STEP, "small", 1, {"plain": [1.0]}) == judge(BILM, "tiny", 32, {"plain": [1.0]}) == []
    cells = [(target.row, *column) for target in TARGETS for column in target.least or ()]
    assert len(cells) == len(set(cells))
