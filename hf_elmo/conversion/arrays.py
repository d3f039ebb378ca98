"""Arrays of a file by their keys, each checked before it is read, whichever kind of file they stand in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from .checked_files import check_storage, dataset_names, is_dataset, most_bytes, open_hdf5, read_finite


class Arrays(Protocol):
    """The arrays of an open file.

    Args:
        where: What errors call the file.
        keys: The keys of all arrays.
        most_bytes: What all of them together can hold at the most, as the file is so large.
    """

    where: str
    keys: list[str]
    most_bytes: int

    def shape(self, key: str) -> tuple[int, ...] | None:
        """The shape of an array; None where there is none of that key."""

    def check(self, key: str) -> None:
        """Check, before memory is taken for it, that an array is float32 and whole.

        Raises: ConversionError.
        """

    def read(self, key: str) -> np.ndarray:
        """The values of an array that was checked.

        Raises: ConversionError where some are infinite or not a number.
        """


class Hdf5Arrays:
    """Those of an open hdf5 file, none of which leads out of it; see `Arrays`.

    Raises: ConversionError for a key that is a link to another file, and for more keys or levels than weights have.
    """

    def __init__(self, where: str, file: Any):
        self.where = where
        # The walk over all keys comes first: it fails on a damaged index, where looking up one key finds it absent.
        self.keys = dataset_names(where, file)
        self.most_bytes = most_bytes(file)
        self._file = file

    def shape(self, key: str) -> tuple[int, ...] | None:
        item = self._file.get(key)
        return item.shape if is_dataset(item) else None

    def check(self, key: str) -> None:
        check_storage(self.where, key, self._file[key])

    def read(self, key: str) -> np.ndarray:
        return read_finite(self.where, key, self._file[key])


@contextmanager
def open_hdf5_arrays(name: str, file: str | os.PathLike) -> Iterator[Hdf5Arrays]:
    """The arrays of an hdf5 file.

    Args:
        name: The argument that names it.
        file: The file.
    Raises: As `open_hdf5` and `Hdf5Arrays`.
    """
    with open_hdf5(name, file) as opened:
        yield Hdf5Arrays(f"{name} {str(file)!r}", opened)
