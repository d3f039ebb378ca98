"""Corpora are streamed from every form of file and from datasets, and bad files are named with the line."""

import bz2
import gzip
import json
import lzma
from dataclasses import replace

import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from refusals import assert_refused

from hf_elmo.text.corpora import (
    corpus_from_dataset,
    corpus_from_file,
    corpus_from_files,
    files_in_both,
    load_named_dataset,
)

COMPRESSED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
LINES = ["A / B", "", " spaced  out ", "A / B", "é"]
CONLL = "-DOCSTART- O\n\nA O\n/ O\n\n\nB\u2028 X\n"
CONLLU = "# text = du\n1-2\tdu\t_\n1\tde\t_\n2\tle\t_\n2.1\tx\t_\n\n1\tun mot\t_\n"
ROWS = {"text": ["Ä b", "c\nd"] * 9, "tokens": [["Ä"], ["c", "d"]] * 9}


def open_files(path, *more, **options):
    return corpus_from_files([str(path), *map(str, more)], **options)


def read(corpus):
    return list(corpus.sentences(str.split))


def read_lines(path, **options):
    return list(open_files(path, **options).lines())


def read_documents(corpus):
    return list(corpus.documents(str.split))


def jsonl(*values, column="text"):
    return "".join(json.dumps({"id": 1, column: value}) + "\n" for value in values).encode()


# Forms of files


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet", "records", "table"])
def test_every_form_gives_the_same_lines_in_each_pass(tmp_path, name):
    content = "".join(f"{line}\n" for line in LINES).encode()
    if name in ("a.jsonl", "records"):
        content = jsonl(*LINES)
    elif name in ("a.parquet", "table"):
        parquet.write_table(pa.table({"text": LINES}), tmp_path / name)
        content = (tmp_path / name).read_bytes()
    for suffix, compress in COMPRESSED.items():
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(compress(content))
        corpus = open_files(path)
        assert list(corpus.lines()) == LINES == list(corpus.lines())
        assert read(corpus) == [line.split() for line in LINES if line]


def test_files_are_read_in_the_order_given_and_those_of_a_glob_by_name(tmp_path):
    for name in ("b.txt", "a.txt", "c.txt", "a[1].txt", "a1.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "d.jsonl").write_bytes(jsonl("d"))
    assert read_lines(tmp_path / "[abc].txt") == ["a.txt", "b.txt", "c.txt"]
    assert read(open_files(tmp_path / "c.txt", tmp_path / "*.jsonl")) == [["c.txt"], ["d"]]
    # A file is found by its own name before the name is a pattern.
    assert read(open_files(tmp_path / "a[1].txt")) == [["a[1].txt"]]
    assert read(open_files(tmp_path / "a*.txt", tmp_path / "a.txt")) == [["a.txt"], ["a1.txt"], ["a[1].txt"]]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a b\r\nc\r\n", ["a b", "c"]),
        (b"a\rb\r\rc", ["a", "b", "", "c"]),
        (b"a\n\n\n", ["a", "", ""]),
        (b"\n a  b \n\n  \nc", ["", " a  b ", "", "  ", "c"]),
        ("\ufeffa b\nc \ufeffd\n".encode(), ["a b", "c \ufeffd"]),
    ],
)
def test_ends_of_lines_and_the_byte_order_mark(tmp_path, content, lines):
    (tmp_path / "a.txt").write_bytes(content)
    assert read_lines(tmp_path / "a.txt") == lines


