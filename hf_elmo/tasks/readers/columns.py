"""Sentences with a label per word: from CoNLL columns, from CoNLL-U and from `datasets`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datasets import ClassLabel, Dataset

from ...given.bounded_files import quoted
from .rows import ending_of
from .text_lines import text_lines

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

_COLUMN_SUFFIXES = (".conll", ".txt", ".tsv", ".iob", ".iob2", ".bio")
_SPACES = re.compile(r"[ \t]+")
_NUMBER = re.compile(r"-?\d+")
# "3-4" are the two words written as one, "8.1" a word that is not written at all: neither is a word of the sentence.
_CONLLU_RANGE_OR_EMPTY = re.compile(r"\d+-\d+|\d+\.\d+")


@dataclass
class TaggedSentences:
    """One part of a tagged corpus.

    Args:
        source: What errors call it: the argument that named it and its value.
        words: The words of each sentence.
        labels: The label of each word.
        lines: The line that each word stood on, counted from 1, where it comes from a file.
        known_labels: Labels that the corpus declares, whether they occur or not.
    """

    source: str
    words: list[list[str]]
    labels: list[list[str]]
    lines: list[list[int]] | None = None
    known_labels: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.words)

    def place(self, sentence: int, word: int) -> str:
        """Where a word stands, for errors; both numbers count from 0."""
        if self.lines is None:
            return f"{self.source}, row {sentence}, word {word}"
        return f"{self.source}, line {self.lines[sentence][word]}"

    def label_places(self) -> dict[str, str]:
        """Each label that occurs, and where it stands first, for errors."""
        first: dict[str, tuple[int, int]] = {}
        for sentence, labels in enumerate(self.labels):
            for word, label in enumerate(labels):
                first.setdefault(label, (sentence, word))
        return {label: self.place(*position) for label, position in first.items()}

    def text(self, place: int) -> str:
        """The words of a sentence."""
        return " ".join(self.words[place])

    def pick(self, places: Sequence[int]) -> TaggedSentences:
        """The sentences at these places; labels that only others have stay known."""
        known_labels = {label for labels in self.labels for label in labels} | set(self.known_labels)
        return TaggedSentences(
            self.source,
            [self.words[place] for place in places],
            [self.labels[place] for place in places],
            None if self.lines is None else [self.lines[place] for place in places],
            tuple(sorted(known_labels)),
        )


def read_tagged_file(
    path: str | os.PathLike,
    word_column: int | str | None = None,
    label_column: int | str | None = None,
    name: str = "file",
) -> TaggedSentences:
    """Read a tagged file by what its name ends in: `.conllu` is CoNLL-U, `.conll`, `.txt` and `.tsv` are columns.

    Args:
        path: The file, UTF-8; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        word_column: Number (from 0; negative ones from the end) or name; None for the format's own default. A string of
            digits is a number.
        label_column: The same; the last column of CoNLL columns and UPOS of CoNLL-U by default.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    suffix = ending_of(path)
    defaults: tuple[int | str, int | str]
    if suffix == ".conllu":
        read, defaults = read_conllu, ("form", "upos")
    elif suffix in _COLUMN_SUFFIXES:
        read, defaults = read_columns, (0, -1)
    else:
        raise ValueError(
            f"{name} {str(path)!r} ends in {suffix!r}; wanted .conllu for CoNLL-U, or one of "
            f"{', '.join(_COLUMN_SUFFIXES)} for columns. Rename the file after its format."
        )
    word_column = defaults[0] if word_column is None else word_column
    label_column = defaults[1] if label_column is None else label_column
    return read(path, word_column, label_column, name=name)


def read_columns(
    path: str | os.PathLike, word_column: int | str = 0, label_column: int | str = -1, name: str = "file"
) -> TaggedSentences:
    """Read CoNLL columns (Tjong Kim Sang and De Meulder 2003): a word per line, a blank line between sentences.

    The first line with words decides what parts the columns of the whole file: tabs, where it has one, and any run of
    spaces or tabs otherwise. Only words between tabs can hold spaces. Lines that begin with `-DOCSTART-` end a sentence
    and are skipped; there are no comments, since `#` is a word.

    Args:
        path: The file, UTF-8.
        word_column: Number (from 0; negative ones from the end) or name of the column of words. With a name for either
            column the first line is a header.
        label_column: The same for the labels.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line.
    """
    source = f"{name} {str(path)!r}"
    asked = {"word_column": _as_number(word_column), "label_column": _as_number(label_column)}
    columns = {key: column for key, column in asked.items() if isinstance(column, int)}
    separator = width = None
    builder = _SentenceBuilder(source)
    for number, line in text_lines(path, name):
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            builder.end_sentence()
            continue
        if separator is None:
            separator = re.compile("\t") if "\t" in line else _SPACES
        fields = separator.split(line if separator.pattern == "\t" else line.strip(" \t"))
        if width is None:
            width = len(fields)
            if len(columns) < len(asked):
                columns = {key: _find_column(key, column, fields, source) for key, column in asked.items()}
                continue
        _check_width(fields, width, columns, f"{source}, line {number}")
        builder.add(fields[columns["word_column"]], fields[columns["label_column"]], number)
    return builder.finish()


