"""Texts, and pairs of texts, with a label each: tables, JSON, Parquet, datasets and trees."""

import csv
import gzip
import io
import json
import shutil

import pytest
from conftest import shared_data
from datasets import ClassLabel, Dataset, Features, Value
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.readers.texts import read_texts, texts_of_dataset

RECORDS = [{"id": 7, "review": "Good , \t fun", "stars": "4"}, {"id": 8, "review": "Bad", "stars": "1"}]
SNLI = [
    {"gold_label": "neutral", "pairID": "3#0r1n", "sentence1": "A man sleeps.", "sentence2": "He dreams."},
    {"gold_label": "-", "pairID": "3#1r1c", "sentence1": "A dog runs.", "sentence2": ""},
    {"gold_label": "contradiction", "pairID": "3#2r1c", "sentence1": "A man sleeps.", "sentence2": "He runs."},
]
TREES = "(3 (2 It) (3 (4 (2 's) (4 good)) (2 .)))\n(1 (2 -LRB-) (1 (1 bad\\/sad) (2 -RRB-)))\n"


def rows(read):
    return list(zip(read.texts, read.labels, strict=True))


def test_texts_labels_places_and_ids(write):
    path = write("id\tdocument\tlabel\n5\t 좋아요 \t1\n9\t별로\t0\n")
    read = read_texts(path, name="train_file")
    assert (rows(read), read.ids) == ([("좋아요", "1"), ("별로", "0")], ["5", "9"])
    assert read.place(1) == f"train_file {str(path)!r}, line 3" and not read.is_tokenized
    last = read.pick([1])
    assert (rows(last), last.places, last.ids, last.text(0)) == ([("별로", "0")], ["line 3"], ["9"], "별로")
    assert set(last.known_labels) == {"0", "1"}
    assert read.label_places() == {label: read.place(index) for index, label in enumerate("10")}


def test_the_same_rows_from_each_form(write, tmp_path):
    table = io.StringIO()
    writer = csv.DictWriter(table, RECORDS[0])
    writer.writeheader()
    writer.writerows(RECORDS)
    paths = [
        write(table.getvalue(), "a.csv"),
        write("".join(json.dumps(record) + "\n" for record in RECORDS), "a.jsonl"),
        write(json.dumps(RECORDS, indent=2), "a.json"),
        tmp_path / "a.parquet",
    ]
    Dataset.from_list(RECORDS).to_parquet(paths[-1])
    # Files whose names say nothing are read as what they look like.
    paths += [shutil.copy(path, tmp_path / f"reviews.{path.suffix[1:]}-1") for path in paths]
    paths.append(write(gzip.compress(table.getvalue().encode()), "a.CSV.gz"))
    wanted = [(record["review"], record["stars"]) for record in RECORDS]
    for path in paths:
        for text, label in ((None, None), ("review", "STARS"), (1, "2"), ("-2", "stars")):
            assert rows(read_texts(path, text, label_column=label)) == wanted, (path, text)
    assert rows(texts_of_dataset(Dataset.from_list(RECORDS), "here")) == wanted


def test_places_of_lines_and_titles(write):
    for name, content, columns, places in (
        ("a.tsv", "text\tstars\n\na\t1\n", {}, ["line 3"]),
        ("a.csv", 'text,stars\n"a\nb",1\nc,2\n', {}, ["line 2", "line 4"]),
        ("a.json", '[{"text": "a", "stars": 1}]', {}, ["line 1, entry 0"]),
        # Without titles, and with some of which a number or an unusual name is asked for.
        ("a.tsv", "a\t4\nb\t2\n", {"text_column": 0, "label_column": 1}, ["line 1", "line 2"]),
        ("a.part-1", "Stars\tsaid\n4\ta\n", {"text_column": 1}, ["line 2"]),
        ("a.tsv", "mark\tsaid\n4\ta\n", {"text_column": "said", "label_column": 0}, ["line 2"]),
    ):
        read = read_texts(write(content, name), **columns)
        assert (read.places, read.texts[0][0], read.labels[0] in "14") == (places, "a", True), content


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cf"]), min_size=1)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1))
def test_any_text_comes_back_from_csv(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "stars"), *pairs])
    assert rows(read_texts(path)) == pairs


