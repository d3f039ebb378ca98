"""The words of a pre-training softmax, in the order of their ids, as a file that lies beside the weights."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

WORD_LIST_FILE = "word_vocabulary.txt"


def read_words(path: str | os.PathLike) -> list[str]:
    """The words of a file, one per line, in UTF-8; the line is the id.

    Raises: FileNotFoundError; ValueError naming the first line that is not UTF-8.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"not UTF-8: see line {line}; convert it first.") from error
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def write_words(directory: str | os.PathLike, words: Iterable[str]) -> Path:
    """Write words into a checkpoint's directory, and return the file's path."""
    path = Path(directory) / WORD_LIST_FILE
    path.write_bytes("".join(f"{word}\n" for word in words).encode("utf-8", "surrogatepass"))
    return path
