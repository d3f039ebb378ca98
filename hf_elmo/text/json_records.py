"""The texts of JSON records, one at a time, each checked before it is parsed and named by file and line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ..given.bounded_files import MEBIBYTE, quoted
from ..given.bounded_json import MAX_DEPTH, parse_values
from .packed_lines import numbered_lines

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
# Of one line, and of a file that is one list or one object over many lines, which is held as a whole.
_MOST_RECORD_BYTES = 256 * MEBIBYTE
_MOST_LIST_BYTES = 1024 * MEBIBYTE
# Records that are looked at to see which columns there are.
_FIRST_RECORDS = 1000


def json_texts(files: Sequence[str], column: str, name: str) -> Iterator[dict[str, str | None]]:
    """The text of each record of some files, one JSON object per line or a list of them, as {"text": text}.

    Args:
        files: The files, packed or not.
        column: The key of the text; a record without it has none. A list of strings has texts alone.
        name: The argument that names the files.
    Raises: ValueError naming the file and the line of what is not JSON, no object, or not text in the column.
    """
    for file in files:
        for place, record in json_records(file, name):
            yield {"text": _text_of(place, record, column)}


def check_columns(files: Sequence[str], column: str, name: str) -> None:
    """Check that one of the first records has a column.

    Raises: ValueError naming the columns that there are, also as `json_texts`.
    """
    where = ", ".join(map(os.path.basename, files))
    records = (entry for file in files for entry in json_records(file, name))
    columns: set[str] = set()
    for place, record in islice(records, _FIRST_RECORDS):
        _text_of(place, record, column)
        columns |= record.keys()
    if not columns:
        raise ValueError(f"{name} {where!r} holds no records; give one with text in it.")
    if column not in columns:
        raise ValueError(
            f"{name} {where!r} has no column {column!r}; it has {sorted(columns)[:20]}. Name the right one with "
            "--text_column."
        )


def check_records(directory: str | os.PathLike, name: str) -> None:
    """Check what a directory has of JSON before pyarrow reads it, which some records crash.

    Those are records that are nested without end or, as the first of a file, none at all but null.

    Args:
        directory: Of a data set; nothing is done for what is no directory.
        name: The argument that names it.
    Raises: ValueError naming the file and the line.
    """
    for path in sorted(Path(directory).rglob("*")):
        if any(suffix in JSON_ENDINGS for suffix in path.suffixes[-2:]) and path.is_file():
            lines = (line for _, line in numbered_lines(path, name, _MOST_RECORD_BYTES))
            if not all(map(_is_plain, lines)):
                for _ in json_records(str(path), name):
                    pass


def check_characters(text: str, place: str) -> None:
    """Check that a text of JSON holds characters alone, so that it can be written again.

    Raises: ValueError naming the place of half of a surrogate pair, which JSON can hold and UTF-8 cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{place} holds half of a surrogate pair, {text[error.start]!r}, which is no character; mend the record."
        ) from error


def _is_plain(line: bytes) -> bool:
    """Whether a line is an object of little depth, by a look at some of its bytes, or nothing."""
    return not line.strip() or (line[:1] == b"{" and line.count(b"[") + line.count(b"{") <= MAX_DEPTH)


def json_records(file: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each record of a file with its place, "train_file 'a.jsonl', line 3" for example.

    Args:
        file: The file, packed or not.
        name: The argument that names it.
    Raises: ValueError naming the file and the line of what is not JSON or no object.
    """
    where = f"{name} {file!r}"
    is_first = True
    for number, line in numbered_lines(file, name, _MOST_RECORD_BYTES):
        if not line.strip():
            continue
        place = f"{where}, line {number}"
        if len(line) == _MOST_RECORD_BYTES:
            raise ValueError(f"{place} is longer than {_MOST_RECORD_BYTES // MEBIBYTE} MiB; write a record per line.")
        try:
            values = parse_values(line.rstrip(b"\r\n"), where, number)
        except ValueError:
            if not is_first:
                raise
            # A list or an object over many lines, or no JSON at all.
            yield from _records_of_whole(file, name)
            return
        for value in values:
            if is_first and isinstance(value, list):
                yield from _records_of_list(place, value)
            else:
                yield place, _as_record(place, value)
        is_first = False


def _records_of_whole(file: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    where = f"{name} {file!r}"
    content = bytearray()
    for _, line in numbered_lines(file, name, _MOST_RECORD_BYTES):
        content += line
        if len(content) > _MOST_LIST_BYTES:
            raise ValueError(
                f"{where}, line 1 is no record, and the file is too long to be a single list "
                f"({_MOST_LIST_BYTES // MEBIBYTE} MiB); write a record per line."
            )
    for value in parse_values(bytes(content), where):
        if isinstance(value, list):
            yield from _records_of_list(where, value)
        else:
            yield where, _as_record(where, value)


def _records_of_list(where: str, values: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, value in enumerate(values):
        place = f"{where}, entry {number}"
        yield place, {"text": value} if isinstance(value, str) else _as_record(place, value)


def _as_record(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place} holds {type(value).__name__} ({quoted(value)}), wanted an object.")
    return value


def _text_of(place: str, record: dict[str, Any], column: str) -> str | None:
    text = record.get(column)
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(
            f"{place}: column {column!r} holds {type(text).__name__} ({quoted(text)}), not text. Name a column of "
            "strings with --text_column, or mend the record."
        )
    check_characters(text, place)
    # Some programs put a byte order mark at the start of a text.
    return text.removeprefix("\ufeff")
