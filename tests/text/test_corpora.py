"""Corpora are streamed from every form of file, and bad files are named with the line."""

import bz2
import glob
import gzip
import json
import lzma
from itertools import chain

import pyarrow as pa
import pytest
from datasets import Dataset
from pyarrow import parquet
from refusals import assert_refused

from hf_elmo.text.corpora import corpus_from_dataset, corpus_from_files, corpus_from_held_out

SENTENCES = ["a b c", "d e", "f"]
WORDS = [sentence.split() for sentence in SENTENCES]


def read(corpus):
    return list(corpus.sentences(str.split))


@pytest.fixture
def files(tmp_path):
    """The same three sentences in each form."""
    text = "".join(f"{sentence}\n" for sentence in SENTENCES)
    records = "".join(json.dumps({"text": sentence, "other": 1}) + "\n" for sentence in SENTENCES)
    (tmp_path / "plain.txt").write_text(text)
    with gzip.open(tmp_path / "packed.txt.gz", "wt") as stream:
        stream.write(text)
    (tmp_path / "records.jsonl").write_text(records)
    with gzip.open(tmp_path / "packed.jsonl.gz", "wt") as stream:
        stream.write(records)
    Dataset.from_dict({"text": SENTENCES}).to_parquet(tmp_path / "table.parquet")
    (tmp_path / "dataset").mkdir()
    Dataset.from_dict({"text": SENTENCES}).to_parquet(tmp_path / "dataset" / "train.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["plain.txt", "packed.txt.gz", "records.jsonl", "packed.jsonl.gz", "table.parquet"])
def test_every_form_gives_the_same_sentences(files, name):
    corpus = corpus_from_files([str(files / name)])
    assert read(corpus) == WORDS
    assert read(corpus) == WORDS, "a second pass reads the corpus anew"


def test_forms_can_be_mixed_in_the_order_given(files):
    corpus = corpus_from_files([str(files / "plain.txt"), str(files / "table.parquet"), str(files / "*.jsonl")])
    assert read(corpus) == WORDS * 3


def test_globs_are_sorted(tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.txt").write_text(f"{name}\n")
    assert read(corpus_from_files([str(tmp_path / "*.txt")])) == [["a"], ["b"], ["c"]]


def test_empty_lines_are_no_sentences_and_last_newline_is_optional(tmp_path):
    (tmp_path / "a.txt").write_text("\n a  b \n\n  \nc")
    assert read(corpus_from_files([str(tmp_path / "a.txt")])) == [["a", "b"], ["c"]]


def test_a_record_of_several_lines_holds_several_sentences(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"body": "a b\nc"}) + "\n" + json.dumps({"body": None}) + "\n")
    assert read(corpus_from_files([str(tmp_path / "a.jsonl")], text_column="body")) == [["a", "b"], ["c"]]


def read_documents(corpus):
    return list(corpus.documents(str.split))


