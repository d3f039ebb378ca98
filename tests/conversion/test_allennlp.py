"""The ELMo of AllenNLP's archives gives the numbers of that program, and what is unknown is asked for."""

import json

import numpy as np
import pytest
import torch
from allennlp_files import OPTIONS, experiment_with, pack, weights_of, write_archive
from conftest import make_tiny_config, shared_data
from foreign_vectors import run_batches
from refusals import assert_refused
from tolerances import FOREIGN_VECTORS, REORDERED_FLOAT32
from transformers import AutoModel, AutoTokenizer

from hf_elmo import ElmoEmbeddings, ElmoModel, load_external
from hf_elmo.conversion.sources import convert

FIXTURES = ["tagger", "layer_norm", "two_mixes", "published_tagger"]


def fixture_of(name):
    folder = shared_data("zoo/allennlp")
    # The published archive is of 1.0, which holds no options.
    options = {"options_file": shared_data("elmo_fixture") / "options.json"} if name == "published_tagger" else {}
    batches = json.loads((folder / "batches.json").read_text())
    return folder / f"{name}.tar.gz", options, np.load(folder / f"{name}.npz"), batches


@pytest.fixture
def model():
    """A model of random weights, all parts of it."""
    model = ElmoModel(make_tiny_config(num_mixes=2)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
        model.token_encoder.character_embedding.weight[0] = 0
    return model


@pytest.mark.parametrize("name", FIXTURES)
def test_layers_and_mixes_are_the_programs_with_its_carried_state(name):
    source, options, expected, batches = fixture_of(name)
    found = run_batches(*load_external(source, **options), batches)
    places = [(call, row, len(words)) for call, batch in enumerate(batches) for row, words in enumerate(batch)]
    for (call, row, size), (layers, mixes) in zip(places, found, strict=True):
        wanted = expected[f"call{call}/layers"][:, row, :size]
        np.testing.assert_allclose(layers, wanted, rtol=0, atol=FOREIGN_VECTORS)
        assert len(mixes) == sum(key.startswith(f"call{call}/mix") for key in expected)
        for number, mix in enumerate(mixes):
            wanted = expected[f"call{call}/mix{number}"][row, :size]
            np.testing.assert_allclose(mix, wanted, rtol=0, atol=FOREIGN_VECTORS)


@pytest.mark.parametrize("normalized", [False, True])
def test_an_archive_gives_back_the_model_that_it_was_written_from(tmp_path, model, normalized):
    experiment = experiment_with(do_layer_norm=normalized, dropout=0.2, requires_grad=True)
    options = {**OPTIONS, "char_cnn": {**OPTIONS["char_cnn"], "max_characters_per_token": 30}}
    write_archive(tmp_path / "files", model, experiment, options, prefix="_elmo.")
    found, tokenizer = load_external(pack(tmp_path / "files", tmp_path / "model.tar.gz"))
    assert (found.config.mix_normalization, found.config.freeze_bilm) == ("batch" if normalized else "none", False)
    assert found.config.head.dropout == 0.2 and found.config.num_mixes == 2
    assert tokenizer.max_characters_per_word == found.config.max_characters_per_word == 50
    sentences = [["A", "b", "."], ["x" * 60]]
    vectors = zip(*(run_batches(each, tokenizer, [sentences]) for each in (found, model)), strict=True)
    for (theirs, mixes), (ours, own_mixes) in vectors:
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=REORDERED_FLOAT32)
        if not normalized:
            np.testing.assert_allclose(mixes, own_mixes, rtol=0, atol=10 * REORDERED_FLOAT32)


def test_what_is_saved_is_loaded_and_says_what_was_left_out(tmp_path, model):
    others = {"encoder._module.weight_ih_l0": torch.zeros(12, 12), "crf.transitions": torch.zeros(2, 2)}
    write_archive(tmp_path / "files", model, others=others)
    source = pack(tmp_path / "files", tmp_path / "model.tar.gz")
    _, converted = convert(source, tmp_path / "ours")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    models = AutoModel.from_pretrained(tmp_path / "ours"), converted.model
    (found, _), (wanted, _) = (run_batches(each, tokenizer, [[["A", "b"]]])[0] for each in models)
    np.testing.assert_array_equal(found, wanted)
    embeddings, report = ElmoEmbeddings.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert embeddings.dropout.p == 0.5 and not any(report.values())
    facts = json.loads((tmp_path / "ours" / "conversion.json").read_text())
    assert facts["files"]["source"]["name"] == "model.tar.gz" and "Apache-2.0" in facts["license"]
    said = " ".join(facts["notes"])
    assert "encoder" in said and "crf" in said


def test_options_that_an_archive_lacks_are_asked_for(tmp_path, model):
    write_archive(tmp_path / "files", model, options=None)
    named = ("options_file", "elmo/options.json", "cell_clip")
    assert_refused(ValueError, named, load_external, tmp_path / "files")
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    found, _ = load_external(tmp_path / "files", options_file=tmp_path / "options.json")
    assert found.config.cell_clip == 3


def test_a_cache_of_words_is_passed_over_and_a_module_without_mixes_gets_even_ones(tmp_path, model):
    prefix = "text_field_embedder.token_embedder_elmo._elmo."
    write_archive(tmp_path, model, others={f"{prefix}_elmo_lstm._word_embedding.weight": torch.zeros(9, 6)})
    assert torch.equal(load_external(tmp_path)[0].mixes[1].weight, model.mixes[1].weight)
    weights = {f"_elmo.{key}": value for key, value in weights_of(model).items() if "scalar_mix" not in key}
    torch.save(weights, tmp_path / "weights.th")
    found, _ = load_external(tmp_path)
    assert found.config.num_mixes == 1 and not found.mixes[0].weight.any()