def test_what_has_no_label_and_pairs_without_agreement_are_left_out(write):
    lines = '{"text": "a", "label": 1}\n{"text": "b", "label": null}\n{"text": "c", "label": "-"}\n'
    read = read_texts(write(lines, "a.jsonl"))
    assert (rows(read), read.num_unlabeled) == ([("a", "1"), ("c", "-")], 1)
    pairs = read_texts(write("".join(json.dumps(record) + "\n" for record in SNLI), "snli.jsonl"))
    assert pairs.texts == ["A man sleeps."] * 2 and pairs.second_texts == ["He dreams.", "He runs."]
    assert pairs.labels == ["neutral", "contradiction"] and pairs.ids == ["3#0r1n", "3#2r1c"]
    assert pairs.num_unlabeled == 1 and pairs.places[1] == "line 3" and pairs.pick([1]).second_texts == ["He runs."]


@pytest.mark.parametrize(
    ("titles", "options", "text", "second"),
    [
        ("premise\thypothesis\tlabel", {}, "a", "b"),
        ("question\tsentence\tlabel", {}, "a", "b"),
        ("sentence\tquestion\tlabel", {}, "b", "a"),
        ("question\tid\tlabel", {}, "a", None),
        ("sentence1\tsentence2\tlabel", {"text_column": "sentence2"}, "b", None),
        ("one\tother\tlabel", {"text_column": "one", "text_pair_column": "other"}, "a", "b"),
        ("text\tother\tlabel", {"text_pair_column": 1}, "a", "b"),
        ("a\tb\tz", {"text_column": 1, "text_pair_column": 0, "label_column": -1}, "b", "a"),
    ],
)
def test_a_second_column_of_texts_makes_pairs(write, titles, options, text, second):
    read = read_texts(write(f"{titles}\na\tb\t-\na\tb\tx\n"), **options)
    # Of pairs, - is no label.
    assert read.texts[-1] == text and read.num_unlabeled == (1 if second else 0)
    assert (read.second_texts or [None])[-1] == second


def test_datasets():
    features = {"premise": Value("string"), "hypothesis": Value("string"), "label": ClassLabel(names=["neg", "pos"])}
    columns = {"premise": ["a", "b", "c"], "hypothesis": ["d", "e", "f"], "label": [1, 0, -1]}
    dataset = Dataset.from_dict(columns, features=Features(features))
    read = texts_of_dataset(dataset, "dataset_name 'x', split 'train'")
    assert (rows(read), read.second_texts, read.num_unlabeled) == ([("a", "pos"), ("b", "neg")], ["d", "e"], 1)
    assert read.known_labels == ("neg", "pos") and read.place(1).endswith("'train', row 1")
    assert_refused(ValueError, ("name 'x'", "'body'"), texts_of_dataset, dataset, "name 'x'", text_column="body")


def test_trees(write):
    path = write(TREES, "train.txt")
    whole = read_texts(path)
    assert rows(whole) == [("It 's good .", "3"), ("( bad/sad )", "1")] and whole.is_tokenized
    assert whole.places == ["line 1", "line 2"]
    of_two = [("'s good", "4"), ("'s good .", "3"), ("It 's good .", "3"), ("bad/sad )", "1"), ("( bad/sad )", "1")]
    assert rows(read_texts(path, min_phrase_words=2)) == of_two
    assert rows(read_texts(write(TREES.replace(" (", "\n  ("), "train.trees"))) == rows(whole)


def test_trees_without_end_are_refused_before_they_fill_the_memory(write):
    """Each node keeps its words: in a tree of twenty thousand levels those of the first are kept as many times."""
    for levels in (250, 251, 20_000):
        path = write("\n(1 (1 a) b)\n" + "(1 x " * levels + ")" * levels, "train.trees")
        if levels == 250:
            assert read_texts(path).texts[1] == " ".join("x" * levels)
        else:
            assert_refused(ValueError, ("train.trees", "line 3", "250"), read_texts, path)


NODES = st.recursive(
    st.tuples(st.integers(0, 4), st.lists(st.sampled_from(["a", "n't", "...", "x/y"]), min_size=1, max_size=3)),
    lambda children: st.tuples(st.integers(0, 4), st.lists(children, min_size=1, max_size=3)),
)