def test_documents_of_text_end_at_empty_lines_and_ends_of_files(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\na b\nc\n\n\n\r\nd\r\n\r\ne\n \nf")
    (tmp_path / "b.txt").write_text("g\n\n\n\n")
    with gzip.open(tmp_path / "c.txt.gz", "wt") as stream:
        stream.write("h\n\ni\n")
    corpus = corpus_from_files([str(tmp_path / "*")], by_document=True)
    documents = [[["a", "b"], ["c"]], [["d"]], [["e"], ["f"]], [["g"]], [["h"]], [["i"]]]
    assert read_documents(corpus) == documents
    assert read(corpus) == [sentence for document in documents for sentence in document]


def test_records_are_documents(files, tmp_path):
    documents = [[words] for words in WORDS]
    assert read_documents(corpus_from_files([str(files / "records.jsonl")])) == documents
    assert read_documents(corpus_from_dataset(str(files / "dataset"))) == documents
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a b\n\nc"}) + "\n" + json.dumps({"text": None}) + "\n")
    assert read_documents(corpus_from_files([str(tmp_path / "a.jsonl")])) == [[["a", "b"], ["c"]]]
    mixed = corpus_from_files([str(files / "records.jsonl"), str(files / "plain.txt")], by_document=True)
    assert read_documents(mixed) == [*documents, WORDS]


def hold_out(corpus, folder, fraction):
    """The corpus without the fraction, and the texts that one pass over it wrote."""
    kept = corpus.holding_out(fraction)
    with open(folder / "held_out.jsonl", "w", encoding="utf-8") as file:
        for _ in kept.sentences(str.split, file):
            pass
    return kept, corpus_from_held_out(folder / "held_out.jsonl", "held-out text")


def test_holding_out_and_sharding_keep_documents_whole(tmp_path):
    documents = [[[f"{number}", f"{line}"] for line in range(number % 3 + 1)] for number in range(23)]
    text = "\n".join("".join(f"{' '.join(words)}\n" for words in document) for document in documents)
    (tmp_path / "a.txt").write_text(text)
    corpus = corpus_from_files([str(tmp_path / "a.txt")], by_document=True)
    train, held_out = hold_out(corpus, tmp_path, 0.2)
    kept, others = read_documents(train), read_documents(held_out)
    assert sorted(kept + others) == sorted(documents) and 0 < len(others) < len(kept)
    parts = [read_documents(train.shard(rank, 2)) for rank in range(2)]
    assert sorted(parts[0] + parts[1]) == sorted(kept)


@pytest.mark.parametrize("name", ["plain.txt", "*.*"])
def test_lines_are_no_documents(files, name):
    corpus = corpus_from_files([str(files / name)])
    with pytest.raises(ValueError, match="by_document"):
        read_documents(corpus.holding_out(0.5))


def test_datasets_names_are_streamed(files):
    assert read(corpus_from_dataset(str(files / "dataset"))) == WORDS


def test_shards_are_disjoint_and_complete(tmp_path):
    for index in range(4):
        (tmp_path / f"{index}.txt").write_text("".join(f"{index} {line}\n" for line in range(index + 2)))
    corpus = corpus_from_files([str(tmp_path / "*.txt")])
    parts = [read(corpus.shard(rank, 2)) for rank in range(2)]
    assert sorted(parts[0] + parts[1]) == sorted(read(corpus))
    assert all(parts)


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("buffer_size", [0, 8])
def test_no_pass_order_or_process_reads_held_out_text(tmp_path, buffer_size, num_ranks):
    """`datasets` changes the order of several files after the first pass, and at once where it shuffles."""
    for name in range(4):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}_{line}\n" for line in range(25)))
    train, held_out = hold_out(corpus_from_files([str(tmp_path / "*.txt")]), tmp_path, 0.2)
    others = {words[0] for words in read(held_out)}
    every_line = {f"{name}_{line}" for name in range(4) for line in range(25)}
    assert 10 < len(others) < 30
    train = train.shuffled(5, buffer_size) if buffer_size else train
    for number in range(4):
        shares = [read(train.shard(rank, num_ranks).for_pass(number)) for rank in range(num_ranks)]
        assert sorted(words[0] for share in shares for words in share) == sorted(every_line - others), number


def test_held_out_texts_are_written_as_they_are_and_copies_are_held_out_together(tmp_path):
    texts = [f'say "{number}"\nline\u2028two\r\x85 \ufffd' for number in range(30)] + [" ", "", None]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts * 2))
    train, held_out = hold_out(corpus_from_files([str(tmp_path / "a.jsonl")]), tmp_path, 0.3)
    kept, others = (
        [record["text"] for record in part.records]
        for part in (corpus_from_files([str(tmp_path / "a.jsonl")]), held_out)
    )
    assert others == [text for text in kept if text in others] and len(others) == 2 * len({*others})
    found = read_documents(train) + read_documents(held_out)
    assert sorted(found) == sorted(
        [line.split() for line in text.split("\n")] for text in kept if text and text.strip()
    )


def test_pattern_without_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train_file .*nothing"):
        corpus_from_files([str(tmp_path / "nothing*")])


def test_empty_file(tmp_path):
    (tmp_path / "a.txt").touch()
    with pytest.raises(ValueError, match="is an empty file"):
        corpus_from_files([str(tmp_path / "a.txt")])


@pytest.mark.parametrize("packed", [False, True])
def test_not_utf8_names_file_and_line(tmp_path, packed):
    content = "good\n" * 20_000 + "caf\xe9 au lait\n" + "good\n"
    path = tmp_path / ("a.txt.gz" if packed else "a.txt")
    encoded = content.encode("latin-1")
    path.write_bytes(gzip.compress(encoded) if packed else encoded)
    for by_document in (False, True):
        with pytest.raises(ValueError, match=rf"{path.name}.*UTF-8.*line 20001 .*0xE9"):
            read(corpus_from_files([str(path)], by_document=by_document))


def test_missing_column_names_those_there_are(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "a", "id": 1}\n')
    with pytest.raises(ValueError, match=r"'text'.*body.*id.*--text_column"):
        corpus_from_files([str(tmp_path / "a.jsonl")])