def read_conllu(
    path: str | os.PathLike, word_column: int | str = "form", label_column: int | str = "upos", name: str = "file"
) -> TaggedSentences:
    """Read CoNLL-U (universaldependencies.org/format.html): comments, multiword ranges and empty nodes are skipped.

    Args:
        path: The file, UTF-8.
        word_column: Number (from 0) or name of the column of words, one of `CONLLU_COLUMNS` in any case.
        label_column: The same for the labels.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line, also when the column of labels is
        left open (`_`) throughout.
    """
    source = f"{name} {str(path)!r}"
    word_index = _find_column("word_column", _as_number(word_column), CONLLU_COLUMNS, source)
    label_index = _find_column("label_column", _as_number(label_column), CONLLU_COLUMNS, source)
    builder = _SentenceBuilder(source)
    for number, line in text_lines(path, name):
        if not line.strip(" \t"):
            builder.end_sentence()
            continue
        if line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != len(CONLLU_COLUMNS):
            raise ValueError(
                f"{source}, line {number} has {_count(len(fields), 'column')} between tabs; CoNLL-U wants "
                f"{len(CONLLU_COLUMNS)}. Repair the line, or name the file .conll if it holds plain columns."
            )
        if _CONLLU_RANGE_OR_EMPTY.fullmatch(fields[0]):
            continue
        if not fields[0].isdecimal():
            raise ValueError(
                f"{source}, line {number} has the id {quoted(fields[0])}; CoNLL-U wants a number, a range such as 3-4 "
                "or an empty node such as 8.1. Repair the line."
            )
        builder.add(fields[word_index], fields[label_index], number)
    sentences = builder.finish()
    if all(label == "_" for labels in sentences.labels for label in labels):
        raise ValueError(
            f"{source} leaves the column {CONLLU_COLUMNS[label_index]!r} open ('_') on every line; choose another one "
            "with label_column."
        )
    return sentences


def tagged_from_dataset(
    dataset: Dataset, source: str, word_column: str | None = None, label_column: str | None = None
) -> TaggedSentences:
    """Read one split of a dataset with a list of words and a list of labels per row.

    Args:
        dataset: The split. Labels may be strings, integers, or a sequence of `ClassLabel`, whose names are taken.
        source: What errors call it.
        word_column: Column of the words; `tokens` or `words` by default.
        label_column: Column of the labels; by default `ner_tags`, or else the only one called `labels`, `tags` or
            `..._tags`.
    Raises: ValueError naming the split, the column and the row.
    """
    names = dataset.column_names
    word_column = word_column or next((name for name in ("tokens", "words") if name in names), "tokens")
    label_column = label_column or _guess_label_column(names)
    for argument, column in (("text_column_name", word_column), ("label_column_name", label_column)):
        if column not in names:
            raise ValueError(f"{source} has no column {column!r}, only {names}; choose one of them with --{argument}.")
    class_label = _class_label(dataset.features[label_column])
    words, labels = dataset[word_column][:], dataset[label_column][:]
    for row, (row_words, row_labels) in enumerate(zip(words, labels, strict=True)):
        _check_row(row_words, row_labels, word_column, label_column, f"{source}, row {row}")
        if class_label is not None and not all(0 <= label < class_label.num_classes for label in row_labels):
            raise ValueError(
                f"{source}, row {row}: column {label_column!r} holds {sorted(set(row_labels))}; its ClassLabel names "
                f"the numbers 0 to {class_label.num_classes - 1}. Splits without public labels cannot be used."
            )
    if not any(words):
        raise ValueError(f"{source} holds no words; leave it out, or choose another dataset.")
    name_of = str if class_label is None else class_label.int2str
    labels = [[name_of(label) for label in row] for row in labels]
    known_labels = () if class_label is None else tuple(class_label.names)
    return TaggedSentences(source, words, labels, known_labels=known_labels)


