"""The embedding of corpora is timed on the same words on both sides, and the report holds what was measured."""

import json
import os
from functools import partial

import h5py
import numpy as np
import pytest
from benchmark.allennlp_peer import AllenNLPPeer
from benchmark.embedded_corpus import (
    ALL_LAYERS,
    ALLENNLP_FILE,
    MODEL,
    ONE_LAYER,
    EmbeddingBenchmarkSettings,
    embed_file,
    run_embedding_benchmark,
    time_in_turns,
)
from benchmark.report import render_embedding_report
from benchmark.sizes import build_model
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32

from hf_elmo import ElmoCharTokenizer, ElmoEmbedder
from hf_elmo.inference.corpus_embedding import VectorSettings
from hf_elmo.inference.embedding import embed
from hf_elmo.inference.embedding_directory import EmbeddedCorpus

SETTINGS = {"sizes": ["tiny"], "num_words": 400, "rounds": 2, "allennlp_words": 150}


def run(folder, **changes):
    settings = EmbeddingBenchmarkSettings(**{**SETTINGS, "output_dir": str(folder / "out"), **changes})
    found = run_embedding_benchmark(settings)
    assert json.loads((folder / "out" / "embedding.json").read_text(encoding="utf-8")) == found
    assert (folder / "out" / "embedding.md").read_text(encoding="utf-8") == render_embedding_report(found)
    return found["cases"][0]


def test_ours_is_held_against_the_model_alone(tmp_path):
    case = run(tmp_path)
    assert set(case["functions"]) == {MODEL, ONE_LAYER}
    assert case["functions"][MODEL]["words"] == case["functions"][ONE_LAYER]["words"] >= 400
    assert case["turns"] == 2
    share = case["share_of_the_model"]
    assert share["measured"] > 0 and share["reached"] == (share["measured"] >= 0.9)


def test_each_shard_is_timed_on_both_sides(tmp_path, monkeypatch):
    build_model("tiny").save_pretrained(tmp_path / "elmo")
    ElmoCharTokenizer().save_pretrained(tmp_path / "elmo")
    alone, embedder = (ElmoEmbedder(str(tmp_path / "elmo"), device="cpu") for _ in range(2))
    monkeypatch.setattr("benchmark.embedded_corpus.VectorSettings", partial(VectorSettings, max_words_per_shard=30))
    sentences = [["a", "call"], ["returns"]] * 40
    read = []
    monkeypatch.setattr(alone.model, "forward", count_words(alone.model.forward, read))
    seconds = time_in_turns(alone, embedder, sentences, tmp_path / "one")
    corpus = EmbeddedCorpus(tmp_path / "one" / "vectors")
    assert [words for _, words, _ in corpus.sentences()] == sentences
    assert len(seconds[MODEL]) == len(seconds[ONE_LAYER]) == len(corpus.shards) > 5
    assert min(seconds[MODEL]) > 0 and min(seconds[ONE_LAYER]) > 0
    # All of the text, and before it the first shard to warm up.
    assert sum(read) == 120 + corpus.shards[0].num_words + 2 * (80 + corpus.shards[0].num_sentences)


def count_words(forward, counts):
    def run(input_ids, attention_mask=None):
        counts.append(int(attention_mask.sum()))
        return forward(input_ids, attention_mask=attention_mask)

    return run


@pytest.fixture
def folder():
    folder = os.environ.get("HF_ELMO_ALLENNLP")
    if not folder:
        pytest.skip("HF_ELMO_ALLENNLP is not set; it names the folder of AllenNLP's unzipped wheel")
    return folder


def test_allennlp_embeds_the_same_words(tmp_path, folder):
    case = run(tmp_path, allennlp=folder)
    assert case["functions"][ALL_LAYERS]["words"] == case["functions"][ALLENNLP_FILE]["words"] >= 150
    assert case["times_allennlp"]["measured"] > 0 and case["deviation"] < 1e-5


def test_allennlps_states_are_carried_as_it_carries_them(tmp_path, folder):
    model = build_model("tiny")
    sentences = [["a", "call"], ["returns"]] * 40
    embed_file(AllenNLPPeer(folder, model), sentences, tmp_path / "v.hdf5")()
    wanted = list(embed(model, ElmoCharTokenizer(), sentences, layers="all"))
    with h5py.File(tmp_path / "v.hdf5") as file:
        found = [file[str(number)][()] for number in range(len(sentences))]
    np.testing.assert_allclose(found[5], wanted[5], rtol=0, atol=10 * REORDERED_FLOAT32)
    assert np.abs(found[70] - wanted[70]).max() > 100 * REORDERED_FLOAT32


def test_mistakes_are_named():
    for changes, named in (
        ({"sizes": ["huge"]}, "'huge'"),
        ({"num_words": 0}, "--num_words"),
        ({"rounds": 0}, "--rounds"),
    ):
        assert_refused(ValueError, named, EmbeddingBenchmarkSettings(**changes).check)
