"""Corpora in shards: the vectors of `embed`, whoever wrote them and however often a run was killed on the way."""

import dataclasses
import json

import datasets
import fresh_process
import numpy as np
import pytest
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import FLOAT16, REORDERED_FLOAT32

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.inference.embedder import POOLINGS, ElmoEmbedder, pool_words
from hf_elmo.inference.embedding_shards import (
    SETTINGS_FILE,
    EmbeddingSettings,
    EmbeddingWriter,
    cut_shards,
    load_embeddings,
    read_settings,
    vectors_of,
)

TEXT = ["Call it !", "", "a / b", "a / b", "   ", ["two words", "é"], *(f"the {n} return a value" for n in range(20))]
SETTINGS = EmbeddingSettings(layers="all", max_words_per_shard=16)

# The most memory, in bytes, after a short text and after one that is many times as long, in one process.
PEAKS = """
import resource, sys
from hf_elmo.inference.embedding_shards import EmbeddingSettings, EmbeddingWriter
from hf_elmo.inference.embedder import ElmoEmbedder

def peak_after(count):
    writer = EmbeddingWriter(embedder, f"{folder}/{count}", EmbeddingSettings("all", format=file_format))
    writer.prepare()
    lines = "the {} of {} return a value , and {} more".format
    for shard in writer.shards_left(lines(n % 5000, n % 77, n % 300) for n in range(count)):
        writer.write(shard)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

checkpoint, folder, file_format = sys.argv[1:]
embedder = ElmoEmbedder(checkpoint, device="cpu")
print(peak_after(10_000), peak_after(50_000))
"""


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("checkpoint"))
    ElmoModel(make_tiny_config()).save_pretrained(directory)
    ElmoCharTokenizer().save_pretrained(directory)
    return ElmoEmbedder(directory, device="cpu", max_words_per_batch=40, max_words_per_buffer=50)


def embed(embedder, folder, settings=SETTINGS, text=TEXT, rank=0, num_ranks=1, stop_after=None, overwrite=False):
    """One run, stopped after so many shards; the names of the shards it wrote, and whether all are there now."""
    writer = EmbeddingWriter(embedder, str(folder), settings, rank, num_ranks)
    if not rank:
        writer.prepare(overwrite)
    written = []
    for shard in writer.shards_left(iter(text)):
        if len(written) == stop_after:
            return written, False
        file, _ = writer.write(shard)
        written.append(file.name)
    return written, writer.finish()


def contents(folder):
    """The bytes of all shards, by their names."""
    return {path.name: path.read_bytes() for path in folder.glob("shard-*")}


def assert_right(embedder, folder, layers="all", pooling="none", keep_markers=False, tolerance=REORDERED_FLOAT32):
    wanted = list(embedder.stream(TEXT, layers, keep_markers=keep_markers))
    dataset = load_embeddings(folder)
    assert dataset["sentence_id"][:] == list(range(len(TEXT)))
    for sentence, words in zip(TEXT, dataset["words"], strict=True):
        cut = sentence.split() if isinstance(sentence, str) else sentence
        assert words == (["<S>", *cut, "</S>"] if keep_markers else cut)
    for place, column in enumerate(read_settings(folder)["columns"]):
        arrays = [pool_words(array[place] if layers == "all" else array, pooling) for array in wanted]
        blocks = [vectors_of(table[column]) for table in dataset.with_format("arrow").iter(batch_size=7)]
        np.testing.assert_allclose(
            np.concatenate(blocks),
            np.stack(arrays) if pooling != "none" else np.concatenate(arrays),
            rtol=0,
            atol=tolerance,
        )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"format": "parquet"},
        {"layers": "top", "pooling": "mean"},
        {"pooling": "first-last", "format": "parquet"},
        {"layers": "top", "keep_markers": True},
        {"layers": "mix", "storage_dtype": "float16"},
    ],
)
def test_shards_hold_the_vectors_of_embed(embedder, tmp_path, monkeypatch, changes):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    settings = dataclasses.replace(SETTINGS, **changes)
    written, is_complete = embed(embedder, tmp_path / "v", settings)
    assert is_complete and len(written) == read_settings(tmp_path / "v")["num_shards"] > 5
    assert {path.name for path in (tmp_path / "v").iterdir()} == {SETTINGS_FILE, *written}
    tolerance = FLOAT16 if settings.storage_dtype == "float16" else REORDERED_FLOAT32
    assert_right(embedder, tmp_path / "v", settings.layers, settings.pooling, settings.keep_markers, tolerance)


