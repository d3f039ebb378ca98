"""Corpora are streamed from every form of file and from datasets, and bad files are named with the line."""

import bz2
import gzip
import json
import lzma

import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from refusals import assert_refused

from hf_elmo.text.corpora import (
    Corpus,
    corpus_from_dataset,
    corpus_from_files,
    corpus_from_held_out,
    load_saved_dataset,
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


def read_documents(corpus):
    return list(corpus.documents(str.split))


def jsonl(*values, column="text"):
    return "".join(json.dumps({"id": 1, column: value}) + "\n" for value in values).encode()


# Forms of files


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet", "records", "table"])
def test_every_form_gives_the_same_lines_in_each_pass(tmp_path, name, suffix):
    path, content = tmp_path / f"{name}{suffix}", "".join(f"{line}\n" for line in LINES).encode()
    if name in ("a.jsonl", "records"):
        content = jsonl(*LINES)
    elif name in ("a.parquet", "table"):
        parquet.write_table(pa.table({"text": LINES}), path)
        content = path.read_bytes()
    path.write_bytes(COMPRESSED[suffix](content))
    corpus = open_files(path)
    assert list(corpus.lines()) == LINES == list(corpus.lines())
    assert read(corpus) == [line.split() for line in LINES if line]


def test_files_are_read_in_the_order_given_and_those_of_a_glob_by_name(tmp_path):
    for name in ("b.txt", "a.txt", "c.txt", "a[1].txt", "a1.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "d.jsonl").write_bytes(jsonl("d"))
    parquet.write_table(pa.table({"text": ["e"]}), tmp_path / "e.parquet")
    assert read(open_files(tmp_path / "[abc].txt")) == [["a.txt"], ["b.txt"], ["c.txt"]]
    assert read(open_files(tmp_path / "c.txt", tmp_path / "e.parquet", tmp_path / "*.jsonl")) == [
        ["c.txt"],
        ["e"],
        ["d"],
    ]
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
    assert list(open_files(tmp_path / "a.txt").lines()) == lines


def test_a_record_of_several_lines_holds_several_sentences(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(jsonl("\ufeffa b\nc", None, "", column="body"))
    corpus = open_files(tmp_path / "a.jsonl", text_column="body")
    assert read(corpus) == [["a", "b"], ["c"]] and read_documents(corpus) == [[["a", "b"], ["c"]]]
    assert list(corpus.lines()) == ["a b", "c", "", ""]


def test_documents_of_text_end_at_empty_lines_and_ends_of_files(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\na b\nc\n\n\n\r\nd\r\n\r\ne\n \nf")
    (tmp_path / "b.txt").write_text("g\n\n\n\n")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"h\n\ni\n"))
    (tmp_path / "d.jsonl").write_bytes(jsonl("j\n\nk"))
    corpus = open_files(tmp_path / "*", by_document=True)
    documents = [[["a", "b"], ["c"]], [["d"]], [["e"], ["f"]], [["g"]], [["h"]], [["i"]], [["j"], ["k"]]]
    assert read_documents(corpus) == documents
    assert read(corpus) == [sentence for document in documents for sentence in document]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([{"text": "a b"}, {"text": None}, {"other": 1}, {"text": "c"}]),
        json.dumps([{"text": "a b"}, {"text": "c"}], indent=1),
        json.dumps(["a b", "c"]),
        json.dumps({"text": "a b"}, indent=1) + json.dumps({"text": "c"}, indent=1),
        '{"text": "a b"}{"text": "c"}\n\n',
        '\ufeff\n{"other": [1, {"text": "x"}]}\r\n{"text": "a b"}\r\n{"text": "c", "other": "s"}',
    ],
)
def test_json_in_other_forms_than_a_record_per_line(tmp_path, content):
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    assert read(open_files(tmp_path / "a.json")) == [["a", "b"], ["c"]]


