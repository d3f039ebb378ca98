"""Predictions from the command line: sentences of the command, of a file and of standard input, shown and written."""

import io
import sys

import pytest
import torch
from conftest import make_tiny_config
from html_reading import read_page
from transformers import pipeline

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForTokenClassification
from hf_elmo.commands.command_line import main
from hf_elmo.tasks.readers.columns import read_tagged_file

NAMES = ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
TEXT = "Anna Smith sees Bert .\n\nno, one !\n"


def save(folder, cls=ElmoForTokenClassification, **fields):
    torch.manual_seed(3)
    model = cls(make_tiny_config(**fields))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
        if cls is ElmoForTokenClassification:
            model.classifier.bias[0] = -9.0  # so that there are spans
    model.save_pretrained(folder)
    ElmoCharTokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    head = {"type": "token_classification", "output_layer": "crf", "scheme": "BIOES"}
    spans = {"id2label": dict(enumerate(NAMES)), "label2id": {name: index for index, name in enumerate(NAMES)}}
    return {
        "spans": save(folder / "spans", head=head, **spans),
        "words": save(folder / "words", id2label={0: "NN", 1: "VB"}, label2id={"NN": 0, "VB": 1}),
        "pre-trained": save(folder / "base", ElmoForPreTraining, word_vocab_size=9),
    }


@pytest.fixture
def predict(checkpoints, capsys):
    def run(kind, *words):
        capsys.readouterr()
        try:
            main(["predict", "--model_name_or_path", checkpoints[kind], "--device", "cpu", *map(str, words)])
            code = 0
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


def test_sentences_of_the_command_are_shown(predict, checkpoints):
    code, shown, errors = predict("words", "Anna sees Bert .", "", "no")
    assert (code, errors) == (0, "")
    tagger = pipeline("token-classification", model=checkpoints["words"], ignore_labels=[])
    wanted = [" ".join(f"{one['word']}/{one['entity']}" for one in tagger(text)) for text in ("Anna sees Bert .", "no")]
    assert shown.split("\n") == [wanted[0], "", wanted[1], ""]


def test_spans_are_shown_in_brackets_and_no_word_is_lost(predict):
    code, shown, _ = predict("spans", "Anna Smith sees Bert .")
    assert code == 0 and "[PER " in shown
    assert shown.replace("[PER ", "").replace("]", "").split() == "Anna Smith sees Bert .".split()


@pytest.mark.parametrize("scheme", ["BIOES", "IOB2"])
def test_a_file_of_columns_is_what_the_pipeline_says(scheme, predict, checkpoints, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    out = tmp_path / "out.conll"
    options = ["--convert_scheme", scheme, "--max_words_per_batch", 8]
    code, shown, errors = predict("spans", "--input_file", tmp_path / "text.txt", "--output_file", out, *options)
    assert code == 0, errors
    assert "3 sentences of 8 words" in shown
    written = read_tagged_file(out)
    assert written.words == [["Anna", "Smith", "sees", "Bert", "."], ["no,", "one", "!"]]
    tagger = pipeline("token-classification", model=checkpoints["spans"], aggregation_strategy="simple")
    found = [tagger(" ".join(words)) for words in written.words]
    assert [sum(label[0] in "BS" for label in labels) for labels in written.labels] == list(map(len, found))
    if scheme == "BIOES":
        plain = pipeline("token-classification", model=checkpoints["spans"], ignore_labels=[])
        assert [[one["entity"] for one in plain(" ".join(words))] for words in written.words] == written.labels
    code, _, errors = predict("spans", "--input_file", tmp_path / "text.txt", "--output_file", out)
    assert code == 2 and "--overwrite_output_file" in errors


def test_a_page_alone_shows_what_the_screen_would(predict, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text(TEXT)
    for kind, shown_as in (("spans", "mark"), ("words", "cell")):
        page = tmp_path / f"{kind}.html"
        code, shown, errors = predict(kind, "--input_file", tmp_path / "text.txt", "--html", page)
        assert code == 0 and f"{page}: 3 sentences of 8 words" in shown, errors
        root, _ = read_page(page.read_text(encoding="utf-8"))
        _, shown, _ = predict(kind, "--input_file", tmp_path / "text.txt")
        assert len(root.of_class("column")) == (8 if kind == "words" else 0)
        labels = [element.text for element in root.of_class(shown_as) if "title" in element.attributes]
        assert len(labels) == shown.count("[" if kind == "spans" else "/") > 0
    monkeypatch.setattr("hf_elmo.commands.delivery._MOST_DRAWN", 1)
    predict("words", "a b", "c", "d", "--html", tmp_path / "first.html")
    root, _ = read_page((tmp_path / "first.html").read_text(encoding="utf-8"))
    assert len(root.of_class("column")) == 2 and root.of_class("note")[0].text == "The first 1 of 3 sentences."


def test_standard_input_and_another_cut(predict, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Anna,Bert\n")))
    code, shown, _ = predict("words", "--input_file", "-", "--pre_tokenizer", "punctuation")
    assert code == 0 and [one.rpartition("/")[0] for one in shown.split()] == ["Anna", ",", "Bert"]


@pytest.mark.parametrize(
    "kind, words, named",
    [
        ("words", [], "--input_file"),
        ("words", ["a", "--input_file", "x"], "input_file 'x'"),
        ("words", ["--input_file", "absent.txt"], "absent.txt"),
        ("words", ["a", "--max_words_per_batch", "0"], "max_words_per_batch is 0"),
        ("words", ["a", "--convert_scheme", "IOB2"], "convert_scheme is 'IOB2'"),
        ("spans", ["a", "--text_pair", "b"], "text_pair is 'b'"),
        ("pre-trained", ["a"], "ElmoForPreTraining"),
        ("words", ["a", "--pre_tokenizer", "x"], "--pre_tokenizer"),
    ],
)
def test_mistakes_are_one_line(kind, words, named, predict):
    code, shown, errors = predict(kind, *words)
    assert code == 2 and shown == "" and errors.count("\n") == 1 and named in errors
