"""The examples in the docstrings of the classes for notebooks print what they say."""

import doctest

import pytest
import torch
from conftest import make_tiny_config

import hf_elmo
from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

CHECKPOINT = "output/elmo-tiny-pydoc"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a checkpoint of the name and the sizes that the examples speak of."""
    folder = tmp_path_factory.mktemp("examples")
    torch.manual_seed(0)
    words = WordVocabulary([*SPECIAL_WORDS, *"the return value of a call Call it !".split()])
    model = ElmoForPreTraining(make_tiny_config(projection_size=64, word_vocab_size=len(words)))
    model.save_pretrained(folder / CHECKPOINT)
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(folder / CHECKPOINT)
    words.save(folder / CHECKPOINT)
    return folder


@pytest.mark.parametrize("name", ["ElmoEmbedder", "ElmoScorer"])
def test_examples_print_what_they_say(folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(hf_elmo, name), name)
    found = doctest.DocTestRunner(verbose=False).run(example)
    assert found.attempted >= 6 and found.failed == 0
