"""Sentences with a label per word: from CoNLL columns, from CoNLL-U and from `datasets`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset

from ...given.bounded_files import quoted
from ...text.columns import COLUMN_FORMATS, CONLLU_COLUMNS, column_sentences, read_layout
from ...text.files import TEXT_SUFFIXES, form_of, suffix_of
from .propositions import read_brackets

_NUMBER = re.compile(r"-?\d+")


@dataclass
class TaggedSentences:
    """One part of a tagged corpus.

    Args:
        source: What errors call it: the argument that named it and its value.
        words: The words of each sentence.
        labels: The label of each word.
        lines: The line that each word stood on, counted from 1, where it comes from a file.
        known_labels: Labels that the corpus declares, whether they occur or not.
        note: What a user should know of how it was read.
    """

    source: str
    words: list[list[str]]
    labels: list[list[str]]
    lines: list[list[int]] | None = None
    known_labels: tuple[str, ...] = ()
    note: str | None = None

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
    """Read a file with a word and its label on each line, and a blank line between sentences.

    These are told apart by what they hold, whatever their names: CoNLL-U (universaldependencies.org/format.html),
    whose multiword ranges and empty nodes are no words; the columns of CoNLL-2012, as which OntoNotes is given; and all
    others (Tjong Kim Sang and De Meulder 2003), in which tabs, or any run of spaces or tabs, stand between columns.
    Only words between tabs can hold spaces. Lines that begin with `-DOCSTART-` end a sentence. Comments before a
    sentence are skipped where they differ from words, among which `#` may be.

    Args:
        path: The file, UTF-8, or ISO-8859-1 as CoNLL-2002 has it; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the
            way.
        word_column: Number (from 0; negative ones from the end) or name; None for the format's own: the first, or
            FORM of CoNLL-U. A string of digits is a number. Names are those of CoNLL-U and of CoNLL-2012; in others
            the first line is a header.
        label_column: The same; by default the last one, UPOS of CoNLL-U, and named entities of CoNLL-2012.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read, also
        when the column of labels is left open (`_`) throughout.
    """
    source = f"{name} {str(path)!r}"
    if not Path(path).is_file():
        raise FileNotFoundError(f"{source} is not a file; check the path.")
    if form_of(path, name, (*TEXT_SUFFIXES, *COLUMN_FORMATS)) != "unknown":
        raise ValueError(f"{source} is no file of columns; read JSON and Parquet with --dataset_name and its folder.")
    asked = {"word_column": _as_number(word_column), "label_column": _as_number(label_column)}
    has_header = any(isinstance(column, str) for column in asked.values())
    layout = read_layout(path, name, COLUMN_FORMATS.get(suffix_of(path), "conll"), has_header)
    columns = {"word_column": layout.word, "label_column": layout.label}
    for key, column in asked.items():
        if column is not None:
            columns[key] = _find_column(key, column, layout.names, source)
    width = 0
    builder = _SentenceBuilder(source, layout.note(source, word_column))
    for rows in column_sentences(path, layout, name):
        width = width or len(rows[0][1])
        for number, cells in rows:
            if layout.format == "conllu":
                _check_conllu(cells, f"{source}, line {number}")
            else:
                # Sentences of CoNLL-2012 have a column for each predicate.
                wanted = width if layout.format == "conll" else len(cells)
                _check_width(cells, wanted, columns, f"{source}, line {number}")
        labels = [cells[columns["label_column"]] for _, cells in rows]
        if layout.format == "conll2012" and all(label.startswith(("(", "*")) for label in labels):
            labels = read_brackets(source, rows, columns["label_column"])
        for (number, cells), label in zip(rows, labels, strict=True):
            builder.add(layout.word_in(cells[columns["word_column"]]), label, number)
        builder.end_sentence()
    sentences = builder.finish()
    if layout.format == "conllu" and all(label == "_" for labels in sentences.labels for label in labels):
        raise ValueError(
            f"{source} leaves the column {CONLLU_COLUMNS[columns['label_column']]!r} open ('_') on every line; choose "
            "another one with label_column."
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
    for argument, column in (("word_column", word_column), ("label_column", label_column)):
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

    def __init__(self, source: str, note: str | None):
        self._lines: list[list[int]] = []
        self.sentences = TaggedSentences(source, [], [], self._lines, note=note)
        self.in_sentence = False

    def add(self, word: str, label: str, line: int) -> None:
        label = label.strip(" ")
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


def _as_number(column: int | str | None) -> int | str | None:
    return int(column) if column is not None and _NUMBER.fullmatch(str(column)) else column


def _find_column(argument: str, column: int | str, header: Sequence[str], source: str) -> int:
    """The number of a column given by number or by its name in the header, in any case."""
    if isinstance(column, int):
        # Without a header each line is checked by itself.
        if not header or -len(header) <= column < len(header):
            return column
    else:
        names = [name.strip(" #").lower() for name in header]
        if column.lower() in names:
            return names.index(column.lower())
    raise ValueError(
        f"{argument} is {column!r}, but the columns of {source} are {quoted(list(header))}; give one of these names "
        f"or a number from 0 to {len(header) - 1} (negative ones count from the end)."
    )


def _check_conllu(cells: list[str], place: str) -> None:
    if len(cells) != len(CONLLU_COLUMNS):
        raise ValueError(
            f"{place} has {_count(len(cells), 'column')} between tabs; CoNLL-U wants {len(CONLLU_COLUMNS)}. Repair the "
            "line, or name the file .conll if it holds plain columns."
        )
    if not cells[0].isdecimal():
        raise ValueError(
            f"{place} has the id {quoted(cells[0])}; CoNLL-U wants a number, a range such as 3-4 or an empty node such "
            "as 8.1. Repair the line."
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
