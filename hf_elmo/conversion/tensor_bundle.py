"""The variables of a TensorFlow checkpoint, read without TensorFlow; the sums of all of them are checked first.

Source: TensorFlow, core/util/tensor_bundle (the two files) and core/lib/io/table_format.txt (the index, a table as
LevelDB writes them); their messages are protocol buffers.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..given.bounded_files import MEBIBYTE, quoted, read_file
from .checked_files import ConversionError, check_finite, existing_file

INDEX_SUFFIX = ".index"
_FOOTER_SIZE, _MAGIC = 48, 0xDB4775248B80FB57
# A variable takes some hundred bytes of the index.
_MOST_INDEX_BYTES, _MOST_VARIABLES = 64 * MEBIBYTE, 1_000_000
# What follows a block: a byte for its kind of compression, and a sum.
_TRAILER_SIZE = 5
_FLOAT32 = 1
# Of the data, read at a time.
_BLOCK_BYTES = 16 * MEBIBYTE
# TensorFlow's types by their numbers: names, for messages, and bytes, where they are fixed.
_TYPES = {1: "float32", 2: "float64", 3: "int32", 7: "string", 9: "int64", 10: "bool", 14: "bfloat16", 19: "float16"}
_BYTES = {1: 4, 2: 8, 3: 4, 9: 8, 10: 1, 14: 2, 19: 2}


class _Damaged(Exception):
    """What does not add up, in words that follow the file's name."""


class Variable(NamedTuple):
    """What the index says of a variable: its type by number, its shape, and where and with which sum its bytes lie."""

    type: int
    shape: tuple[int, ...]
    offset: int
    size: int
    checksum: int


class TensorBundle:
    """The variables of a checkpoint, of which only those that are asked for are read; see `Arrays`.

    Args:
        name: The argument that names the checkpoint.
        index_file: `PREFIX.index`; beside it lies `PREFIX.data-00000-of-00001`, the `data_file`.
    Raises: ConversionError where a file is damaged or of a form that is not read: in several shards or packed blocks;
        FileNotFoundError; ImportError.
    """

    def __init__(self, name: str, index_file: str | os.PathLike):
        path = existing_file(name, index_file)
        self.where = f"{name} {str(index_file)!r}"
        _require_crc32c()
        try:
            shards, self._variables = _read_index(read_file(path, _MOST_INDEX_BYTES, self.where))
        except _Damaged as error:
            raise ConversionError(f"{self.where} is no whole index of a TensorFlow checkpoint: {error}.") from error
        if shards != 1:
            raise ConversionError(
                f"{self.where} is of a checkpoint in {shards} shards, wanted one; save it anew with TensorFlow "
                "(tf.compat.v1.train.Saver(sharded=False))."
            )
        stem = path.name.removesuffix(INDEX_SUFFIX)
        self.data_file = existing_file("the data of " + self.where, path.with_name(f"{stem}.data-00000-of-00001"))
        self.most_bytes = self.data_file.stat().st_size
        self.keys = list(self._variables)
        self._check_sizes()
        self._check_sums()

    def shape(self, key: str) -> tuple[int, ...] | None:
        variable = self._variables.get(key)
        return None if variable is None else variable.shape

    def check(self, key: str) -> None:
        variable = self._variables[key]
        if variable.type != _FLOAT32:
            found = _TYPES.get(variable.type, f"number {variable.type}")
            raise ConversionError(
                f"{self.where}: the variable {key!r} is of the type {found}, wanted float32: values are copied bit by "
                "bit."
            )

    def read(self, key: str) -> np.ndarray:
        variable = self._variables[key]
        array = np.fromfile(self.data_file, "<f4", math.prod(variable.shape), offset=variable.offset)
        return check_finite(self.where, key, array.astype(np.float32, copy=False).reshape(variable.shape))

    def _check_sizes(self) -> None:
        data, total = str(self.data_file), 0
        for key, variable in self._variables.items():
            where = f"{self.where}: the variable {quoted(key)} of shape {variable.shape}"
            bytes_each = _BYTES.get(variable.type)
            if bytes_each is not None and variable.size != bytes_each * math.prod(variable.shape):
                raise ConversionError(
                    f"{where} has {variable.size} bytes, wanted {bytes_each * math.prod(variable.shape)}. The file is "
                    "damaged; get it again."
                )
            end, total = variable.offset + variable.size, total + variable.size
            if max(end, total) > self.most_bytes:
                raise ConversionError(
                    f"{where} ends at byte {end:,}, and those up to it have {total:,}, but {data!r} has "
                    f"{self.most_bytes:,}: it is truncated, or of another checkpoint. Get both files again."
                )

    def _check_sums(self) -> None:
        import google_crc32c

        with self.data_file.open("rb") as file:
            for key, variable in self._variables.items():
                crc, left = 0, variable.size
                file.seek(variable.offset)
                while left:
                    block = file.read(min(left, _BLOCK_BYTES))
                    if not block:
                        raise ConversionError(f"{str(self.data_file)!r} was cut off while it was read; get it again.")
                    crc, left = google_crc32c.extend(crc, block), left - len(block)
                found = _masked(crc)
                if found != variable.checksum:
                    raise ConversionError(
                        f"{str(self.data_file)!r}: the variable {quoted(key)} of shape {variable.shape} has the "
                        f"CRC-32C {found:#010x}, wanted {variable.checksum:#010x}, as the index has it. It is damaged; "
                        "get it again."
                    )


def _require_crc32c() -> None:
    try:
        import google_crc32c  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "TensorFlow checkpoints are checked by their CRC-32C, and google-crc32c is not installed; run: pip install "
            "'hf_elmo[conversion]'"
        ) from error


