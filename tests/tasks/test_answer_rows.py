"""From questions to rows and back: which words answers cover, in whole contexts and in windows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer
from hf_elmo.tasks.question_answering import AnswerRows, locate
from hf_elmo.tasks.readers.questions import Answer, Question, Questions

CONTEXT = "The cat, which sat\non the mat, was grey."
TOKENIZER = ElmoCharTokenizer(pre_tokenizer="penn")


def questions_on(context, *answers, asked="Who was it?") -> Questions:
    rows = [
        Question(f"q{number}", asked, 0, (Answer(text, context.index(text)),)) for number, text in enumerate(answers)
    ]
    return Questions("file 'x'", (context,), ("title",), rows)


@given(st.data())
def test_the_words_of_an_answer_are_those_that_share_a_character_with_it(data):
    words = data.draw(st.lists(st.sampled_from(["a", "bcd", "ef"]), min_size=1, max_size=6))
    context, spans = "", []
    for word in words:
        context += " " * data.draw(st.integers(0, 2))
        spans.append((len(context), len(context) + len(word)))
        context += word
    start = data.draw(st.integers(0, len(context) - 1))
    text = context[start : data.draw(st.integers(start + 1, len(context)))]
    characters = {start + place for place, character in enumerate(text) if character != " "}
    wanted = [place for place, span in enumerate(spans) if characters & set(range(*span))]
    # Of another sentence beside it are the words without a place.
    found = locate(Answer(text, start), [None, *spans, None])
    if not wanted:
        assert found is None
        return
    ends = spans[wanted[0]][0], spans[wanted[-1]][1]
    assert found == (1 + wanted[0], 1 + wanted[-1], ends != (min(characters), max(characters) + 1))


def spans_of(rows):
    return np.array([(row["start_positions"], row["end_positions"], 0.0) for row in rows.rows])


def test_rows_say_where_the_answers_stand_and_give_them_back():
    rows = AnswerRows(questions_on(CONTEXT, "cat", "mat, was", "sat\non", "gre"), TOKENIZER)
    assert (rows.num_widened, rows.num_lost, rows.answer_words) == (1, 0, [1, 3, 2, 1])
    spans = spans_of(rows)
    for row, (first, last, _) in zip(rows.rows, spans.astype(int), strict=True):
        assert row["token_type_ids"][first] == row["token_type_ids"][last] == 1
        assert len(row["input_ids"]) == len(row["token_type_ids"])
    found = rows.answers(spans, np.array([row["row"] for row in rows.rows]))
    assert found == {"q0": "cat", "q1": "mat, was", "q2": "sat\non", "q3": "grey"}
    assert TOKENIZER.decode(rows.rows[0]["input_ids"][spans[0, 0].astype(int)].tolist()) == "cat"
    # What is no answer: a word of the question, an end before its start.
    odd = np.array([[1, 8, 0], [9, 8, 0], [8, 99, 0], [0, 0, 0]])
    odd[2, 1] = len(rows.rows[2]["input_ids"]) - 1
    assert set(rows.answers(odd, np.arange(4)).values()) == {""}


def test_windows_hold_the_answer_or_none():
    context = " ".join(f"w{number}" for number in range(30))
    questions = questions_on(context, "w3", "w14 w15", "w29", asked="Who ?")
    rows = AnswerRows(questions, TOKENIZER, max_length=16, stride=4)
    spans = spans_of(rows)
    has_answer = spans[:, 0] != -100
    assert rows.num_lost == 0 and len(rows.rows) > 3 and 0 < has_answer.sum() < len(has_answer)
    assert all(len(row["input_ids"]) <= 16 for row in rows.rows)
    # The windows without an answer give their first word, with a lower score.
    spans[~has_answer, :2], spans[has_answer, 2] = 6, 1.0
    order = np.random.default_rng(0).permutation(len(spans))
    numbers = np.array([row["row"] for row in rows.rows])
    assert rows.answers(spans[order], numbers[order]) == {"q0": "w3", "q1": "w14 w15", "q2": "w29"}
    trained = AnswerRows(questions, TOKENIZER, max_length=16, stride=4, only_answerable=True)
    assert len(trained.rows) == has_answer.sum() and "row" not in trained.rows[0]
    whole = questions_on(context, "w3 " + " ".join(f"w{number}" for number in range(4, 25)), asked="Who ?")
    assert AnswerRows(whole, TOKENIZER, max_length=16, stride=4).num_lost == 1


@pytest.mark.parametrize(("length", "stride", "named"), [(8, None, "max_length"), (12, 6, "stride is 6")])
def test_windows_without_room_are_refused(length, stride, named):
    assert_refused(ValueError, named, AnswerRows, questions_on(CONTEXT, "cat"), TOKENIZER, length, stride)