def test_column_that_is_not_text(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": 3}\n')
    with pytest.raises(ValueError, match="'text'"):
        corpus_from_files([str(tmp_path / "a.jsonl")])


def test_unknown_split(files):
    with pytest.raises(ValueError, match="split 'nowhere'"):
        corpus_from_dataset(str(files / "dataset"), split="nowhere")


def test_shuffling_keeps_the_text_and_has_one_order_a_pass(tmp_path):
    for name in range(3):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}_{line}\n" for line in range(10 + name)))
    corpus = corpus_from_files([str(tmp_path / "*.txt")])
    shuffled = corpus.shuffled(seed=5, buffer_size=8)

    def read(number, rank=0, num_ranks=1):
        return [words[0] for words in shuffled.shard(rank, num_ranks).for_pass(number).sentences(str.split)]

    in_order = [words[0] for words in corpus.sentences(str.split)]
    assert sorted(read(0)) == sorted(in_order) and read(0) != in_order
    assert read(0) == read(0) != read(1)
    for num_ranks in (2, 3):
        shares = [read(4, rank, num_ranks) for rank in range(num_ranks)]
        assert sorted(chain.from_iterable(shares)) == sorted(in_order)


def test_empty_lines_are_nobodys_share(tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"{line}\n\n" for line in range(10)))
    corpus = corpus_from_files([str(tmp_path / "text.txt")])
    shares = [list(corpus.shard(rank, 2).sentences(str.split)) for rank in range(2)]
    assert [len(share) for share in shares] == [5, 5]


def test_a_file_is_found_by_its_own_name_before_the_name_is_a_pattern(tmp_path):
    for name in ("a[1].txt", "a1.txt", "b?.txt", "b1.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    assert read(corpus_from_files([str(tmp_path / "a[1].txt")])) == [["a[1].txt"]]
    assert read(corpus_from_files([str(tmp_path / "b?.txt")])) == [["b?.txt"]]
    assert read(corpus_from_files([str(tmp_path / "[ab]1.txt")])) == [["a1.txt"], ["b1.txt"]]
    assert read(corpus_from_files([str(tmp_path / "a*.txt")])) == [["a1.txt"], ["a[1].txt"]]


@pytest.mark.parametrize(
    "names",
    [
        ["a.txt.gz", "b.txt.gz", "README", "x.py", "y.py", "z.py"],
        ["sub/a.txt", "sub/deep/b.txt"],
        ["a.txt.xz", "b.txt.xz", "config.json", "results.json", "run.json"],
        ["a.jsonl.bz2", "b.jsonl.bz2", "x.json", "y.json", "z.json"],
        [],
    ],
)
def test_a_directory_is_refused_with_the_glob_of_its_files(names, tmp_path):
    folder = tmp_path / "texts[1]"
    folder.mkdir()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a b\n")
    with pytest.raises(ValueError, match="train_file") as raised:
        corpus_from_files([str(folder)])
    if names:
        wanted = str(raised.value).split("'")[-2]
        assert sorted(glob.glob(wanted, recursive=True)) == sorted(str(folder / name) for name in names[:2])


@pytest.mark.parametrize(("name", "pack"), [("a.txt", bytes), ("a.txt.gz", gzip.compress), ("a.txt.bz2", bz2.compress)])
def test_a_byte_order_mark_is_no_part_of_the_first_word(name, pack, tmp_path):
    (tmp_path / name).write_bytes(pack("\ufeffa b\nc \ufeffd\n".encode()))
    (tmp_path / f"z-{name}").write_bytes(pack("\ufeffe\n".encode()))
    assert read(corpus_from_files([str(tmp_path / "*")])) == [["a", "b"], ["c", "\ufeffd"], ["e"]]


@pytest.mark.parametrize(("suffix", "pack"), [("bz2", bz2.compress), ("xz", lzma.compress)])
def test_bz2_and_xz_are_unpacked(suffix, pack, tmp_path):
    (tmp_path / f"a.txt.{suffix}").write_bytes(pack("".join(f"{line}\n" for line in SENTENCES).encode()))
    assert read(corpus_from_files([str(tmp_path / f"a.txt.{suffix}")])) == WORDS


GOOD = b'{"text": "a b"}\n'
NESTED = b'{"text": "c", "x": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n"


@pytest.mark.parametrize(
    ("name", "content", "line"),
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
        ("a.jsonl", '{"text": "a"}\n'.encode("utf-16"), "line 1"),
        ("a.jsonl", GOOD * 3 + b'{"text": 5}\n', "line 4"),
        ("a.jsonl", GOOD + b'{"text": ["a"]}\n', "line 2"),
        ("a.jsonl", GOOD + b"5\n", "line 2"),
        ("a.json", b'[{"text": "a"}, {"text": {"b": 1}}]', "entry 1"),
        ("a.jsonl", GOOD + b'{"text": "b", "n": ' + b"1" * 5000 + b"}\n", "line 2"),
    ],
)
def test_bad_records_are_named_by_file_and_line(tmp_path, name, content, line):
    (tmp_path / "0.jsonl").write_bytes(GOOD)
    (tmp_path / name).write_bytes(content)
    message = assert_refused(ValueError, (name, line), lambda: read(corpus_from_files([str(tmp_path / "*")])))
    assert len(message) < 500 and "\n" not in message


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([{"text": "a b"}, {"text": None}, {"other": 1}, {"text": "c"}]),
        json.dumps([{"text": "a b"}, {"text": "c"}], indent=1),
        json.dumps(["a b", "c"]),
        json.dumps({"text": "a b"}, indent=1) + json.dumps({"text": "c"}, indent=1),
        '{"text": "a b"}{"text": "c"}\n\n',
        '\ufeff\n{"other": [1, {"text": "x"}]}\r\n{"text": "a b"}\r\n{"text": "c"}',
    ],
)
def test_json_in_other_forms_than_a_record_per_line(tmp_path, content):
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    assert read(corpus_from_files([str(tmp_path / "a.json")])) == [["a", "b"], ["c"]]


PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("ending", ["txt", "jsonl"])
@pytest.mark.parametrize("share", [0.6, 0])
def test_what_cannot_be_unpacked_is_named(tmp_path, packing, ending, share):
    content = b"".join(GOOD.replace(b"a", str(number).encode()) for number in range(9_000))
    packed = PACKED[packing](content)
    bad = tmp_path / f"bad.{ending}.{packing}"
    bad.write_bytes(packed[: int(len(packed) * share)] or b"no such thing\n")
    (tmp_path / f"a.{ending}.{packing}").write_bytes(PACKED[packing](GOOD))
    assert_refused(ValueError, bad.name, lambda: read(corpus_from_files([str(tmp_path / "*")])))


def damaged(content):
    """In its pages, behind the magic number and before the footer."""
    return content[:40] + bytes(255 - byte for byte in content[40:-2000]) + content[-2000:]


@pytest.mark.parametrize(
    "change",
    [lambda _: b"just text\n" * 20, lambda content: content[: len(content) // 2], damaged],
    ids=["text", "half", "damaged"],
)
def test_what_is_no_parquet_is_named(tmp_path, change):
    Dataset.from_dict({"text": [f"word{number}" for number in range(20_000)]}).to_parquet(tmp_path / "good.parquet")
    (tmp_path / "bad.parquet").write_bytes(change((tmp_path / "good.parquet").read_bytes()))
    assert_refused(ValueError, "bad.parquet", lambda: read(corpus_from_files([str(tmp_path / "*.parquet")])))


def test_a_table_of_columns_that_nobody_knows_and_one_that_is_not_utf8_are_named(tmp_path):
    Dataset.from_dict({"text": ["a b"]}).to_parquet(tmp_path / "0.parquet")
    features = '{"info": {"features": {"text": {"dtype": "string", "_type": "Falue"}}}}'
    table = pa.table({"text": ["a b"]}).replace_schema_metadata({"huggingface": features})
    parquet.write_table(table, tmp_path / "1.parquet")
    assert_refused(ValueError, ("1.parquet", "Falue"), corpus_from_files, [str(tmp_path / "*.parquet")])
    offsets, text = pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")
    table = pa.table({"text": pa.StringArray.from_buffers(1, offsets, text)})
    parquet.write_table(table, tmp_path / "1.parquet")
    assert_refused(ValueError, "1.parquet", lambda: read(corpus_from_files([str(tmp_path / "*.parquet")])))


@pytest.mark.parametrize("column", [[5], [["a"]], [None, 5]])
def test_a_column_of_another_type_is_named_in_whichever_file(tmp_path, column):
    Dataset.from_dict({"text": ["a b"]}).to_parquet(tmp_path / "0.parquet")
    Dataset.from_dict({"text": column}).to_parquet(tmp_path / "1.parquet")
    assert_refused(ValueError, ("1.parquet", "'text'"), corpus_from_files, [str(tmp_path / "*.parquet")])


def test_a_table_without_rows_beside_others_is_passed_over(tmp_path):
    table = Dataset.from_dict({"text": ["a b"]})
    for number in (0, 2):
        table.select([]).to_parquet(tmp_path / f"{number}.parquet")
    table.to_parquet(tmp_path / "1.parquet")
    assert read(corpus_from_files([str(tmp_path / "*.parquet")])) == [["a", "b"]]
    assert_refused(ValueError, "0.parquet", corpus_from_files, [str(tmp_path / "0.parquet")])


def test_nested_records_in_a_directory_of_a_dataset_are_refused_before_they_are_parsed(tmp_path):
    (tmp_path / "train.jsonl").write_bytes(GOOD + NESTED)
    assert_refused(ValueError, ("train.jsonl", "line 2"), corpus_from_dataset, str(tmp_path))
