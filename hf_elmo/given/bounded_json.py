"""JSON of strangers: bounded in size, and refused by file and line."""

from __future__ import annotations

import json
import os
from typing import Any

from .bounded_files import MEBIBYTE, read_file

MAX_JSON_BYTES = 64 * MEBIBYTE


def read_json(path: str | os.PathLike, where: str, most: int = MAX_JSON_BYTES) -> Any:
    """The value that a file of JSON holds.

    Args:
        path: The file.
        where: What errors call it: the argument that names it and its value.
        most: Bytes that such a file can justify.
    Raises: ValueError as `parse_json`, and for a larger file; OSError.
    """
    return parse_json(read_file(path, most, where), where)


def parse_json(data: str | bytes, where: str) -> Any:
    """The value that a text of JSON stands for.

    Args:
        data: The text; bytes are UTF-8, or what their first ones say.
        where: What errors call the file.
    Raises: ValueError naming the file, and the line where it is not JSON.
    """
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
        return json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}, line {error.lineno} is not JSON: {error.msg} at column {error.colno}.") from error
    except (ValueError, RecursionError) as error:
        # Bytes of no encoding, numbers of thousands of digits, lists in lists in lists.
        raise ValueError(f"{where} holds what cannot be read as JSON ({error}).") from error