def test_lists_of_words_and_columns_are_taken_where_they_may_be(tmp_path):
    words = [["A", "b c"], [], ["/"]]
    (tmp_path / "a.jsonl").write_bytes(jsonl(*words, column="tokens"))
    parquet.write_table(pa.table({"tokens": words}), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        assert list(open_files(tmp_path / name, text_column="tokens", takes_words=True).lines()) == words
        assert_refused(ValueError, (name, "list", "not text"), open_files, tmp_path / name, text_column="tokens")
    (tmp_path / "a.conll").write_text(CONLL)
    (tmp_path / "a.conllu").write_text(CONLLU)
    (tmp_path / "a.tsv").write_text("0\tA\n1\tb c\n")
    assert list(open_files(tmp_path / "a.conll", takes_words=True).lines()) == [["A", "/"], ["B\u2028"]]
    assert list(open_files(tmp_path / "a.conllu", takes_words=True).lines()) == [["de", "le"], ["un mot"]]
    assert list(open_files(tmp_path / "a.tsv", takes_words=True, word_column=-1).lines()) == [["A", "b c"]]
    assert list(open_files(tmp_path / "a.tsv", takes_words=True).lines()) == ["0\tA", "1\tb c"]


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
        words = corpus_from_dataset(str(tmp_path / name), None, "test", "tokens", takes_words=True)
        assert list(words.lines()) == ROWS["tokens"]
    one, splits = str(tmp_path / "one"), str(tmp_path / "splits")
    for given_, named in (
        ((one, None, "test", "words"), ("'words'", "'tokens'")),
        ((one, None, "test", "tokens"), "not text"),
        ((splits, None, "dev"), ("dataset_name", "'dev'")),
        (("nothing/here",), ("dataset_name", "nothing/here")),
    ):
        assert_refused(ValueError, named, corpus_from_dataset, *given_)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "novels"
    DatasetDict({"train": Dataset.from_dict(ROWS)}).save_to_disk(folder)
    assert load_saved_dataset(folder)["train"][:] == ROWS
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


# Parts


def hold_out(corpus: Corpus, folder, fraction):
    """The corpus without the fraction, and the texts that one pass over it wrote."""
    kept = corpus.holding_out(fraction)
    with open(folder / "held_out.jsonl", "w", encoding="utf-8") as file:
        for _ in kept.sentences(str.split, file):
            pass
    return kept, corpus_from_held_out(folder / "held_out.jsonl", "held-out text")


def write_numbered(folder, lines):
    """Files of lines like `2_17`; all of those lines."""
    for name, count in enumerate(lines):
        (folder / f"{name}.txt").write_text("".join(f"{name}_{line}\n" for line in range(count)))
    return open_files(folder / "*.txt"), {f"{name}_{line}" for name, count in enumerate(lines) for line in range(count)}


def test_holding_out_and_sharding_keep_documents_whole(tmp_path):
    documents = [[[f"{number}", f"{line}"] for line in range(number % 3 + 1)] for number in range(23)]
    text = "\n".join("".join(f"{' '.join(words)}\n" for words in document) for document in documents)
    (tmp_path / "a.txt").write_text(text)
    train, held_out = hold_out(open_files(tmp_path / "a.txt", by_document=True), tmp_path, 0.2)
    kept, others = read_documents(train), read_documents(held_out)
    assert sorted(kept + others) == sorted(documents) and 0 < len(others) < len(kept)
    parts = [read_documents(train.shard(rank, 2)) for rank in range(2)]
    assert sorted(parts[0] + parts[1]) == sorted(kept)


def test_empty_lines_are_nobodys_part(tmp_path):
    (tmp_path / "gaps.text").write_text("".join(f"{line}\n\n" for line in range(10)))
    gaps = open_files(tmp_path / "gaps.text")
    assert [len(read(gaps.shard(rank, 2))) for rank in range(2)] == [5, 5]


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("buffer_size", [0, 8])
def test_no_pass_order_or_process_reads_held_out_text(tmp_path, buffer_size, num_ranks):
    """`datasets` changes the order of several files after the first pass, and at once where it shuffles."""
    corpus, every_line = write_numbered(tmp_path, [25] * 4)
    train, held_out = hold_out(corpus, tmp_path, 0.2)
    others = {words[0] for words in read(held_out)}
    assert 10 < len(others) < 30
    train, orders = train.shuffled(5, buffer_size) if buffer_size else train, []
    for number in (0, 1, 2, 0):
        parts = [read(train.shard(rank, num_ranks).for_pass(number)) for rank in range(num_ranks)]
        assert sorted(words[0] for part in parts for words in part) == sorted(every_line - others), number
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
        ("a.jsonl", NESTED, "line 1"),
        ("a.json", b"[" * 100_000, "line 1"),
        ("a.jsonl", GOOD + b'{"text": "a b"\n' + GOOD, "line 2"),
        ("a.jsonl", GOOD + b'{"text": "a', "line 2"),
        ("a.jsonl", GOOD + b'{"text": "a\x00b"}\n', "line 2"),
        ("a.jsonl", GOOD + b'{"text": "a \\ud800 b"}\n', "line 2"),
        ("a.jsonl", GOOD + b'{"text": "caf\xe9"}\n', "line 2"),
        ("a.jsonl", GOOD * 3 + b'{"text": 5}\n', "line 4"),
        ("a.jsonl", GOOD + b'{"text": ["a"]}\n', "line 2"),
        ("a.jsonl", GOOD + b"5\n", "line 2"),
        ("a.json", b'[{"text": "a"}, {"text": {"b": 1}}]', "entry 1"),
        ("a.jsonl", GOOD + b'{"text": "b", "n": ' + b"1" * 5000 + b"}\n", "line 2"),
        ("a.txt", b"good\n" * 20_000 + b"caf\xe9 au lait\ngood\n", ("line 20001", "0xE9")),
        ("a.txt.gz", gzip.compress(b"good\n" * 20_000 + b"caf\xe9 au lait\ngood\n"), ("line 20001", "0xE9")),
    ],
)
def test_bad_records_are_named_by_file_and_line(tmp_path, name, content, place):
    (tmp_path / "0.jsonl").write_bytes(GOOD)
    (tmp_path / name).write_bytes(content)
    place = (place,) if isinstance(place, str) else place
    message = assert_refused(ValueError, (name, *place), lambda: read(open_files(tmp_path / "*")))
    assert len(message) < 500 and "\n" not in message


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("form", ["txt", "jsonl"])
@pytest.mark.parametrize("fraction", [0.6, 0])
def test_what_cannot_be_decompressed_is_named(tmp_path, suffix, form, fraction):
    compressed = COMPRESSED[suffix](b"".join(GOOD.replace(b"a", str(number).encode()) for number in range(9_000)))
    bad = tmp_path / f"bad.{form}{suffix}"
    bad.write_bytes(compressed[: int(len(compressed) * fraction)] or b"no such thing\n")
    (tmp_path / f"a.{form}{suffix}").write_bytes(COMPRESSED[suffix](GOOD))
    assert_refused(ValueError, bad.name, lambda: read(open_files(tmp_path / "*")))


