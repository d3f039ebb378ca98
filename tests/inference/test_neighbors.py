"""Nearest uses and words against brute force, in memory, in shards and by clusters; and the command."""

import gzip
import importlib.util
import random
import sys
from operator import attrgetter

import pytest
import torch
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32
from torch.nn import functional as F

from hf_elmo import ElmoCharTokenizer
from hf_elmo.cli.neighbors import NeighborArguments, main, show_neighbors
from hf_elmo.inference import neighbors
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.embedding_shards import EmbeddingSettings, EmbeddingWriter
from hf_elmo.inference.neighbors import ShardIndex, TextIndex, describe_sentence, describe_words
from hf_elmo.inference.word_uses import Use

SENTENCES = ["the play was good", "they play chess", "a good play", "the cat sat on a mat near the door"]
WORDS = "the play was good they chess a cat sat on mat near door we saw match again".split()
QUERY = "they saw the Play again"


@pytest.fixture(scope="module")
def index(embedder):
    return TextIndex(embedder, SENTENCES)


def nearest_to(index, sentence, position, count=1, same_word=False):
    return index.nearest_to(sentence, [position], count, same_word)[0]


def assert_same(found, expected, fields=("sentence", "position", "words")):
    told = attrgetter(*fields)
    assert found and [told(use) for _, use in found] == [told(use) for _, use in expected]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=REORDERED_FLOAT32)


# In memory


def test_nearest_use_is_brute_forces(embedder, index):
    vectors, owners = [], []
    for number, sentence in enumerate(SENTENCES):
        batch = embedder.tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            layers = embedder.model(**batch, output_hidden_states=True).hidden_states
        vectors.extend(layers[-1][0, 1:-1])
        owners.extend((number, position) for position in range(len(sentence.split())))
    assert [(use.sentence, use.position) for use in index.uses] == owners
    vectors = torch.stack(vectors)
    similarities = F.cosine_similarity(vectors[owners.index((1, 1))], vectors, dim=-1)
    ranked = sorted(range(len(owners)), key=lambda row: -similarities[row])
    # The first use of each other sentence.
    seen, expected = {1}, []
    for row in ranked:
        if owners[row][0] not in seen:
            seen.add(owners[row][0])
            expected.append(row)
    found = nearest_to(index, SENTENCES[1], 1, 20)
    assert [(use.sentence, use.position) for _, use in found] == [owners[row] for row in expected]
    assert [value for value, _ in found] == pytest.approx([float(similarities[row]) for row in expected], abs=1e-5)


def test_the_layer_is_the_one_asked_for(embedder):
    # Layer 0 knows no context: the other uses of the word are as near as can be.
    for layers in (0, "token"):
        nearest = nearest_to(TextIndex(embedder, [line.split() for line in SENTENCES], layers), "play", 0, 3)
        assert [use.word for _, use in nearest] == ["play"] * 3
        assert [similarity for similarity, _ in nearest] == pytest.approx([1.0] * 3, abs=1e-6)


def test_uses_of_the_same_word_in_upper_and_lower_case(embedder):
    index = TextIndex(embedder, [*SENTENCES, "Play it again"])
    found = nearest_to(index, "they play chess", 1, 9, same_word=True)
    assert sorted((use.sentence, use.word) for _, use in found) == [(0, "play"), (2, "play"), (4, "Play")]
    assert nearest_to(index, "they play chess", 2, 9, same_word=True) == []


def test_sentences_that_are_nearly_the_same_are_shown_once(embedder):
    copies = [f"On page {number} they play a game of chess" for number in range(5)]
    index = TextIndex(embedder, [*copies, "a good play", "they play a game of chess on the mat by the door"])
    found = [use.sentence for _, use in nearest_to(index, "a play of Shakespeare", 1, 20)]
    assert sorted(found)[1:] == [5, 6] and found.count(min(found)) == 1
    assert {use.sentence for _, use in nearest_to(index, copies[0], 4, 20)} == {5, 6}