def flat(node):
    """The nodes from the leaves to the root, as (words, label), and the tree in brackets."""
    label, children = node
    parts = [([], child) if isinstance(child, str) else flat(child) for child in children]
    words = [word for (nodes, text) in parts for word in (nodes[-1][0] if nodes else text).split()]
    below = [node for nodes, _ in parts for node in nodes]
    return [*below, (" ".join(words), str(label))], f"({label} {' '.join(text for _, text in parts)})"


@given(st.lists(NODES, min_size=1, max_size=4))
def test_any_tree_gives_its_nodes(tmp_path_factory, trees):
    path = tmp_path_factory.mktemp("trees") / "a.ptb"
    read = [flat(tree) for tree in trees]
    path.write_text("\n".join(text for _, text in read), encoding="utf-8")
    assert rows(read_texts(path, min_phrase_words=1)) == [node for nodes, _ in read for node in nodes]


@pytest.mark.parametrize(
    ("name", "content", "options", "named"),
    [
        ("a.trees", "(3 (2 a)\n", {}, "line 1"),
        ("a.trees", "(3 a)\n(2 b))\n", {}, "line 2"),
        ("a.trees", "(3 a)\n((2 b))\n", {}, "line 2"),
        ("a.trees", "(3 a)\n()\n", {}, "line 2"),
        ("a.trees", TREES, {"text_column": 0}, ("text_column", "trees")),
        ("a.tsv", "text\tlabel\na\t1\n", {"min_phrase_words": 4}, ("min_phrase_words", "4")),
        ("a.tsv", "", {}, "no texts"),
        ("a.tsv", "text\tlabel\na\t1\n \t0\n", {}, ("line 3", "text")),
        ("a.tsv", "text\tlabel\na\t\n", {}, ("line 2", "label")),
        ("a.tsv", "text\tlabel\na\t1\nb c\n", {}, ("line 3", "'b c'")),
        ("a.tsv", "a\t1\n", {}, "--text_column"),
        ("a.tsv", "text\tother\na\t1\n", {}, ("'other'", "--label_column")),
        ("a.tsv", "text\tlabel\na\t1\n", {"text_column": "body"}, ("text_column", "'body'", "'label'")),
        ("a.tsv", "text\tlabel\na\t1\n", {"text_column": 2}, ("text_column", "2")),
        ("a.tsv", "text\tlabel\na\t1\n", {"text_column": 1}, ("named twice", "'label'")),
        ("a.tsv", b"text\tlabel\ncaf\xe9\t1\n", {}, ("line 2", "UTF-8", "0xE9")),
        ("a.csv", 'text,label\na,1\n"b,2\n', {}, "line 3"),
        ("a.tsv", "premise\thypothesis\tlabel\na\t \t1\n", {}, ("line 2", "text_pair")),
        ("a.tsv", "premise\thypothesis\tlabel\na\tb\t-\n", {}, "1 without"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', {}, ("line 2", "'label'")),
        ("a.jsonl", '{"text": ["a"], "label": 1}', {}, ("line 1", "list", "text")),
        ("a.jsonl", '{"text": "a", "label": 0.5}', {}, ("line 1", "0.5")),
        ("a.jsonl", '{"text": "a\\ud800", "label": 1}', {}, ("line 1", "surrogate")),
        ("a.parquet", "PAR", {}, "Parquet"),
        ("a.csv.gz", "no gzip", {}, "unpacked"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_place(write, name, content, options, named):
    path = write(content, name)
    message = assert_refused(ValueError, named, read_texts, path, name="train_file", **options)
    assert f"train_file {str(path)!r}" in message
    path.unlink()
    assert_refused(FileNotFoundError, ("train_file", name), read_texts, path, name="train_file")


def test_real_files():
    # As the paper has them (Socher et al. 2013, sec. 5.1).
    for split, count in (("train", 8544), ("dev", 1101), ("test", 2210)):
        read = read_texts(shared_data("sst5") / f"{split}.tsv.gz")
        assert len(read) == count and set(read.labels) == set("01234")
    snli = read_texts(shared_data("snli") / "test.tsv.gz")
    assert len(snli) == 9824 and set(snli.labels) == {"contradiction", "entailment", "neutral"}
    korean = read_texts(shared_data("klue_nli") / "dev.json")
    assert len(korean) == 3000 and korean.ids[0] == "klue-nli-v1_dev_00000" and len(set(korean.labels)) == 3
