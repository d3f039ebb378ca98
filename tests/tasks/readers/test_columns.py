"""Readers of CoNLL columns, CoNLL-U and datasets with a label per word."""

import bz2
import gzip
import itertools

import pytest
from conftest import shared_data
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.data import load_named_dataset
from hf_elmo.tasks.readers.columns import (
    read_tagged_file,
    tagged_from_dataset,
)
from hf_elmo.tasks.token_classification import tagged_lines

CONLLU = """\
# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tv\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tp\t_\t1\tobj\t_\t_
2.1\tnada\tnada\tX\tx\t_\t_\t_\t_\t_
3\tal mar\tmar\tNOUN\tn\t_\t1\tobl\t_\t_

1\t#\t#\tSYM\ts\t_\t0\troot\t_\t_
"""


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="train.conll"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write_file


def test_word_first_tag_last(write):
    path = write("-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n\n. . O O\n")
    read = read_tagged_file(path)
    assert (read.words, read.labels) == ([["EU", "rejects"], ["."]], [["B-ORG", "O"], ["O"]])
    assert read.lines == [[3, 4], [8]] and read.place(1, 0) == f"file {str(path)!r}, line 8"
    last = read.pick([1])
    assert (last.words, last.lines, last.known_labels) == ([["."]], [[8]], ("B-ORG", "O"))


@pytest.mark.parametrize(
    ("content", "columns", "words", "labels"),
    [
        ("EU NNP O\n. . O\n", (0, 1), [["EU", "."]], [["NNP", "."]]),
        ("EU NNP O\n. . O\n", ("-1", "-2"), [["O", "O"]], [["NNP", "."]]),
        ("id\tToken\tner\n\n1\tNew York\tB-LOC\n", ("token", "NER"), [["New York"]], [["B-LOC"]]),
        # Between tabs words may have spaces, or be one.
        ("New York \tB-LOC\n \tO\n\u00a0\tO\n", (), [["New York", " ", "\u00a0"]], [["B-LOC", "O", "O"]]),
        ("a\tO\n\t\nb\tO\n  \nc\tO", (), [["a"], ["b"], ["c"]], [["O"]] * 3),
        ("\ufeffa\tO\r\nb\tB-X\r\n\r\nc\tO\r\n", (), [["a", "b"], ["c"]], [["O", "B-X"], ["O"]]),
        ("a\u2028b\tO\nc\u0085d\tO\n", (), [["a\u2028b", "c\u0085d"]], [["O", "O"]]),
        ("#\tO\n# hash\tO\n", (), [["#", "# hash"]], [["O", "O"]]),
        (CONLLU, (), [["vamos", "nos", "al mar"], ["#"]], [["VERB", "PRON", "NOUN"], ["SYM"]]),
        (CONLLU, ("lemma", "XPOS"), [["ir", "nosotros", "mar"], ["#"]], [["v", "p", "n"], ["s"]]),
        (CONLLU, (2, "4"), [["ir", "nosotros", "mar"], ["#"]], [["v", "p", "n"], ["s"]]),
    ],
)
def test_columns(write, content, columns, words, labels):
    read = read_tagged_file(write(content, "train.tsv"), *columns)
    assert (read.words, read.labels) == (words, labels)


