"""JSON of strangers: looked through for nesting before it is parsed, and refused by file and line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

from .bounded_files import MEBIBYTE, read_file

# Configs and records have a handful of levels. Parsers recurse: Python's gives up near 1,000, those in C crash later.
MAX_DEPTH = 100
MAX_JSON_BYTES = 64 * MEBIBYTE

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]+")
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)


def read_json(path: str | os.PathLike, where: str, most: int = MAX_JSON_BYTES) -> Any:
    """The value that a file of JSON holds.

    Args:
        path: The file.
        where: What errors call it: the argument that names it and its value.
        most: Bytes that such a file can justify.
    Raises: ValueError as `parse_json`, and for a larger file; OSError.
    """
    return parse_json(read_file(path, most, where), where)


def parse_json(data: str | bytes, where: str, first_line: int = 1) -> Any:
    """The value that a text of JSON stands for.

    Args:
        data: The text; bytes are UTF-8, or what their first ones say.
        where: What errors call the file.
        first_line: The number of the text's first line in its file.
    Raises: ValueError naming the file and the line where it is not JSON or too deeply nested.
    """
    encoding = "utf-8" if isinstance(data, str) else json.detect_encoding(data)
    return _parse(json.loads, data, encoding, where, first_line)


def parse_values(data: str | bytes, where: str, first_line: int = 1) -> list[Any]:
    """The values that stand one behind the other in a text in UTF-8, as `parse_json`."""
    return _parse(_loads_all, data, "utf-8", where, first_line)


def _parse(parse: Callable[[str], Any], data: str | bytes, encoding: str, where: str, first_line: int) -> Any:
    try:
        text = data if isinstance(data, str) else data.decode(encoding)
    except UnicodeDecodeError as error:
        line, byte = first_line + error.object.count(b"\n", 0, error.start), error.object[error.start]
        raise ValueError(
            f"{where}, line {line} is not JSON: the byte 0x{byte:02X} is not {error.encoding.upper()}."
        ) from error
    text = text.removeprefix("\ufeff")
    place = _first_too_deep(text)
    if place is not None:
        line = first_line + text.count("\n", 0, place)
        raise ValueError(
            f"{where}, line {line} nests more than {MAX_DEPTH} lists and objects in one another, which no file of its "
            "kind does; check what it is."
        )
    try:
        return parse(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise ValueError(f"{where}, line {line} is not JSON: {error.msg} at column {error.colno}.") from error
    except ValueError as error:
        # A number of thousands of digits.
        raise ValueError(f"{where}, line {first_line} holds what Python cannot read ({error}).") from error


def _loads_all(text: str) -> list[Any]:
    values = []
    place = _skip_space(text, 0)
    while place < len(text):
        value, place = _DECODER.raw_decode(text, place)
        values.append(value)
        place = _skip_space(text, place)
    return values


def _skip_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _first_too_deep(text: str) -> int | None:
    """The place of the first bracket that opens one level too many; None where all is well."""
    # Nearly always there are not even so many brackets.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return None
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return found.start()
        elif found[0] in "]}":
            depth -= 1
    return None
