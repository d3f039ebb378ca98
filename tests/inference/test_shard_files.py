"""Shards: what was written comes back, in each format and precision, and a damaged file is named."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from datasets import load_dataset
from pyarrow import feather, parquet
from refusals import assert_refused

from hf_elmo.inference.shard_files import COMPRESSIONS, ENDINGS, ShardBatch, check_compression, open_shard, read_shard
from hf_elmo.inference.stored_numbers import STORAGE_DTYPES, StoredNumbers, store_numbers

D = 6


def draw_batch(first, lengths, dtype, is_pooled, names=("layer_0", "layer_1")):
    random = np.random.default_rng(first)
    words = [f"é/{number}" for number in range(sum(lengths))]
    num_rows = len(lengths) if is_pooled else len(words)
    return ShardBatch(
        np.arange(first, first + len(lengths)),
        np.array(lengths, dtype=np.int64),
        words,
        random.integers(0, 99, (len(words), 2)).astype(np.int32),
        {name: store_numbers(random.normal(size=(num_rows, D)).astype(np.float32), dtype) for name in names},
        is_pooled,
    )


def assert_same(found, wanted):
    assert list(found.words) == list(wanted.words) and found.is_pooled == wanted.is_pooled
    np.testing.assert_array_equal(found.sentence_ids, wanted.sentence_ids)
    np.testing.assert_array_equal(found.num_words, wanted.num_words)
    np.testing.assert_array_equal(found.offsets, wanted.offsets)
    assert sorted(found.columns) == sorted(wanted.columns)
    for name, column in wanted.columns.items():
        assert found.columns[name].values.dtype == column.values.dtype
        np.testing.assert_array_equal(found.columns[name].restore(), column.restore())


@pytest.mark.parametrize("is_pooled", [False, True])
@pytest.mark.parametrize("dtype", STORAGE_DTYPES)
@pytest.mark.parametrize("file_format", ENDINGS)
def test_what_was_written_comes_back(tmp_path, file_format, dtype, is_pooled):
    batches = [draw_batch(7, [2, 0, 3], dtype, is_pooled), draw_batch(10, [0], dtype, is_pooled)]
    path = tmp_path / f"shard{ENDINGS[file_format]}"
    with open_shard(path, file_format) as write:
        for batch in batches:
            write(batch)
    found = [batch for _, batch in read_shard(path, file_format)]
    if len(found) == 1:
        # Held in memory until the end, and one batch from then on.
        (whole,) = found
        assert whole.sentence_ids.tolist() == [7, 8, 9, 10] and whole.num_words.tolist() == [2, 0, 3, 0]
        first = [sentence for batch in batches for sentence in batch.sentences("layer_1")]
        for (number, words, vectors), (other, others, wanted) in zip(whole.sentences("layer_1"), first, strict=True):
            assert (number, words) == (other, others)
            np.testing.assert_array_equal(vectors, wanted)
        return
    for batch, wanted in zip(found, batches, strict=True):
        assert_same(batch, wanted)


@pytest.mark.parametrize(("file_format", "compression"), [(f, c) for f, names in COMPRESSIONS.items() for c in names])
def test_compressed_shards_come_back(tmp_path, file_format, compression):
    batch = draw_batch(0, [3, 2], "int8", False, ("vectors",))
    with open_shard(tmp_path / "shard", file_format, compression) as write:
        write(batch)
    # np.savez adds its own ending to a name without one.
    ((_, found),) = read_shard(tmp_path / ("shard.npz" if file_format == "numpy" else "shard"), file_format)
    assert_same(found, batch)


@pytest.mark.parametrize(("file_format", "read"), [("arrow", feather.read_table), ("parquet", parquet.read_table)])
def test_tables_have_typed_columns_that_any_reader_knows(tmp_path, file_format, read):
    batch = draw_batch(3, [2, 1], "float32", False, ("vectors",))
    path = tmp_path / f"a.{file_format}"
    with open_shard(path, file_format) as write:
        write(batch)
    table = read(path)
    assert table.schema.names == ["sentence_id", "words", "starts", "ends", "vectors"]
    assert table.schema.field("vectors").type == pa.list_(pa.list_(pa.float32(), D))
    np.testing.assert_array_equal(table["vectors"].to_pylist()[1], batch.columns["vectors"].values[2:])
    assert table["words"].to_pylist() == [batch.words[:2], batch.words[2:]]
    loaded = load_dataset(file_format, data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded["words"][:] == [batch.words[:2], batch.words[2:]]


def test_whole_numbers_take_little_more_than_a_byte_each(tmp_path):
    for dtype in STORAGE_DTYPES:
        with open_shard(tmp_path / dtype, "parquet") as write:
            write(draw_batch(0, [20] * 400, dtype, False, ("vectors",)))
    sizes = {dtype: (tmp_path / dtype).stat().st_size for dtype in STORAGE_DTYPES}
    assert sizes["float16"] < 0.75 * sizes["float32"] and sizes["int8"] < 0.75 * sizes["float16"]


def test_halves_of_surrogate_pairs_are_written_as_what_utf8_has(tmp_path):
    batch = draw_batch(0, [1], "float32", False)
    for file_format in ("parquet", "safetensors"):
        with open_shard(tmp_path / file_format, file_format) as write:
            write(ShardBatch(batch.sentence_ids, batch.num_words, ["a\ud800"], batch.offsets, batch.columns))
        ((_, found),) = read_shard(tmp_path / file_format, file_format)
        assert found.words == ["a?"]


@pytest.mark.parametrize("file_format", ENDINGS)
def test_damaged_shards_are_named(tmp_path, file_format):
    path = tmp_path / f"shard{ENDINGS[file_format]}"
    with open_shard(path, file_format) as write:
        write(draw_batch(0, [3], "float32", False))
    path.write_bytes(path.read_bytes()[:-40])
    assert_refused(ValueError, path.name, lambda: list(read_shard(path, file_format)))
    path.unlink()
    assert_refused(FileNotFoundError, (path.name, "embed"), lambda: list(read_shard(path, file_format)))


@pytest.mark.parametrize("file_format", ENDINGS)
def test_parts_that_do_not_belong_together_are_named(tmp_path, file_format):
    batch = draw_batch(0, [2, 1], "int8", False)
    path = tmp_path / f"shard{ENDINGS[file_format]}"
    for changes, named in (
        ({"sentence_ids": np.zeros(2)}, "sentence_ids"),
        ({"words": ["a"] * 3, "offsets": np.zeros((3, 2), dtype=np.float32)}, "offsets"),
        ({"columns": {"layer_0": StoredNumbers(np.zeros((3, D), dtype=bool))}}, "layer_0"),
    ):
        with open_shard(path, file_format) as write:
            write(dataclasses.replace(batch, **changes))
        assert_refused(ValueError, (path.name, named), lambda: list(read_shard(path, file_format)))


def test_arrays_of_other_sizes_are_named(tmp_path):
    path = tmp_path / "shard.npz"
    with open_shard(path, "numpy") as write:
        write(draw_batch(0, [2, 1], "int8", False))
    with np.load(path) as arrays:
        good = dict(arrays)
    for name, value in (
        ("num_words", np.array([2, 2])),
        ("num_words", np.array([-1, 4])),
        ("offsets", good["offsets"][:2]),
        ("layer_1", good["layer_1"][:2]),
        ("layer_1_scales", good["layer_1_scales"][:2]),
        ("word_lengths", np.array([[1], [1], [1]])),
        ("is_pooled", np.array([], dtype=np.uint8)),
    ):
        np.savez(path, **{**good, name: value})
        assert_refused(ValueError, path.name, lambda: list(read_shard(path, "numpy")))


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_tables_of_other_columns_are_named(tmp_path, file_format):
    path = tmp_path / f"shard{ENDINGS[file_format]}"
    table = pa.table({name: ["a", None] for name in ("sentence_id", "words", "starts", "ends", "layer_0")})
    if file_format == "parquet":
        parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)
    assert_refused(ValueError, path.name, lambda: list(read_shard(path, file_format)))


def test_a_compression_that_a_format_lacks_is_refused():
    assert_refused(ValueError, ("'gzip'", "arrow", "zstd"), check_compression, "arrow", "gzip")
