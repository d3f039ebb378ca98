"""Sentences with a label per word: from CoNLL columns, from CoNLL-U and from `datasets`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from datasets import ClassLabel, Dataset

from ...given import quoted
from ...text.columns import column_sentences, read_layout
from ...text.files import form_of
from . import Examples
from .propositions import read_brackets

_NUMBER = re.compile(r"-?\d+")


@dataclass
class TaggedSentences(Examples):
    """One part of a tagged corpus: the words of each sentence, and the label of each word."""

    words: list[list[str]]
    labels: list[list[str]]
    lines: list[list[int]] | None = None  # the line that each word stood on, from 1, where it comes from a file

    def text(self, index: int) -> str:
        return " ".join(self.words[index])

    def labels_with_places(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        for sentence, labels in enumerate(self.labels):
            for word, label in enumerate(labels):
                yield label, (sentence, word)

    def place(self, *where: int) -> str:
        """Where the word `where[1]` of the sentence `where[0]` stands, for errors; both count from 0."""
        sentence, word = where
        if self.lines is None:
            return f"{self.source}, row {sentence}, word {word}"
        return f"{self.source}, line {self.lines[sentence][word]}"


def read_tagged_file(
    path: str | os.PathLike,
    word_column: int | str | None = None,
    label_column: int | str | None = None,
    name: str = "file",
) -> TaggedSentences:
    """Read a file with a word and its label on each line, and a blank line between sentences.

    What it holds says which columns it has, whatever its name: those of CoNLL-U, whose multiword ranges and empty nodes
    are no words; of CoNLL-2012, as which OntoNotes is given; or any others, with tabs, or any run of spaces or tabs,
    between them. Only words between tabs can hold spaces. Lines that begin with `-DOCSTART-` end a sentence. Comments
    before a sentence are skipped where they differ from words, among which `#` may be.

    Args:
        path: The file, UTF-8, or ISO-8859-1 as CoNLL-2002 has it; compressed or not.
        word_column, label_column: Number (from 0; negative ones from the end), also as a string, or name: of CoNLL-U
            and of CoNLL-2012 the usual ones, of others that in the first line. None for the first and the last column,
            FORM and UPOS of CoNLL-U, words and named entities of CoNLL-2012.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    source = f"{name} {str(path)!r}"
    if form_of(path, name) != "unknown":
        raise ValueError(f"{source} is no file of columns; read JSON and Parquet with --dataset_name and its folder.")
    asked = {"word_column": word_column, "label_column": label_column}
    has_header = any(column is not None and not _NUMBER.fullmatch(str(column)) for column in asked.values())
    layout = read_layout(path, name, has_header)
    word_at, label_at = (
        default if asked[argument] is None else _find_column(argument, asked[argument], layout.names, source)
        for argument, default in (("word_column", layout.word), ("label_column", layout.label))
    )
    read = TaggedSentences(source, [], [], [], note=layout.note(source, word_column))
    for rows in column_sentences(path, layout, name, [word_at, label_at]):
        labels = [cells[1].strip(" ") for _, cells in rows]
        numbers = [number for number, _ in rows]
        if layout.format == "conll2012" and all(label.startswith(("(", "*")) for label in labels):
            labels = read_brackets(source, zip(numbers, labels, strict=True))
        read.words.append([layout.word_in(cells[0]) for _, cells in rows])
        read.labels.append(labels)
        read.lines.append(numbers)  # type: ignore[union-attr]
    if not len(read):
        raise ValueError(f"{source} holds no words: it is empty, or has nothing but blank lines, comments and headers.")
    return read


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
    usual = [name for name in names if name in ("labels", "tags") or name.endswith("_tags")]
    label_column = label_column or (usual[0] if len(usual) == 1 else "ner_tags")
    for argument, column in (("word_column", word_column), ("label_column", label_column)):
        if column not in names:
            raise ValueError(f"{source} has no column {column!r}, only {names}; choose one of them with --{argument}.")
    feature: object = dataset.features[label_column]
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    class_names = inner.names if isinstance(inner, ClassLabel) else None
    words, labels = dataset[word_column][:], dataset[label_column][:]
    for row, (row_words, row_labels) in enumerate(zip(words, labels, strict=True)):
        are_lists = _is_list_of(str, row_words) and _is_list_of((str, int), row_labels)
        if (
            not are_lists
            or len(row_words) != len(row_labels)
            or (class_names is not None and not {*row_labels} <= {*range(len(class_names))})
        ):
            raise ValueError(
                f"{source}, row {row}: the columns {word_column!r} and {label_column!r} hold {quoted(row_words)} and "
                f"{quoted(row_labels)}; wanted a list of words and as many labels, numbers of names of a ClassLabel."
            )
    if not any(words):
        raise ValueError(f"{source} holds no words; leave it out, or choose another dataset.")
    labels = [[str(label) if class_names is None else class_names[label] for label in row] for row in labels]
    return TaggedSentences(source, words, labels, known_labels=tuple(class_names or ()))


def _is_list_of(kind: type | tuple[type, ...], values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _find_column(argument: str, column: int | str | None, header: Sequence[str], source: str) -> int:
    """The number of a column given by number or by its name in the header, in any case."""
    if _NUMBER.fullmatch(str(column)):
        return int(str(column))
    names = [name.strip(" #").lower() for name in header]
    if str(column).lower() in names:
        return names.index(str(column).lower())
    raise ValueError(
        f"{argument} is {column!r}, but the columns of {source} are {quoted(list(header))}; give one of these names, "
        "or a number from 0 (negative ones count from the end)."
    )
