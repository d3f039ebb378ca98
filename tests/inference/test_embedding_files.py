"""Files of vectors: shards, arrays and words, whoever wrote them and however often a run was killed on the way."""

import dataclasses
import itertools
import json
import os
import sys

import datasets
import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import FLOAT16, REORDERED_FLOAT32

from hf_elmo.inference.embedder import ElmoEmbedder, pool_words
from hf_elmo.inference.embedding_files import (
    ARRAY_SUFFIXES,
    SETTINGS_FILE,
    WORD_SUFFIXES,
    EmbeddingSettings,
    EmbeddingWriter,
    check_embedding_file,
    load_embeddings,
    read_settings,
    read_words,
    vectors_of,
    write_embeddings,
    write_word_vectors,
)
from hf_elmo.text.word_vectors import read_word_vectors

D = 12
WORDS = ["the", "Straße", "a/b", "<S>", "\u4e16\u754c", *(f"w{number}" for number in range(300))]
TEXT = ["Call it !", "", "a / b", "a / b", "   ", ["two words", "é"], *(f"the {n} return a value" for n in range(20))]
SETTINGS = EmbeddingSettings(layers="all", max_words_per_shard=16)


def embed(embedder, folder, settings=SETTINGS, text=TEXT, rank=0, num_ranks=1, stop_after=None, overwrite=False):
    """One run, stopped after so many shards; the names of the shards it wrote, and whether all are there now."""
    writer = EmbeddingWriter(embedder, str(folder), settings, lambda: iter(text), rank, num_ranks)
    writer.prepare(overwrite)
    written = [shard.file.name for shard in itertools.islice(writer.write(), stop_after)]
    return written, not writer.missing()


def contents(folder):
    """The bytes of all shards, by their names."""
    return {path.name: path.read_bytes() for path in folder.glob("shard-*")}


def assert_right(embedder, folder, layers="all", pooling="none", tolerance=REORDERED_FLOAT32):
    wanted = list(embedder.stream(TEXT, layers))
    dataset = load_embeddings(folder)
    assert dataset["sentence_id"][:] == list(range(len(TEXT)))
    for sentence, row in zip(TEXT, dataset, strict=True):
        words, line = (sentence.split(), sentence) if isinstance(sentence, str) else (sentence, " ".join(sentence))
        assert row["words"] == words
        assert [line[start:end] for start, end in zip(row["starts"], row["ends"], strict=True)] == words
    for place, column in enumerate(read_settings(folder)["columns"]):
        arrays = [pool_words(array[place] if layers == "all" else array, pooling) for array in wanted]
        blocks = [vectors_of(table[column]) for table in dataset.with_format("arrow").iter(batch_size=7)]
        expected = np.stack(arrays) if pooling != "none" else np.concatenate(arrays)
        np.testing.assert_allclose(np.concatenate(blocks), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "parquet"},
        {"layers": "top", "pooling": "mean"},
        {"pooling": "first-last", "format": "parquet"},
        {"layers": "mix", "storage_dtype": "float16"},
    ],
)
def test_shards_hold_the_vectors_of_the_embedder(embedder, tmp_path, monkeypatch, changes):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    settings = dataclasses.replace(SETTINGS, **changes)
    written, is_complete = embed(embedder, tmp_path / "v", settings)
    assert is_complete and len(written) == read_settings(tmp_path / "v")["num_shards"] > 5
    assert {path.name for path in (tmp_path / "v").iterdir()} == {SETTINGS_FILE, *written}
    tolerance = FLOAT16 if settings.storage_dtype == "float16" else REORDERED_FLOAT32
    assert_right(embedder, tmp_path / "v", settings.layers, settings.pooling, tolerance)


@examples(4)
@given(stops=st.lists(st.integers(0, 4), min_size=1, max_size=3), num_ranks=st.integers(2, 3))
def test_runs_resume_without_loss_or_repetition(embedder, tmp_path_factory, stops, num_ranks):
    folder = tmp_path_factory.mktemp("killed") / "v"
    written, is_complete = [], False
    for stop in [*stops, None]:
        for rank in range(num_ranks):
            if not is_complete and folder.exists():
                assert_refused(ValueError, "not complete", load_embeddings, folder)
            names, is_complete = embed(embedder, folder, rank=rank, num_ranks=num_ranks, stop_after=stop)
            assert all(int(name[6:11]) % num_ranks == rank for name in names)
            written += names
    assert is_complete and len(written) == len(set(written)) == read_settings(folder)["num_shards"]
    assert_right(embedder, folder)
    embed(embedder, folder.parent / "alone")
    assert contents(folder) == contents(folder.parent / "alone")


