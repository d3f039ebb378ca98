"""Readers of pairs of texts with a label each."""

import json

from conftest import shared_data
from datasets import ClassLabel, Dataset, Features, Value
from refusals import assert_refused

from hf_elmo.tasks.readers.texts import read_texts, texts_of_dataset

SNLI = [
    {"gold_label": "neutral", "pairID": "3#0r1n", "sentence1": "A man sleeps.", "sentence2": "He dreams."},
    {"gold_label": "-", "pairID": "3#1r1c", "sentence1": "A dog runs.", "sentence2": ""},
    {"gold_label": "contradiction", "pairID": "3#2r1c", "sentence1": "A man sleeps.", "sentence2": "He runs."},
]


def test_snli_lines(tmp_path):
    path = tmp_path / "snli.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in SNLI))
    pairs = read_texts(path, name="train_file")
    assert pairs.texts == ["A man sleeps."] * 2 and pairs.second_texts == ["He dreams.", "He runs."]
    assert pairs.labels == ["neutral", "contradiction"] and pairs.ids == ["3#0r1n", "3#2r1c"]
    assert pairs.num_unlabelled == 1 and pairs.place(1) == f"train_file {str(path)!r}, line 3"
    assert pairs.pick([1]).second_texts == ["He runs."]


def test_columns_of_tables(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("b\ta\t0\nd\tc\t1\n")
    pairs = read_texts(path, text_column=1, text_pair_column=0, label_column=-1)
    assert (pairs.texts, pairs.second_texts, pairs.labels) == (["a", "c"], ["b", "d"], ["0", "1"])


def test_a_second_column_of_texts_makes_pairs(tmp_path):
    path = tmp_path / "a.tsv"
    for titles, options, texts, seconds in (
        ("premise\thypothesis\tlabel", {}, "a", ["b"]),
        ("question\tsentence\tlabel", {}, "a", ["b"]),
        ("sentence\tquestion\tlabel", {}, "b", ["a"]),
        ("question\tid\tlabel", {}, "a", None),
        ("sentence\tid\tlabel", {}, "a", None),
        ("sentence1\tsentence2\tlabel", {"text_column": "sentence2"}, "b", None),
        ("one\tother\tlabel", {"text_column": "one", "text_pair_column": "other"}, "a", ["b"]),
        ("text\tother\tlabel", {"text_pair_column": 1}, "a", ["b"]),
    ):
        path.write_text(f"{titles}\na\tb\t-\na\tb\tx\n")
        read = read_texts(path, **options)
        # Of pairs, - is no label.
        assert read.texts == [texts] * (1 if seconds else 2) and read.second_texts == seconds, titles
    assert_refused(ValueError, ("text_pair_column", "'c'"), read_texts, path, text_pair_column="c")


def test_datasets():
    features = Features(
        {"premise": Value("string"), "hypothesis": Value("string"), "label": ClassLabel(names=["yes", "no"])}
    )
    columns = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [1, -1]}
    pairs = texts_of_dataset(Dataset.from_dict(columns, features=features), "x")
    assert (pairs.second_texts, pairs.labels, pairs.num_unlabelled) == (["c"], ["no"], 1)
    assert pairs.known_labels == ("yes", "no")


def test_bad_files(tmp_path):
    for name, content, named in (
        ("a.tsv", "premise\thypothesis\tlabel\na\t \t1\n", ("line 2", "text_pair")),
        ("a.tsv", "premise\thypothesis\tlabel\na\tb\t-\n", ("1 without", "a.tsv")),
        ("a.jsonl", '{"premise": "a", "hypothesis": 3, "label": "x"}', ("line 1", "text_pair", "int")),
    ):
        path = tmp_path / name
        path.write_text(content)
        assert_refused(ValueError, named, read_texts, path)


def test_real_files():
    snli = read_texts(shared_data("snli") / "test.tsv.gz")
    assert len(snli) == 9824 and set(snli.labels) == {"contradiction", "entailment", "neutral"}
    korean = read_texts(shared_data("klue_nli") / "dev.json")
    assert len(korean) == 3000 and korean.ids[0] == "klue-nli-v1_dev_00000" and len(set(korean.labels)) == 3
