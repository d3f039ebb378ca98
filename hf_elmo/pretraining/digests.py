"""Digests of a checkpoint's files, by which a run sees whether they are still those that it wrote."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from ..checkpoints.provenance import write_json
from ..given.bounded_files import path_inside
from ..given.bounded_json import read_json

DIGESTS_FILE = "digests.json"
# The fastest of the standard library where the processor has instructions for it: a second for a gigabyte.
_ALGORITHM = "sha256"


def write_digests(directory: Path) -> None:
    """Write the digests of all files of a directory into it."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != DIGESTS_FILE)
    digests = {path.relative_to(directory).as_posix(): _digest(path) for path in files}
    write_json(directory / DIGESTS_FILE, {_ALGORITHM: digests})


def find_altered(directory: Path, wanted: list[str]) -> str | None:
    """What is not as it was written; None where all is, and where there are no digests.

    Args:
        directory: The checkpoint.
        wanted: The files that are read, each of which must have a digest.
    """
    if not (directory / DIGESTS_FILE).is_file():
        return None
    try:
        digests = read_json(directory / DIGESTS_FILE, DIGESTS_FILE)[_ALGORITHM]
        for name in digests:
            path_inside(directory, name, DIGESTS_FILE)
    except (KeyError, OSError, TypeError, ValueError):
        return f"{DIGESTS_FILE} is broken"
    for name in sorted({*wanted, *digests}):
        path = directory / name
        if name not in digests:
            return f"{name} has no digest in {DIGESTS_FILE}"
        if not path.is_file():
            return f"{name} is missing"
        if _digest(path) != digests[name]:
            return f"{name} is not what was written (its {_ALGORITHM} is another one)"
    return None


def has_digests(directory: Path) -> bool:
    """Whether a checkpoint has digests; those of older versions have none."""
    return (directory / DIGESTS_FILE).is_file()


def _digest(path: Path) -> str:
    status = path.stat()
    return _digest_once(os.fspath(path), status.st_ino, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=4096)
def _digest_once(path: str, *_status: int) -> str:
    """The digest of a file that has not changed since: a run asks several times which checkpoints are whole."""
    with open(path, "rb") as file:
        digest = hashlib.new(_ALGORITHM)
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