def damaged(content):
    """In its pages, behind the magic number and before the footer."""
    return content[:40] + bytes(255 - byte for byte in content[40:-2000]) + content[-2000:]


@pytest.mark.parametrize(
    "change", [lambda _: b"just text\n" * 20, lambda content: content[: len(content) // 2], damaged]
)
def test_what_is_no_parquet_is_named(tmp_path, change):
    parquet.write_table(pa.table({"text": [f"word{number}" for number in range(20_000)]}), tmp_path / "good.parquet")
    (tmp_path / "bad.parquet").write_bytes(change((tmp_path / "good.parquet").read_bytes()))
    assert_refused(ValueError, "bad.parquet", lambda: read(open_files(tmp_path / "*.parquet")))


@pytest.mark.parametrize("column", [[5], [["a"]], [None, 5], "not UTF-8"])
def test_a_column_that_is_not_text_is_named_in_whichever_file(tmp_path, column):
    if column == "not UTF-8":
        offsets, text = pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")
        column = pa.StringArray.from_buffers(1, offsets, text)
    parquet.write_table(pa.table({"text": ["a b"]}), tmp_path / "0.parquet")
    parquet.write_table(pa.table({"text": column}), tmp_path / "1.parquet")
    assert_refused(ValueError, "1.parquet", lambda: read(open_files(tmp_path / "*.parquet")))


def test_mistakes_are_named(tmp_path):
    (tmp_path / "texts[1]").mkdir()
    (tmp_path / "texts[1]" / "a.txt").write_text("a b\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "a.jsonl").write_bytes(jsonl("a", column="body"))
    (tmp_path / "b.conll").write_bytes("a O\n가 O\n".encode("euc-kr"))
    (tmp_path / "c.conll").write_text("a O\nb\n")
    (tmp_path / "d.conllu").write_text("1\ta\n2\t\n")
    for name, options, named in (
        ("absent*", {}, ("train_file", "absent")),
        ("empty.txt", {}, "empty file"),
        ("a.jsonl", {}, ("'text'", "body", "id", "--text_column")),
        ("b.conll", {"takes_words": True}, ("b.conll", "line 2", "0xB0")),
        ("c.conll", {"takes_words": True, "word_column": 1}, ("c.conll", "line 2", "word_column")),
        ("d.conllu", {"takes_words": True}, ("d.conllu", "line 2")),
    ):
        given_ = (tmp_path / name, options)
        assert_refused((ValueError, OSError), named, lambda path, more: list(open_files(path, **more).lines()), *given_)
    message = assert_refused(ValueError, "train_file", open_files, tmp_path / "texts[1]")
    assert read(open_files(message.split("'")[-2])) == [["a", "b"]]


def test_records_that_end_pyarrows_process_are_refused_before_it_reads_them(tmp_path):
    for bad in (NESTED, b"null\n"):
        (tmp_path / "train.jsonl").write_bytes(bad + GOOD)
        assert_refused(ValueError, ("train.jsonl", "line 1"), corpus_from_dataset, str(tmp_path))
