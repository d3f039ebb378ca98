"""The variables of a TensorFlow checkpoint, read without TensorFlow.

Source: TensorFlow, core/util/tensor_bundle (index and data) and core/lib/io/table_format.txt (the index is a table as
LevelDB writes them); their messages are protocol buffers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..given.bounded_files import quoted
from .reading import ConversionError, Weights, existing_file, one_line

INDEX_SUFFIX, _DATA_SUFFIX = ".index", ".data-00000-of-00001"
_FOOTER_SIZE, _MAGIC = 48, 0xDB4775248B80FB57
# After a block: a byte for its compression, and a checksum.
_TRAILER_SIZE = 5
_MOST_AXES = 8
# TensorFlow's types that checkpoints of bilm-tf have, by number.
_DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("<f8"), 3: np.dtype("<i4"), 9: np.dtype("<i8")}


class _Variable(NamedTuple):
    """What the index says of a variable."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    num_bytes: int
    checksum: int
    is_sliced: bool


def find_index(source: Path) -> Path | None:
    """The index of the checkpoint that a directory or file is; None where it is none.

    Of several in a directory it is the one that the file `checkpoint` names, by the last part of its path, which is one
    on the machine where the model was trained.
    """
    if source.is_file():
        stem, mark, _ = source.name.rpartition(".data-")
        index = source.with_name(f"{stem}{INDEX_SUFFIX}") if mark else source
        return index if index.name.endswith(INDEX_SUFFIX) and index.is_file() else None
    found = sorted(source.glob(f"*{INDEX_SUFFIX}"))
    if len(found) > 1 and (source / "checkpoint").is_file():
        text = (source / "checkpoint").read_text(encoding="utf-8", errors="replace")
        latest = [line.partition(":")[2] for line in text.splitlines() if line.startswith("model_checkpoint_path:")]
        name = latest[0].strip().strip('"').replace("\\", "/").rpartition("/")[2] if latest else ""
        found = [path for path in found if path.name == f"{name}{INDEX_SUFFIX}"]
    return found[0] if len(found) == 1 else None


def data_file_of(index_file: Path) -> Path:
    """The data beside an index."""
    return index_file.with_name(f"{index_file.name.removesuffix(INDEX_SUFFIX)}{_DATA_SUFFIX}")


def read_bundle(index_file: Path, key_of: Callable[[str], str | None] = lambda name: name) -> Weights:
    """The variables of a checkpoint, the checksum of each compared.

    Args:
        index_file: `PREFIX.index`; beside it lies `PREFIX.data-00000-of-00001`.
        key_of: The key that a variable gets; None leaves it out.
    Raises: ConversionError where a file is damaged, or in several shards; FileNotFoundError; ImportError.
    """
    where = f"weight_file {str(index_file)!r}"
    _crc32c()
    try:
        num_shards, variables = _read_index(existing_file("weight_file", index_file).read_bytes())
    except (ValueError, LookupError, TypeError, OverflowError, struct.error) as error:
        raise ConversionError(
            f"{where} is damaged, or no index of a TensorFlow checkpoint ({one_line(error)})."
        ) from error
    sliced = [name for name, variable in variables.items() if variable.is_sliced or variable.shard]
    if num_shards != 1 or sliced:
        what = f"the variable {quoted(sliced[0])} is not in one piece" if sliced else f"it has {num_shards} shards"
        raise ConversionError(f"{where}: {what}; save it again by tf.compat.v1.train.Saver(sharded=False).")
    data_file = existing_file("the data of weight_file", data_file_of(index_file))
    size, found = data_file.stat().st_size, {}
    with data_file.open("rb") as data:
        for name, variable in variables.items():
            key, dtype = key_of(name), _DTYPES.get(variable.dtype)
            if key is None:
                continue
            told = f"{str(data_file)!r}: the variable {quoted(name)} of shape {variable.shape}"
            if (
                dtype is None
                or not variable.num_bytes
                or variable.num_bytes != dtype.itemsize * math.prod(variable.shape)
            ):
                raise ConversionError(f"{told} has {variable.num_bytes} bytes of TensorFlow's type {variable.dtype}.")
            if variable.offset + variable.num_bytes > size:
                raise ConversionError(f"{told} ends behind the file's {size:,} bytes: it is truncated. Get it again.")
            data.seek(variable.offset)
            content = data.read(variable.num_bytes)
            if _checksum(content) != variable.checksum:
                raise ConversionError(f"{told} has another CRC-32C than the index says: it is damaged. Get it again.")
            array = np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))
            found[key] = torch.from_numpy(array.reshape(variable.shape))
    return Weights(where, found)


def _crc32c() -> Any:
    try:
        import google_crc32c
    except ImportError as error:
        raise ImportError(
            "TensorFlow checkpoints hold CRC-32C checksums, and google-crc32c is not installed; run: pip install "
            "'hf_elmo[conversion]'"
        ) from error
    return google_crc32c


def _checksum(content: bytes) -> int:
    """The CRC-32C as it is stored: turned, so that checksums of what holds checksums differ too."""
    crc = _crc32c().value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _read_index(index: bytes) -> tuple[int, dict[str, _Variable]]:
    """The number of shards, and the variables by their names; damage raises what slices and numbers raise."""
    footer = index[-_FOOTER_SIZE:]
    if struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
        raise ValueError("the last bytes are not those of an index")
    place = 0
    for _ in range(2):  # the handle of the meta-index, which is not used
        _, place = _varint(footer, place)
    entries = [
        entry for _, handle in _entries(_block(index, footer[place:])) for entry in _entries(_block(index, handle))
    ]
    # The header has the empty key.
    header = _message(dict(entries)[b""])
    return header.get(1, 0), {name.decode("utf-8", "replace"): _variable(value) for name, value in entries if name}


def _block(index: bytes, handle: bytes) -> bytes:
    """The block that a handle names, its checksum compared."""
    offset, place = _varint(handle, 0)
    size, _ = _varint(handle, place)
    end = offset + size
    if struct.unpack("<I", index[end + 1 : end + _TRAILER_SIZE])[0] != _checksum(index[offset : end + 1]):
        raise ValueError(f"the block at byte {offset} has another CRC-32C")
    if index[end]:
        raise ValueError(f"the block at byte {offset} is compressed")
    return index[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block; a key says only in what it differs from the one before."""
    end = len(block) - 4 * (struct.unpack("<I", block[-4:])[0] + 1)
    key, place = b"", 0
    while place < end:
        shared, place = _varint(block, place)
        unshared, place = _varint(block, place)
        size, place = _varint(block, place)
        key = key[:shared] + block[place : place + unshared]
        place += unshared
        yield key, block[place : place + size]
        place += size


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        byte = content[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
        if shift > 63:
            raise ValueError("a number does not end")


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The numbered fields of a protocol buffer: whole numbers, and bytes that may be a message again."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield number, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            size, place = _varint(message, place)
        content = message[place : place + size]
        place += size
        yield number, content if kind == 2 else int.from_bytes(content, "little")


def _message(message: bytes) -> dict[int, Any]:
    return dict(_fields(message))


def _variable(message: bytes) -> _Variable:
    fields = _message(message)
    shape = tuple(int(_message(size).get(1, 0)) for number, size in _fields(fields.get(2, b"")) if number == 2)
    if len(shape) > _MOST_AXES:
        raise ValueError(f"a variable has {len(shape)} axes")
    # What is 0 is not written.
    dtype, shard, offset, num_bytes, checksum = (int(fields.get(number, 0)) for number in (1, 3, 4, 5, 6))
    return _Variable(dtype, shape, shard, offset, num_bytes, checksum, is_sliced=7 in fields)
