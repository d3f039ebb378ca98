"""Sentences from files of each kind: lines as they are, words of lists and columns, and mistakes by name."""

import gzip
import json

import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict
from pyarrow import parquet
from refusals import assert_refused

from hf_elmo.text.corpora import corpus_from_files, lines_of
from hf_elmo.text.sentence_sources import sentences_of_dataset, sentences_of_files

LINES = ["A / B", "", " spaced  out ", "A / B", "é"]
CONLL = "-DOCSTART- O\n\nA O\n/ O\n\n\nB\u2028 X\n"
CONLLU = "# text = du\n1-2\tdu\t_\n1\tde\t_\n2\tle\t_\n2.1\tx\t_\n\n1\tun mot\t_\n"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.parquet"])
def test_lines_come_as_they_are_in_any_file(tmp_path, name):
    path, text = tmp_path / name, "\n".join(LINES) + "\n"
    if name == "a.jsonl":
        path.write_text("".join(json.dumps({"text": line}) + "\n" for line in [None, *LINES[1:]]))
    elif name == "a.parquet":
        parquet.write_table(pa.table({"text": ["\n".join(LINES), None]}), path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    source = sentences_of_files([str(path)])
    wanted = {"a.jsonl": ["", *LINES[1:]], "a.parquet": [*LINES, ""]}.get(name, LINES)
    assert list(source) == wanted == list(source)
    assert source.count_words() == sum(len(line.split()) for line in wanted)
    # Numbered as the readers of corpora number them.
    assert list(lines_of(corpus_from_files([str(path)]))) == wanted


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfa b\r\nc\r\n", b"a\rb\r\rc", b"a\n\n\n", b"a\nb"])
def test_ends_of_lines_are_those_of_corpora(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    found = list(sentences_of_files([str(tmp_path / "a.txt")]))
    assert found == list(lines_of(corpus_from_files([str(tmp_path / "a.txt")])))


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_lists_of_words_are_taken_as_they_are(tmp_path, ending):
    path, rows = tmp_path / f"a{ending}", [["A", "b c"], [], ["/"]]
    if ending == ".parquet":
        parquet.write_table(pa.table({"tokens": rows}), path)
    else:
        path.write_text("".join(json.dumps({"tokens": row}) + "\n" for row in rows))
    assert list(sentences_of_files([str(path)], "tokens")) == rows


def test_columns_by_the_name_of_the_file_or_as_asked_for(tmp_path):
    (tmp_path / "a.conll").write_text(CONLL)
    (tmp_path / "a.conllu").write_text(CONLLU)
    (tmp_path / "a.tsv").write_text("0\tA\n1\tb c\n")
    assert list(sentences_of_files([str(tmp_path / "a.conll")])) == [["A", "/"], ["B\u2028"]]
    assert list(sentences_of_files([str(tmp_path / "a.conllu")])) == [["de", "le"], ["un mot"]]
    wanted = [["A", "b c"]]
    assert list(sentences_of_files([str(tmp_path / "a.tsv")], column_format="conll", word_column=-1)) == wanted
    assert list(sentences_of_files([str(tmp_path / "a.tsv")])) == ["0\tA", "1\tb c"]


def test_data_sets_by_their_directory_however_they_were_written(tmp_path):
    rows = {"text": ["A b", "c\nd"], "tokens": [["A"], ["c", "d"]]}
    DatasetDict({"test": Dataset.from_dict(rows)}).save_to_disk(tmp_path / "splits")
    Dataset.from_dict(rows).save_to_disk(tmp_path / "one")
    (tmp_path / "files").mkdir()
    Dataset.from_dict(rows).to_parquet(tmp_path / "files" / "test.parquet")
    for name in ("splits", "one", "files"):
        source = sentences_of_dataset(str(tmp_path / name), split="test")
        assert list(source) == ["A b", "c", "d"] == list(source)
        assert list(sentences_of_dataset(str(tmp_path / name), split="test", column="tokens")) == rows["tokens"]
    assert_refused(ValueError, "'words'", sentences_of_dataset, str(tmp_path / "one"), None, "test", "words")
    assert_refused(ValueError, ("dataset_name", "'dev'"), sentences_of_dataset, str(tmp_path / "splits"), None, "dev")
    assert_refused(ValueError, ("dataset_name", "nothing/here"), sentences_of_dataset, "nothing/here")


def test_mistakes_are_named(tmp_path):
    def read(name, *args, **kw):
        return list(sentences_of_files([str(tmp_path / name)], *args, **kw))

    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": 7}\n')
    (tmp_path / "b.txt").write_bytes(b"a\nb\xe9\n")
    (tmp_path / "b.conll").write_bytes("a O\n가 O\n".encode("euc-kr"))
    (tmp_path / "c.conll").write_text("a O\nb\n")
    (tmp_path / "d.conllu").write_text("1\ta\n2\t\n")
    for name, options, named in (
        ("absent.txt", {}, "absent.txt"),
        ("a.jsonl", {}, ("a.jsonl", "line 2", "int")),
        ("a.jsonl", {"column": "words"}, ("'words'", "'text'")),
        ("b.txt", {}, ("b.txt", "line 2", "0xE9")),
        ("b.conll", {}, ("b.conll", "line 2", "0xb0")),
        ("c.conll", {"word_column": 1}, ("c.conll", "line 2", "word_column")),
        ("d.conllu", {}, ("d.conllu", "line 2")),
    ):
        assert_refused((ValueError, FileNotFoundError), named, read, name, **options)
