"""Uses in shards: what an index in memory finds, over many blocks and among thousands of sentences that are alike."""

import dataclasses
import random
from operator import attrgetter

import datasets
import pytest
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32

from hf_elmo.commands.show_neighbours import NeighbourArguments, show_neighbours
from hf_elmo.inference import shard_search
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.embedding_shards import EmbeddingSettings, EmbeddingWriter
from hf_elmo.inference.neighbours import UseIndex, describe_query
from hf_elmo.inference.shard_search import ShardIndex

WORDS = "the play was good they chess a cat sat on mat near door we saw match again".split()
QUERY = "they saw the Play again"


def draw_sentences(count):
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(9))) for _ in range(count)]


@pytest.fixture
def write(embedder, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(shard_search, "_SENTENCES_AT_A_TIME", 5)

    def write(sentences, name="v", **changes):
        settings = dataclasses.replace(EmbeddingSettings(layers="all", max_words_per_shard=60), **changes)
        writer = EmbeddingWriter(embedder, str(tmp_path / name), settings)
        writer.prepare()
        for shard in writer.shards_left(sentences):
            writer.write(shard)
        writer.finish()
        return str(tmp_path / name)

    return write


def assert_same(found, wanted, fields=("sentence", "place", "words")):
    told = attrgetter(*fields)
    assert [told(use) for _, use in found] == [told(use) for _, use in wanted]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in wanted], abs=REORDERED_FLOAT32)


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_shards_find_what_an_index_in_memory_finds(embedder, write, file_format):
    sentences = draw_sentences(120)
    vectors = write(sentences, format=file_format, keep_markers=file_format == "arrow")
    for layer in (-1, 0, 1):
        index = UseIndex(embedder.model, embedder.tokenizer, sentences, layer)
        shards = ShardIndex(vectors, embedder, layer)
        assert shards.corpus.num_sentences == 120
        for same_word in (False, True):
            # Every use of a word has the same vector where no context is known.
            for place in range(5) if layer else (3,):
                count = 4 if layer else 1
                found = shards.nearest_to(QUERY, place, count, same_word)
                wanted = index.nearest_to(QUERY, place, count, same_word)
                if layer:
                    assert_same(found, wanted)
                else:
                    assert [use.word for _, use in found] == [use.word for _, use in wanted]
        if layer:
            assert describe_query(shards, QUERY, "Play") == describe_query(index, QUERY, "Play")


def test_sentences_that_are_alike_leave_room_for_others(embedder, write):
    sentences = ["we saw the play again"] * 300 + ["the cat was on a mat", "a play was near the door"]
    index = UseIndex(embedder.model, embedder.tokenizer, sentences)
    shards = ShardIndex(write(sentences), embedder)
    found = shards.nearest_to("they sat near the play", 4, 3)
    # Which of those that are alike is shown, rounding says.
    assert_same(found, index.nearest_to("they sat near the play", 4, 3), ("place", "words"))
    assert len({use.words for _, use in found}) == 3


def test_what_does_not_fit_is_refused(embedder, write, tmp_path):
    top = write(["a b"], "top", layers="top")
    assert ShardIndex(top, embedder, 2).layers == "top" and ShardIndex(top, embedder, -1).layers == "top"
    pooled = write(["a b"], "pooled", layers="top", pooling="mean")
    mixed = write(["a b"], "mixed", layers="mix")
    other = ElmoEmbedder(embedder.name, device="cpu")
    other.model.token_encoder.projection.bias.data[0] += 1
    for given, named in (
        ((top, embedder, 1), ("layer is 1", "'top'")),
        ((mixed, embedder, 0), "layer is 0"),
        ((top, embedder, 3), "layer is 3"),
        ((pooled, embedder), "mean"),
        ((top, other), "checkpoint"),
        ((str(tmp_path / "absent"), embedder), "absent"),
    ):
        assert_refused((ValueError, FileNotFoundError), named, ShardIndex, *given)


def test_the_command_looks_in_a_directory(embedder, write, capsys):
    sentences = draw_sentences(80)
    given = {"vectors": write(sentences), "sentence": QUERY, "word": "the", "device": "cpu"}
    show_neighbours(NeighbourArguments(embedder.name, top_k=2, same_word=True, **given))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "they saw [the] Play again" and len(lines) == 3
    assert all("[the]" in line for line in lines)
    for changes, named in (
        ({"words": ["play"]}, "--words"),
        ({"input_file": "text.txt"}, "--vectors"),
        ({"vectors": None}, "--input_file"),
        ({"word": "dog"}, "'dog'"),
    ):
        arguments = NeighbourArguments(embedder.name, **{**given, **changes})
        assert_refused(ValueError, named, show_neighbours, arguments)
