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
    found = locate(Answer(text, start), np.array(spans))
    if not wanted:
        assert found is None
        return
    assert (found.first, found.last) == (wanted[0], wanted[-1])
    ends = spans[wanted[0]][0], spans[wanted[-1]][1]
    assert found.is_widened == (ends != (min(characters), max(characters) + 1))


def test_rows_say_where_the_answers_stand_and_give_them_back():
    questions = questions_on(CONTEXT, "cat", "mat, was", "sat\non", "gre")
    rows = AnswerRows(questions, TOKENIZER)
    assert (rows.num_widened, rows.num_lost) == (1, 0)
    assert rows.answer_words.tolist() == [1, 3, 2, 1]
    spans = np.array([(row["start_positions"], row["end_positions"], 0.0) for row in rows.dataset])
    for row, (first, last, _) in zip(rows.dataset, spans.astype(int), strict=True):
        assert row["token_type_ids"][first] == row["token_type_ids"][last] == 1
        assert len(row["input_ids"]) == len(row["token_type_ids"])
    found = rows.answers(spans, np.arange(4))
    assert found == {"q0": "cat", "q1": "mat, was", "q2": "sat\non", "q3": "grey"}
    assert TOKENIZER.decode(rows.dataset[0]["input_ids"][spans[0, 0].astype(int)]) == "cat"


def test_windows_hold_the_answer_or_none():
    context = " ".join(f"w{number}" for number in range(30))
    questions = questions_on(context, "w3", "w14 w15", "w29", asked="Who ?")
    rows = AnswerRows(questions, TOKENIZER, max_length=16, stride=4)
    assert rows.num_lost == 0 and len(rows.dataset) > 3
    has_answer = np.array(rows.dataset["start_positions"]) != -100
    assert 0 < has_answer.sum() < len(has_answer)
    assert all(len(ids) <= 16 for ids in rows.dataset["input_ids"])
    # The windows without an answer give their first word, with a lower score.
    spans = np.array(
        [
            (row["start_positions"], row["end_positions"], 1.0) if row["start_positions"] > 0 else (6, 6, 0.0)
            for row in rows.dataset
        ]
    )
    order = np.random.default_rng(0).permutation(len(spans))
    assert rows.answers(spans[order], order) == {"q0": "w3", "q1": "w14 w15", "q2": "w29"}
    trained = AnswerRows(questions, TOKENIZER, max_length=16, stride=4, only_answerable=True)
    assert len(trained.dataset) == has_answer.sum()
    whole = questions_on(context, "w3 " + " ".join(f"w{number}" for number in range(4, 25)), asked="Who ?")
    assert AnswerRows(whole, TOKENIZER, max_length=16, stride=4).num_lost == 1


@pytest.mark.parametrize(("length", "stride"), [(8, None), (12, 6)])
def test_windows_without_room_are_refused(length, stride):
    assert_refused(
        ValueError, ("max_length", str(length)), AnswerRows, questions_on(CONTEXT, "cat"), TOKENIZER, length, stride
    )
