"""How much of a stranger's file is taken into memory, and which of its names are followed."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

MEBIBYTE = 2**20
# Messages quote what they found, and what strangers write has no end.
_LONGEST_QUOTE = 80


def read_file(path: str | os.PathLike, most: int, where: str) -> bytes:
    """A whole file of at most so many bytes; ValueError calls it `where` before more is held in memory."""
    with Path(path).open("rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{where} holds more than {most:,} bytes, the most that such a file has; check what it is.")
    return data


def path_inside(directory: str | os.PathLike, name: str, where: str) -> Path:
    """The path of what a stranger's file names in a directory, in the form of any system.

    Raises: ValueError, which calls the file `where`, for a name that is absolute, climbs or is empty.
    """
    forms = (PurePosixPath(name), PureWindowsPath(name))
    leads_out = any(form.is_absolute() or form.drive or form.root or ".." in form.parts for form in forms)
    if leads_out or "\0" in name or not forms[0].parts:
        raise ValueError(
            f"{where} names the file {quoted(name)}, which is not inside of its directory; get the files again from "
            "whom you trust."
        )
    return Path(directory) / name


def quoted(value: object) -> str:
    """A value as errors show it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
