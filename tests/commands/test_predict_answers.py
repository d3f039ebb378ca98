"""`hf-elmo predict` with a reader of questions: on the screen, into files, and what it refuses."""

import json
import re

import pytest
import torch
from conftest import make_tiny_config
from html_reading import read_page
from transformers import pipeline

from hf_elmo import ElmoCharTokenizer, ElmoForQuestionAnswering, QuestionAnsweringHead
from hf_elmo.commands.command_line import main

CONTEXT = "The cat, which sat on the mat, was grey."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    torch.manual_seed(0)
    ElmoForQuestionAnswering(make_tiny_config(head=QuestionAnsweringHead(hidden_size=4))).save_pretrained(folder)
    ElmoCharTokenizer(pre_tokenizer="penn").save_pretrained(folder)
    qas = [{"id": "one", "question": "Who sat?"}, {"id": "two", "question": "Where?", "answers": []}]
    data = [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": qas}]}]
    (folder / "asked.json").write_text(json.dumps({"data": data}))
    (folder / "asked.tsv").write_text(f"Who sat?\t{CONTEXT}\n\nWhere?\t{CONTEXT}\n")
    return folder


@pytest.fixture
def predict(folder, capsys):
    def run(*flags):
        code = 0
        try:
            main(["predict", *map(str, flags), "--model_name_or_path", str(folder), "--device", "cpu"])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


def test_answers_are_those_of_the_pipeline(predict, folder, tmp_path):
    answer = pipeline("extractive-question-answering", model=str(folder), device="cpu")
    wanted = [answer(question=question, context=CONTEXT) for question in ("Who sat?", "Where?")]
    code, shown, errors = predict("Who sat?", "Where?", "--text_pair", CONTEXT)
    assert code == 0, errors
    for line, found in zip(shown.splitlines(), wanted, strict=True):
        assert line.startswith(f"{found['answer']!r} {found['score']:.3f} [{found['start']}:{found['end']}]")
    assert predict("--input_file", folder / "asked.tsv")[1] == shown
    assert predict("--input_file", folder / "asked.json")[1] == shown
    code, shown, errors = predict("--input_file", folder / "asked.json", "--output_file", tmp_path / "found.json")
    assert code == 0 and "2 questions" in shown, errors
    texts = [found["answer"] for found in wanted]
    assert json.loads((tmp_path / "found.json").read_text()) == dict(zip(("one", "two"), texts, strict=True))
    predict("--input_file", folder / "asked.tsv", "--output_file", tmp_path / "found.jsonl")
    records = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [record["answer"] for record in records] == texts
    assert all(record["answer"] == CONTEXT[record["start"] : record["end"]] for record in records)


def test_a_page_has_the_answers_in_their_contexts(predict, folder, tmp_path):
    page, found = tmp_path / "found.html", tmp_path / "found.json"
    code, shown, errors = predict("--input_file", folder / "asked.json", "--output_file", found, "--html", page)
    assert code == 0 and f"{found} and {page}: 2 questions" in shown, errors
    root, _ = read_page(page.read_text(encoding="utf-8"))
    answers = list(json.loads(found.read_text()).values())
    assert [answer.text for answer in root.of_class("answer")] == answers
    (context,) = root.of_class("text")
    assert context.own_text == CONTEXT and {mark.own_text for mark in context.of_class("mark")} == set(answers)
    assert {folder.name, "asked.json"} <= set(re.split(" · |model ", root.of_class("facts")[0].text))
    code, _, errors = predict("--input_file", folder / "asked.json", "--html", page)
    assert code == 2 and "--overwrite_output_file" in errors


def test_what_it_refuses(predict, folder):
    for flags, named in (
        (["Who sat?"], ("--text_pair", "Who sat?")),
        (["Who sat?", "--text_pair", " "], ("--text_pair",)),
        (["--input_file", folder / "asked.json", "--text_pair", CONTEXT], ("text_pair",)),
        (["Who?", "--text_pair", CONTEXT, "--convert_scheme", "BIOES"], ("convert_scheme",)),
        (["--input_file", folder / "none.json"], ("input_file", "none.json")),
        (["--input_file", folder / "asked.tsv", "--html", folder / "asked.txt"], ("html", "asked.txt", ".html")),
        (["Who?", "--html", folder / "a.html", "--output_file", folder / "a.html"], ("html", "output_file")),
        (["--input_file", folder / "asked.json", "--output_file", folder / "asked.json"], ("input_file", "asked")),
    ):
        code, shown, errors = predict(*flags)
        assert code == 2 and not shown and errors.startswith("error: ") and errors.count("\n") == 1, errors
        assert all(name in errors for name in named), errors
