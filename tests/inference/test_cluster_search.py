"""Search by way of clusters: what the exact search finds, from fewer blocks, by an index that is kept and checked."""

import dataclasses
import random
import sys

import pytest
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32

from hf_elmo.commands.show_neighbours import NeighbourArguments, show_neighbours
from hf_elmo.inference import cluster_search, shard_search
from hf_elmo.inference.cluster_search import ClusterIndex
from hf_elmo.inference.embedding_shards import EmbeddingSettings, EmbeddingWriter
from hf_elmo.inference.shard_search import EmbeddedCorpus, ShardIndex

pytest.importorskip("faiss")

WORDS = "the play was good they chess a cat sat on mat near door we saw match again".split()
QUERY = "they saw the play again"


def draw_sentences(count, seed=0):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(1, 9))) for _ in range(count)]


@pytest.fixture
def write(embedder, tmp_path, monkeypatch):
    monkeypatch.setattr(shard_search, "_SENTENCES_AT_A_TIME", 5)

    def write(sentences, overwrite=False, **changes):
        settings = dataclasses.replace(EmbeddingSettings(layers="all", max_words_per_shard=200), **changes)
        writer = EmbeddingWriter(embedder, str(tmp_path / "v"), settings)
        writer.prepare(overwrite)
        for shard in writer.shards_left(sentences):
            writer.write(shard)
        writer.finish()
        return tmp_path / "v"

    return write


@pytest.mark.parametrize("changes", [{}, {"storage_dtype": "float16"}, {"keep_markers": True}])
def test_the_nearest_are_those_of_the_exact_search(embedder, write, changes):
    vectors = write(draw_sentences(300), **changes)
    exact, clusters = ShardIndex(vectors, embedder), ClusterIndex(vectors, embedder)
    for same_word in (False, True):
        wanted = exact.nearest_to_each(QUERY, [1, 3], 2, same_word)
        found = clusters.nearest_to_each(QUERY, [1, 3], 2, same_word)
        for word, uses, others in zip(("saw", "play"), found, wanted, strict=True):
            # Uses that are equally near may come in any order.
            values = [value for value, _ in others]
            assert [value for value, _ in uses] == pytest.approx(values, abs=REORDERED_FLOAT32)
            assert {use.word for _, use in uses} == {word} or not same_word


def test_blocks_without_a_near_use_are_not_read(embedder, write, monkeypatch):
    monkeypatch.setattr(cluster_search, "_CLUSTERS_TO_LOOK_INTO", 2)
    vectors = write(draw_sentences(2000))
    index = ClusterIndex(vectors, embedder)
    read = []
    whole = EmbeddedCorpus.batches

    def counted(corpus, numbers=None):
        read.append(len(numbers))
        return whole(corpus, numbers)

    monkeypatch.setattr(EmbeddedCorpus, "batches", counted)
    assert len(index.nearest_to(QUERY, 3, 2)) == 2
    assert 0 < sum(read) < len(index._blocks) / 2


def test_a_use_that_lies_far_from_the_word_is_found_all_the_same(embedder, write, monkeypatch):
    """Only where all blocks were looked into may anybody say that the text has no other use."""
    monkeypatch.setattr(cluster_search, "_CLUSTERS_TO_LOOK_INTO", 1)
    monkeypatch.setattr(shard_search, "_LEAST_KEPT", 1)
    vectors = write([*draw_sentences(1000), "a ZEBRA sat near", *draw_sentences(1000, seed=1)])
    exact, clusters = ShardIndex(vectors, embedder), ClusterIndex(vectors, embedder)
    words = ("the", "zebra", "was", "on")
    assert clusters._nearest(words, [1], 1, True, clusters._near_blocks) == [[]]
    wanted = exact.nearest_to_each(words, [1, 3], 1, same_word=True)
    assert clusters.nearest_to_each(words, [1, 3], 1, same_word=True) == wanted
    assert [use.word for ((_, use),) in wanted] == ["ZEBRA", "on"]
    assert clusters.nearest_to(("the", "okapi"), 1, same_word=True) == []


def test_the_index_is_kept_until_the_vectors_are_others(embedder, write):
    vectors = write(draw_sentences(100))
    first = ClusterIndex(vectors, embedder).nearest_to(QUERY, 3)
    times = {file: file.stat().st_mtime_ns for file in vectors.glob("clusters-*")}
    assert len(times) == 2 and ClusterIndex(vectors, embedder).nearest_to(QUERY, 3) == first
    assert {file: file.stat().st_mtime_ns for file in vectors.glob("clusters-*")} == times
    # Each layer has its own.
    ClusterIndex(vectors, embedder, 1)
    assert len(list(vectors.glob("clusters-*"))) == 4
    write(draw_sentences(90, seed=1), overwrite=True)
    assert not list(vectors.glob("clusters-*"))
    exact = ShardIndex(vectors, embedder).nearest_to(QUERY, 3)
    assert ClusterIndex(vectors, embedder).nearest_to(QUERY, 3)[0][0] == pytest.approx(exact[0][0])


def test_a_handful_of_uses_can_be_searched(embedder, write):
    vectors = write(["the play", "a cat sat"])
    assert len(ClusterIndex(vectors, embedder).nearest_to(QUERY, 3, 9)) == 2


def test_a_damaged_index_is_named(embedder, write):
    vectors = write(draw_sentences(60))
    ClusterIndex(vectors, embedder)
    for ending in (".faiss", ".json"):
        file = vectors / f"clusters-layer_2{ending}"
        good = file.read_bytes()
        for bad in (b"", good[: len(good) // 2], b"{}", b'{"vectors_sha256": "", "num_bytes": 0, "blocks": [[0]]}'):
            file.write_bytes(bad)
            try:
                # Facts of other vectors are no damage: the index is made again.
                ClusterIndex(vectors, embedder)
            except ValueError as error:
                assert file.name in str(error) and "\n" not in str(error)
            else:
                assert ending == ".json" and file.read_bytes() != bad
            file.write_bytes(good)


def test_faiss_is_asked_for_where_it_is_missing(embedder, write, monkeypatch):
    vectors = write(draw_sentences(60))
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert_refused(ImportError, ("--approximate", "hf_elmo[search]"), ClusterIndex, vectors, embedder)
    assert not list(vectors.glob("clusters-*"))


def test_the_command_looks_by_clusters(embedder, write, capsys):
    vectors = str(write(draw_sentences(200)))
    given = {"sentence": QUERY, "word": "play", "device": "cpu", "top_k": 1}
    printed = []
    for approximate in (False, True):
        show_neighbours(NeighbourArguments(embedder.name, vectors=vectors, approximate=approximate, **given))
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    arguments = NeighbourArguments(embedder.name, input_file="text.txt", approximate=True, **given)
    assert_refused(ValueError, ("--approximate", "--vectors"), show_neighbours, arguments)
