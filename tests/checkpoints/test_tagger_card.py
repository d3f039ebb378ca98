"""The card of a tagger holds its labels, its scores and its settings, and no figure that its results lack."""

import json

import pytest
from huggingface_hub import ModelCard

from hf_elmo.checkpoints.cards import write_card
from hf_elmo.checkpoints.tagger_card import describe_tagger
from hf_elmo.checkpoints.task_card_parts import render_task_card

FIELDS = {"id2label": {"0": "O", "10": "I-a|b", "2": "B-PER"}}
ROW = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "number": 1234}
RESULTS = {
    "model": "98,765 parameters, 43 of them trained (biLM fixed); 3 labels.",
    "task": "token-classification",
    "tag_scheme": "spans",
    "data": {"test": {"source": "test.conll", "sentences": 2345, "words": 34567}},
    "settings": {"learning_rate": 0.003, "seed": 42, "none": None},
    "kept_step": 107,
    **{f"predict_{name}": value for name, value in ROW.items() if name != "number"},
    "predict_accuracy": 0.9876,
    "predict_entities": {"PER": ROW, "a|b": {**ROW, "number": 1}},
    "command": "python scripts/run_token_classification.py --train_file train.conll",
    "date": "2026-01-02",
    "commit": None,
    "versions": {"torch": "2.13.0", "transformers": "5.23.0"},
    "machine": {"accelerator": None, "processor": "a processor", "threads": 2, "cores": 4},
}


def test_labels_scores_data_and_settings_are_in_the_card():
    card = render_task_card(describe_tagger, "my-tagger", FIELDS, RESULTS, tokenizer={"pre_tokenizer": "punctuation"})
    assert "`O`, `B-PER`, `I-a|b`" in card
    assert "| `PER` | 50.00 | 25.00 | 33.33 | 1,234 |" in card and "| `a\\|b` |" in card
    assert "| all | 50.00 | 25.00 | 33.33 | 1,235 |" in card and "Accuracy by word: 98.76" in card
    for text in ("test.conll: 2,345 sentences, 34,567 words", "learning_rate 0.003, seed 42 |", "kept | 107 |"):
        assert text in card, text
    assert 'model="my-tagger"' in card and "Raw text can be given" in card and "None" not in card
    data = ModelCard(card).data
    assert data.pipeline_tag == "token-classification"
    assert {result.metric_type: result.metric_value for result in data.eval_results}["f1"] == 0.3333


def test_words_are_not_joined_where_each_has_a_tag_of_its_own():
    card = render_task_card(describe_tagger, "my-tagger", FIELDS, {**RESULTS, "tag_scheme": "words"})
    assert 'aggregation_strategy="none"' in card and "Each word counts by itself" in card


def test_a_run_that_only_trained_has_no_scores():
    results = {key: value for key, value in RESULTS.items() if not key.startswith("predict_")}
    card = render_task_card(describe_tagger, "my-tagger", FIELDS, results)
    assert "## Scores" not in card and not ModelCard(card).data.eval_results


def test_results_of_earlier_runs_still_render(tmp_path):
    """They named neither their data nor their settings."""
    old = {key: value for key, value in RESULTS.items() if key not in ("data", "settings", "kept_step")}
    for name, content in (("config.json", FIELDS), ("results.json", old)):
        (tmp_path / name).write_text(json.dumps(content))
    write_card(tmp_path, "my-tagger")
    assert "| all | 50.00 |" in (tmp_path / "README.md").read_text()


def test_a_figure_without_results_cannot_be_rendered():
    results = {key: value for key, value in RESULTS.items() if key != "predict_accuracy"}
    with pytest.raises(ValueError, match=r"my-tagger.*'predict_accuracy'"):
        render_task_card(describe_tagger, "my-tagger", FIELDS, results)
