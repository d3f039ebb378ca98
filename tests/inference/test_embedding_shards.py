"""Corpora in shards: the vectors of `embed`, whoever wrote them and however often a run was killed on the way."""

import dataclasses
import itertools
import json

import datasets
import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import FLOAT16, REORDERED_FLOAT32

from hf_elmo.inference.embedder import ElmoEmbedder, pool_words
from hf_elmo.inference.embedding_shards import (
    SETTINGS_FILE,
    EmbeddingSettings,
    EmbeddingWriter,
    load_embeddings,
    read_settings,
    vectors_of,
)

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


def test_what_fails_in_a_shard_leaves_no_part_of_it(embedder, tmp_path, monkeypatch):
    folder = tmp_path / "v"
    for settings, error, array in (
        (SETTINGS, KeyboardInterrupt, None),
        # What float16 cannot hold is no infinity.
        (dataclasses.replace(SETTINGS, storage_dtype="float16"), FloatingPointError, np.full((3, 3, 12), 1e6, "f4")),
    ):

        def broken(sentences, *_, error=error, array=array):
            yield array if array is not None else next(iter(sentences))
            raise error

        with monkeypatch.context() as patched, pytest.raises(error):
            patched.setattr(embedder, "stream", lambda *given, broken=broken: broken(*given) if given[0] else ())
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
