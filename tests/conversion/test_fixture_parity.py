"""Parity with the original implementation's vectors, for the small published biLM."""

import json
from pathlib import Path

import pytest
import tolerances
import torch
from conftest import shared_data
from transformers import AutoModel, AutoTokenizer

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.conversion.bilm_tf import convert_bilm_tf, load_bilm_tf
from hf_elmo.conversion.bilm_tf_export import save_bilm_tf

h5py = pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")


@pytest.fixture(scope="module")
def fixture() -> Path:
    return shared_data("elmo_fixture")


@pytest.fixture(scope="module")
def original(fixture) -> ElmoModel:
    return load_bilm_tf(fixture / "options.json", fixture / "lm_weights.hdf5")


@pytest.fixture(scope="module")
def batches(fixture) -> list[list[str]]:
    """Batch i is the i-th sentence of each list, in the order in which the expected vectors were made."""
    lists = json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))
    return [list(sentences) for sentences in zip(*lists, strict=True)]


@pytest.fixture(scope="module")
def expected(fixture) -> list[torch.Tensor]:
    """The top layer of each batch's first sentence, (2, T, P), the directions apart and without the markers."""
    with h5py.File(fixture / "lm_embeddings_0.hdf5") as file:
        return [torch.from_numpy(file[str(index)][()]) for index in range(len(file))]


def run_batches(model, tokenizer, batches, carry_state):
    """The top layer of each batch's first sentence as the expected vectors have it, (2, T, P), and T of all three."""
    vectors, lengths, state = [], [], None
    for sentences in batches:
        inputs = tokenizer(sentences, padding=True, return_tensors="pt")
        with torch.no_grad():
            output = model(**inputs, state=state if carry_state else None, output_hidden_states=True)
        state = output.state
        words = inputs["attention_mask"].sum(dim=1) - 2
        top = output.hidden_states[-1][0, 1 : 1 + words[0]]
        vectors.append(torch.stack(top.chunk(2, dim=-1)))
        lengths.append(words.tolist())
    return vectors, lengths


def largest_difference(vectors, expected):
    return max(float((mine - theirs).abs().max()) for mine, theirs in zip(vectors, expected, strict=True))


def test_the_ten_sentences_have_the_original_vectors(original, batches, expected):
    vectors, _ = run_batches(original, ElmoCharTokenizer(), batches, carry_state=True)
    assert len(expected) == 10
    assert [tuple(mine.shape) for mine in vectors] == [tuple(theirs.shape) for theirs in expected]
    assert largest_difference(vectors, expected) <= tolerances.PARITY


def test_the_vectors_depend_on_the_carried_state(original, batches, expected):
    vectors, _ = run_batches(original, ElmoCharTokenizer(), batches, carry_state=False)
    assert largest_difference(vectors[:1], expected[:1]) <= tolerances.PARITY
    for mine, theirs in zip(vectors[1:], expected[1:], strict=True):
        assert float((mine - theirs).abs().max()) > 1e-3


def test_a_saved_directory_loads_with_the_auto_classes_and_has_the_original_vectors(
    fixture, batches, expected, tmp_path
):
    convert_bilm_tf(fixture / "options.json", fixture / "lm_weights.hdf5", tmp_path / "elmo")
    model = AutoModel.from_pretrained(tmp_path / "elmo")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "elmo")
    assert isinstance(model, ElmoModel) and not model.training
    assert isinstance(tokenizer, ElmoCharTokenizer) and tokenizer.pre_tokenizer == "whitespace"
    vectors, _ = run_batches(model, tokenizer, batches, carry_state=True)
    assert largest_difference(vectors, expected) <= tolerances.PARITY


def test_masks_and_lengths_are_those_of_the_sentences(original, batches, expected):
    _, lengths = run_batches(original, ElmoCharTokenizer(), batches, carry_state=True)
    assert [first for first, _, _ in lengths] == [theirs.shape[1] for theirs in expected]
    assert lengths == [[len(sentence.split()) for sentence in sentences] for sentences in batches]
    for sentences in batches:
        inputs = ElmoCharTokenizer()(sentences, padding=True, return_tensors="pt")
        assert torch.equal(original.word_mask(inputs["input_ids"]), inputs["attention_mask"].bool())


def test_the_round_trip_gives_every_key_bit_by_bit(fixture, original, tmp_path):
    save_bilm_tf(original, tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert json.loads((tmp_path / "options.json").read_text()) == json.loads((fixture / "options.json").read_text())
    with h5py.File(fixture / "lm_weights.hdf5") as before, h5py.File(tmp_path / "weights.hdf5") as after:
        names = {id(file): [] for file in (before, after)}
        for file in (before, after):
            file.visit(names[id(file)].append)
        assert names[id(after)] == names[id(before)]
        keys = [name for name in names[id(before)] if isinstance(before[name], h5py.Dataset)]
        assert len(keys) == 1 + 2 * 5 + 4 * 2 + 2 + 3 * 2 * 2
        for key in keys:
            assert after[key].shape == before[key].shape
            assert after[key].dtype == before[key].dtype == "float32"
            assert after[key][()].tobytes() == before[key][()].tobytes()
