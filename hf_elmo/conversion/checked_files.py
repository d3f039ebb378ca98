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
from ..given.bounded_files import MEBIBYTE, quoted
from ..given.reasons import UNREADABLE, reason

# What hdf5 has built in, by number: deflate, shuffle, fletcher32, szip, nbit, scaleoffset, and h5py's own lzf. For any
# other it loads a library from wherever the environment says.
_BUILT_IN_FILTERS = {1, 2, 3, 4, 5, 6, 32000}
# How deep keys lie and how many a file has; bilm-tf's lie six levels deep. hdf5's own walk recurses until it crashes.
_MOST_LEVELS, _MOST_LINKS = 32, 100_000
# Packed weights are hardly smaller than unpacked ones: their digits are noise.
_MOST_UNPACKING = 16


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
    where = f"{name} {str(file)!r}"
    try:
        with h5py.File(path, "r") as opened:
            if opened.userblock_size:
                raise ConversionError(
                    f"{where} begins with a user block of {opened.userblock_size} bytes of anything, wanted hdf5 "
                    "alone; get it again from whom you trust."
                )
            yield opened
    except ConversionError:
        raise
    # What h5py raises on a damaged file depends on where the damage lies.
    except (OSError, *UNREADABLE) as error:
        raise ConversionError(
            f"{where} is not a readable hdf5 file ({reason(error)}): it is truncated or damaged, or of "
            "another kind. Compare its size with the published one and get it again."
        ) from error


def dataset_names(where: str, file: Any) -> list[str]:
    """The keys of all arrays of an open hdf5 file, none of which leads out of it.

    Args:
        where: The file, for the message.
        file: The open file.
    Raises: ConversionError for a key that is a link to another file, and for more keys or levels than weights have.
    """
    h5py = require_h5py("bilm-tf weights")
    names: list[str] = []
    groups = [("", file)]
    seen = {_address(h5py, file)}
    num_links = 0
    while groups:
        prefix, group = groups.pop()
        for name in group:
            key = f"{prefix}{name}"
            num_links += 1
            if num_links > _MOST_LINKS or key.count("/") >= _MOST_LEVELS:
                raise ConversionError(
                    f"{where} has more than {_MOST_LINKS:,} keys, or {quoted(key)} lies more than {_MOST_LEVELS} "
                    "levels deep, as no weights do; name the file published with the model."
                )
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                # Another name within the file, of what is found under its own.
                continue
            if not isinstance(link, h5py.HardLink):
                target = f" ({link.filename!r})" if isinstance(link, h5py.ExternalLink) else ""
                raise ConversionError(
                    f"{where}: the key {quoted(key)} is a link to another file{target}, wanted its values. What "
                    "another file holds is not read: get the file again from whom you trust."
                )
            item = group[name]
            if is_dataset(item):
                names.append(key)
            elif isinstance(item, h5py.Group) and (address := _address(h5py, item)) not in seen:
                seen.add(address)
                groups.append((f"{key}/", item))
    return sorted(names)


def _address(h5py: Any, item: Any) -> tuple[int, int]:
    """Where something stands in its file: a group may hold itself."""
    info = h5py.h5o.get_info(item.id)
    return info.fileno, info.addr


def check_total_size(where: str, most: int, num_bytes: int, asked_by: str) -> None:
    """Check that a file can hold so much, before memory is taken for it.

    Args:
        where: The file, for the message.
        most: What it can hold at the most.
        num_bytes: Of all arrays wanted.
        asked_by: What asks for them.
    Raises: ConversionError.
    """
    if num_bytes > most:
        raise ConversionError(
            f"{asked_by} for {num_bytes:,} bytes of weights, but {where} can hold {most:,} at the most; name files "
            "that were published together."
        )


def most_bytes(file: Any) -> int:
    """What an open hdf5 file can hold at the most, as it is so large."""
    return _MOST_UNPACKING * Path(file.filename).stat().st_size + MEBIBYTE


def is_dataset(item: Any) -> bool:
    """Whether what stands under a key is an array, and not a group, a type or nothing."""
    return hasattr(item, "shape")


def check_storage(where: str, key: str, dataset: Any) -> None:
    """Check that an array is float32, lies in its own file, and was written there to its end.

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
    if dataset.is_virtual or dataset.external:
        others = ", ".join(quoted(source) for source in _other_files(dataset)[:3])
        raise ConversionError(
            f"{where}: the key {key!r} has its values in other files ({others}), wanted them in this one. What other "
            "files hold is not read: get the file again from whom you trust."
        )
    foreign = sorted(set(_filters(dataset)) - _BUILT_IN_FILTERS)
    if foreign:
        raise ConversionError(
            f"{where}: the key {key!r} is packed by the hdf5 filter {foreign[0]}, which is not built in: unpacking "
            "would run a library of its choice. Store it without that filter first."
        )
    chunk_bytes = 4 * math.prod(dataset.chunks or ())
    if dataset.nbytes > most_bytes(dataset.file) or chunk_bytes > max(dataset.nbytes, MEBIBYTE):
        raise ConversionError(
            f"{where}: the key {key!r} of shape {dataset.shape} in chunks of {dataset.chunks} takes more memory than "
            f"the file can fill ({_MOST_UNPACKING} times its size). It is damaged; get it again."
        )
    if not _is_written(dataset):
        raise ConversionError(
            f"{where}: the key {key!r} of shape {dataset.shape} was made but never filled, wanted its values. The file "
            "is half-written; get it again."
        )


def _other_files(dataset: Any) -> list[str]:
    if dataset.is_virtual:
        return [source.file_name for source in dataset.virtual_sources()]
    return [name for name, *_ in dataset.external]


def _filters(dataset: Any) -> list[int]:
    """The numbers of the filters that an array is packed by."""
    properties = dataset.id.get_create_plist()
    return [properties.get_filter(place)[0] for place in range(properties.get_nfilters())]


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
    return check_finite(where, key, dataset[()].astype(np.float32, copy=False))


def check_finite(where: str, key: str, array: np.ndarray) -> np.ndarray:
    """An array as it is, where it holds numbers alone.

    Args:
        where: The file, for the message.
        key: The array's name.
        array: Its values.
    Raises: ConversionError where some are infinite or not a number.
    """
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