def test_tables_show_words_that_occur_and_name_those_that_do_not(embedder, index):
    shown, missing = describe_words(index, ["play", "Play", "absent"]).split("'Play'")
    assert "'play'" in shown and "[play]" in shown and shown.count("nearest  ") == 2
    assert "but 'play'" in missing and "'absent': not among" in missing
    one = describe_sentence(index, "they play chess", "play", count=2).splitlines()
    assert one[0] == "they [play] chess" and len(one) == 3
    every = describe_sentence(index, "they play chess").splitlines()
    assert [line for line in every if line[0] != " "] == ["[they] play chess", "they [play] chess", "they play [chess]"]
    assert "no other use of 'chess'" in describe_sentence(index, "they play chess", "chess", same_word=True)
    assert_refused(ValueError, "'mat'", describe_sentence, index, "they play chess", "mat")


def test_uses_that_are_shown_lie_far_from_one_another(embedder):
    index = TextIndex(embedder, ["a play", "the play", "no play"])
    (first, vector), (second, other) = index.most_different_uses("play")
    (third,) = {0, 1, 2} - {first.sentence, second.sentence}
    vectors = {use.sentence: index.embedder.embed_sentence(use.words, "top")[1] for use in index.uses}
    cosines = {
        number: F.cosine_similarity(*map(torch.tensor, (vectors[first.sentence], each)), dim=0)
        for number, each in vectors.items()
    }
    assert cosines[second.sentence] <= cosines[third] and float(vector @ other) < 1
    assert index.most_different_uses("chess") == [] and len(index.most_different_uses("a", 5)) == 1


def test_words_are_looked_for_as_the_tokenizer_reads_them(embedder, tmp_path):
    embedder.model.save_pretrained(tmp_path)
    ElmoCharTokenizer(do_lower_case=True).save_pretrained(tmp_path)
    index = TextIndex(ElmoEmbedder(str(tmp_path), device="cpu"), SENTENCES)
    assert "[play]" in describe_words(index, ["Play"])
    assert describe_sentence(index, "They PLAY chess", "Play").startswith("they [play] chess")


def test_texts_without_words_and_layers_that_are_not_there_are_refused(embedder):
    for sentences, layers, named in (
        ([], "top", "sentences"),
        (["", " "], "top", "sentences"),
        (SENTENCES, 3, "layers is 3"),
        (SENTENCES, "last", "layers is 'last'"),
        (SENTENCES, "all", "layers is 'all'"),
    ):
        assert_refused(ValueError, named, TextIndex, embedder, sentences, layers)


def test_snippet_marks_the_word_and_what_was_cut():
    assert Use(0, 6, tuple("a b c d e f g h i".split())).snippet(around=2) == "... e f [g] h i"


# In shards


def draw_sentences(count, seed=0):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(9))) for _ in range(count)]


@pytest.fixture
def write(embedder, tmp_path, monkeypatch):
    monkeypatch.setattr(neighbors, "_SENTENCES_PER_BLOCK", 16)

    def write(sentences, overwrite=False, **settings):
        settings = EmbeddingSettings(**{"layers": "all", "max_words_per_shard": 200, **settings})
        writer = EmbeddingWriter(embedder, str(tmp_path / "v"), settings)
        writer.prepare(overwrite)
        for shard in writer.shards_left(sentences):
            writer.write(shard)
        assert writer.finish()
        return tmp_path / "v"

    return write


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_shards_find_what_an_index_in_memory_finds(embedder, write, file_format):
    sentences = draw_sentences(120)
    vectors = write(sentences, format=file_format, keep_markers=file_format == "arrow")
    for layer in (-1, 0, 1):
        index, shards = TextIndex(embedder, sentences, layer), ShardIndex(vectors, embedder, layer)
        for same_word in (False, True):
            for position in range(5) if layer else (3,):
                # Every use of a word has the same vector where no context is known.
                count, fields = (4, ("sentence", "position", "words")) if layer else (1, ("word",))
                found, expected = (nearest_to(each, QUERY, position, count, same_word) for each in (shards, index))
                assert_same(found, expected, fields)
        if layer:
            assert describe_sentence(shards, QUERY, "Play") == describe_sentence(index, QUERY, "Play")


