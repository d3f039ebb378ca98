"""Other programs' files, read with care: what is missing, damaged or of another shape is refused by name."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoints.hdf5 import require_h5py


class ConversionError(ValueError):
    """A checkpoint that cannot be converted: the message names the file, the key, what it holds and the way out."""


def existing_file(name: str, file: str | os.PathLike) -> Path:
    """The path of an input file.

    Args:
        name: The argument that names it.
        file: The file.
    Raises: FileNotFoundError naming the argument.
    """
    path = Path(file)
    if not path.is_file():
        found = "a directory" if path.is_dir() else "not there"
        raise FileNotFoundError(f"{name} {str(file)!r} is {found}; name an existing file.")
    return path


@contextmanager
def open_hdf5(name: str, file: str | os.PathLike) -> Iterator[Any]:
    """An hdf5 file, open for reading.

    Args:
        name: The argument that names it.
        file: The file.
    Raises: ConversionError when it, or what is read of it in the block, is damaged; FileNotFoundError; ImportError.
    """
    h5py = require_h5py("bilm-tf weights")
    path = existing_file(name, file)
    try:
        with h5py.File(path, "r") as opened:
            yield opened
    # What h5py raises on a damaged file depends on where the damage lies.
    except (OSError, RuntimeError, KeyError) as error:
        raise ConversionError(
            f"{name} {str(file)!r} is not a readable hdf5 file ({one_line(error)}): it is truncated or damaged, or of "
            "another kind. Compare its size with the published one and get it again."
        ) from error


def dataset_names(file: Any) -> list[str]:
    """The keys of all arrays of an open hdf5 file."""
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if is_dataset(item) else None)
    return names


def is_dataset(item: Any) -> bool:
    """Whether what stands under a key is an array, and not a group, a type or nothing."""
    return hasattr(item, "shape")


def check_storage(where: str, key: str, dataset: Any) -> None:
    """Check that an array is float32 and was written to its end.

    Args:
        where: The file, for the message.
        key: The array's name.
        dataset: The array.
    Raises: ConversionError.
    """
    if dataset.dtype.kind != "f" or dataset.dtype.itemsize != 4:
        raise ConversionError(
            f"{where}: the key {key!r} has the dtype {dataset.dtype}, wanted float32: values are copied bit by bit. "
            "Store it as float32 first."
        )
    if not _is_written(dataset):
        raise ConversionError(
            f"{where}: the key {key!r} of shape {dataset.shape} was made but never filled, wanted its values. The file "
            "is half-written; get it again."
        )


def _is_written(dataset: Any) -> bool:
    """Whether storage was ever given to all of an hdf5 dataset; what has none reads as zeros."""
    if dataset.chunks is None:
        return dataset.id.get_storage_size() > 0
    wanted = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    return dataset.id.get_num_chunks() == wanted


def read_finite(where: str, key: str, dataset: Any) -> np.ndarray:
    """The values of a float32 array, in the machine's own byte order.

    Args:
        where: The file, for the message.
        key: The array's name.
        dataset: The array.
    Raises: ConversionError where some are infinite or not a number.
    """
    array = dataset[()].astype(np.float32, copy=False)
    broken = array.size - int(np.isfinite(array).sum())
    if broken:
        raise ConversionError(
            f"{where}: the key {key!r} holds {broken} values that are infinite or not a number, wanted finite ones. "
            "The file is damaged or its training had diverged; get it again."
        )
    return array


def and_more(things: Sequence[Any]) -> str:
    """How many there are beside the first, which a message names."""
    return f" (and {len(things) - 1} more like it)" if len(things) > 1 else ""


def one_line(error: Exception) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(error).split())
