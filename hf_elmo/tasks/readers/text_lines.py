"""The lines of a file of text in UTF-8, packed or not, as columns stand in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ...text.files import numbered_lines


def text_lines(path: str | os.PathLike, name: str) -> Iterator[tuple[int, str]]:
    """The lines without their ends, and their numbers from 1.

    Args:
        path: The file; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        name: The argument that names it.
    Raises: FileNotFoundError; ValueError naming the file, and the line that is not UTF-8 or cannot be unpacked.
    """
    source = f"{name} {str(path)!r}"
    if not Path(path).is_file():
        raise FileNotFoundError(f"{source} is not a file; check the path.")
    data = b"".join(line for _, line in numbered_lines(path, name))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{source}, line {number} is not UTF-8 (byte 0x{data[error.start]:02x}); convert the file, for example "
            "with iconv -f LATIN1 -t UTF-8."
        ) from error
    # str.splitlines would also cut at characters that tweets hold inside a word, such as U+2028 and U+0085.
    # Carriage returns alone end the lines of files from old Macs; beside line feeds they may be anything.
    for number, line in enumerate(text.split("\n" if "\n" in text else "\r"), start=1):
        yield number, line.removesuffix("\r")