def _masked(crc: int) -> int:
    """A sum as it is stored: turned, so that sums of what holds sums differ too."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _read_index(index: bytes) -> tuple[int, dict[str, Variable]]:
    """How many shards there are, and the variables by their names."""
    footer = index[-_FOOTER_SIZE:]
    if len(footer) < _FOOTER_SIZE or struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
        raise _Damaged("its last bytes are not those of such a file")
    place = 0
    for _ in range(2):  # the handle of the meta-index, which nothing uses
        _, place = _varint(footer, place)
    handle = footer[place:-8]
    variables: dict[str, Variable] = {}
    shards = None
    for _, block in _entries(_block(index, handle)):
        for key, value in _entries(_block(index, block)):
            if not key:
                shards = _read_header(value)
            elif len(variables) >= _MOST_VARIABLES:
                raise _Damaged(f"it has more than {_MOST_VARIABLES:,} variables")
            else:
                name = key.decode("utf-8", "backslashreplace")
                variables[name] = _read_variable(name, value)
    if shards is None:
        raise _Damaged("it has no header")
    return shards, variables


def _block(index: bytes, handle: bytes) -> bytes:
    """The block of a table that a handle names, checked."""
    offset, place = _varint(handle, 0)
    size, _ = _varint(handle, place)
    end = offset + size
    if end + _TRAILER_SIZE > len(index) - _FOOTER_SIZE:
        raise _Damaged(f"a block ends at byte {end:,}, behind its end")
    kind, (checksum,) = index[end], struct.unpack("<I", index[end + 1 : end + _TRAILER_SIZE])
    import google_crc32c

    found = _masked(google_crc32c.value(index[offset : end + 1]))
    if found != checksum:
        raise _Damaged(f"the block at byte {offset:,} has the CRC-32C {found:#010x}, wanted {checksum:#010x}")
    if kind:
        raise _Damaged(f"the block at byte {offset:,} is packed (kind {kind}), wanted plain ones, as bilm-tf writes")
    return index[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block; a key says only in what it differs from the one before."""
    if len(block) < 4:
        raise _Damaged("a block is cut off")
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise _Damaged("a block has more restarts than bytes")
    key, place = b"", 0
    while place < end:
        shared, place = _varint(block, place)
        unshared, place = _varint(block, place)
        size, place = _varint(block, place)
        if shared > len(key) or place + unshared + size > end:
            raise _Damaged("an entry leads out of its block")
        key = key[:shared] + block[place : place + unshared]
        place += unshared
        yield key, block[place : place + size]
        place += size


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(content):
            break
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**63:
                break
            return value, place
    raise _Damaged("it holds a number without an end, or one that is negative")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbered fields of a protocol buffer: whole numbers, and bytes that may be a message again."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield number, value
            continue
        if kind == 2:
            size, place = _varint(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise _Damaged(f"it holds a field of the kind {kind}")
        content = message[place : place + size]
        if len(content) < size:
            raise _Damaged("a field leads out of its message")
        place += size
        yield number, content if kind == 2 else int.from_bytes(content, "little")


def _read_header(message: bytes) -> int:
    """How many shards there are."""
    fields = dict(_fields(message))
    if fields.get(2, 0) != 0:
        raise _Damaged("its numbers stand with the highest byte first, wanted the lowest first")
    return _number(fields, 1)


def _read_variable(name: str, message: bytes) -> Variable:
    fields = dict(_fields(message))
    if 7 in fields:
        raise _Damaged(f"the variable {quoted(name)} is cut into slices, wanted whole ones")
    if _number(fields, 3):
        raise _Damaged(f"the variable {quoted(name)} lies in shard {fields[3]!r}, wanted all in the first")
    shape = fields.get(2, b"")
    if not isinstance(shape, bytes):
        raise _Damaged(f"the variable {quoted(name)} has no shape")
    sizes = []
    for number, size in _fields(shape):
        if number == 2 and isinstance(size, bytes):
            sizes.append(_number(dict(_fields(size)), 1))
    return Variable(_number(fields, 1), tuple(sizes), _number(fields, 4), _number(fields, 5), _number(fields, 6))


def _number(fields: dict[int, int | bytes], number: int) -> int:
    """A field that is a whole number; what is 0 is not written."""
    value = fields.get(number, 0)
    if not isinstance(value, int):
        raise _Damaged(f"its field {number} is no whole number")
    return value


def find_index(source: Path) -> Path | None:
    """The index of the checkpoint that a directory or file is; None where it is none.

    Of a directory with several it is the one that its file `checkpoint` names, wherever that says it lies: written in a
    place that nobody has, it is looked for here by its name.
    """
    if source.is_file():
        stem, mark, _ = source.name.rpartition(".data-")
        index = source.with_name(f"{stem}{INDEX_SUFFIX}") if mark else source
        return index if index.name.endswith(INDEX_SUFFIX) and index.is_file() else None
    found = sorted(path for path in source.glob(f"*{INDEX_SUFFIX}") if path.is_file()) if source.is_dir() else []
    latest = _latest(source / "checkpoint") if len(found) > 1 else None
    if latest is not None:
        found = [path for path in found if path.name == f"{latest}{INDEX_SUFFIX}"]
    return found[0] if len(found) == 1 else None


def _latest(checkpoint_file: Path) -> str | None:
    """The last part of the name that `model_checkpoint_path: "..."` has in a file `checkpoint`; None where none is."""
    if not checkpoint_file.is_file():
        return None
    text = read_file(checkpoint_file, MEBIBYTE, f"checkpoint {str(checkpoint_file)!r}").decode("utf-8", "replace")
    for line in text.splitlines():
        field, _, value = line.partition(":")
        if field.strip() == "model_checkpoint_path":
            return value.strip().strip('"').replace("\\", "/").rpartition("/")[2]
    return None
