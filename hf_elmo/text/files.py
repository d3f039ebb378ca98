"""Files of lines, JSON records or Parquet rows, compressed or not: which form a file has, and what it holds where."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal, cast

import fsspec
from pyarrow import parquet

from ..given import parse_json, quoted, reason

FileForm = Literal["json", "parquet", "unknown"]
STANDARD_INPUT = "-"
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
# Text of any kind; of tables and trees their readers know more.
TEXT_SUFFIXES = (".txt", ".text", ".tsv", ".csv")
_FIRST_BYTES = 1 << 16
_ROWS_AT_A_TIME = 1000
_MANY_BRACKETS = 100
_JSON = re.compile(rb"\s*(\{\s*($|[\"}])|\[\s*($|[\[{\"]))")


def suffix_of(path: str | os.PathLike) -> str:
    """The suffix of a file's name in lower case, `.tsv` of `a.TSV.gz`; "" where there is none."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in COMPRESSED_SUFFIXES), "")


def form_of(path: str | os.PathLike, name: str) -> FileForm:
    """Whether a file holds JSON or Parquet: by its suffix, or by its first bytes where the suffix says nothing."""
    suffix = suffix_of(path)
    if suffix in JSON_SUFFIXES:
        return "json"
    if suffix == ".parquet":
        return "parquet"
    if suffix in TEXT_SUFFIXES or path == STANDARD_INPUT:
        return "unknown"
    _, start = next(numbered_lines(path, name, _FIRST_BYTES), (0, b""))
    if start.startswith(b"PAR1"):
        return "parquet"
    return "json" if _JSON.match(start) else "unknown"


@contextmanager
def _opened(file: str | os.PathLike, name: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked; whatever the libraries raise that unpack and parse it names the file."""
    try:
        if file == STANDARD_INPUT:
            yield sys.stdin.buffer
        else:
            with fsspec.open(os.fspath(file), "rb", compression="infer") as stream:
                yield cast("IO[bytes]", stream)
    except FileNotFoundError:
        raise FileNotFoundError(f"{name} {str(file)!r} does not exist; check the path.") from None
    except Exception as error:
        # What the system refuses, and what is a ValueError already, name it.
        if getattr(error, "filename", None) is not None or type(error) is ValueError:
            raise
        raise ValueError(
            f"{name} {str(file)!r} cannot be unpacked or is damaged ({reason(error)}); get the file again."
        ) from None


def numbered_lines(file: str | os.PathLike, name: str, most: int = -1) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their ends, and their numbers from 1; without a byte order mark at its beginning.

    Args:
        file: Path, or any address that fsspec opens, `.gz`, `.bz2`, `.xz` and `.zst` unpacked; - is standard input.
        name: The argument that names it.
        most: Bytes of a line that are read at the most; a longer one comes in parts of that length. -1 for all.
    Raises: FileNotFoundError; ValueError naming the file.
    """
    with _opened(file, name) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(most), b""), start=1):
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def decoded_lines(file: str | os.PathLike, name: str, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """As `numbered_lines`, in UTF-8 or another encoding.

    Raises: As there; ValueError naming the file, the line and the byte where it is not UTF-8.
    """
    for number, raw in numbered_lines(file, name):
        try:
            line = raw.decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name} {str(file)!r} is not UTF-8: line {number} holds the byte 0x{raw[error.start]:02X} at place "
                f"{error.start + 1}. Convert the file first, for example with `iconv -f LATIN1 -t UTF-8`."
            ) from error
        yield number, line


def text_lines(file: str | os.PathLike, name: str, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a text file without their ends, which may be those of any system.

    Raises: As `decoded_lines`.
    """
    for _, line in decoded_lines(file, name, encoding):
        # Files from old Macs have carriage returns alone.
        if "\r" in line:
            line = line.replace("\r\n", "\n").replace("\r", "\n")
        yield from line.removesuffix("\n").split("\n")


def records(file: str | os.PathLike, name: str, column: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each record of a file of JSON, or row of Parquet, with its place, "train_file 'a.jsonl', line 3" for example.

    Args:
        column: The one that is wanted, where the file has it; None for all.
    Raises: ValueError naming the file and the line or row.
    """
    if form_of(file, name) == "json":
        yield from json_records(file, name)
        return
    with _opened(file, name) as stream:
        table = parquet.ParquetFile(stream)
        batches = table.iter_batches(_ROWS_AT_A_TIME, columns=[column] if column in table.schema_arrow.names else None)
        for number, row in enumerate(chain.from_iterable(batch.to_pylist() for batch in batches)):
            yield f"{name} {str(file)!r}, row {number}", row


def json_records(file: str | os.PathLike, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each record of a file of JSON with its place: an object per line, or one object or list over any number of lines.

    Parsing with Python is as fast as `datasets` is by way of Arrow (1.4 s and 1.3 s for 150,000 records on one core),
    and a field may have another type in each record.

    Raises: ValueError naming the file and the line of what is not JSON or no object.
    """
    where, has_records = f"{name} {str(file)!r}", False
    for number, line in numbered_lines(file, name):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            if has_records:
                raise ValueError(f"{where}, line {number} is not JSON ({reason(error)}); mend the line.") from error
            break
        has_records = True
        yield from _records_in(value, f"{where}, line {number}")
    else:
        return
    yield from _records_in(parse_json(b"".join(line for _, line in numbered_lines(file, name)), where), where)


def _records_in(value: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, entry in enumerate(value if isinstance(value, list) else [value]):
        where = place if entry is value else f"{place}, entry {number}"
        if not isinstance(entry, dict):
            raise ValueError(f"{where} holds {type(entry).__name__} ({quoted(entry)}); wanted an object.")
        yield where, entry


def check_records(directory: str | os.PathLike, name: str) -> None:
    """Check the JSON in a dataset's directory before pyarrow reads it, whose process deep nesting or a null would end.

    Raises: As `json_records`.
    """
    for path in sorted(Path(directory).rglob("*")):
        if suffix_of(path) in JSON_SUFFIXES and path.is_file():
            lines = (line for _, line in numbered_lines(path, name))
            # A look at some bytes is enough for most.
            if any(line[:1] != b"{" or line.count(b"[") + line.count(b"{") > _MANY_BRACKETS for line in lines):
                for _ in json_records(path, name):
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
