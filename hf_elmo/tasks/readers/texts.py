"""Texts, or pairs of them, with a label each: tables, JSON, Parquet, `datasets`, and the trees of the SST."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from datasets import ClassLabel, Dataset

from ...given import quoted
from ...text.files import TEXT_SUFFIXES, check_characters, form_of, records, suffix_of, text_lines
from . import Examples

_PAIRS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text", "text_pair"),
)
_TEXTS = ("premise", "sentence1", "question1", "sentence", "text", "review", "document", "phrase", "question")
_LABELS = ("gold_label", "label", "labels", "sentiment", "stars", "polarity", "class")
_IDS = ("pairid", "guid", "id", "idx", "index", "sentence_id")
# By which SNLI says that its annotators did not agree.
_NO_LABEL = "-"
_NUMBER = re.compile(r"-?\d+")
_MARK_OR_WORD = re.compile(r"[()]|[^\s()]+")
_TREE = re.compile(r"\s*\([^\s()]+(\s*$|\s+[^\s(]|\s*\()")
# Nodes in one another; the deepest of the Stanford Sentiment Treebank have some thirty. Each node keeps its words.
_MOST_LEVELS = 250
# What stands for brackets in trees.
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}

# Of each argument that names a column the column that it names.
Asked = Mapping[str, int | str | None]


@dataclass
class LabeledTexts(Examples):
    """One part of a corpus of texts, or of pairs of texts, with a label each."""

    texts: list[str] = field(default_factory=list)  # of pairs the first ones
    labels: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # where each stood, "line 7" for example
    second_texts: list[str] | None = None  # of pairs
    ids: list[str] | None = None  # what the corpus calls each; None where it has no names for them
    is_tokenized: bool = False  # whether the words of a text stand between spaces, whatever a tokenizer would do
    num_unlabeled: int = 0  # how many were left out because they have no label

    @property
    def columns(self) -> list[list[str]]:
        """The texts, of pairs the first ones and the second ones."""
        return [self.texts] if self.second_texts is None else [self.texts, self.second_texts]

    def text(self, index: int) -> str:
        """Of a pair the first text, whose pairs stay together."""
        return self.texts[index]

    def labels_with_places(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        return ((label, (index,)) for index, label in enumerate(self.labels))

    def place(self, *where: int) -> str:
        return f"{self.source}, {self.places[where[0]]}"


def read_texts(
    path: str | os.PathLike,
    text_column: int | str | None = None,
    text_pair_column: int | str | None = None,
    label_column: int | str | None = None,
    min_phrase_words: int | None = None,
    name: str = "file",
) -> LabeledTexts:
    """Read texts, or pairs of texts, with a label each, by what the file's name ends in, or looks like.

    Files of text that begin with a tree are trees. `.tsv` and `.txt` are columns between tabs, without any quoting;
    `.csv` between commas, quoted as spreadsheets do; `.jsonl`, `.ndjson` and `.json` an object per line or a list of
    them; `.parquet` a table. The first line of a table of text has its titles if a column is asked for by name, or if
    it has a usual name of one. Records without a label, and pairs with `-` for one, are counted and left out.

    Args:
        path: The file, UTF-8, compressed or not.
        text_column: Name or number (from 0; negative ones from the end) of the column of texts; None for the first
            that has a usual name.
        text_pair_column: The same for the second texts of pairs, which there are only where this is named, or where no
            column of texts is named and two have usual names of pairs.
        label_column: The same for the labels.
        min_phrase_words: Of trees, also take the phrases of at least so many words; None for whole sentences alone.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    source = f"{name} {str(path)!r}"
    asked = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
    if form_of(path, name) == "unknown":
        start = next(filter(str.strip, text_lines(path, name)), "")
        if suffix_of(path) not in (".tsv", ".csv") and _TREE.match(start):
            if any(column is not None for column in asked.values()):
                raise ValueError(f"{source} holds trees, which have no columns; leave {', '.join(asked)} out.")
            return _read_trees(path, min_phrase_words, name)
    if min_phrase_words is not None:
        raise ValueError(
            f"min_phrase_words is {min_phrase_words}, but {source} holds no trees, whose phrases they are."
        )
    return _gather(_records(path, name, asked), source, asked)


