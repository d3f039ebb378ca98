"""Exact match and F1 of answers: the rules of SQuAD 1.1's script, with the edges that its later version changed."""

import evaluate
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.metrics.answers import AnswerMetric, normalize_answer, score_answers, score_words

texts = st.text("aTthe 1-.,'\u2019\u00e9 \t", max_size=12)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The  Cat, the hat!", "cat hat"),
        ("A-1", "a1"),
        ("an apple a day", "apple day"),
        ("theatre Atlas and", "theatre atlas and"),
        ("don\u2019t \u00c9tude", "don\u2019t \u00e9tude"),
        # Marks go first, so that what they parted can become an article.
        ("the a-n an", ""),
        ("...", ""),
    ],
)
def test_answers_are_normalised_in_the_scripts_order(text, wanted):
    assert normalize_answer(text) == wanted


@pytest.mark.parametrize(
    ("predicted", "answers", "match", "f1"),
    [
        ("the cat", ["a cat", "dog"], 1, 1),
        ("black cat", ["cat", "a black dog"], 0, 2 / 3),
        # Nothing is left of either: they match, and share no word.
        ("The", ["the"], 1, 0),
        ("", ["cat"], 0, 0),
        ("cat cat", ["cat"], 0, 2 / 3),
    ],
)
def test_the_answer_that_is_most_alike_counts(predicted, answers, match, f1):
    scores = score_answers({"1": predicted}, {"1": answers})
    assert scores == {"exact_match": match, "f1": pytest.approx(f1)}


def test_a_question_without_a_prediction_scores_nothing():
    scores = score_answers({"1": "cat"}, {"1": ["cat"], "2": ["dog"]})
    assert scores == {"exact_match": 0.5, "f1": 0.5}


@given(texts, texts)
def test_f1_is_a_symmetric_share_that_an_exact_match_of_words_fills(first, second):
    score = score_words(first, second)
    assert 0 <= score <= 1 and score == score_words(second, first)
    same_words = sorted(normalize_answer(first).split()) == sorted(normalize_answer(second).split()) != []
    assert (score == 1) == same_words


def test_it_is_a_metric_with_the_usual_interface():
    metric = AnswerMetric(keep_in_memory=True)
    assert isinstance(metric, evaluate.Metric)
    metric.add_batch(
        predictions=[{"id": "b", "prediction_text": "dog"}, {"id": "a", "prediction_text": "a cat"}],
        references=[{"id": "a", "answers": ["cat", "the cat"]}, {"id": "b", "answers": ["cat"]}],
    )
    assert metric.compute() == {"exact_match": 0.5, "f1": 0.5}


def test_what_cannot_be_scored_is_named():
    assert_refused(ValueError, ("predictions", "'2'"), score_answers, {"2": "x"}, {"1": ["x"]})
    assert_refused(ValueError, ("references", "'1'"), score_answers, {"1": "x"}, {"1": []})
    assert_refused(ValueError, ("references", "empty"), score_answers, {}, {})