def test_documents_are_records_and_of_text_end_at_empty_lines_and_ends_of_files(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\na b\nc\n\n\n\r\nd\r\n\r\ne\n \nf")
    (tmp_path / "b.txt").write_text("g\n\n\n\n")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"h\n\ni\n"))
    (tmp_path / "d.jsonl").write_bytes(jsonl("\ufeffj\n\nk", None, ""))
    corpus = open_files(tmp_path / "*", by_document=True)
    documents = [[["a", "b"], ["c"]], [["d"]], [["e"], ["f"]], [["g"]], [["h"]], [["i"]], [["j"], ["k"]]]
    assert read_documents(corpus) == documents
    assert read(corpus) == [sentence for document in documents for sentence in document]
    assert read_lines(tmp_path / "d.jsonl") == ["j", "", "k", "", ""]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([{"text": "a b"}, {"text": None}, {"other": 1}, {"text": "c"}]),
        json.dumps([{"text": "a b"}, {"text": "c"}], indent=1),
        json.dumps({"text": "a b\nc"}, indent=1),
        '\ufeff\n{"text": "a b", "x": [1, {"text": "x"}]}\r\n{"other": 1}\r\n{"text": "c", "x": "s"}',
    ],
)
def test_json_in_other_forms_than_a_record_per_line(tmp_path, content):
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    assert read(open_files(tmp_path / "a.json")) == [["a", "b"], ["c"]]


def test_lists_of_words_and_columns_are_taken_where_they_may_be(tmp_path):
    words = [["A", "b c"], [], ["/"]]
    (tmp_path / "a.jsonl").write_bytes(jsonl(*words, column="tokens"))
    parquet.write_table(pa.table({"tokens": words}), tmp_path / "a.parquet")
    for path in (tmp_path / "a.jsonl", tmp_path / "a.parquet"):
        assert read_lines(path, text_column="tokens", takes_words=True) == words
        assert_refused(ValueError, (path.name, "list", "not text"), read_lines, path, text_column="tokens")
    (tmp_path / "a.conll").write_text(CONLL)
    (tmp_path / "a.conllu").write_text(CONLLU)
    (tmp_path / "a.tsv").write_text("0\tA\n1\tb c\n")
    assert read_lines(tmp_path / "a.conll", takes_words=True) == [["A", "/"], ["B\u2028"]]
    assert read_lines(tmp_path / "a.conllu", takes_words=True) == [["de", "le"], ["un mot"]]
    assert read_lines(tmp_path / "a.tsv", takes_words=True, word_column=-1) == [["A", "b c"]]
    assert read_lines(tmp_path / "a.tsv", takes_words=True) == ["0\tA", "1\tb c"]


# Datasets


def test_datasets_by_their_directory_however_they_were_written(tmp_path):
    DatasetDict({"test": Dataset.from_dict(ROWS)}).save_to_disk(tmp_path / "splits")
    Dataset.from_dict(ROWS).save_to_disk(tmp_path / "one")
    (tmp_path / "files").mkdir()
    parquet.write_table(pa.table(ROWS), tmp_path / "files" / "test.parquet")
    for name in ("splits", "one", "files"):
        corpus = corpus_from_dataset(str(tmp_path / name), split="test")
        assert list(corpus.lines()) == ["Ä b", "c", "d"] * 9 == list(corpus.lines())
        assert read_documents(corpus)[:2] == [[["Ä", "b"]], [["c"], ["d"]]]
        assert len(read(corpus.shard(1, 2))) == 18
        words = corpus_from_dataset(str(tmp_path / name), None, "test", "tokens", takes_words=True)
        assert list(words.lines()) == ROWS["tokens"]
    one, splits = str(tmp_path / "one"), str(tmp_path / "splits")
    for given_, named in (
        ((one, None, "test", "words"), ("dataset_name", "'words'", "'tokens'")),
        ((one, None, "test", "tokens"), "not text"),
        ((splits, None, "dev"), ("dataset_name", "'dev'")),
        (("nothing/here",), ("dataset_name", "nothing/here")),
    ):
        assert_refused(ValueError, named, lambda *those: read(corpus_from_dataset(*those)), *given_)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "novels"
    DatasetDict({"train": Dataset.from_dict(ROWS)}).save_to_disk(folder)
    assert load_named_dataset(str(folder))["train"][:] == ROWS
    return folder


@given(place=st.integers(min_value=0), content=st.binary(min_size=1, max_size=9), is_cut=st.booleans())
def test_a_damaged_saved_dataset_is_read_or_refused_by_name(saved, place, content, is_cut):
    (file,) = saved.glob("train/*.arrow")
    whole = file.read_bytes()
    place %= len(whole)
    # Another file, not other bytes in this one, which may still be mapped.
    file.unlink()
    file.write_bytes(whole[:place] if is_cut else whole[:place] + content + whole[place + len(content) :])
    try:
        for _ in corpus_from_dataset(str(saved)).lines():
            pass
    except ValueError as error:
        assert str(saved) in str(error)
    finally:
        file.unlink()
        file.write_bytes(whole)


