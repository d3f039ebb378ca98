"""A shard of vectors as one file: Parquet, Arrow, safetensors or NumPy's npz, with the words and where they stood.

Letters in shapes: S sentences, N words of them all, D numbers of a vector. Rows of vectors are words, or with pooling
sentences.
"""

from __future__ import annotations

import itertools
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from safetensors import safe_open
from safetensors.numpy import save_file

from ..given.reasons import UNREADABLE, reason
from .stored_numbers import StoredNumbers

ShardFormat = Literal["arrow", "parquet", "safetensors", "numpy"]
# What the file's name ends in, and how each may be compressed.
ENDINGS: dict[str, str] = {"parquet": ".parquet", "arrow": ".arrow", "safetensors": ".safetensors", "numpy": ".npz"}
COMPRESSIONS: dict[str, tuple[str, ...]] = {
    "parquet": ("none", "gzip", "zstd"),
    "arrow": ("none", "zstd"),
    "safetensors": ("none",),
    "numpy": ("none", "gzip"),
}
# The name of the scales of a column of whole numbers, behind its own.
_SCALES = "_scales"
_WORD_COLUMNS = ("words", "starts", "ends")


@dataclass(frozen=True)
class ShardBatch:
    """Sentences that lie together in a shard.

    Args:
        sentence_ids: Numbers of the sentences in the whole corpus, from 0, (S,), int64.
        num_words: Words of each, (S,), int64.
        words: Of all of them, one after another, N.
        offsets: First character of each word in its sentence and the character behind its last, (N, 2), int32.
        columns: Vectors by name, (N, D), or (S, D) where `is_pooled`.
        is_pooled: Whether there is a vector per sentence.
    """

    sentence_ids: np.ndarray
    num_words: np.ndarray
    words: Sequence[str]
    offsets: np.ndarray
    columns: dict[str, StoredNumbers] = field(default_factory=dict)
    is_pooled: bool = False

    def sentences(self, column: str) -> Iterator[tuple[int, list[str], np.ndarray]]:
        """Number, words and restored vectors, (words, D) or (D,), of each sentence."""
        vectors, ends = self.columns[column].restore(), np.cumsum(self.num_words).tolist()
        for place, (number, start, end) in enumerate(zip(self.sentence_ids.tolist(), [0, *ends], ends, strict=False)):
            yield number, list(self.words[start:end]), vectors[place] if self.is_pooled else vectors[start:end]


Write = Callable[[ShardBatch], None]


def check_compression(file_format: str, compression: str) -> None:
    """Raises: ValueError where files of that format are not compressed so."""
    if compression not in COMPRESSIONS[file_format]:
        raise ValueError(
            f"compression is {compression!r}, which {file_format} files do not have; choose one of "
            f"{', '.join(COMPRESSIONS[file_format])}."
        )


def open_shard(path: Path, file_format: ShardFormat, compression: str = "none") -> AbstractContextManager[Write]:
    """A file to write batch after batch; safetensors and npz are held in memory until the end."""
    if file_format in ("parquet", "arrow"):
        return _table_writer(path, file_format, compression)
    return _arrays_writer(path, file_format, compression)


def read_shard(
    path: Path, file_format: ShardFormat, numbers: Collection[int] | None = None
) -> Iterator[tuple[int, ShardBatch]]:
    """The batches of a shard with their numbers; Parquet and Arrow files are memory-mapped, and read one at a time.

    Args:
        path: The file.
        file_format: Of the file; safetensors and npz are one batch.
        numbers: Which of them; None reads all.
    Raises: ValueError naming the file where it is damaged, or no such file; FileNotFoundError.
    """
    readers = {"parquet": _parquet_batches, "arrow": _arrow_batches}
    try:
        if file_format in readers:
            for number, record_batch in readers[file_format](path, numbers):
                yield number, _checked(_from_record_batch(record_batch))
        elif numbers is not None and 0 not in numbers:
            return
        elif file_format == "numpy":
            with np.load(path, allow_pickle=False) as arrays:
                yield 0, _checked(_from_arrays(dict(arrays)))
        else:
            with safe_open(path, "np") as file:
                yield 0, _checked(_from_arrays({name: file.get_tensor(name) for name in file.keys()}))  # noqa: SIM118
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{str(path)!r} is not there; embed the text again.") from error
    except (OSError, pa.ArrowException, zipfile.BadZipFile, zlib.error, *UNREADABLE) as error:
        raise ValueError(
            f"{str(path)!r} is no shard of vectors, or is damaged ({reason(error)}); embed the text again."
        ) from error