def test_sentences_that_are_alike_leave_room_for_others(embedder, write):
    sentences = ["we saw the play again"] * 300 + ["the cat was on a mat", "a play was near the door"]
    index, shards = TextIndex(embedder, sentences), ShardIndex(write(sentences), embedder)
    found = nearest_to(shards, "they sat near the play", 4, 3)
    # Which of those that are alike is shown, rounding says.
    assert_same(found, nearest_to(index, "they sat near the play", 4, 3), ("position", "words"))
    assert len({use.words for _, use in found}) == 3


def test_what_does_not_fit_is_refused(embedder, write, tmp_path):
    vectors = write(["a b"], layers="top")
    for layers in ("top", 2, -1, None):
        assert ShardIndex(vectors, embedder, layers).layers == 2
    other = ElmoEmbedder(embedder.name, device="cpu")
    other.model.token_encoder.projection.bias.data[0] += 1
    refused = [((vectors, embedder, 1), ("layers is 1", "'top'")), ((vectors, embedder, 3), "layers is 3")]
    refused += [((vectors, other), "checkpoint"), ((str(tmp_path / "absent"), embedder), "absent")]
    for given, named in refused:
        assert_refused((ValueError, FileNotFoundError), named, ShardIndex, *given)
    assert ShardIndex(write(["a b"], True, layers="mix"), embedder).layers == "mix"
    assert_refused(ValueError, "layers is 0", ShardIndex, vectors, embedder, 0)
    assert_refused(ValueError, "mean", ShardIndex, write(["a b"], True, layers="top", pooling="mean"), embedder)


# By clusters


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss")


@pytest.mark.parametrize("settings", [{}, {"format": "parquet", "layers": "top"}, {"keep_markers": True}])
def test_clusters_find_the_similarities_of_the_exact_search(faiss, embedder, write, settings):
    vectors = write(draw_sentences(300), **settings)
    exact, clusters = ShardIndex(vectors, embedder), ShardIndex(vectors, embedder, approximate=True)
    for same_word in (False, True):
        expected = exact.nearest_to(QUERY, [1, 3], 2, same_word)
        found = clusters.nearest_to(QUERY, [1, 3], 2, same_word)
        for word, uses, others in zip(("saw", "play"), found, expected, strict=True):
            # Uses that are equally near may come in any order.
            values = [value for value, _ in others]
            assert [value for value, _ in uses] == pytest.approx(values, abs=REORDERED_FLOAT32)
            assert {use.word for _, use in uses} == {word} or not same_word


def test_few_sentences_are_read_and_a_use_that_lies_far_is_found_all_the_same(faiss, embedder, write, monkeypatch):
    """Only where all was looked at may anybody say that the text has no other use."""
    monkeypatch.setattr(neighbors, "_CLUSTERS_PER_QUERY", 1)
    monkeypatch.setattr(neighbors, "_LEAST_KEPT", 1)
    vectors = write(
        [*draw_sentences(1000), "a ZEBRA sat near", *draw_sentences(1000, seed=1)], max_words_per_shard=4000
    )
    exact, clusters = ShardIndex(vectors, embedder), ShardIndex(vectors, embedder, approximate=True)
    read = []
    without_markers = ShardIndex._without_markers

    def counted(index, block, is_word):
        read.append(len(block.sentences))
        return without_markers(index, block, is_word)

    monkeypatch.setattr(ShardIndex, "_without_markers", counted)
    words = ("the", "zebra", "was", "on")
    assert len(nearest_to(clusters, words, 3, 1)) == 1
    assert 0 < sum(read) < 200
    zebra, (on,) = clusters.nearest_to(words, [1, 3], 1, same_word=True)
    assert_same(zebra, nearest_to(exact, words, 1, 1, same_word=True))
    assert zebra[0][1].word == "ZEBRA" and on[1].word == "on"
    assert nearest_to(clusters, ("the", "okapi"), 1, same_word=True) == []


