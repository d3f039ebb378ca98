"""Rows of files of any form, and of `datasets`, each with its place: what stands in the columns that are asked for."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset

from ...given.bounded_files import quoted
from ...text.files import JSON_SUFFIXES, form_of, json_records, open_table, suffix_of
from .text_lines import text_lines

TABLE_ENDINGS = (".tsv", ".txt", ".csv")
ROW_ENDINGS = (*TABLE_ENDINGS, *JSON_SUFFIXES, ".parquet")
_NUMBER = re.compile(r"-?\d+")

# A place such as "line 3", and what stands there in each column, by the key that asks for it.
Row = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Column:
    """A column that is asked for.

    Args:
        argument: The argument that can name it.
        asked: Its name, or its number from 0 (negative ones from the end), of tables without titles too; None for
            the first of the usual names that there is.
        usual: The usual names; a pair of them is one that counts only beside the other.
        is_optional: Whether there need be none.
    """

    argument: str
    asked: int | str | None
    usual: tuple[str | tuple[str, str], ...]
    is_optional: bool = False

    def find(self, titles: Sequence[str], source: str) -> int | None:
        """Its number among the titles, in any case; None where there is none and need be none.

        Raises: ValueError naming the argument, the source and the titles.
        """
        names = [str(title).strip(" #\ufeff").lower() for title in titles]
        if self.asked is None:
            pairs = [(usual, usual) if isinstance(usual, str) else usual for usual in self.usual]
            found = next((names.index(name) for name, other in pairs if name in names and other in names), None)
            if found is None and not self.is_optional:
                usual = ", ".join(dict.fromkeys(name for name, _ in pairs))
                raise ValueError(
                    f"{source} has the columns {quoted(list(titles))} and none of {usual}; say which one it is with "
                    f"--{self.argument}, by its name or its number from 0."
                )
            return found
        if _NUMBER.fullmatch(str(self.asked)):
            number = int(self.asked)
            if -len(titles) <= number < len(titles):
                return number % len(titles)
        elif str(self.asked).lower() in names:
            return names.index(str(self.asked).lower())
        raise ValueError(
            f"{self.argument} is {self.asked!r}, but the columns of {source} are {quoted(list(titles))}; give one of "
            f"these names or a number from 0 to {len(titles) - 1} (negative ones count from the end)."
        )


def read_rows(path: str | os.PathLike, columns: Mapping[str, Column], name: str) -> Iterator[Row]:
    """The rows of a file, by what its name ends in; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.

    `.tsv` and `.txt` are columns between tabs, without any quoting; `.csv` between commas, quoted as spreadsheets do;
    `.jsonl`, `.ndjson` and `.json` an object per line or a list of them; `.parquet` a table. A file of another name is
    read as what it looks like. The first line of a table of text has its titles if a column is asked for by name, or if
    the line holds a usual name of one.

    Args:
        path: The file, UTF-8.
        columns: What is asked for, by keys of the caller's own.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line or record.
    """
    source = f"{name} {str(path)!r}"
    if not Path(path).is_file():
        raise FileNotFoundError(f"{source} is not a file; check the path.")
    form = form_of(path, name)
    if form == "json":
        yield from _json_rows(path, columns, name, source)
    elif form == "parquet":
        yield from _parquet_rows(path, columns, name, source)
    else:
        cut = _cut_at_commas if _separator_of(path, name, source) == "," else _cut_at_tabs
        yield from _table_rows(cut(text_lines(path, name), source), columns, source)


def rows_of_dataset(dataset: Dataset, columns: Mapping[str, Column], source: str) -> Iterator[Row]:
    """The rows of one split of a dataset; a number of a `ClassLabel` becomes its name, or None below 0.

    Raises: ValueError naming the split and the column or the row.
    """
    titles = dataset.column_names
    found = _find_all(columns, titles, source)
    names = {key: titles[place] for key, place in found.items()}
    class_labels = {key: class_label_of(dataset, name) for key, name in names.items()}
    for number, row in enumerate(dataset.select_columns(sorted(set(names.values())))):
        place = f"row {number}"
        values = {}
        for key, title in names.items():
            value, labels = row[title], class_labels[key]
            if labels is not None and isinstance(value, int) and value >= labels.num_classes:
                raise ValueError(
                    f"{source}, {place}: column {title!r} holds {value}; its ClassLabel names the numbers 0 to "
                    f"{labels.num_classes - 1}."
                )
            if labels is not None and isinstance(value, int):
                value = labels.int2str(value) if value >= 0 else None
            values[key] = value
        yield place, values


def class_label_of(dataset: Dataset, column: str) -> ClassLabel | None:
    """The ClassLabel of a column, if it is one."""
    feature = dataset.features[column]
    return feature if isinstance(feature, ClassLabel) else None


def _separator_of(path: str | os.PathLike, name: str, source: str) -> str:
    """What stands between the columns of a table: by its suffix, or else by its first line."""
    suffix = suffix_of(path)
    if suffix in TABLE_ENDINGS:
        return "," if suffix == ".csv" else "\t"
    first = next((line for _, line in text_lines(path, name) if line.strip()), "")
    found = next((separator for separator in "\t," if separator in first), None)
    if found is None:
        raise ValueError(
            f"{source} has neither tabs nor commas in its first line, {quoted(first)}, and its suffix {suffix!r} does "
            f"not say what it holds; wanted a table, JSON or Parquet ({', '.join(ROW_ENDINGS)}, packed or not)."
        )
    return found


def _cut_at_tabs(lines: Iterator[tuple[int, str]], source: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines:
        if line.strip():
            yield number, line.split("\t")


def _cut_at_commas(lines: Iterator[tuple[int, str]], source: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for _, line in lines), strict=True)
    start = 1
    try:
        for fields in reader:
            if fields:
                yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{source}, line {start}: the row that begins there is no CSV ({error}); mend it.") from error


def _table_rows(rows: Iterator[tuple[int, list[str]]], columns: Mapping[str, Column], source: str) -> Iterator[Row]:
    width = 0
    found: dict[str, int] = {}
    for number, fields in rows:
        if not width:
            width = len(fields)
            if _are_titles(fields, columns):
                found = _find_all(columns, fields, source)
                continue
            by_number = {key: column for key, column in columns.items() if column.asked is not None}
            found = _find_all(by_number, fields, source)
            missing = [f"--{c.argument}" for key, c in columns.items() if key not in found and not c.is_optional]
            if missing:
                raise ValueError(
                    f"{source}, line 1 has the columns {quoted(fields)}, which are no titles that are known; say which "
                    f"columns are wanted with {' and '.join(missing)}, by name or by number from 0."
                )
        if len(fields) != width:
            raise ValueError(
                f"{source}, line {number} has {_count(len(fields))}, but the first line has {width}: {quoted(fields)}. "
                "Mend the line (in .tsv and .txt columns stand between tabs, in .csv between commas)."
            )
        yield f"line {number}", {key: fields[place] for key, place in found.items()}


def _are_titles(fields: Sequence[str], columns: Mapping[str, Column]) -> bool:
    """Whether the first line of a table has the names of its columns."""
    asked = [str(column.asked) for column in columns.values() if column.asked is not None]
    names = [name for column in columns.values() if not column.is_optional for name in column.usual]
    usual = {name if isinstance(name, str) else name[0] for name in names}
    is_usual = any(field.strip(" #").lower() in usual for field in fields)
    return is_usual or any(not _NUMBER.fullmatch(name) for name in asked)


def _json_rows(path: str | os.PathLike, columns: Mapping[str, Column], name: str, source: str) -> Iterator[Row]:
    names: dict[str, str] = {}
    for where, record in json_records(str(path), name):
        if not names:
            titles = list(record)
            names = {key: titles[place] for key, place in _find_all(columns, titles, source).items()}
        missing = [title for title in names.values() if title not in record]
        if missing:
            raise ValueError(f"{where} has no {missing[0]!r}, only {quoted(sorted(record))}; mend the record.")
        place = where.removeprefix(source).removeprefix(", ") or "its only record"
        yield place, {key: record[title] for key, title in names.items()}


def _parquet_rows(path: str | os.PathLike, columns: Mapping[str, Column], name: str, source: str) -> Iterator[Row]:
    number = 0
    with open_table(str(path), name) as table:
        titles = table.schema_arrow.names
        names = {key: titles[place] for key, place in _find_all(columns, titles, source).items()}
        for batch in table.iter_batches(columns=sorted(set(names.values()))):
            for record in batch.to_pylist():
                yield f"row {number}", {key: record[title] for key, title in names.items()}
                number += 1


def _find_all(columns: Mapping[str, Column], titles: Sequence[str], source: str) -> dict[str, int]:
    places = {key: column.find(titles, source) for key, column in columns.items()}
    found = {key: place for key, place in places.items() if place is not None}
    for key, place in found.items():
        twins = [columns[other].argument for other, its in found.items() if its == place and other != key]
        if twins:
            raise ValueError(
                f"{columns[key].argument} and {twins[0]} are both column {titles[place]!r} of {source}; wanted two "
                "different ones."
            )
    return found


def _count(number: int) -> str:
    return "1 column" if number == 1 else f"{number} columns"
