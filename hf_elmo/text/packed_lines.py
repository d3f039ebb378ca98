"""The lines of a file of text, packed or not, with the name of one that cannot be unpacked."""

from __future__ import annotations

import codecs
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

import fsspec

from ..given.reasons import reason


def _errors_of_zstd() -> Iterator[type[Exception]]:
    """Those of the modules that unpack .zst, of which there may be none."""
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        with suppress(ImportError):
            yield import_module(name).ZstdError


# What the unpackers raise on a file that is cut off or of another kind; of OSError not what the system refuses.
UNPACKING_ERRORS: tuple[type[Exception], ...] = (
    EOFError,
    OSError,
    lzma.LZMAError,
    zlib.error,
    zipfile.BadZipFile,
    *_errors_of_zstd(),
)
# And on a zip archive that is empty, encrypted, or packed in a way that Python has not.
_UNPACKING_ERRORS = UNPACKING_ERRORS + (IndexError, RuntimeError)  # noqa: RUF005 (of a length that types know)


def numbered_lines(file: str | os.PathLike, name: str, most: int = -1) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their ends, and their numbers from 1; without a byte order mark at its beginning.

    Args:
        file: Path, or any address that fsspec opens; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        name: The argument that names it.
        most: Bytes of a line that are read at the most; a longer one comes in parts of that length. -1 for all.
    Raises: FileNotFoundError; ValueError naming the file and how far it could be read where it cannot be unpacked.
    """
    number = 0
    try:
        with fsspec.open(os.fspath(file), "rb", compression="infer") as stream:
            while line := stream.readline(most):
                number += 1
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except FileNotFoundError:
        raise FileNotFoundError(f"{name} {str(file)!r} does not exist; check the path.") from None
    except _UNPACKING_ERRORS as error:
        # What the system refuses to open names itself; zipfile asks it for places before a file's beginning.
        if getattr(error, "filename", None) is not None:
            raise
        raise ValueError(
            f"{name} {str(file)!r} cannot be unpacked beyond line {number} ({reason(error)}); get the file again."
        ) from error


def decoded_lines(file: str | os.PathLike, name: str) -> Iterator[tuple[int, str]]:
    """As `numbered_lines`, in UTF-8.

    Raises: As there; ValueError naming the file, the line and the byte where it is not UTF-8.
    """
    for number, raw in numbered_lines(file, name):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name} {str(file)!r} is not UTF-8: line {number} holds the byte 0x{raw[error.start]:02X} at place "
                f"{error.start + 1}. Convert the file first, for example with `iconv -f LATIN1 -t UTF-8`."
            ) from error
        yield number, line
