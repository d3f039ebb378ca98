"""Texts with labels in tables, JSON, Parquet and datasets: the columns asked for, and where each row stands."""

import csv
import gzip
import io
import json

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.readers.texts import read_texts, texts_of_dataset
from hf_elmo.text.files import suffix_of

RECORDS = [{"id": 7, "review": "Good , \t fun", "stars": "4"}, {"id": 8, "review": "Bad", "stars": "1"}]


def read(path, text=None, label=None):
    return read_texts(path, text, label_column=label, name="train_file")


def rows(texts):
    return list(zip(texts.texts, texts.labels, strict=True))


@pytest.fixture
def write(tmp_path):
    def write_file(content, name):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write_file


def test_the_same_rows_from_each_form(write, tmp_path):
    csv_text = io.StringIO()
    writer = csv.DictWriter(csv_text, RECORDS[0])
    writer.writeheader()
    writer.writerows(RECORDS)
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS)
    paths = [
        write(csv_text.getvalue(), "a.csv"),
        write(gzip.compress(csv_text.getvalue().encode()), "a.csv.gz"),
        write(lines, "a.jsonl"),
        write(json.dumps(RECORDS, indent=2), "a.json"),
        tmp_path / "a.parquet",
    ]
    Dataset.from_list(RECORDS).to_parquet(paths[-1])
    expected = [(record["review"], record["stars"]) for record in RECORDS]
    for path in paths:
        for asked in ((None, None), ("review", "STARS"), (1, "2"), ("-2", "-1")):
            if path.suffix in (".csv", ".gz") and asked[0] in (1, "-2"):
                asked = (*asked[:1], "stars")
            assert rows(read(path, *asked)) == expected, (path, asked)
    assert rows(texts_of_dataset(Dataset.from_list(RECORDS), "here")) == expected


def test_places(write):
    assert read(write("text\tstars\n\na\t1\n", "a.tsv")).places == ["line 3"]
    assert read(write('text,stars\n"a\nb",1\nc,2\n', "a.csv")).places == ["line 2", "line 4"]
    assert read(write('[{"text": "a", "stars": 1}]', "a.json")).places == ["line 1, entry 0"]


def test_a_first_line_with_titles_is_told_from_one_without(write):
    assert rows(read(write("a text\t4\nanother\t2\n", "a.tsv"), 0, 1)) == [("a text", "4"), ("another", "2")]
    with_titles = write("Stars\tsaid\n4\ta text\n", "b.tsv")
    assert rows(read(with_titles, 1)) == rows(read(with_titles, "said", 0)) == [("a text", "4")]


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cf"]), min_size=1)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1))
def test_any_text_comes_back_from_csv(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "stars"), *pairs])
    assert rows(read(path)) == pairs


def test_bad_files_are_named_with_the_place_and_the_value(write, tmp_path):
    for name, content, asked, named in (
        ("a.tsv", "text\tstars\na\t1\nb c\n", (), ("line 3", "'b c'")),
        ("a.tsv", "text\tstars\na\tb\t1\n", (), ("line 2", "3 columns")),
        ("a.tsv", "a\t1\n", (), ("text_column is None", "--text_column")),
        ("a.tsv", "text\tother\na\t1\n", (), ("'other'", "--label_column")),
        ("a.tsv", "text\tstars\na\t1\n", ("body",), ("text_column", "'body'", "'stars'")),
        ("a.tsv", "text\tstars\na\t1\n", (5,), ("text_column", "5")),
        ("a.tsv", "text\tstars\na\t1\n", (1,), ("named twice", "'stars'")),
        ("a.tsv", b"text\tstars\ncaf\xe9\t1\n", (), ("line 2", "UTF-8", "0xE9")),
        ("a.csv", 'text,stars\na,1\n"b,2\n', (), "line 3"),
        ("a.jsonl", '{"text": "a", "stars": 1}\n{"text": "b"}\n', (), ("line 2", "'stars'")),
        ("a.jsonl", '{"text": "a", "stars": 1}\n{"text": \n', (), "line 2"),
        ("a.parquet", "PAR", (), "Parquet"),
        ("a.doc", "x", (), "a.doc"),
        ("a.csv.gz", "no gzip", (), "unpacked"),
    ):
        path = write(content, name)
        message = assert_refused(ValueError, named, read, path, *asked)
        assert str(path) in message
    assert_refused(FileNotFoundError, "train_file", read, tmp_path / "none.csv")


def test_endings():
    assert [suffix_of(name) for name in ("a.TSV.gz", "b.json", "c.gz", "d")] == [".tsv", ".json", "", ""]
