"""Corpora in shards: the vectors of `embed`, whoever wrote them and however often a run was killed on the way."""

import contextlib
import dataclasses
import json

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
from hf_elmo.inference.corpus_embedding import CorpusEmbedder, VectorSettings, cut_shards
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.embedding_directory import MANIFEST_FILE, EmbeddedCorpus
from hf_elmo.inference.pooling import pool_words
from hf_elmo.text.sentence_sources import SentenceSource

TEXT = ["Call it !", "", "a / b", "a / b", "   ", ["two words", "é"], *(f"the {n} return a value" for n in range(20))]
SETTINGS = VectorSettings(layers="all", max_words_per_shard=16)

# The most memory, in bytes, after a short text and after one that is many times as long, in one process.
PEAKS = """
import resource, sys
from hf_elmo.inference.corpus_embedding import CorpusEmbedder, VectorSettings
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.text.sentence_sources import SentenceSource

def peak_after(count):
    run = CorpusEmbedder(embedder, f"{folder}/{count}", VectorSettings(layers="all", format=file_format))
    run.prepare()
    lines = "the {} of {} return a value , and {} more".format
    source = SentenceSource(lambda: (lines(n % 5000, n % 77, n % 300) for n in range(count)))
    run.words_to_embed(source)
    run.run(source)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

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
    """One run, interrupted when it has done so many sentences."""
    run = CorpusEmbedder(embedder, str(folder), settings, rank, num_ranks)
    if not rank:
        run.prepare(overwrite)

    def track(items, size):
        for number, item in enumerate(items):
            if number == stop_after:
                raise KeyboardInterrupt
            yield item

    run.words_to_embed(SentenceSource(lambda: iter(text)))
    return run.run(iter(text), track)


def read(folder, column=None):
    return list(EmbeddedCorpus(folder).sentences(column))


def contents(folder):
    """The bytes of all shards, by their names."""
    return {path.name: path.read_bytes() for path in folder.glob("shard-*")}


def assert_right(embedder, folder, layers="all", pooling="none", tolerance=REORDERED_FLOAT32):
    wanted = list(embedder.stream(TEXT, layers))
    for place, column in enumerate(EmbeddedCorpus(folder).columns):
        found = read(folder, column)
        assert [number for number, _, _ in found] == list(range(len(TEXT)))
        for (_, words, vectors), sentence, array in zip(found, TEXT, wanted, strict=True):
            assert words == (sentence.split() if isinstance(sentence, str) else sentence)
            array = pool_words(array[place] if layers == "all" else array, pooling)
            np.testing.assert_allclose(vectors, array, rtol=0, atol=tolerance)


@pytest.mark.parametrize("file_format", ["arrow", "parquet", "safetensors"])
def test_shards_hold_the_vectors_of_embed(embedder, tmp_path, file_format):
    summary = embed(embedder, tmp_path / "v", dataclasses.replace(SETTINGS, format=file_format))
    assert_right(embedder, tmp_path / "v")
    corpus = EmbeddedCorpus(tmp_path / "v")
    assert summary.is_complete and len(summary.written) == summary.num_shards == len(corpus.shards) > 5
    assert (corpus.num_sentences, corpus.num_words) == (len(TEXT), summary.num_words)
    names = {MANIFEST_FILE, *(shard.file for shard in corpus.shards)}
    assert {path.name for path in (tmp_path / "v").iterdir()} == names


@pytest.mark.parametrize("pooling", ["mean", "max", "first-last"])
def test_a_vector_per_sentence(embedder, tmp_path, pooling):
    embed(embedder, tmp_path / "v", dataclasses.replace(SETTINGS, layers="top", pooling=pooling))
    assert_right(embedder, tmp_path / "v", "top", pooling)


def test_markers_have_vectors_where_asked_for(embedder, tmp_path):
    embed(embedder, tmp_path / "v", dataclasses.replace(SETTINGS, layers="top", keep_markers=True))
    wanted = embedder.stream(TEXT, "top", keep_markers=True)
    for (_, words, vectors), array in zip(read(tmp_path / "v"), wanted, strict=True):
        assert (words[0], words[-1]) == ("<S>", "</S>") and len(words) == len(array)
        np.testing.assert_allclose(vectors, array, rtol=0, atol=REORDERED_FLOAT32)


def test_offsets_cut_the_words_out_of_the_sentence(embedder, tmp_path):
    embed(embedder, tmp_path / "v")
    places = [place for batch in EmbeddedCorpus(tmp_path / "v").batches() for place in batch.offsets.tolist()]
    lines = [line if isinstance(line, str) else " ".join(line) for line in TEXT]
    for number, words, _ in read(tmp_path / "v"):
        assert [lines[number][start:end] for start, end in places[: len(words)]] == words
        del places[: len(words)]
    assert not places


@pytest.mark.parametrize(("dtype", "bound"), [("float16", FLOAT16), ("int8", 2e-2)])
def test_the_error_of_rounding_is_told(embedder, tmp_path, dtype, bound):
    summary = embed(embedder, tmp_path / "v", dataclasses.replace(SETTINGS, layers="mix", storage_dtype=dtype))
    assert_right(embedder, tmp_path / "v", "mix", tolerance=bound)
    wanted = np.concatenate(list(embedder.stream(TEXT, "mix")))
    found = np.concatenate([vectors for _, _, vectors in read(tmp_path / "v")])
    error = summary.storage_error
    assert error.largest == pytest.approx(np.abs(found - wanted).max(), rel=1e-3)
    assert error.relative == pytest.approx(np.linalg.norm(found - wanted) / np.linalg.norm(wanted), rel=1e-3)


@examples(4)
@given(stops=st.lists(st.integers(0, len(TEXT)), min_size=1, max_size=3), num_ranks=st.integers(1, 3))
def test_killed_runs_are_gone_on_with_without_loss_or_repetition(embedder, tmp_path_factory, stops, num_ranks):
    folder = tmp_path_factory.mktemp("killed") / "v"
    written = []
    for stop in [*stops, None]:
        for rank in range(num_ranks):
            before = {path.name for path in folder.glob("shard-*")}
            try:
                summary = embed(embedder, folder, rank=rank, num_ranks=num_ranks, stop_after=stop)
            except KeyboardInterrupt:
                assert_refused(ValueError, "not complete", EmbeddedCorpus, folder)
            else:
                assert stop is not None or rank < num_ranks - 1 or summary.is_complete
            written += {path.name for path in folder.glob("shard-*")} - before
    assert_right(embedder, folder)
    assert len(written) == len(set(written)) == len(EmbeddedCorpus(folder).shards)
    embed(embedder, folder.parent / "alone")
    assert contents(folder) == contents(folder.parent / "alone")


@pytest.mark.parametrize("max_words", [1, 40, 150, 300])
def test_shards_are_the_same_bytes_whoever_wrote_the_ones_before(embedder, tmp_path, max_words):
    """What a shard holds depends on its text alone: not on the words that the process met earlier."""
    settings = dataclasses.replace(SETTINGS, max_words_per_shard=max_words)
    vocabulary = [f"{'un' * (n % 3)}word{n}" for n in range(97)]
    text = [" ".join(vocabulary[(n * k) % 97] for k in range(1, 3 + n % 11)) for n in range(60)]
    embed(embedder, tmp_path / "alone", settings, text)
    wanted = contents(tmp_path / "alone")
    for stop_after in (7, 31, 58):
        with pytest.raises(KeyboardInterrupt):
            embed(embedder, tmp_path / "killed" / str(stop_after), settings, text, stop_after=stop_after)
        embed(embedder, tmp_path / "killed" / str(stop_after), settings, text)
        assert contents(tmp_path / "killed" / str(stop_after)) == wanted
    for rank in range(2):
        embed(embedder, tmp_path / "two", settings, text, rank=rank, num_ranks=2)
    assert contents(tmp_path / "two") == wanted


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["arrow", "parquet", "safetensors"])
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
    summary = embed(embedder, tmp_path / "v")
    assert not summary.written and summary.is_complete and summary.num_skipped == summary.num_shards
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "v").iterdir()} == times


def test_other_settings_text_and_checkpoints_are_refused(embedder, tmp_path):
    folder = tmp_path / "v"
    with pytest.raises(KeyboardInterrupt):
        embed(embedder, folder, stop_after=9)
    for name, value in (("layers", "top"), ("pooling", "max"), ("storage_dtype", "int8"), ("max_words_per_shard", 9)):
        changed = dataclasses.replace(SETTINGS, **{name: value})
        assert_refused(ValueError, (name, "--overwrite_output_dir"), embed, embedder, folder, changed)
    other = ElmoEmbedder(embedder.name, device="cpu")
    other.model.token_encoder.projection.bias.data[0] += 1
    assert_refused(ValueError, "checkpoint_sha256", embed, other, folder)
    lowered = ElmoEmbedder(embedder.name, device="cpu")
    lowered.tokenizer.do_lower_case = True
    assert_refused(ValueError, "checkpoint_sha256", embed, lowered, folder)
    changed_text = ["Call her !", *TEXT[1:]]
    assert_refused(ValueError, "shard-00000.arrow", embed, embedder, folder, text=changed_text)
    # Lists of words are not the line that they would be.
    assert_refused(ValueError, "shard-00000", embed, embedder, folder, text=[["Call", "it", "!"], *TEXT[1:]])
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
    (tmp_path / MANIFEST_FILE).write_text(json.dumps({"name": "an extension"}))
    assert_refused(ValueError, MANIFEST_FILE, embed, embedder, tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert_refused(FileNotFoundError, "absent", EmbeddedCorpus, tmp_path / "absent")


@pytest.mark.parametrize("stop_after", [20, None])
def test_a_shard_that_was_lost_is_written_again(embedder, tmp_path, stop_after):
    with contextlib.suppress(KeyboardInterrupt):
        embed(embedder, tmp_path / "v", stop_after=stop_after)
    (tmp_path / "v" / "shard-00001.arrow").unlink()
    embed(embedder, tmp_path / "v")
    assert_right(embedder, tmp_path / "v")


@given(st.lists(st.sampled_from(["", "a", "a b c d", ["a", "b"], "\ud800"]), max_size=30), st.integers(1, 20))
def test_shards_are_the_text_in_its_order(sentences, max_words):
    shards = list(cut_shards(iter(sentences), max_words))
    assert [sentence for shard in shards for sentence in shard.sentences] == sentences
    firsts = [sum(len(earlier.sentences) for earlier in shards[:place]) for place in range(len(shards))]
    assert [shard.first_sentence for shard in shards] == firsts
    for shard in shards[:-1]:
        # Each has as many as it must, the empty lines counted, and no more.
        assert shard.num_words + 2 * len(shard.sentences) >= max_words
        assert sum(len(s.split() if isinstance(s, str) else s) + 2 for s in shard.sentences[:-1]) < max_words


def test_settings_that_cannot_be(embedder):
    for changes, named in (
        ({"pooling": "median"}, "'median'"),
        ({"format": "csv"}, "'csv'"),
        ({"storage_dtype": "int4"}, "'int4'"),
        ({"max_words_per_shard": 0}, "max_words_per_shard is 0"),
        ({"format": "safetensors", "compression": "gzip"}, "'gzip'"),
    ):
        assert_refused(ValueError, named, dataclasses.replace(SETTINGS, **changes).check)
