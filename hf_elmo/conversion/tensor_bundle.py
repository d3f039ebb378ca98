"""The variables of a TensorFlow checkpoint, read without TensorFlow.

Source: TensorFlow, core/util/tensor_bundle (index and data) and core/lib/io/table_format.txt (the index is a table as
LevelDB writes them); their messages are protocol buffers.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..given import UNREADABLE, quoted, reason, require
from .reading import Weights, existing_file

INDEX_SUFFIX, _DATA_SUFFIX = ".index", ".data-00000-of-00001"
_MAGIC = 0xDB4775248B80FB57
# TensorFlow's types that checkpoints of bilm-tf have, by number.
_DTYPES: dict[Any, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("<f8"), 3: np.dtype("<i4"), 9: np.dtype("<i8")}


def find_index(source: Path) -> Path | None:
    """The index of the checkpoint that a directory or file is; of several the one that the file `checkpoint` names."""
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
    """The variables of a checkpoint by the keys that `key_of` gives them, if any; the checksum of each is compared.

    Raises: ValueError where a file is damaged, or in several shards; FileNotFoundError; ImportError.
    """
    index = existing_file("weight_file", index_file).read_bytes()
    data_file = data_file_of(index_file)
    size = existing_file("the data of weight_file", data_file).stat().st_size
    where, name, found = f"weight_file {str(index_file)!r}", "", {}
    try:
        with data_file.open("rb") as data:
            for raw, message in _read_index(index):
                name = raw.decode("utf-8", "replace")
                key = key_of(name)
                if key is not None:
                    found[key] = _read_variable(message, data, size)
    except UNREADABLE as error:
        told = f"the variable {quoted(name)}: {reason(error)}" if name else reason(error)
        raise ValueError(
            f"{where} is damaged, or no index of a TensorFlow checkpoint that tf.compat.v1.train.Saver(sharded=False) "
            f"wrote ({told}). Get both of its files again."
        ) from error
    return Weights(where, found)


def _read_variable(message: bytes, data: Any, size: int) -> torch.Tensor:
    fields = dict(_fields(message))
    shape = tuple(int(dict(_fields(axis)).get(1, 0)) for number, axis in _fields(fields.get(2, b"")) if number == 2)
    # What is 0 is not written.
    offset, num_bytes, dtype = fields.get(4, 0), fields.get(5, 0), _DTYPES.get(fields.get(1))
    is_whole = 7 not in fields and not fields.get(3) and 0 < num_bytes <= size - offset
    if dtype is None or not is_whole or num_bytes != dtype.itemsize * math.prod(shape):
        raise ValueError(
            f"its {num_bytes} bytes of TensorFlow's type {fields.get(1)} have not the shape {shape}, are not in one "
            f"piece, or lie behind the {size:,} bytes of data, which are truncated"
        )
    data.seek(offset)
    content = data.read(num_bytes)
    if _checksum(content) != fields.get(6):
        raise ValueError(f"shape {shape} has another CRC-32C than the index says")
    array = np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))
    return torch.from_numpy(array.reshape(shape))


def _read_index(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The names of variables and their messages; damage raises what slices and numbers raise."""
    footer = io.BytesIO(index[-48:])
    if struct.unpack("<Q", index[-8:])[0] != _MAGIC:
        raise ValueError("the last bytes are not those of an index")
    # Two handles, each an offset and a size: of the meta-index, which is not used, and of the index of blocks.
    _ = _varint(footer), _varint(footer)
    blocks = (_block(index, io.BytesIO(handle)) for _, handle in _entries(_block(index, footer)))
    entries = [entry for block in blocks for entry in _entries(block)]
    # The header has the empty key.
    num_shards = dict(_fields(dict(entries)[b""])).get(1, 0)
    if num_shards != 1:
        raise ValueError(f"it has {num_shards} shards")
    return (entry for entry in entries if entry[0])


def _block(index: bytes, handle: io.BytesIO) -> bytes:
    """The block that a handle names; behind it stand a byte for its compression and a checksum of both."""
    offset = _varint(handle)
    end = offset + _varint(handle)
    if struct.unpack("<I", index[end + 1 : end + 5])[0] != _checksum(index[offset : end + 1]):
        raise ValueError(f"the block at byte {offset} has another CRC-32C")
    if index[end]:
        raise ValueError(f"the block at byte {offset} is compressed")
    return index[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block; a key says only in what it differs from the one before."""
    end = len(block) - 4 * (struct.unpack("<I", block[-4:])[0] + 1)
    stream, key = io.BytesIO(block), b""
    while stream.tell() < end:
        shared, unshared, size = (_varint(stream) for _ in range(3))
        key = key[:shared] + stream.read(unshared)
        yield key, stream.read(size)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The numbered fields of a protocol buffer: whole numbers, and bytes that may be a message again."""
    stream = io.BytesIO(message)
    while stream.tell() < len(message):
        tag = _varint(stream)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            yield number, _varint(stream)
        elif kind == 2:
            yield number, stream.read(_varint(stream))
        else:
            yield number, int.from_bytes(stream.read({1: 8, 5: 4}[kind]), "little")


def _varint(stream: io.BytesIO) -> int:
    """A number of seven bits a byte, the lowest first."""
    value = 0
    for shift in range(0, 64, 7):
        byte = stream.read(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("a number does not end")


def _checksum(content: bytes) -> int:
    """The CRC-32C as it is stored: turned, so that checksums of what holds checksums differ too."""
    crc = require("google_crc32c", "the checksums of TensorFlow's checkpoints", "conversion").value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