def interrupt(*_):
    raise KeyboardInterrupt


def test_what_fails_in_a_shard_leaves_no_part_of_it(embedder, tmp_path, monkeypatch):
    folder, settings = tmp_path / "v", dataclasses.replace(SETTINGS, storage_dtype="float16")
    # What float16 cannot hold is no infinity.
    for error, pool in ((KeyboardInterrupt, interrupt), (FloatingPointError, lambda array, pooling: 1e9 * array)):
        with monkeypatch.context() as patched, pytest.raises(error):
            patched.setattr("hf_elmo.inference.embedding_files.pool_words", pool)
            embed(embedder, folder, settings, overwrite=True)
        assert [path.name for path in folder.iterdir()] == [SETTINGS_FILE]
    (folder / ".shard-00000.arrow.abc.partial").mkdir()  # as a killed process leaves it
    embed(embedder, folder, settings, rank=1, num_ranks=2, stop_after=0)
    assert list(folder.glob(".shard*"))  # the first process might be writing it
    embed(embedder, folder, settings)
    assert_right(embedder, folder, tolerance=FLOAT16)
    assert not list(folder.glob(".shard*"))


def test_a_finished_directory_is_left_as_it_is_and_what_was_lost_is_written_again(embedder, tmp_path, monkeypatch):
    embed(embedder, tmp_path / "v")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "v").iterdir()}
    assert embed(embedder, tmp_path / "v") == ([], True)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "v").iterdir()} == times
    (tmp_path / "v" / "shard-00001.arrow").unlink()
    assert_refused(ValueError, "not complete", load_embeddings, tmp_path / "v")
    monkeypatch.setattr(embedder, "name", "elsewhere")  # where the checkpoint lies does not matter
    assert embed(embedder, tmp_path / "v") == (["shard-00001.arrow"], True)
    assert_right(embedder, tmp_path / "v")
    (tmp_path / "v" / "shard-00001.arrow").write_bytes(b"no shard")
    assert_refused(ValueError, str(tmp_path / "v"), load_embeddings, tmp_path / "v")


