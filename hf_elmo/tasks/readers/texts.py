"""Texts, or pairs of them, with a label each: tables, JSON, Parquet, `datasets`, and the trees of the SST."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from datasets import Dataset

from ...given.bounded_files import quoted
from ...text.files import form_of, suffix_of
from .labelled_texts import LabelledTexts, gather, gather_dataset
from .rows import ROW_ENDINGS, Column, read_rows
from .text_lines import text_lines

TREE_ENDINGS = (".trees", ".tree", ".ptb", ".mrg")

# A question and a sentence, as QNLI has them, are a pair; each by itself is a text.
_TEXT_NAMES = (
    *("premise", "sentence1", "question1", ("question", "sentence")),
    *("sentence", "text", "review", "document", "phrase", "question"),
)
_SECOND_NAMES = ("hypothesis", "sentence2", "question2", "text_pair", ("sentence", "question"))
_LABEL_NAMES = ("gold_label", "label", "labels", "sentiment", "stars", "polarity", "class")
_ID_NAMES = ("pairid", "guid", "id", "idx", "index", "sentence_id")
_MARK_OR_WORD = re.compile(r"[()]|[^\s()]+")
# Nodes in one another; the deepest of the Stanford Sentiment Treebank have some thirty.
_MOST_LEVELS = 250
_TREE = re.compile(r"\(\S+\s+[^\s(]|\(\S+\s*\(")
# What stands for brackets, slashes and stars in trees.
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def read_texts(
    path: str | os.PathLike,
    text_column: int | str | None = None,
    text_pair_column: int | str | None = None,
    label_column: int | str | None = None,
    min_phrase_words: int | None = None,
    name: str = "file",
) -> LabelledTexts:
    """Read texts, or pairs of texts, with a label each, by what the file's name ends in.

    Trees are files that end in `.trees`, `.tree`, `.ptb` or `.mrg`, and text files, and files of unknown names, that
    begin with one; see `read_rows` for all others.

    Args:
        path: The file, UTF-8.
        text_column: Name or number of the column of texts; None for the first that has a usual name.
        text_pair_column: The same for the second texts of pairs, which there are only where this is named, or where no
            column of texts is named and one has a usual name.
        label_column: The same for the labels.
        min_phrase_words: Of trees, also take the phrases of at least so many words; None for whole sentences alone.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    source = f"{name} {str(path)!r}"
    if _holds_trees(path, name):
        asked = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
        for argument, column in asked.items():
            if column is not None:
                raise ValueError(f"{argument} is {column!r}, but {source} holds trees, which have no columns.")
        return read_trees(path, min_phrase_words, name)
    if min_phrase_words is not None:
        raise ValueError(
            f"min_phrase_words is {min_phrase_words}, but {source} holds no trees, whose phrases they are."
        )
    return gather(read_rows(path, _columns(text_column, text_pair_column, label_column), name), source)


def texts_of_dataset(
    dataset: Dataset,
    source: str,
    text_column: int | str | None = None,
    text_pair_column: int | str | None = None,
    label_column: int | str | None = None,
) -> LabelledTexts:
    """Read one split of a dataset with a text, or two, and a label, a string, an integer or a `ClassLabel`, per row.

    Raises: ValueError naming the split and the column or the row.
    """
    return gather_dataset(dataset, source, _columns(text_column, text_pair_column, label_column))


def read_trees(path: str | os.PathLike, min_phrase_words: int | None = None, name: str = "file") -> LabelledTexts:
    """Read trees in brackets whose nodes are labels, `(3 (2 good) (2 fun))` (Socher et al. 2013).

    Args:
        path: The file, UTF-8; a tree may go over several lines.
        min_phrase_words: Take the phrases of at least so many words too, each as a text of its own; 1 for all.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the file and the line where brackets or labels are lacking.
    """
    source = f"{name} {str(path)!r}"
    sentences = LabelledTexts(source, is_tokenized=True)
    for line, nodes in _trees(text_lines(path, name), source):
        whole = len(nodes) - 1
        for index, (label, words) in enumerate(nodes):
            if index == whole or (min_phrase_words is not None and len(words) >= min_phrase_words):
                sentences.texts.append(" ".join(words))
                sentences.labels.append(label)
                sentences.places.append(f"line {line}")
    if not len(sentences):
        raise ValueError(f"{source} holds no trees; name another file.")
    return sentences


def _columns(
    text_column: int | str | None, text_pair_column: int | str | None, label_column: int | str | None
) -> dict[str, Column]:
    columns = {
        "text": Column("text_column", text_column, _TEXT_NAMES),
        "second": Column("text_pair_column", text_pair_column, _SECOND_NAMES, is_optional=True),
        "label": Column("label_column", label_column, _LABEL_NAMES),
        "id": Column("id_column", None, _ID_NAMES, is_optional=True),
    }
    if text_column is not None and text_pair_column is None:
        del columns["second"]
    return columns


def _holds_trees(path: str | os.PathLike, name: str) -> bool:
    suffix = suffix_of(path)
    if suffix in TREE_ENDINGS:
        return True
    is_table = suffix in ROW_ENDINGS and suffix != ".txt"
    if is_table or not os.path.isfile(path) or form_of(path, name) != "unknown":
        return False
    first = next((line for _, line in text_lines(path, name) if line.strip()), "")
    return bool(_TREE.match(first.strip()))


def _trees(lines: Iterable[tuple[int, str]], source: str) -> Iterator[tuple[int, list[tuple[str, list[str]]]]]:
    """Each tree with the line that it begins on: the label and the words of its nodes, the whole sentence last."""
    # The nodes that are open, from the outermost one: label, words so far.
    path: list[tuple[str | None, list[str]]] = []
    nodes: list[tuple[str, list[str]]] = []
    start = number = 0
    for number, mark in chain.from_iterable(((n, m) for m in _MARK_OR_WORD.findall(line)) for n, line in lines):
        if mark == "(":
            if path and path[-1][0] is None:
                raise ValueError(f"{source}, line {number}: a node begins with a bracket, not with its label.")
            if len(path) == _MOST_LEVELS:
                raise ValueError(
                    f"{source}, line {number}: the tree that begins on line {start} has nodes in more than "
                    f"{_MOST_LEVELS} others, as no sentence has; check what it is."
                )
            start = start if path else number
            path.append((None, []))
        elif not path:
            raise ValueError(f"{source}, line {number}: {quoted(mark)} stands outside of all trees.")
        elif mark != ")":
            label, words = path[-1]
            if label is None:
                path[-1] = (mark, words)
            else:
                words.append(_ESCAPES.get(mark, mark).replace("\\/", "/").replace("\\*", "*"))
        else:
            label, words = path.pop()
            if label is None or not words:
                raise ValueError(f"{source}, line {number}: a node has no {'words' if label else 'label'}.")
            nodes.append((label, words))
            if path:
                path[-1][1].extend(words)
            else:
                yield start, nodes
                nodes = []
    if path:
        raise ValueError(
            f"{source}: the tree that begins on line {start} is open at the end, with {len(path)} brackets too few."
        )
