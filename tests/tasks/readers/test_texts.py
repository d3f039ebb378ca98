"""Readers of texts with a label each, trees among them."""

import pytest
from conftest import shared_data
from datasets import ClassLabel, Dataset, Features, Value
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.readers.texts import read_texts, read_trees, texts_of_dataset

TREES = "(3 (2 It) (3 (4 (2 's) (4 good)) (2 .)))\n(1 (2 -LRB-) (1 (1 bad\\/sad) (2 -RRB-)))\n"


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="train.tsv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write_file


def test_texts_labels_places_and_ids(write):
    path = write("id\tdocument\tlabel\n5\t 좋아요 \t1\n9\t별로\t0\n")
    sentences = read_texts(path, name="train_file")
    assert (sentences.texts, sentences.labels, sentences.ids) == (["좋아요", "별로"], ["1", "0"], ["5", "9"])
    assert sentences.place(1) == f"train_file {str(path)!r}, line 3" and not sentences.is_tokenized
    last = sentences.pick([1])
    assert (last.texts, last.labels, last.places, last.ids) == (["별로"], ["0"], ["line 3"], ["9"])
    assert set(last.known_labels) == {"0", "1"} and last.text(0) == "별로"
    assert sentences.label_places() == {label: sentences.place(place) for place, label in enumerate("10")}


def test_json_labels_may_be_numbers_or_none(write):
    lines = '{"text": "a", "label": 1}\n{"text": "b", "label": null}\n{"text": "c", "label": "-"}\n'
    sentences = read_texts(write(lines, "a.jsonl"))
    assert (sentences.texts, sentences.labels, sentences.num_unlabelled) == (["a", "c"], ["1", "-"], 1)


def test_trees(write):
    path = write(TREES, "train.txt")
    whole = read_texts(path)
    assert (whole.texts, whole.labels) == (["It 's good .", "( bad/sad )"], ["3", "1"]) and whole.is_tokenized
    assert [whole.place(index) for index in (0, 1)] == [f"file {str(path)!r}, line {line}" for line in (1, 2)]
    of_two = read_texts(path, min_phrase_words=2)
    assert list(zip(of_two.texts, of_two.labels, strict=True)) == [
        ("'s good", "4"),
        ("'s good .", "3"),
        ("It 's good .", "3"),
        ("bad/sad )", "1"),
        ("( bad/sad )", "1"),
    ]
    assert len(read_texts(path, min_phrase_words=1)) == 12
    assert read_texts(path, min_phrase_words=9).texts == whole.texts
    over_lines = write(TREES.replace(" (", "\n  ("), "train.trees")
    assert (read_trees(over_lines).texts, read_trees(over_lines).labels) == (whole.texts, whole.labels)


def test_trees_without_end_are_refused_before_they_fill_the_memory(write):
    """Each node keeps its words: in a tree of twenty thousand levels those of the first are kept as many times."""
    for levels in (250, 20_000):
        path = write("\n(1 (1 a) b)\n" + "(1 x " * levels + ")" * levels, "train.trees")
        if levels == 250:
            assert read_trees(path).texts[1] == " ".join("x" * levels)
        else:
            assert_refused(ValueError, ("train.trees", "line 3", "250"), read_trees, path)


NODES = st.recursive(
    st.tuples(st.integers(0, 4), st.lists(st.sampled_from(["a", "n't", "...", "x/y"]), min_size=1, max_size=3)),
    lambda children: st.tuples(st.integers(0, 4), st.lists(children, min_size=1, max_size=3)),
)


def flat(node):
    """The nodes from the leaves to the root, as (words, label), and the tree in brackets."""
    label, children = node
    below, words, written = [], [], []
    for child in children:
        if isinstance(child, str):
            words.append(child)
            written.append(child)
        else:
            nodes, text = flat(child)
            below += nodes
            words += nodes[-1][0].split()
            written.append(text)
    return [*below, (" ".join(words), str(label))], f"({label} {' '.join(written)})"


@given(st.lists(NODES, min_size=1, max_size=4))
def test_any_tree_gives_its_nodes(tmp_path_factory, trees):
    path = tmp_path_factory.mktemp("trees") / "a.ptb"
    read = [flat(tree) for tree in trees]
    path.write_text("\n".join(text for _, text in read), encoding="utf-8")
    sentences = read_trees(path, min_phrase_words=1)
    nodes = [node for nodes, _ in read for node in nodes]
    assert list(zip(sentences.texts, sentences.labels, strict=True)) == nodes


def test_bad_trees_and_tables(write):
    for content, name, kw, named in (
        ("(3 (2 a)\n", "a.trees", {}, ("line 1", "open")),
        ("(3 a)\n(2 b))\n", "a.trees", {}, ("line 2", "')'")),
        ("(3 a)\n((2 b))\n", "a.trees", {}, "line 2"),
        ("(3 a)\n(2)\n", "a.trees", {}, ("line 2", "words")),
        ("(3 a)\n()\n", "a.trees", {}, ("line 2", "label")),
        ("\n", "a.trees", {}, "no trees"),
        (TREES, "a.trees", {"text_column": 0}, ("text_column", "trees")),
        ("text\tlabel\na\t1\n", "a.tsv", {"min_phrase_words": 4}, ("min_phrase_words", "4")),
        ("text\tlabel\n", "a.tsv", {}, "no texts"),
        ("", "a.tsv", {}, "no texts"),
        ("text\tlabel\na\t1\n \t0\n", "a.tsv", {}, ("line 3", "text is")),
        ("text\tlabel\na\t\n", "a.tsv", {}, ("line 2", "label")),
        ('{"text": ["a"], "label": 1}', "a.jsonl", {}, ("line 1", "list", "text")),
        ('{"text": "a", "label": 0.5}', "a.jsonl", {}, ("line 1", "0.5")),
        ('{"text": "a\\ud800", "label": 1}', "a.jsonl", {}, ("line 1", "surrogate")),
    ):
        assert_refused(ValueError, named, read_texts, write(content, name), **kw)


def test_datasets():
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos", "odd"])})
    rows = Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]}, features=features)
    sentences = texts_of_dataset(rows, "dataset_name 'x', split 'train'")
    assert (sentences.texts, sentences.labels, sentences.num_unlabelled) == (["a", "b"], ["pos", "neg"], 1)
    assert sentences.known_labels == ("neg", "pos", "odd") and sentences.place(1).endswith("'train', row 1")
    named = ("dataset_name 'x'", "'body'")
    assert_refused(ValueError, named, texts_of_dataset, rows, "dataset_name 'x'", text_column="body")


def test_real_files():
    folder = shared_data("sst5")
    counts = {split: read_texts(folder / f"{split}.tsv.gz") for split in ("train", "dev", "test")}
    # As the paper has them (Socher et al. 2013, sec. 5.1).
    assert {split: len(read) for split, read in counts.items()} == {"train": 8544, "dev": 1101, "test": 2210}
    assert set(counts["dev"].labels) == set("01234")
    korean = read_texts(shared_data("nsmc") / "sentiment-test.tsv.gz")
    assert len(korean) == 4000 and set(korean.labels) == {"0", "1"}
