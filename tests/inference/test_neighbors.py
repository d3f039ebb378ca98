"""Nearest uses and words against brute force, in memory and in shards; and the command."""

import gzip
import itertools
import random
from operator import attrgetter

import numpy as np
import pytest
import torch
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32
from torch.nn import functional as F

from hf_elmo import ElmoCharTokenizer
from hf_elmo.cli.neighbors import NeighborArguments, show_neighbors
from hf_elmo.inference import neighbors
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.embedding_files import EmbeddingSettings, EmbeddingWriter
from hf_elmo.inference.neighbors import UseIndex, describe_sentence, describe_words

SENTENCES = ["the play was good", "they play chess", "a good play", "the cat sat on a mat near the door"]
WORDS = "the play was good they chess a cat sat on mat near door we saw match again".split()
QUERY = "they saw the Play again"


@pytest.fixture(scope="module")
def index(embedder):
    return UseIndex.of_text(embedder, SENTENCES)


def nearest_to(index, sentence, position, count=1, same_word=False):
    return index.nearest_to(sentence, [position], count, same_word)[0]


# In memory


def test_nearest_use_is_brute_forces(embedder, index):
    owners = [(number, at) for number, line in enumerate(SENTENCES) for at in range(len(line.split()))]
    vectors = torch.from_numpy(np.concatenate(embedder.embed_sentences(SENTENCES, "top")))
    similarities = F.cosine_similarity(vectors[owners.index((1, 1))], vectors, dim=-1)
    # The first use of each other sentence.
    expected = {}
    for row in sorted(range(len(owners)), key=lambda row: -similarities[row]):
        expected.setdefault(owners[row][0], row)
    rows = [row for number, row in expected.items() if number != 1]
    for count in (20, 2):
        found = nearest_to(index, SENTENCES[1], 1, count)
        assert [(use.sentence, use.position) for _, use in found] == [owners[row] for row in rows[:count]]
        expected = [float(similarities[row]) for row in rows[:count]]
        assert [value for value, _ in found] == pytest.approx(expected, abs=1e-5)


def test_tables_show_words_that_occur_and_name_those_that_do_not(embedder, index, tmp_path):
    shown, missing = describe_words(index, ["play", "Play"]).split("'Play'")
    assert "'play'" in shown and "    use      they [play] chess\n" in shown and shown.count("nearest  ") == 2
    assert "not among the 13 words" in missing
    assert "... cat sat on a mat [near] the door\n" in describe_words(index, ["near"])
    every = describe_sentence(index, "they play chess").splitlines()
    assert [line for line in every if line[0] != " "] == ["[they] play chess", "they [play] chess", "they play [chess]"]
    assert "no other use of 'chess'" in describe_sentence(index, "they play chess", "chess", same_word=True)
    # Words are looked for as the tokenizer reads them.
    embedder.model.save_pretrained(tmp_path)
    ElmoCharTokenizer(do_lower_case=True).save_pretrained(tmp_path)
    index = UseIndex.of_text(ElmoEmbedder(str(tmp_path), device="cpu"), SENTENCES)
    assert "[play]" in describe_words(index, ["Play"])
    assert describe_sentence(index, "They PLAY chess", "Play").startswith("they [play] chess")


def test_uses_that_are_shown_lie_far_from_one_another(embedder):
    sentences = ["a play", "the play", "no play"]
    index = UseIndex.of_text(embedder, sentences)
    (first, vector), (second, other) = index.most_different_uses("play")
    (third,) = {0, 1, 2} - {first.sentence, second.sentence}
    vectors = {number: torch.tensor(embedder.embed_sentence(line, "top")[1]) for number, line in enumerate(sentences)}
    cosines = {number: F.cosine_similarity(vectors[first.sentence], each, dim=0) for number, each in vectors.items()}
    assert cosines[second.sentence] <= cosines[third] and float(vector @ other) < 1
    assert index.most_different_uses("chess") == [] and len(index.most_different_uses("a", 5)) == 1


# In shards


@pytest.fixture
def write(embedder, tmp_path, monkeypatch):
    monkeypatch.setattr(neighbors, "_SENTENCES_PER_BLOCK", 1)

    def write(sentences, **settings):
        settings = EmbeddingSettings(**{"layers": "all", "max_words_per_shard": 200, **settings})
        writer = EmbeddingWriter(embedder, str(tmp_path / "v"), settings, lambda: iter(sentences))
        writer.prepare(overwrite=True)
        list(writer.write())
        return tmp_path / "v"

    return write