def _checked(batch: ShardBatch) -> ShardBatch:
    """A batch whose parts belong together.

    Raises: ValueError naming the part that does not.
    """
    sentences, words = batch.num_words.shape, (len(batch.words),)
    rows = sentences if batch.is_pooled else words
    shapes: dict[str, tuple[np.ndarray, tuple[int, ...]]] = {
        "sentence_ids": (batch.sentence_ids, sentences),
        "num_words": (batch.num_words, sentences[:1]),
        "offsets": (batch.offsets, (*words, 2)),
    }
    for name, column in batch.columns.items():
        shapes[name] = (column.values, (*rows, column.values.shape[-1]))
        if column.scales is not None:
            shapes[name + _SCALES] = (column.scales, rows)
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise ValueError(f"{name} has the shape {array.shape}, wanted {shape}")
        if array.dtype.kind not in ("fi" if name in batch.columns or name.endswith(_SCALES) else "i"):
            raise ValueError(f"{name} holds {array.dtype}, wanted numbers")
    if (batch.num_words < 0).any() or batch.num_words.sum() != words[0]:
        raise ValueError(f"num_words does not add up to the {words[0]} words there are")
    if not all(isinstance(word, str) for word in batch.words):
        raise ValueError("words holds what is no text")
    return batch


# Tables: a row per sentence


@contextmanager
def _table_writer(path: Path, file_format: str, compression: str) -> Iterator[Write]:
    writer: Any = None

    def write(batch: ShardBatch) -> None:
        nonlocal writer
        record_batch = _as_record_batch(batch)
        if writer is None:
            if file_format == "arrow":
                options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
                writer = pa.ipc.new_file(str(path), record_batch.schema, options=options)
            else:
                # Parquet keeps whole numbers in four bytes each; packed they take little more than one.
                is_whole = any(column.scales is not None for column in batch.columns.values())
                writer = parquet.ParquetWriter(
                    path,
                    record_batch.schema,
                    compression="zstd" if is_whole and compression == "none" else compression,
                    use_dictionary=False,
                    write_statistics=["sentence_id"],
                )
        writer.write_batch(record_batch)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _as_record_batch(batch: ShardBatch) -> pa.RecordBatch:
    ends = pa.array(np.concatenate([[0], np.cumsum(batch.num_words)]).astype(np.int32))

    def per_word(values: pa.Array) -> pa.ListArray:
        return pa.ListArray.from_arrays(ends, values)

    def per_row(values: pa.Array) -> pa.Array:
        return values if batch.is_pooled else per_word(values)

    arrays = {
        "sentence_id": pa.array(batch.sentence_ids),
        "words": per_word(_strings(batch.words)),
        "starts": per_word(pa.array(batch.offsets[:, 0])),
        "ends": per_word(pa.array(batch.offsets[:, 1])),
    }
    for name, stored in batch.columns.items():
        numbers = pa.array(stored.values.ravel())
        arrays[name] = per_row(pa.FixedSizeListArray.from_arrays(numbers, stored.values.shape[1]))
        if stored.scales is not None:
            arrays[name + _SCALES] = per_row(pa.array(stored.scales))
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _strings(words: Sequence[str]) -> pa.Array:
    try:
        return pa.array(words, pa.string())
    except UnicodeEncodeError:
        # Halves of surrogate pairs, which JSON can hold and UTF-8 cannot.
        return pa.array([word.encode("utf-8", "replace").decode("utf-8") for word in words], pa.string())