def test_the_clusters_are_kept_until_the_vectors_are_others(faiss, embedder, write):
    vectors = write(draw_sentences(100))
    first = nearest_to(ShardIndex(vectors, embedder, approximate=True), QUERY, 3)
    (file,) = vectors.glob("clusters-*")
    time = file.stat().st_mtime_ns
    assert nearest_to(ShardIndex(vectors, embedder, approximate=True), QUERY, 3) == first
    assert file.stat().st_mtime_ns == time
    # Each layer has its own.
    ShardIndex(vectors, embedder, 1, approximate=True)
    assert len(list(vectors.glob("clusters-*"))) == 2
    (vectors / "clusters-layer_1.faiss").rename(file)
    file.write_bytes(b"no index")
    assert_refused(ValueError, file.name, ShardIndex, vectors, embedder, approximate=True)
    write(["the play", "a cat sat"], overwrite=True)
    assert not list(vectors.glob("clusters-*"))
    # A handful of uses can be searched, too.
    assert len(nearest_to(ShardIndex(vectors, embedder, approximate=True), QUERY, 3, 9)) == 2


def test_faiss_is_asked_for_where_it_is_missing(embedder, write, monkeypatch):
    vectors = write(draw_sentences(60))
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert_refused(ImportError, ("--approximate", "hf_elmo[search]"), ShardIndex, vectors, embedder, approximate=True)
    assert not list(vectors.glob("clusters-*"))


# The command


@pytest.fixture
def run(embedder, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in SENTENCES))
    with gzip.open(tmp_path / "text.txt.gz", "wt") as file:
        file.write((tmp_path / "text.txt").read_text())

    def run(input_file="text.txt", **options):
        capsys.readouterr()
        file = None if input_file is None else str(tmp_path / input_file)
        given = {"model_name_or_path": embedder.name, "input_file": file, "device": "cpu", **options}
        show_neighbors(NeighborArguments(**given))
        return capsys.readouterr().out

    return run


def test_words_of_a_text_and_uses_nearest_to_a_word_of_a_sentence(run):
    shown = run(words=["play", "zebra"])
    assert shown.count("nearest  ") == 2 and "'zebra': not among" in shown
    assert run("text.txt.gz", words=["play", "zebra"]) == shown
    assert run(words=["play"], top_k=2).count("nearest  ") == 4
    lines = run(sentence="we play cards", word="play", top_k=2, same_word=True).splitlines()
    assert lines[0] == "we [play] cards" and len(lines) == 3
    assert all("[play]" in line for line in lines)
    assert len([line for line in run(sentence="we play cards").splitlines() if line[0] != " "]) == 3
    for layers in ("0", "token"):
        assert run(sentence="a play", word="play", layers=layers, top_k=1).splitlines()[1].split()[0] == "1.00"


def test_the_command_looks_in_a_directory(run, write, embedder, capsys):
    given = {"vectors": str(write(draw_sentences(80))), "sentence": QUERY, "word": "the", "input_file": None}
    shown = run(top_k=2, same_word=True, **given)
    lines = shown.splitlines()
    assert lines[0] == "they saw [the] Play again" and len(lines) == 3 and all("[the]" in line for line in lines)
    if importlib.util.find_spec("faiss"):
        assert run(top_k=2, same_word=True, approximate=True, **given) == shown


def test_mistakes_are_named(run, capsys):
    for options, named in (
        ({}, "--words"),
        ({"words": ["play"], "word": "play"}, "--sentence"),
        ({"sentence": "we play", "word": "cat"}, "'cat'"),
        ({"words": ["play"], "top_k": 0}, "--top_k"),
        ({"words": ["play"], "layers": "3"}, "layers is 3"),
        ({"words": ["play"], "input_file": "absent.txt"}, "absent.txt"),
        ({"vectors": "v", "sentence": "we"}, "--vectors"),
        ({"vectors": "v", "words": ["play"], "input_file": None}, "--words"),
        ({"sentence": "we", "approximate": True}, ("--approximate", "--vectors")),
        ({"sentence": "we", "input_file": None}, "--input_file"),
    ):
        assert_refused((ValueError, OSError), named, run, **options)
    with pytest.raises(SystemExit):
        main(["--model_name_or_path", "absent", "--input_file", "absent.txt", "--words", "play"])
    assert capsys.readouterr().err.count("\n") == 1
