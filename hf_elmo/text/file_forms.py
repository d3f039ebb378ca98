"""What form a file has: by the suffix of its name, and where that says nothing, by how the file begins."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from .json_records import JSON_ENDINGS
from .packed_lines import numbered_lines

FileForm = Literal["json", "parquet", "unknown"]
PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
# Text of any kind; of tables and trees their readers know more.
TEXT_SUFFIXES = (".txt", ".text", ".tsv", ".csv")
_FIRST_BYTES = 1 << 16
_JSON = re.compile(rb"\s*(\{\s*($|[\"}])|\[\s*($|[\[{\"]))")


def suffix_of(path: str | os.PathLike) -> str:
    """The suffix of a file's name in lower case, `.tsv` of `a.TSV.gz`; "" where there is none."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    bare = [suffix for suffix in suffixes if suffix not in PACKED_SUFFIXES]
    return bare[-1] if bare else ""


def form_of(path: str | os.PathLike, name: str, known: tuple[str, ...] = TEXT_SUFFIXES) -> FileForm:
    """Whether a file holds JSON or Parquet: by its suffix, or by its first bytes where the suffix is not known.

    Args:
        path: The file; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        name: The argument that names it.
        known: Other suffixes that say what a file holds; those files are not opened.
    Raises: FileNotFoundError; ValueError naming the file that cannot be unpacked.
    """
    suffix = suffix_of(path)
    if suffix in JSON_ENDINGS:
        return "json"
    if suffix == ".parquet":
        return "parquet"
    if suffix in known:
        return "unknown"
    _, start = next(numbered_lines(path, name, _FIRST_BYTES), (0, b""))
    if start.startswith(b"PAR1"):
        return "parquet"
    return "json" if _JSON.match(start) else "unknown"
