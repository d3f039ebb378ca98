"""Strangers' zip and tar archives, unpacked within bounds into a directory that is gone afterwards."""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .bounded_files import MEBIBYTE, path_inside, quoted
from .reasons import UNREADABLE, reason

# Archives of models hold a handful of files.
MOST_MEMBERS = 1000
_MOST_LEVELS = 32
# Weights are hardly packed, words and JSON some five times; what unpacks to much more is made to fill a disk.
_MOST_UNPACKING, _SMALL = 16, 16 * MEBIBYTE
_PIECE = MEBIBYTE

_DAMAGED = (*UNREADABLE, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


class _Member(NamedTuple):
    """One entry of an archive."""

    name: str
    is_directory: bool
    is_file: bool
    opened: BinaryIO | None


def is_archive(path: str | os.PathLike) -> bool:
    """Whether a file is a zip or a tar archive (packed by gzip, bzip2, xz or not at all), by what it holds."""
    if not os.path.isfile(path):
        return False
    # One that is cut off is still one to be named in an error.
    with Path(path).open("rb") as stream:
        if stream.read(4) == b"PK\x03\x04":
            return True
    try:
        return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    except _DAMAGED:
        return True


@contextmanager
def unpacked(path: str | os.PathLike, where: str) -> Iterator[Path]:
    """A directory with the files of an archive; a directory is given as it is.

    Names that lead out or more than 32 directories deep, links, devices, encrypted or repeated members, more than 1,000
    of them and more bytes than archives of models unpack to (16 times their size and 16 MiB) are refused, before
    anything of them is kept.

    Args:
        path: A zip or tar archive, whatever its name, or a directory.
        where: What errors call it: the argument that names it and its value.
    Raises: ValueError naming the member; FileNotFoundError where there is nothing of that name.
    """
    path = Path(path)
    if path.is_dir():
        yield path
        return
    if not path.is_file():
        raise FileNotFoundError(f"{where} is not there; name an existing archive or directory.")
    with tempfile.TemporaryDirectory(prefix="hf_elmo.") as directory:
        try:
            _unpack(path, Path(directory), where)
        except _Refused as refusal:
            raise ValueError(str(refusal)) from refusal
        except _DAMAGED as error:
            raise ValueError(
                f"{where} is no zip or tar archive that can be read to its end ({reason(error)}): it is truncated or "
                "damaged, or of another kind. Compare its size with the published one and get it again."
            ) from error
        yield Path(directory)


class _Refused(Exception):
    """What an archive holds that is not unpacked; the message is the whole error."""


def _unpack(path: Path, directory: Path, where: str) -> None:
    room = _MOST_UNPACKING * path.stat().st_size + _SMALL
    seen: set[str] = set()
    members = _zip_members(path, where) if zipfile.is_zipfile(path) else _tar_members(path)
    for number, member in enumerate(members, start=1):
        if number > MOST_MEMBERS:
            raise _Refused(f"{where} holds more than {MOST_MEMBERS:,} files, as no model does; check what it is.")
        # Where an archive was made of the directory itself, that is a member too.
        if member.is_directory and os.path.normpath(member.name) == ".":
            continue
        try:
            target = path_inside(directory, member.name, where)
        except ValueError as error:
            raise _Refused(str(error)) from error
        if len(target.relative_to(directory).parts) > _MOST_LEVELS:
            raise _Refused(
                f"{where} holds {quoted(member.name)}, which lies more than {_MOST_LEVELS} directories deep, as no "
                "file of a model does; check what it is."
            )
        if member.is_directory:
            target.mkdir(parents=True, exist_ok=True)
            continue
        if not member.is_file or member.opened is None:
            raise _Refused(
                f"{where} holds {quoted(member.name)}, a link or a device, wanted files and directories alone; get "
                "it again from whom you trust."
            )
        # Some systems' files have one name in either case.
        key = os.path.normpath(member.name).casefold()
        if key in seen or target.is_dir():
            raise _Refused(f"{where} holds {quoted(member.name)} twice; get it again from whom you trust.")
        seen.add(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        with member.opened as stream, target.open("xb") as written:
            while piece := stream.read(_PIECE):
                room -= len(piece)
                if room < 0:
                    raise _Refused(
                        f"{where} unpacks to more than {_MOST_UNPACKING} times its size, as no weights do; check "
                        "what it is."
                    )
                written.write(piece)


def _zip_members(path: Path, where: str) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if info.flag_bits & 1:
                raise _Refused(f"{where} holds {quoted(info.filename)} encrypted; unpack it with its password first.")
            is_file = not info.is_dir() and kind in (0, stat.S_IFREG)
            opened = archive.open(info) if is_file else None
            # `filename` ends at a zero byte, behind which the name went on.
            name = info.orig_filename if "\0" in info.orig_filename else info.filename
            yield _Member(name, info.is_dir(), is_file, opened)  # type: ignore[arg-type]


def _tar_members(path: Path) -> Iterator[_Member]:
    with tarfile.open(path, "r:*") as archive:
        for info in archive:
            opened = archive.extractfile(info) if info.isreg() else None
            yield _Member(info.name, info.isdir(), info.isreg(), opened)  # type: ignore[arg-type]