def test_files_in_both_texts_are_found_by_name_and_by_content(tmp_path):
    for name, content in (("a", "x y\n"), ("b", "x z\n"), ("c", "x y z\n"), ("copy", "x z\n")):
        (tmp_path / name).write_text(content)
    (tmp_path / "link").symlink_to(tmp_path / "c")
    a, b, c, copy, link = (str(tmp_path / name) for name in ("a", "b", "c", "copy", "link"))
    assert files_in_both([a, b, c], [copy, link]) == [copy, link]
    assert files_in_both([a, b], [c]) == files_in_both([], [a]) == []


# Parts


def hold_out(corpus, folder, fraction):
    """The corpus without the fraction, and the texts that one pass over it wrote."""
    kept = replace(corpus, held_out_fraction=fraction)
    with open(folder / "held_out.jsonl", "w", encoding="utf-8") as file:
        for _ in kept.sentences(str.split, file):
            pass
    return kept, corpus_from_file(folder / "held_out.jsonl", "held-out text")


def test_holding_out_and_sharding_keep_documents_whole(tmp_path):
    documents = [[[f"{number}", f"{line}"] for line in range(number % 3 + 1)] for number in range(23)]
    text = "\n".join("".join(f"{' '.join(words)}\n" for words in document) for document in documents)
    (tmp_path / "a.txt").write_text(text)
    train, held_out = hold_out(open_files(tmp_path / "a.txt", by_document=True), tmp_path, 0.2)
    kept, others = read_documents(train), read_documents(held_out)
    assert sorted(kept + others) == sorted(documents) and 0 < len(others) < len(kept)
    parts = [read_documents(train.shard(rank, 2)) for rank in range(2)]
    assert sorted(parts[0] + parts[1]) == sorted(kept)
    # Lines without words are nobody's part.
    (tmp_path / "gaps.text").write_text("".join(f"{line}\n \n" for line in range(10)))
    assert [len(read(open_files(tmp_path / "gaps.text").shard(rank, 2))) for rank in range(2)] == [5, 5]


@pytest.mark.parametrize(("num_ranks", "buffer_size"), [(1, 0), (2, 8), (3, 0), (3, 8)])
def test_no_pass_order_or_process_reads_held_out_text(tmp_path, buffer_size, num_ranks):
    """`datasets` changes the order of several files after the first pass, and at once where it shuffles."""
    every_line = [f"{name}_{line}" for name in range(4) for line in range(25)]
    for name in range(4):
        (tmp_path / f"{name}.txt").write_text("\n".join(every_line[25 * name : 25 * name + 25]))
    train, held_out = hold_out(open_files(tmp_path / "*.txt"), tmp_path, 0.2)
    others = {words[0] for words in read(held_out)}
    assert 10 < len(others) < 30
    train.records = train.records.shuffle(5, buffer_size=buffer_size) if buffer_size else train.records
    orders = []
    for number in (0, 1, 2, 0):
        sharded = [train.shard(rank, num_ranks) for rank in range(num_ranks)]
        for each in sharded:
            each.records.set_epoch(number)
        parts = list(map(read, sharded))
        assert sorted(words[0] for part in parts for words in part) == sorted({*every_line} - others), number
        orders.append(parts)
    # Each pass has an order of its own, always the same.
    assert orders[0] == orders[3] and (not buffer_size or orders[0] != orders[1])


