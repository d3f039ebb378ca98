"""AllenNLP's own files run with our weights and leave no trace; the numbers are compared where they are at hand."""

import os
import sys

import pytest
import torch
from benchmark.allennlp_peer import AllenNLPPeer
from benchmark.cases import Contestants, training_step, words_to_vectors
from benchmark.gate import check_cases
from benchmark.sentences import read_sentences
from benchmark.sizes import build_model
from refusals import assert_refused
from tolerances import PARITY


@pytest.fixture
def folder():
    folder = os.environ.get("HF_ELMO_ALLENNLP")
    if not folder:
        pytest.skip("HF_ELMO_ALLENNLP is not set; it names the folder of AllenNLP's unzipped wheel")
    return folder


def test_another_folder_is_refused(tmp_path):
    named = ("--allennlp", str(tmp_path), "pip download")
    assert_refused(FileNotFoundError, named, AllenNLPPeer, tmp_path, build_model("tiny"))


def test_it_computes_the_same(folder):
    contestants = Contestants("tiny", ["readable"], folder)
    cases = [words_to_vectors(contestants, read_sentences(), 5), training_step(contestants, lanes=2, length=3)]
    deviations = [entry.maximum for entry in check_cases(cases) if entry.name == "AllenNLP"]
    assert len(deviations) == 2 and deviations[0] < PARITY


def test_it_starts_from_zeros_each_time(folder):
    case = words_to_vectors(Contestants("tiny", ["readable"], folder), read_sentences(), 2)
    assert torch.equal(case.functions["AllenNLP"](), case.functions["AllenNLP"]())


def test_the_process_keeps_its_own_modules(folder, monkeypatch):
    marker = object()
    monkeypatch.setitem(sys.modules, "allennlp", marker)
    finders = list(sys.meta_path)
    AllenNLPPeer(folder, build_model("tiny"))
    assert sys.modules["allennlp"] is marker and sys.meta_path == finders
    assert [name for name in sys.modules if name.startswith("allennlp.")] == []