def texts_of_dataset(
    dataset: Dataset,
    source: str,
    text_column: int | str | None = None,
    text_pair_column: int | str | None = None,
    label_column: int | str | None = None,
) -> LabeledTexts:
    """Read one split of a dataset with a text, or two, and a label, a string, an integer or a `ClassLabel`, per row.

    Raises: ValueError naming the split and the column or the row.
    """
    asked = {"text_column": text_column, "text_pair_column": text_pair_column, "label_column": label_column}
    columns = _find_columns(dataset.column_names, asked, source)
    feature = dataset.features[columns["label"]]
    names = tuple(feature.names) if isinstance(feature, ClassLabel) else ()
    rows = enumerate(dataset.select_columns(sorted({*columns.values()})))
    return _gather(((f"{source}, row {number}", row) for number, row in rows), source, asked, names)


def _read_trees(path: str | os.PathLike, min_phrase_words: int | None, name: str) -> LabeledTexts:
    """Read trees in brackets whose nodes are labels, `(3 (2 good) (2 fun))` (Socher et al. 2013)."""
    source = f"{name} {str(path)!r}"
    read = LabeledTexts(source, is_tokenized=True)
    # The label and the words so far of the nodes that are open, from the outermost one, and of those that are closed.
    opened, nodes = list[list[str]](), list[list[str]]()
    start = number = 0
    lines = enumerate(text_lines(path, name), start=1)
    for number, mark in ((number, mark) for number, line in lines for mark in _MARK_OR_WORD.findall(line)):
        inner = opened[-1] if opened else []
        # All is inside of a node, whose label comes first.
        can_open = (bool(inner) or not opened) and len(opened) < _MOST_LEVELS
        if not {"(": can_open, ")": len(inner) > 1}.get(mark, bool(opened)):
            break
        if mark == "(":
            start = start if opened else number
            opened.append([])
        elif mark != ")":
            inner.append(_ESCAPES.get(mark, mark).replace("\\/", "/").replace("\\*", "*"))
        else:
            nodes.append(opened.pop())
            if opened:
                opened[-1].extend(inner[1:])
                continue
            for node in nodes:
                if node is inner or (min_phrase_words is not None and len(node) > min_phrase_words):
                    read.texts.append(" ".join(node[1:]))
                    read.labels.append(node[0])
                    read.places.append(f"line {start}")
            nodes = []
    else:
        if not opened:
            return read
    raise ValueError(
        f"{source}, line {number}: no tree is well-formed here, nor has more than {_MOST_LEVELS} levels; wanted "
        "(LABEL words or nodes), all brackets closed."
    )


def _gather(
    records: Iterable[tuple[str, Mapping[str, Any]]], source: str, asked: Asked, names: Sequence[str] = ()
) -> LabeledTexts:
    """The texts of records with their places; labels that are integers are numbers of the names, if there are any."""
    read = LabeledTexts(source, known_labels=tuple(names))
    columns: dict[str, str] = {}
    second_texts, ids = [], []
    for place, record in records:
        columns = columns or _find_columns(list(record), asked, source)
        missing = [title for title in columns.values() if title not in record]
        if missing:
            raise ValueError(f"{place} has no {missing[0]!r}, only {quoted(sorted(record))}; mend the record.")
        label = record[columns["label"]]
        if names and isinstance(label, int):
            label = names[label] if 0 <= label < len(names) else None
        if label is None or (label == _NO_LABEL and "text_pair" in columns):
            read.num_unlabeled += 1
            continue
        read.texts.append(_checked(record[columns["text"]], place, "text"))
        # They are written between tabs.
        read.labels.append(" ".join(_checked(str(label) if type(label) is int else label, place, "label").split()))
        read.places.append(place.removeprefix(source).removeprefix(", ") or "its only record")
        if "text_pair" in columns:
            second_texts.append(_checked(record[columns["text_pair"]], place, "text_pair"))
        if "id" in columns:
            ids.append(str(record[columns["id"]]))
    if not len(read):
        raise ValueError(
            f"{source} holds no texts with a label ({read.num_unlabeled} without): it is empty, or has only titles."
        )
    read.second_texts, read.ids = second_texts or None, ids or None
    if read.num_unlabeled:
        read.note = f"{source}: {read.num_unlabeled:,} without a label left out"
    return read