def test_held_out_texts_are_written_as_they_are_and_copies_are_held_out_together(tmp_path):
    texts = [f'say "{number}"\nline\u2028two\r\x85 \ufffd' for number in range(30)]
    texts += [*(" " * number for number in range(20)), None]
    (tmp_path / "a.jsonl").write_bytes(jsonl(*texts * 2))
    train, held_out = hold_out(open_files(tmp_path / "a.jsonl"), tmp_path, 0.3)
    kept, others = ([record["text"] for record in part.records] for part in (train, held_out))
    assert all(map(str.strip, others))
    assert others == [text for text in kept if text in others] and len(others) == 2 * len({*others})
    found = read_documents(train) + read_documents(held_out)
    assert sorted(found) == sorted(
        [line.split() for line in text.split("\n")] for text in kept if text and text.strip()
    )


# Mistakes


GOOD = jsonl("a b")
NESTED = b'{"text": "c", "x": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        # pyarrow, given the second line, recurses until the process ends with signal 11.
        ("a.jsonl", GOOD + NESTED, "line 2"),
        ("a.json", b"[" * 100_000, "JSON"),
        ("a.jsonl", GOOD + b'{"text": "a b"\n' + GOOD, "line 2"),
        ("a.jsonl", GOOD + b'{"text": "a \\ud800 b"}\n', "line 2"),
        ("a.jsonl", GOOD + b'{"text": "caf\xe9"}\n', "line 2"),
        ("a.jsonl", GOOD * 3 + b'{"text": 5}\n', "line 4"),
        ("a.jsonl", GOOD + b"5\n", "line 2"),
        ("a.jsonl", jsonl("a", column="body"), ("'text'", "body", "id", "--text_column")),
        ("a.json", b'[{"text": "a"}, {"text": {"b": 1}}]', "entry 1"),
        ("a.jsonl", GOOD + b'{"text": "b", "n": ' + b"1" * 5000 + b"}\n", "line 2"),
        ("a.txt.gz", gzip.compress(b"good\n" * 20_000 + b"caf\xe9 au lait\ngood\n", mtime=0), ("line 20001", "0xE9")),
        ("b.conll", "a O\n가 O\n".encode("euc-kr"), ("line 2", "0xB0")),
        ("c.conll", b"a O\nb\n", ("line 2", "word_column")),
        ("d.conllu", b"1\ta\tX\n2\t\tX\n", "line 2"),
    ],
)
def test_bad_records_are_named_by_file_and_line(tmp_path, name, content, place):
    (tmp_path / "0.jsonl").write_bytes(GOOD)
    (tmp_path / name).write_bytes(content)
    options = {"takes_words": True, "word_column": 1 if name == "c.conll" else None} if "conll" in name else {}
    place = (place,) if isinstance(place, str) else place
    message = assert_refused(ValueError, (name, *place), read_lines, tmp_path / f"*.{name.split('.', 1)[1]}", **options)
    assert len(message) < 500 and "\n" not in message


def test_what_cannot_be_unpacked_or_is_no_column_of_text_is_named(tmp_path):
    path = tmp_path / "1.parquet"
    offsets, text = pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")
    not_utf8 = pa.StringArray.from_buffers(1, offsets, text)
    for column in ([5], [["a"]], [None, 5], not_utf8):
        parquet.write_table(pa.table({"text": column}), path)
        assert_refused(ValueError, "1.parquet", read_lines, path)
    parquet.write_table(pa.table({"text": [f"word{number}" for number in range(20_000)]}), path)
    assert_refused(ValueError, ("1.parquet", "'body'", "'text'"), read_lines, path, text_column="body")
    for file, content in ((path, b"just text\n" * 20), (tmp_path / "a.txt.xz", lzma.compress(b"good\n" * 9)[:-9])):
        file.write_bytes(content)
        assert_refused(ValueError, file.name, read_lines, file)


def test_names_of_no_files_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n")
    for name in ("absent*", ""):
        assert_refused(FileNotFoundError, ("train_file", str(tmp_path / name)), open_files, tmp_path / name)


def test_records_that_end_pyarrows_process_are_refused_before_it_reads_them(tmp_path):
    for content in (NESTED + GOOD, b"null\n" + GOOD, b"\xff\xfe"):
        (tmp_path / "train.jsonl").write_bytes(content)
        message = assert_refused(ValueError, str(tmp_path), lambda: [*corpus_from_dataset(str(tmp_path)).lines()])
        assert len(message) < 800 and "\n" not in message