@pytest.mark.parametrize(
    ("content", "columns", "named"),
    [
        ("a O\nb\n", {}, "line 2"),
        ("a\nb\n", {}, "line 1"),
        ("a\tO\nb\t\n", {}, "line 2"),
        ("a\tO\n\tO\n", {}, "line 2"),
        ("a O\n\nNew York B-LOC\n", {}, "line 3"),
        ("-DOCSTART- O\n\n", {}, "no words"),
        ("a O\n\n가나 O\n".encode("euc-kr"), {}, ("line 3", "UTF-8", "0xB0")),
        ("résumé O\n".encode() * 9 + b"caf\xe9 O\n", {}, ("line 10", "UTF-8", "0xE9")),
        ("a O\n", {"label_column": "ner"}, ("label_column", "'ner'", "['a', 'O']")),
        ("a O\n", {"label_column": "7"}, ("line 1", "7")),
        ("a O\n", {"word_column": "-1"}, ("line 1", "-1")),
        (CONLLU + "1\ta\tb\n", {}, "line 10"),
        (CONLLU.replace("2.1\t", "zwei\t"), {}, ("line 6", "'zwei'")),
        (CONLLU, {"label_column": "feats"}, "'feats'"),
        (CONLLU, {"label_column": "pos"}, ("label_column", "'pos'", "'upos'")),
        ('{"tokens": ["a"]}', {}, "--dataset_name"),
        (gzip.compress(b"a\tO\n" * 99)[:-9], {}, "cannot be unpacked"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(write, content, columns, named):
    packed = isinstance(content, bytes) and content.startswith(b"\x1f")
    path = write(content, "a.conll.gz" if packed else "a.unknown")
    message = assert_refused(ValueError, named, read_tagged_file, path, name="train_file", **columns)
    assert f"train_file {str(path)!r}" in message


def test_packed_files_and_none(write, tmp_path):
    assert read_tagged_file(write(bz2.compress(CONLLU.encode()), "x.conllu.BZ2")).lines == [[4, 5, 7], [9]]
    assert_refused(
        FileNotFoundError, ("test_file", "no.conll"), read_tagged_file, tmp_path / "no.conll", name="test_file"
    )


def test_real_files():
    counts = {}
    for split in ("train", "dev", "test"):
        labels = read_tagged_file(shared_data("wnut17") / f"{split}.conll").labels
        flat = [label for row in labels for label in row]
        counts[split] = (len(labels), len(flat), sum(label.startswith("B-") for label in flat), len(set(flat)))
    # Sentences and entities as the shared task counts them (Derczynski et al. 2017, table 2).
    assert counts == {"train": (3394, 62730, 1975, 13), "dev": (1009, 15733, 836, 13), "test": (1287, 23394, 1079, 13)}
    read = read_tagged_file(shared_data("ud_english_ewt/dev.conllu"))
    assert (len(read), sum(map(len, read.words))) == (2001, 25147)


TAGS = {"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=["O", "B", "I"]))}


def test_datasets():
    dataset = Dataset.from_dict({"tokens": [["a", "b"], []], "ner_tags": [[0, 1], []]}, features=Features(TAGS))
    read = tagged_from_dataset(dataset, "dataset_name 'x', split 'train'")
    assert (read.words, read.labels, read.known_labels) == ([["a", "b"], []], [["O", "B"], []], ("O", "B", "I"))
    assert read.place(0, 1) == "dataset_name 'x', split 'train', row 0, word 1"
    dataset = Dataset.from_dict({"words": [["a"]], "pos_tags": [["NOUN"]], "numbers": [[7]]})
    assert tagged_from_dataset(dataset, "x").labels == [["NOUN"]]
    assert tagged_from_dataset(dataset, "x", label_column="numbers").labels == [["7"]]


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"tokens": [["a"]]}, ("'ner_tags'", "['tokens']", "--label_column")),
        ({"text": [["a"]], "tags": [["O"]]}, ("'tokens'", "--word_column")),
        ({"tokens": [["a"]], "pos_tags": [["O"]], "chunk_tags": [["O"]]}, "'ner_tags'"),
        ({"tokens": [["a"], ["a", "b"]], "tags": [["O"], ["O"]]}, "row 1"),
        ({"tokens": ["a b"], "tags": [["O"]]}, ("row 0", "'tokens'")),
        ({"tokens": [[1]], "tags": [["O"]]}, ("row 0", "'tokens'")),
        ({"tokens": [["a"]], "tags": [[0.5]]}, ("row 0", "'tags'")),
        ({"tokens": [[]], "tags": [[]]}, "no words"),
        ({"tokens": [["a"]], "ner_tags": [[-1]]}, ("row 0", "'ner_tags'", "[-1]")),
    ],
)
def test_bad_datasets(columns, named):
    dataset = Dataset.from_dict(columns, features=Features(TAGS) if "ner_tags" in columns else None)
    assert_refused(ValueError, named, tagged_from_dataset, dataset, "x")


def test_directories_and_names(tmp_path):
    dataset = Dataset.from_dict({"tokens": [["a"]], "tags": [["O"]]})
    DatasetDict(train=dataset).save_to_disk(tmp_path / "saved")
    (tmp_path / "parquet").mkdir()
    dataset.to_parquet(tmp_path / "parquet" / "train.parquet")
    for name in ("saved", "parquet"):
        assert tagged_from_dataset(load_named_dataset(str(tmp_path / name))["train"], "x").words == [["a"]]
    assert_refused(ValueError, "dataset_name 'nobody/nothing'", load_named_dataset, "nobody/nothing")


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"), min_size=1, max_size=5).map(
    lambda word: word.strip(" ") or word
)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=3))
def test_what_is_written_is_read_again(tmp_path_factory, words):
    words = [[word for word in row if not word.startswith(("\ufeff", "-DOCSTART-"))] or ["x"] for row in words]
    path = tmp_path_factory.getbasetemp() / "written.conll"
    dataset = Dataset.from_dict({"tokens": words, "tags": [["O"] * len(row) for row in words]})
    sentences = tagged_from_dataset(dataset, "x")
    columns = sentences.words, sentences.labels, [["B-X"] * len(row) for row in words]
    lines = itertools.chain.from_iterable(map(tagged_lines, *columns))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    read = read_tagged_file(path)
    assert read.words == words
    assert read.labels == [["B-X"] * len(row) for row in words]
    assert read_tagged_file(path, label_column=1).labels == [["O"] * len(row) for row in words]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_do_on_any_system(tmp_path, end):
    (tmp_path / "a.conll").write_bytes(f"a X{end}b Y{end}{end}c X{end}".encode())
    assert read_tagged_file(tmp_path / "a.conll").words == [["a", "b"], ["c"]]
    row = "\t".join(["1", "a", "_", "X", *"______"])
    (tmp_path / "a.conllu").write_bytes(f"# text{end}{row}{end}{end}{row}{end}{end}".encode())
    assert read_tagged_file(tmp_path / "a.conllu").words == [["a"], ["a"]]


@pytest.mark.parametrize("content", [b'{"tokens": ["a"]\n', b"", b"\xff\xfe"])
def test_a_directory_of_bad_records_is_refused_by_its_name(tmp_path, content):
    (tmp_path / "train.jsonl").write_bytes(content)
    message = assert_refused(ValueError, str(tmp_path), load_named_dataset, str(tmp_path))
    assert len(message) < 800 and "\n" not in message