def _checked(value: Any, place: str, column: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(
            f"{place}: the {column} is {quoted(value)} ({type(value).__name__}); wanted text. Name another column with "
            f"--{column}_column, or mend the record."
        )
    check_characters(value, place)
    return value.strip()


def _find_columns(titles: Sequence[str], asked: Asked, source: str) -> dict[str, str]:
    """The titles of the columns "text", "label" and, where there are such, "text_pair" and "id"."""
    names = {_as_name(title): title for title in reversed(titles)}
    pairs = [pair for pair in _PAIRS if {*pair} <= names.keys()]
    usual = {"text": _TEXTS, "text_pair": (), "label": _LABELS}
    if pairs and asked["text_column"] is asked["text_pair_column"] is None:
        usual |= {"text": pairs[0][:1], "text_pair": pairs[0][1:]}
    found = {}
    for key, its_usual in usual.items():
        column = asked[f"{key}_column"]
        if column is None:
            title = next((names[name] for name in its_usual if name in names), None)
        elif _NUMBER.fullmatch(str(column)):
            title = titles[int(column)] if -len(titles) <= int(column) < len(titles) else None
        else:
            title = names.get(str(column).lower())
        if title is not None:
            found[key] = title
        elif column is not None or key != "text_pair":
            raise ValueError(
                f"{key}_column is {column!r}, but {source} has the columns {quoted(list(titles))}; name one of these "
                f"with --{key}_column, or give its number from 0 to {len(titles) - 1}."
            )
    if len({*found.values()}) < len(found):
        raise ValueError(f"{source}: one column is named twice: {quoted(found)}; wanted different ones.")
    id_ = next((names[name] for name in _IDS if name in names and names[name] not in found.values()), None)
    return found if id_ is None else {**found, "id": id_}


def _as_name(title: str) -> str:
    return title.strip(" #\ufeff").lower()


def _records(path: str | os.PathLike, name: str, asked: Asked) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each record of a file with its place; titles of a table that has none are numbers."""
    if form_of(path, name) != "unknown":
        yield from records(path, name)
        return
    source = f"{name} {str(path)!r}"
    suffix, lines = suffix_of(path), text_lines(path, name)
    first = next(lines, "")
    # Between tabs a quotation mark is a mark of the text.
    is_tabs = suffix != ".csv" and (suffix in TEXT_SUFFIXES or "\t" in first)
    how: Any = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if is_tabs else {"strict": True}
    reader, number = csv.reader((f"{line}\n" for line in chain([first], lines)), **how), 1
    are_named = any(column is not None and not _NUMBER.fullmatch(str(column)) for column in asked.values())
    titles: list[str] = []
    try:
        for cells in reader:
            place, number = f"{source}, line {number}", reader.line_num + 1
            if not any(map(str.strip, cells)):
                continue
            if not titles:
                has_titles = are_named or {*map(_as_name, cells)} & {*_TEXTS, *_LABELS}
                titles = cells if has_titles else list(map(str, range(len(cells))))
                if has_titles:
                    continue
            if len(cells) != len(titles):
                raise ValueError(
                    f"{place} has {len(cells)} columns, but the first line has {len(titles)}: {quoted(cells)}. "
                    "In .tsv and .txt columns stand between tabs, in .csv between commas."
                )
            yield place, dict(zip(titles, cells, strict=True))
    except csv.Error as error:
        raise ValueError(f"{source}, line {number}: the row that begins there cannot be read ({error}).") from error