def _parquet_batches(path: Path, numbers: Collection[int] | None) -> Iterator[tuple[int, pa.RecordBatch]]:
    with parquet.ParquetFile(path, memory_map=True) as file:
        for number in range(file.num_row_groups):
            if numbers is None or number in numbers:
                for record_batch in file.read_row_group(number).combine_chunks().to_batches():
                    yield number, record_batch


def _arrow_batches(path: Path, numbers: Collection[int] | None) -> Iterator[tuple[int, pa.RecordBatch]]:
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
        for number in range(file.num_record_batches):
            if numbers is None or number in numbers:
                yield number, file.get_batch(number)


def _from_record_batch(record_batch: pa.RecordBatch) -> ShardBatch:
    # Arrow believes a file's own word for where each list and text in it ends.
    record_batch.validate(full=True)
    arrays = dict(zip(record_batch.schema.names, record_batch.columns, strict=True))
    ids, words, starts, ends = (arrays.pop(name) for name in ("sentence_id", *_WORD_COLUMNS))
    names = [name for name in arrays if not name.endswith(_SCALES)]
    is_pooled = bool(names) and pa.types.is_fixed_size_list(arrays[names[0]].type)

    def rows(array: pa.Array) -> pa.Array:
        return array if is_pooled else array.flatten()

    columns = {}
    for name in names:
        vectors = rows(arrays[name])
        values = vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, vectors.type.list_size)
        scales = rows(arrays[name + _SCALES]).to_numpy() if name + _SCALES in arrays else None
        columns[name] = StoredNumbers(values, scales)
    offsets = np.stack([starts.flatten().to_numpy(), ends.flatten().to_numpy()], axis=1)
    num_words = np.asarray(words.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
    return ShardBatch(ids.to_numpy(), num_words, words.flatten().to_pylist(), offsets, columns, is_pooled)


# Arrays: a name for each column, words as bytes one after another


@contextmanager
def _arrays_writer(path: Path, file_format: str, compression: str) -> Iterator[Write]:
    batches: list[ShardBatch] = []
    yield batches.append
    arrays = _as_arrays(batches)
    if file_format == "safetensors":
        save_file(arrays, path)
    else:
        save: Any = np.savez if compression == "none" else np.savez_compressed
        save(path, **arrays)


def _as_arrays(batches: Sequence[ShardBatch]) -> dict[str, np.ndarray]:
    words = [word.encode("utf-8", "replace") for batch in batches for word in batch.words]
    arrays = {
        "sentence_ids": np.concatenate([batch.sentence_ids for batch in batches]),
        "num_words": np.concatenate([batch.num_words for batch in batches]),
        "word_bytes": np.frombuffer(b"".join(words), dtype=np.uint8),
        "word_lengths": np.array(list(map(len, words)), dtype=np.int32),
        "offsets": np.concatenate([batch.offsets for batch in batches]),
        "is_pooled": np.array([batches[0].is_pooled], dtype=np.uint8),
    }
    for name, first in batches[0].columns.items():
        columns = [batch.columns[name] for batch in batches]
        arrays[name] = np.concatenate([column.values for column in columns])
        if first.scales is not None:
            arrays[name + _SCALES] = np.concatenate([column.scales for column in columns if column.scales is not None])
    return arrays


def _from_arrays(arrays: dict[str, np.ndarray]) -> ShardBatch:
    content = arrays.pop("word_bytes").tobytes()
    lengths = arrays.pop("word_lengths").tolist()
    ends = list(itertools.accumulate(lengths))
    words = [content[end - length : end].decode("utf-8") for end, length in zip(ends, lengths, strict=True)]
    ids, num_words, offsets = (arrays.pop(name) for name in ("sentence_ids", "num_words", "offsets"))
    is_pooled = bool(arrays.pop("is_pooled")[0])
    columns = {
        name: StoredNumbers(values, arrays.get(name + _SCALES))
        for name, values in arrays.items()
        if not name.endswith(_SCALES)
    }
    return ShardBatch(ids, num_words, words, offsets, columns, is_pooled)