def test_offsets_cut_the_words_out_of_the_sentence(embedder, tmp_path):
    embed(embedder, tmp_path / "v")
    lines = [line if isinstance(line, str) else " ".join(line) for line in TEXT]
    for line, row in zip(lines, load_embeddings(tmp_path / "v"), strict=True):
        assert [line[start:end] for start, end in zip(row["starts"], row["ends"], strict=True)] == row["words"]


@given(words=st.integers(0, 5), layers=st.integers(1, 3), seed=st.integers(0, 99))
def test_pooling_is_what_its_names_say(words, layers, seed):
    array = np.random.default_rng(seed).normal(size=(layers, words, 4))
    pooled = {name: pool_words(array, name) for name in POOLINGS}
    assert pooled["none"] is array
    if not words:
        assert all(np.array_equal(pooled[name], np.zeros((layers, 4))) for name in POOLINGS[1:])
        return
    np.testing.assert_allclose(pooled["mean"], array.sum(axis=1) / words)
    assert np.array_equal(pooled["max"], np.sort(array, axis=1)[:, -1])
    assert np.array_equal(pooled["first-last"], np.concatenate([array[:, -1, :2], array[:, 0, 2:]], axis=1))
    assert_refused(ValueError, "'median'", pool_words, array, "median")


@examples(4)
@given(stops=st.lists(st.integers(0, 4), min_size=1, max_size=3), num_ranks=st.integers(1, 3))
def test_runs_resume_without_loss_or_repetition(embedder, tmp_path_factory, stops, num_ranks):
    folder = tmp_path_factory.mktemp("killed") / "v"
    written, is_complete = [], False
    for stop in [*stops, None]:
        for rank in range(num_ranks):
            if not is_complete and folder.exists():
                assert_refused(ValueError, "not complete", load_embeddings, folder)
            names, is_complete = embed(embedder, folder, rank=rank, num_ranks=num_ranks, stop_after=stop)
            written += names
    assert is_complete and len(written) == len(set(written)) == read_settings(folder)["num_shards"]
    assert_right(embedder, folder)
    embed(embedder, folder.parent / "alone")
    assert contents(folder) == contents(folder.parent / "alone")


@pytest.mark.parametrize("max_words", [1, 40, 150, 300])
def test_shards_are_the_same_bytes_whoever_wrote_the_ones_before(embedder, tmp_path, max_words):
    """What a shard holds depends on its text alone: not on the words that the process met earlier."""
    settings = dataclasses.replace(SETTINGS, max_words_per_shard=max_words)
    vocabulary = [f"{'un' * (n % 3)}word{n}" for n in range(97)]
    text = [" ".join(vocabulary[(n * k) % 97] for k in range(1, 3 + n % 11)) for n in range(60)]
    embed(embedder, tmp_path / "alone", settings, text)
    embed(embedder, tmp_path / "resumed", settings, text, stop_after=1)
    embed(embedder, tmp_path / "resumed", settings, text)
    for rank in range(2):
        embed(embedder, tmp_path / "two", settings, text, rank=rank, num_ranks=2)
    assert contents(tmp_path / "alone") == contents(tmp_path / "resumed") == contents(tmp_path / "two")


def test_what_fails_in_a_shard_leaves_no_part_of_it(embedder, tmp_path, monkeypatch):
    stream = embedder.stream

    def broken(sentences, *args, **kwargs):
        yield from stream(list(sentences)[:1], *args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(embedder, "stream", broken)
        embed(embedder, tmp_path / "v")
    assert [path.name for path in (tmp_path / "v").iterdir()] == [SETTINGS_FILE]
    (tmp_path / "v" / ".shard-00000.arrow.abc.partial").mkdir()  # as a killed process leaves it
    EmbeddingWriter(embedder, str(tmp_path / "v"), SETTINGS, rank=1, num_ranks=2).prepare()
    assert list((tmp_path / "v").glob(".shard*"))  # the first process might be writing it
    embed(embedder, tmp_path / "v")
    assert_right(embedder, tmp_path / "v")
    assert not list((tmp_path / "v").glob(".shard*"))


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_memory_does_not_grow_with_the_text(tmp_path, file_format):
    ElmoModel(make_tiny_config(projection_size=64)).save_pretrained(tmp_path / "checkpoint")
    ElmoCharTokenizer().save_pretrained(tmp_path / "checkpoint")
    done = fresh_process.run(["-c", PEAKS, tmp_path / "checkpoint", tmp_path, file_format])
    assert done.returncode == 0, done.stderr
    short, long = map(int, done.stdout.split())
    written = sum(path.stat().st_size for path in (tmp_path / "50000").iterdir())
    assert long - short < written / 20, (short, long, written)


def test_a_finished_directory_is_left_as_it_is(embedder, tmp_path):
    embed(embedder, tmp_path / "v")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "v").iterdir()}
    assert embed(embedder, tmp_path / "v") == ([], True)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "v").iterdir()} == times
    # A shard that was lost is written again.
    (tmp_path / "v" / "shard-00001.arrow").unlink()
    assert_refused(ValueError, "not complete", load_embeddings, tmp_path / "v")
    assert embed(embedder, tmp_path / "v") == (["shard-00001.arrow"], True)
    assert_right(embedder, tmp_path / "v")


