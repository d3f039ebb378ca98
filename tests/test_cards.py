"""Cards hold what the results hold, and the committed ones are rendered from the files beside them."""

import json

import pytest
from conftest import ROOT

from hf_elmo.cards import render_model_card, render_recipe, write_recipe

RECIPES = sorted(path.parent.name for path in (ROOT / "model_cards").glob("*/results.json"))

FIELDS = {"num_hidden_layers": 2, "cell_size": 16, "projection_size": 8, "filters": [[1, 4], [2, 8]]}
RESULTS = {
    "perplexity": {"forward": 51.25, "backward": 49.75, "mean": 50.5},
    "baselines": {
        "unigram": 700.0,
        "bigram_forward": 201.0,
        "bigram_backward": 203.0,
        "bigram": 202.0,
        "unknown_rate": 0.034,
    },
    "evaluations": [{"forward": 999.0, "backward": 1001.0, "mean": 1000.0}],
    "training_text": {"words": 12345, "sentences": 678},
    "vocabulary_size": 4321,
    "parameters": 98765,
    "words_trained": 24690,
    "seconds": 12.3,
    "words_per_second": 2007.3,
    "command": "python scripts/run_pretraining.py --train_file text.txt",
    "date": "2026-01-02",
    "commit": "abc123",
    "versions": {"torch": "2.13.0", "transformers": "5.23.0"},
    "machine": {"accelerator": None, "processor": "a processor", "threads": 2},
}


def test_every_figure_is_in_the_card():
    card = render_model_card("elmo-x", FIELDS, RESULTS)
    for figure in ("51.2", "49.8", "50.5", "700.0", "202.0", "1,000.0", "12,345", "98,765", "24,690", "3.4%", "abc123"):
        assert figure in card
    assert RESULTS["command"] in card
    assert card.startswith("---\nlibrary_name: transformers\n")


def test_without_baselines_there_are_no_rows_for_them():
    card = render_model_card("elmo-x", FIELDS, {**RESULTS, "baselines": None})
    assert "baseline" not in card


def test_a_figure_without_results_cannot_be_rendered():
    with pytest.raises(KeyError):
        render_model_card("elmo-x", FIELDS, {key: value for key, value in RESULTS.items() if key != "perplexity"})


def test_recipe_folder(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text(json.dumps(FIELDS))
    (checkpoint / "results.json").write_text(json.dumps(RESULTS))
    write_recipe(checkpoint, tmp_path / "cards" / "elmo-x", "elmo-x")
    assert (tmp_path / "cards" / "elmo-x" / "README.md").read_text() == render_model_card("elmo-x", FIELDS, RESULTS)


@pytest.mark.parametrize("name", RECIPES)
def test_committed_cards_are_rendered_from_their_files(name):
    folder = ROOT / "model_cards" / name
    assert (folder / "README.md").read_text(encoding="utf-8") == render_recipe(folder, name)


@pytest.mark.parametrize("name", RECIPES)
def test_committed_results_hold_no_machine_paths(name):
    results = json.loads((ROOT / "model_cards" / name / "results.json").read_text(encoding="utf-8"))
    assert not any(word.startswith(("/", "'/")) for word in results["command"].split())