class _SentenceBuilder:
    """Gathers the words of a file, line by line, into sentences."""

    def __init__(self, source: str):
        self._lines: list[list[int]] = []
        self.sentences = TaggedSentences(source, [], [], self._lines)
        self.in_sentence = False

    def add(self, word: str, label: str, line: int) -> None:
        # A word may be a space and nothing else, as in data cut into characters.
        word, label = word.strip(" ") or word, label.strip(" ")
        for what, value in (("word", word), ("label", label)):
            if not value:
                raise ValueError(
                    f"{self.sentences.source}, line {line} has an empty {what}; fill it in or remove the line."
                )
        if not self.in_sentence:
            for column in (self.sentences.words, self.sentences.labels, self._lines):
                column.append([])
            self.in_sentence = True
        self.sentences.words[-1].append(word)
        self.sentences.labels[-1].append(label)
        self._lines[-1].append(line)

    def end_sentence(self) -> None:
        self.in_sentence = False

    def finish(self) -> TaggedSentences:
        if not self.sentences.words:
            raise ValueError(
                f"{self.sentences.source} holds no words: the file is empty, or has nothing but blank lines, comments "
                "and headers. Give a file with sentences, or leave it out."
            )
        return self.sentences


def _as_number(column: int | str) -> int | str:
    return int(column) if _NUMBER.fullmatch(str(column)) else column


def _find_column(argument: str, column: int | str, header: tuple[str, ...] | list[str], source: str) -> int:
    """The number of a column given by number or by its name in the header, in any case."""
    if isinstance(column, int):
        if -len(header) <= column < len(header):
            return column
    else:
        names = [name.strip(" #").lower() for name in header]
        if column.lower() in names:
            return names.index(column.lower())
    raise ValueError(
        f"{argument} is {column!r}, but the columns of {source} are {quoted(list(header))}; give one of these names "
        f"or a number from 0 to {len(header) - 1} (negative ones count from the end)."
    )


def _check_width(fields: list[str], width: int, columns: dict[str, int], place: str) -> None:
    """Check that a line has the columns asked for and that those counted from the end are the right ones."""
    word, label = columns["word_column"], columns["label_column"]
    missing = any(not -len(fields) <= column < len(fields) for column in (word, label))
    if missing or word % len(fields) == label % len(fields):
        raise ValueError(
            f"{place} has {_count(len(fields), 'column')}; wanted a word in column {word} and another column, {label}, "
            "for its label (counted from 0, negative ones from the end). Repair the line, or set --word_column and "
            "--label_column."
        )
    if len(fields) != width and min(word, label) < 0:
        raise ValueError(
            f"{place} has {_count(len(fields), 'column')}, but the first line has {width}, so that columns counted "
            "from the end are not the same ones. Repair the line (only words between tabs can hold spaces), or count "
            "--word_column and --label_column from 0."
        )


def _guess_label_column(names: list[str]) -> str:
    if "ner_tags" in names:
        return "ner_tags"
    candidates = [name for name in names if name in ("labels", "tags") or name.endswith("_tags")]
    return candidates[0] if len(candidates) == 1 else "ner_tags"


def _class_label(feature: object) -> ClassLabel | None:
    """The ClassLabel inside a sequence feature, if there is one."""
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    return inner if isinstance(inner, ClassLabel) else None


def _check_row(words: Any, labels: Any, word_column: str, label_column: str, place: str) -> None:
    for column, values in ((word_column, words), (label_column, labels)):
        if not isinstance(values, list):
            raise ValueError(
                f"{place}: column {column!r} holds a {type(values).__name__}; wanted a list, one entry per word. "
                "Choose another column, or cut the text into words first."
            )
    if not all(isinstance(word, str) for word in words):
        raise ValueError(f"{place}: column {word_column!r} holds entries that are not strings; wanted words.")
    if any(not isinstance(label, (str, int)) for label in labels):
        raise ValueError(f"{place}: column {label_column!r} holds entries that are neither strings nor integers.")
    if len(words) != len(labels):
        raise ValueError(
            f"{place} has {_count(len(words), 'word')} in column {word_column!r} but {_count(len(labels), 'label')} in "
            f"column {label_column!r}; wanted one label per word. Repair the row."
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
