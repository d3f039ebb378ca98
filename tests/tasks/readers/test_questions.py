"""Questions with answers: SQuAD's JSON is read whole, and what is wrong in it is named by its place."""

import copy
import gzip
import json

import pytest
from conftest import shared_data
from refusals import assert_refused

from hf_elmo.tasks.readers.questions import Answer, read_questions

CATS = "The cat\u2019s name is Tom Tom."
TWO = [{"text": "Tom", "answer_start": 18}, {"text": "Tom Tom", "answer_start": 18}]
UNANSWERED = {"id": "b", "question": "Why?", "answers": [], "is_impossible": True}
QUESTIONS = [{"id": "a", "question": "Who?", "answers": TWO}, UNANSWERED]
SAT = {"id": 7, "question": "Who?", "answers": [{"text": "It", "answer_start": 0}]}
CONTENT = {
    "version": "1.1",
    "data": [
        {"title": "Cats", "paragraphs": [{"context": CATS, "qas": QUESTIONS}]},
        {"paragraphs": [{"context": "It sat.", "qas": [SAT]}]},
    ],
}


def packed(content):
    return gzip.compress(json.dumps(content).encode())


def test_questions_contexts_and_answers_are_read(write):
    questions = read_questions(write(packed(CONTENT), "x.json.gz"))
    first, second = questions.questions
    assert (first.id, first.text, first.context) == ("a", "Who?", 0)
    assert first.answers == (Answer("Tom", 18), Answer("Tom Tom", 18))
    assert (second.id, second.context, questions.contexts[1]) == ("7", 1, "It sat.")
    assert questions.num_unanswerable == 1 and len(questions) == 2
    assert [questions.text(place) for place in (0, 1)] == ["Cats", "It sat."]
    picked = questions.pick([1])
    assert picked[0] == second and picked.contexts == questions.contexts
    assert questions.answers() == {"a": ["Tom", "Tom Tom"], "7": ["It"]}
    assert [question.id for question in read_questions(write(packed(CONTENT), "x.json.gz"), keeps_unanswered=True)] == [
        "a",
        "b",
        "7",
    ]


def change(path, value):
    content = copy.deepcopy(CONTENT)
    *owners, key = path
    owner = content
    for step in owners:
        owner = owner[step]
    owner[key] = value
    return content


QUESTION = ("data", 0, "paragraphs", 0, "qas", 0)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ([], ("SQuAD",)),
        (change(("data", 0, "paragraphs"), None), ("SQuAD",)),
        (change(("data", 1, "paragraphs", 0, "context"), 3), ("data[1], paragraphs[0]", "3")),
        (change((*QUESTION, "question"), None), ("qas[0]", "None")),
        (change((*QUESTION, "id"), "7"), ("data[1]", "'7'", "twice")),
        (change((*QUESTION, "answers"), "Tom"), ("qas[0]",)),
        (change((*QUESTION, "answers", 1, "answer_start"), "18"), ("qas[0]", "'18'")),
        (change((*QUESTION, "answers", 1, "answer_start"), True), ("qas[0]", "True")),
        (change((*QUESTION, "answers", 0, "answer_start"), 19), ("qas[0]", "'Tom'", "19")),
        (change((*QUESTION, "answers", 0, "answer_start"), -4), ("qas[0]", "-4")),
        (change((*QUESTION, "answers", 0, "text"), ""), ("qas[0]", "''")),
        (change((*QUESTION, "answers", 0, "answer_start"), 10**4000), ("qas[0]", "1000000000")),
        (change((*QUESTION, "question"), "Who\ud800?"), ("qas[0]", "surrogate")),
        ({"data": []}, ("no questions",)),
    ],
)
def test_what_is_wrong_is_named_by_its_place(write, content, parts):
    named = ("test_file", "x.json.gz", *parts)
    assert (
        len(assert_refused(ValueError, named, read_questions, write(packed(content), "x.json.gz"), name="test_file"))
        < 500
    )


def test_a_file_that_is_not_json_or_not_there(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"data":\n oh}')
    assert_refused(ValueError, ("x.json", "line 2"), read_questions, path)
    assert_refused(FileNotFoundError, "y.json", read_questions, tmp_path / "y.json")


@pytest.mark.parametrize(("file", "number"), [("policyqa/dev.json.gz", 3809), ("xquad/xquad.en.json.gz", 1190)])
def test_the_real_files_are_read_whole(file, number):
    questions = read_questions(shared_data(file))
    assert len(questions) == number and questions.num_unanswerable == 0