def test_shards_find_what_an_index_in_memory_finds(embedder, write):
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(WORDS, k=draw.randrange(9))) for _ in range(60)]
    sentences += ["we saw the play again"] * 40 + ["We saw the Play again"]
    vectors = write(sentences)
    for layer in (-1, 0):
        index, shards = UseIndex.of_text(embedder, sentences, layer), UseIndex.of_shards(vectors, embedder, layer)
        for same_word, position in itertools.product((False, True), range(5) if layer else (3,)):
            # Every use of a word has the same vector where no context is known.
            count, told = (4, attrgetter("position", "words")) if layer else (1, attrgetter("word"))
            found, expected = (nearest_to(each, QUERY, position, count, same_word) for each in (shards, index))
            assert found and [told(use) for _, use in found] == [told(use) for _, use in expected]
            values = [value for value, _ in expected]
            assert [value for value, _ in found] == pytest.approx(values, abs=REORDERED_FLOAT32)
            # Sentences that are alike leave room for others.
            assert len({use.words for _, use in found}) == len(found) and values == sorted(values, reverse=True)
            if same_word:
                assert {use.word.casefold() for _, use in found} == {QUERY.split()[position].casefold()}
            if not layer:
                assert values == [pytest.approx(1)]
        if layer:
            assert describe_sentence(shards, QUERY, "Play") == describe_sentence(index, QUERY, "Play")


def test_what_does_not_fit_is_refused(embedder, write, tmp_path):
    vectors = write(["a b"], layers="top", format="parquet")
    for layers in ("top", 2, -1, None):
        assert UseIndex.of_shards(vectors, embedder, layers).layers == 2
    other = ElmoEmbedder(embedder.name, device="cpu")
    other.model.token_encoder.projection.bias.data[0] += 1
    refused = [((vectors, embedder, 1), ("layers is 1", "'top'")), ((vectors, embedder, 3), "layers is 3")]
    refused += [((vectors, other), "checkpoint"), ((str(tmp_path / "absent"), embedder), "absent")]
    for given, named in refused:
        assert_refused(ValueError, named, UseIndex.of_shards, *given)
    assert UseIndex.of_shards(write(["a b"], layers="mix"), embedder).layers == "mix"
    assert_refused(ValueError, "mean", UseIndex.of_shards, write(["a b"], layers="top", pooling="mean"), embedder)
    for sentences, layers, named in ((["", " "], "top", "sentences"), (SENTENCES, "all", "layers is 'all'")):
        assert_refused(ValueError, named, UseIndex.of_text, embedder, sentences, layers)


# The command


@pytest.fixture
def run(embedder, tmp_path, capsys):
    with gzip.open(tmp_path / "text.txt.gz", "wt") as file:
        file.write("".join(f"{line}\n" for line in SENTENCES))

    def run(input_file="text.txt.gz", **options):
        capsys.readouterr()
        file = str(tmp_path / input_file)
        given = {"model_name_or_path": embedder.name, "input_file": file, "device": "cpu", **options}
        show_neighbors(NeighborArguments(**given))
        return capsys.readouterr().out

    return run


def test_words_of_a_text_and_uses_nearest_to_a_word_of_a_sentence(run, write):
    shown = run(words=["play", "zebra"])
    assert shown.count("nearest  ") == 2 and "'zebra': not among" in shown
    assert run(words=["play"], top_k=2).count("nearest  ") == 4
    given = {"sentence": "we play cards", "word": "play", "top_k": 2, "same_word": True}
    found = run(**given)
    lines = found.splitlines()
    assert lines[0] == "we [play] cards" and len(lines) == 3 and all("[play]" in line for line in lines)
    assert run(sentence="a play", word="play", layers="0", top_k=1).splitlines()[1].split()[0] == "1.00"
    vectors = str(write(SENTENCES))
    assert run(vectors, **given) == found and run(vectors, words=["play", "zebra"]) == shown


def test_mistakes_are_named(run):
    for options, named in (
        ({}, "--words"),
        ({"words": ["play"], "word": "play"}, "--sentence"),
        ({"sentence": "we play", "word": "cat"}, "'cat'"),
        ({"words": ["play"], "top_k": 0}, "--top_k"),
        ({"words": ["play"], "layers": "3"}, "layers is 3"),
        ({"words": ["play"], "input_file": "absent.txt"}, "absent.txt"),
        ({"sentence": "we", "input_file": ""}, "settings.json"),
    ):
        assert_refused((ValueError, OSError), named, run, **options)