def test_other_settings_text_and_checkpoints_are_refused(embedder, tmp_path):
    folder = tmp_path / "v"
    embed(embedder, folder, stop_after=2)
    for name, value in (("layers", "top"), ("pooling", "max"), ("storage_dtype", "float16"), ("format", "parquet")):
        changed = dataclasses.replace(SETTINGS, **{name: value})
        assert_refused(ValueError, (name, "--overwrite_output_dir"), embed, embedder, folder, changed)
    other = ElmoEmbedder(embedder.name, device="cpu")
    other.model.token_encoder.projection.bias.data[0] += 1
    assert_refused(ValueError, "checkpoint_sha256", embed, other, folder)
    lowered = ElmoEmbedder(embedder.name, device="cpu")
    lowered.tokenizer.do_lower_case = True
    assert_refused(ValueError, "checkpoint_sha256", embed, lowered, folder)
    # Lists of words are not the line that they would be.
    for first in ("Call her !", ["Call", "it", "!"]):
        assert_refused(ValueError, "shard-00000.arrow", embed, embedder, folder, text=[first, *TEXT[1:]])
    embed(embedder, folder)
    before = sorted(folder.iterdir())
    for text in ([*TEXT, "more"], [*TEXT, *TEXT], TEXT[:-1], TEXT[:6]):
        assert_refused(ValueError, ("output_dir", "--overwrite_output_dir"), embed, embedder, folder, text=text)
    assert sorted(folder.iterdir()) == before
    embed(embedder, folder, dataclasses.replace(SETTINGS, layers="top"), overwrite=True)
    assert_right(embedder, folder, "top")


def test_a_directory_of_something_else_is_spared(embedder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert_refused(FileExistsError, "output_dir", embed, embedder, tmp_path, overwrite=True)
    (tmp_path / SETTINGS_FILE).write_text(json.dumps({"name": "an editor"}))
    assert_refused(ValueError, SETTINGS_FILE, embed, embedder, tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert_refused(FileNotFoundError, "absent", load_embeddings, tmp_path / "absent")


def test_a_damaged_shard_is_named(embedder, tmp_path):
    embed(embedder, tmp_path / "v")
    (tmp_path / "v" / "shard-00001.arrow").write_bytes(b"no shard")
    assert_refused(ValueError, str(tmp_path / "v"), load_embeddings, tmp_path / "v")
    assert_refused(ValueError, "shard-00001.arrow", embed, embedder, tmp_path / "v")


@given(st.lists(st.sampled_from(["", "a", "a b c d", ["a", "b"]]), max_size=30), st.integers(1, 20))
def test_shards_are_the_text_in_its_order(sentences, max_words):
    shards = list(cut_shards(iter(sentences), max_words))
    assert [sentence for shard in shards for sentence in shard.sentences] == sentences
    firsts = [sum(len(earlier.sentences) for earlier in shards[:place]) for place in range(len(shards))]
    assert [shard.first_sentence for shard in shards] == firsts
    for shard in shards[:-1]:
        # Each has as many as it must, the empty lines counted, and no more.
        assert shard.num_words + 2 * len(shard.sentences) >= max_words
        assert sum(len(s.split() if isinstance(s, str) else s) + 2 for s in shard.sentences[:-1]) < max_words


def test_what_float16_cannot_hold_is_no_infinity(embedder, tmp_path, monkeypatch):
    arrays = (np.full((3, len(line.split()), embedder.vector_size), 1e6, np.float32) for line in ["a b"])
    monkeypatch.setattr(embedder, "stream", lambda *args, **kwargs: arrays)
    settings = dataclasses.replace(SETTINGS, storage_dtype="float16")
    with pytest.raises(FloatingPointError):
        embed(embedder, tmp_path / "v", settings, ["a b"])
    assert not list((tmp_path / "v").glob("*shard*"))


def test_settings_that_cannot_be(embedder):
    for changes, named in (
        ({"pooling": "median"}, "'median'"),
        ({"format": "csv"}, "'csv'"),
        ({"storage_dtype": "int8"}, "'int8'"),
        ({"max_words_per_shard": 0}, "max_words_per_shard is 0"),
    ):
        assert_refused(ValueError, named, dataclasses.replace(SETTINGS, **changes).check)