def test_what_a_directory_was_not_begun_with_is_refused(embedder, tmp_path):
    folder = tmp_path / "v"
    embed(embedder, folder, stop_after=2)
    for name, value in (("layers", "top"), ("pooling", "max"), ("storage_dtype", "float16"), ("format", "parquet")):
        changed = dataclasses.replace(SETTINGS, **{name: value})
        assert_refused(ValueError, (name, "--overwrite_output_dir"), embed, embedder, folder, changed)
    other, lowered = (ElmoEmbedder(embedder.name, device="cpu") for _ in range(2))
    other.model.token_encoder.projection.bias.data[0] += 1
    lowered.tokenizer.do_lower_case = True
    for changed in (other, lowered):
        assert_refused(ValueError, "checkpoint_sha256", embed, changed, folder)
    # Lists of words are not the line that they would be.
    texts = ([first, *TEXT[1:]] for first in ("Call her !", ["Call", "it", "!"]))
    for text in (*texts, [*TEXT, "more"], TEXT[:-1]):
        assert_refused(ValueError, ("text_sha256", "--overwrite_output_dir"), embed, embedder, folder, text=text)
    assert len(contents(folder)) == 2
    embed(embedder, folder, dataclasses.replace(SETTINGS, layers="top"), overwrite=True)
    assert_right(embedder, folder, "top")
    # A directory of something else is spared.
    (tmp_path / "notes.txt").write_text("mine")
    assert_refused(FileExistsError, "output_dir", embed, embedder, tmp_path, overwrite=True)
    (tmp_path / SETTINGS_FILE).write_text(json.dumps({"name": "an editor"}))
    assert_refused(ValueError, SETTINGS_FILE, embed, embedder, tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert_refused(ValueError, "absent", load_embeddings, tmp_path / "absent")


# Single files


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("suffix", ARRAY_SUFFIXES)
def test_each_format_gives_back_what_was_written(tmp_path, suffix, dtype):
    h5py = pytest.importorskip("h5py", reason="vectors are written as HDF5")
    path, sentences = tmp_path / "new" / f"v{suffix}", ["a b", "", 'é "c"', "a b"]
    arrays = [np.random.default_rng(0).normal(size=(3, length, D)) for length in (4, 0, 200, 4)]
    assert write_embeddings(path, iter(arrays), sentences, dtype=dtype) == (4, 208)
    if suffix == ".npz":
        found = dict(np.load(path))
    else:
        with h5py.File(path) as file:
            found = {name: dataset[()] for name, dataset in file.items()}
            assert h5py.check_string_dtype(file["sentence_to_index"].dtype).length is None
        # As AllenNLP has it; of sentences that are alike the last.
        (text,) = found.pop("sentence_to_index")
        assert json.loads(text) == {"a b": "3", "": "1", 'é "c"': "2"}
    assert list(found) == ["0", "1", "2", "3"]
    for array, wanted in zip(found.values(), arrays, strict=True):
        assert array.dtype == dtype and np.array_equal(array, wanted.astype(dtype))
    assert os.listdir(path.parent) == [path.name]


def test_a_name_that_is_taken_or_says_no_format_is_refused(tmp_path, monkeypatch):
    (tmp_path / "old.npz").write_bytes(b"old")
    (tmp_path / "link.npz").symlink_to(tmp_path / "old.npz")
    named = (".hdf5, .h5, .npz", "output_dir")
    assert_refused(ValueError, named, check_embedding_file, tmp_path / "v.parquet", ARRAY_SUFFIXES)
    target = check_embedding_file(tmp_path / "link.npz", ARRAY_SUFFIXES, overwrite=True)
    with pytest.raises(FloatingPointError):
        write_embeddings(target, [np.full((1, D), 1e6, np.float32)], dtype="float16")
    assert (tmp_path / "old.npz").read_bytes() == b"old"
    write_embeddings(target, [np.zeros((1, D))])
    assert (tmp_path / "link.npz").is_symlink() and list(np.load(tmp_path / "old.npz")) == ["0"]
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'hf_elmo\[conversion\]'"):
        check_embedding_file(tmp_path / "v.hdf5", ARRAY_SUFFIXES)


# Words


def read_binary(path):
    """Words and vectors of a binary file, of which every byte is accounted for."""
    header, _, rest = path.read_bytes().partition(b"\n")
    count, size = map(int, header.split(b" "))
    words, vectors = [], []
    for _ in range(count):
        word, _, rest = rest.partition(b" ")
        words.append(word.decode("utf-8"))
        vectors.append(np.frombuffer(rest[: 4 * size], "<f4"))
        rest = rest[4 * size :]
    assert rest == b""
    return words, np.stack(vectors)


@pytest.mark.parametrize("suffix", WORD_SUFFIXES)
def test_a_file_has_layer_0_of_each_word(tmp_path, embedder, suffix):
    path = tmp_path / f"words{suffix}"
    write_word_vectors(embedder, WORDS, path)
    words, vectors = read_binary(path) if suffix == ".bin" else read_word_vectors(path)
    assert words == WORDS and vectors.shape == (len(WORDS), embedder.vector_size // 2)
    # Half of layer 0 of a sentence of that word alone.
    arrays = embedder.embed_sentences([[word] for word in WORDS[:20]], layers="token")
    wanted = np.concatenate(arrays)[:, : embedder.vector_size // 2]
    np.testing.assert_allclose(vectors[:20], wanted, rtol=0, atol=1e-6)


def test_word_lists_that_cannot_be_are_named_by_line(tmp_path):
    for content, named in ((b"a\nb c\n", ("line 2", "b c")), (b"a\n\xe9\n", ("line 2", "0xE9")), (b"\n", "no words")):
        (tmp_path / "words.txt").write_bytes(content)
        assert_refused(ValueError, named, read_words, tmp_path / "words.txt")
    (tmp_path / "words.txt").write_bytes(b"the\r\n\nof\nthe\n")
    assert read_words(tmp_path / "words.txt") == ["the", "of"]
