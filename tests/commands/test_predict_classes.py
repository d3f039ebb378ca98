"""`hf-elmo predict` with classifiers of texts and of pairs: on the screen, into files, and what it refuses."""

import json

import pytest
import torch
from conftest import make_tiny_config
from html_reading import read_page

from hf_elmo import ElmoCharTokenizer, ElmoForSequenceClassification, SequenceClassificationHead
from hf_elmo.commands.command_line import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifiers")
    torch.manual_seed(0)
    for encoder in ("bcn", "esim"):
        head = SequenceClassificationHead(encoder=encoder, hidden_size=4)
        names = {0: "no", 1: "yes"}
        ElmoForSequenceClassification(make_tiny_config(head=head, id2label=names)).save_pretrained(folder / encoder)
        ElmoCharTokenizer(pre_tokenizer="penn").save_pretrained(folder / encoder)
    (folder / "texts.txt").write_text("It's fun.\n\nA man sleeps.\n")
    (folder / "pairs.tsv").write_text("A man sleeps.\tHe dreams.\n\nIt's fun.\tNo.\n")
    return folder


@pytest.fixture
def predict(folder, capsys):
    def run(encoder, *flags):
        code = 0
        try:
            main(["predict", *map(str, flags), "--model_name_or_path", str(folder / encoder), "--device", "cpu"])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


def test_on_the_screen(predict, folder):
    code, shown, _ = predict("bcn", "It's fun.", "A man sleeps.")
    assert code == 0
    lines = [line.split(maxsplit=2) for line in shown.splitlines()]
    assert [text for *_, text in lines] == ["It's fun.", "A man sleeps."]
    assert all(label in ("no", "yes") and 0.5 <= float(share) <= 1 for label, share, _ in lines)
    assert predict("bcn", "--input_file", folder / "texts.txt")[1] == shown
    code, shown, _ = predict("esim", "A man sleeps.", "It's fun.", "--text_pair", "No.")
    assert code == 0 and shown.splitlines()[1].endswith("It's fun. | No.")
    assert predict("esim", "It's fun.\tNo.")[1].splitlines() == shown.splitlines()[1:]


def test_into_files(predict, folder, tmp_path):
    code, shown, _ = predict("bcn", "--input_file", folder / "texts.txt", "--output_file", tmp_path / "out.tsv")
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert code == 0 and "2 texts" in shown
    assert rows[0] == ["id", "predicted", "p(no)", "p(yes)"] and [row[0] for row in rows[1:]] == ["0", "2"]
    assert all(predicted == ("no" if float(no) > float(yes) else "yes") for _, predicted, no, yes in rows[1:])
    code, shown, _ = predict("esim", "--input_file", folder / "pairs.tsv", "--output_file", tmp_path / "out.jsonl")
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert code == 0 and "2 pairs" in shown
    assert [(each["id"], each["sentence1"], each["sentence2"]) for each in records] == [
        (0, "A man sleeps.", "He dreams."),
        (2, "It's fun.", "No."),
    ]
    assert all(max(each["probabilities"], key=each["probabilities"].get) == each["predicted_label"] for each in records)


def test_a_page_has_a_bar_for_each_label(predict, folder, tmp_path):
    out, page = tmp_path / "out.tsv", tmp_path / "out.html"
    code, shown, errors = predict("esim", "--input_file", folder / "pairs.tsv", "--output_file", out, "--html", page)
    assert code == 0 and "2 pairs" in shown, errors
    root, _ = read_page(page.read_text(encoding="utf-8"))
    assert [text.text for text in root.of_class("text")] == ["A man sleeps.", "He dreams.", "It's fun.", "No."]
    chosen = [line.split("\t")[1] for line in out.read_text().splitlines()[1:]]
    assert [bar.text.split()[0] for bar in root.of_class("chosen")] == chosen
    assert len(root.of_class("bar")) == 4


def test_tokenized_text_is_not_cut(predict, tmp_path):
    def numbers(text, *flags):
        out = ["--output_file", tmp_path / "out.tsv", "--overwrite_output_file"]
        assert predict("bcn", text, *flags, *out)[0] == 0
        return (tmp_path / "out.tsv").read_text()

    assert numbers("It's fun.", "--text_is_tokenized") != numbers("It's fun.")
    assert numbers("It 's fun .", "--text_is_tokenized") == numbers("It's fun.")
    assert numbers("It 's fun .", "--pre_tokenizer", "whitespace") == numbers("It's fun.")


def test_what_is_refused(predict, folder, tmp_path):
    (tmp_path / "blank.txt").write_text("\n \n")
    for encoder, flags, named in (
        ("esim", ["one text"], ("'one text'", "text_pair")),
        ("esim", ["--input_file", folder / "texts.txt"], ("texts.txt", "line 1", "tab")),
        ("bcn", ["one text", "--text_pair", "two"], ("text_pair", "'two'")),
        ("bcn", ["one text", "--convert_scheme", "IOB1"], "convert_scheme"),
        ("bcn", [], "--input_file"),
        ("bcn", ["--input_file", tmp_path / "blank.txt", "--output_file", tmp_path / "out.tsv"], "blank.txt"),
    ):
        code, _, errors = predict(encoder, *flags)
        assert code == 2 and errors.startswith("error: ") and errors.count("\n") == 1, errors
        assert all(name in errors for name in ([named] if isinstance(named, str) else named)), errors
    assert not (tmp_path / "out.tsv").exists()
