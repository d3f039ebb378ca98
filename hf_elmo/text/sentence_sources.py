"""Sentences to be embedded, from files of any kind or from `datasets`: lines of text, or lists of words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..given.bounded_files import quoted
from .conll_columns import ColumnFormat, ColumnLayout, column_format_of, conll_sentences, read_layout
from .corpora import expand_patterns, stream_dataset
from .file_forms import form_of
from .json_records import json_records
from .packed_lines import decoded_lines
from .parquet_tables import open_table

# A line to be cut into words, or words that are taken as they are.
Sentence = str | list[str]
_ROWS_AT_A_TIME = 1000
# Records that are looked at to see whether there is such a column.
_FIRST_RECORDS = 1000


@dataclass(frozen=True)
class SentenceSource:
    """Sentences that can be read again and again, one at a time; empty lines are sentences without words.

    Args:
        read: Starts one reading.
        files: The files behind them, where they come from files.
        notes: What a user should know of how they are read, a line each.
    """

    read: Callable[[], Iterator[Sentence]]
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Sentence]:
        return self.read()

    def count_words(self) -> int:
        """Words between white space, by one reading: what cannot be read is found before any work is done."""
        return sum(map(count_words, self))


def count_words(sentence: Sentence) -> int:
    """Words of a list, or between the white space of a line."""
    return len(sentence.split() if isinstance(sentence, str) else sentence)


def sentences_of_files(
    patterns: Sequence[str],
    column: str = "text",
    column_format: ColumnFormat | None = None,
    word_column: int | None = None,
    name: str = "input_file",
) -> SentenceSource:
    """Sentences of text files, JSON lines, Parquet and CoNLL columns, each also compressed.

    Suffixes say what files hold; those of unknown suffixes are read as what they look like.

    Args:
        patterns: Paths or globs.
        column: Of JSON and Parquet: holds texts, a sentence per line, or lists of words.
        column_format: "conll" or "conllu" where the names do not say so.
        word_column: Place of the words among CoNLL columns, from 0; None for the format's own.
        name: The argument's name, for errors.
    Raises: FileNotFoundError for a pattern without a file; ValueError for an empty file and a column that is not
        there, and when its turn comes, naming the file and the line, for what is damaged or not UTF-8.
    """
    files = expand_patterns(patterns, name)
    layouts: dict[str, ColumnLayout] = {}
    for file in files:
        file_format = column_format or column_format_of(file, name)
        if file_format is None:
            _check_column(file, column, name)
        else:
            layouts[file] = read_layout(file, name, file_format)
    notes = (layout.note(f"{name} {file!r}", word_column) for file, layout in layouts.items())

    def read() -> Iterator[Sentence]:
        for file in files:
            if file in layouts:
                yield from conll_sentences(file, layouts[file], word_column, name)
            elif form_of(file, name) == "unknown":
                yield from _lines_of(file, name)
            else:
                for place, value in _values_of(file, column, name):
                    yield from _sentences_in(value, f"{place}: column {column!r}")

    return SentenceSource(read, tuple(files), tuple(filter(None, notes)))


def sentences_of_dataset(
    dataset_name: str, config_name: str | None = None, split: str = "train", column: str = "text"
) -> SentenceSource:
    """Sentences of one split of a dataset, by its name or its directory, also one of `save_to_disk`.

    Args:
        dataset_name, config_name, split: Of the dataset.
        column: Holds texts, a sentence per line, or lists of words.
    Raises: ValueError when the dataset, the split or the column is missing.
    """
    records = stream_dataset(dataset_name, config_name, split)
    where = f"dataset_name {dataset_name!r}"
    first = next(iter(records), None)
    if first is None:
        raise ValueError(f"{where} holds no records in its split {split!r}; name another one.")
    if column not in first:
        raise ValueError(f"{where} has no column {column!r}; it has {sorted(first)}. Name one with --text_column.")

    def read() -> Iterator[Sentence]:
        for number, record in enumerate(records):
            yield from _sentences_in(record[column], f"{where}, row {number}: column {column!r}")

    return SentenceSource(read)


def _lines_of(file: str, name: str) -> Iterator[str]:
    for _, line in decoded_lines(file, name):
        # As `datasets` ends the lines of text: files from old Macs have carriage returns alone.
        if "\r" in line:
            line = line.replace("\r\n", "\n").replace("\r", "\n")
        yield from line.removesuffix("\n").split("\n")


def _values_of(file: str, column: str, name: str) -> Iterator[tuple[str, Any]]:
    """What stands in a column of a file's records, and where."""
    if form_of(file, name) != "parquet":
        for place, record in json_records(file, name):
            yield place, record.get(column)
        return
    number = 0
    with open_table(file, name) as table:
        for batch in table.iter_batches(_ROWS_AT_A_TIME, columns=[column]):
            for value in batch.column(0).to_pylist():
                yield f"{name} {file!r}, row {number}", value
                number += 1


def _check_column(file: str, column: str, name: str) -> None:
    form = form_of(file, name)
    if form == "json":
        columns = set().union(*(record for _, record in islice(json_records(file, name), _FIRST_RECORDS)))
    elif form == "parquet":
        with open_table(file, name) as table:
            columns = set(table.schema_arrow.names)
    else:
        return
    if column not in columns:
        raise ValueError(
            f"{name} {os.fspath(file)!r} has no column {column!r}; it has {sorted(columns)[:20]}. Name the right one "
            "with --text_column."
        )


def _sentences_in(value: Any, where: str) -> Iterator[Sentence]:
    if value is None or isinstance(value, str):
        yield from (value or "").split("\n")
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        yield value
    else:
        raise ValueError(
            f"{where} holds {type(value).__name__} ({quoted(value)}), neither text nor a list of words. Name another "
            "one with --text_column."
        )
