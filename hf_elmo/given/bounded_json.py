"""JSON of strangers: bounded in size, and refused by file and line."""

from __future__ import annotations

import json
import os
from typing import Any

from .bounded_files import MEBIBYTE, read_file

MAX_JSON_BYTES = 64 * MEBIBYTE


def read_json(path: str | os.PathLike, where: str, most: int = MAX_JSON_BYTES) -> Any:
    """The value that a file of JSON of at most so many bytes holds; errors call it `where`, as `parse_json` does."""
    return parse_json(read_file(path, most, where), where)


def parse_json(data: str | bytes, where: str) -> Any:
    """The value of a text of JSON; ValueError calls the file `where` and names the line that is not JSON."""
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
        return json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}, line {error.lineno} is not JSON: {error.msg} at column {error.colno}.") from error
    except (ValueError, RecursionError) as error:
        # Bytes of no encoding, numbers of thousands of digits, lists in lists in lists.
        raise ValueError(f"{where} holds what cannot be read as JSON ({error}).") from error
