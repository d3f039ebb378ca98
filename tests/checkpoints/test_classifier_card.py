"""The card of a classifier holds its labels, its scores class by class and its settings, and nothing unmeasured."""

import json

import pytest
from huggingface_hub import ModelCard

from hf_elmo.checkpoints.cards import write_card
from hf_elmo.checkpoints.classifier_card import describe_classifier
from hf_elmo.checkpoints.task_card_parts import render_task_card

ROW = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "number": 1234}
RESULTS = {
    "model": "98,765 parameters; 2 labels.",
    "task": "text-classification",
    "text_pairs": False,
    "labels": ["bad", "a|b"],
    "data": {"test": {"source": "test.tsv", "texts": 2468, "words": 34567}},
    "settings": {"learning_rate": 0.003, "seed": 42, "none": None},
    "kept_step": 107,
    "layer_shares": [[0.125, 0.25, 0.625]],
    "predict_accuracy": 0.4321,
    "predict_macro_f1": 0.25,
    "predict_by_class": {"bad": ROW, "a|b": ROW},
    "predict_confusion": [[1000, 234], [1134, 100]],
    "command": "hf-elmo train text-classification --train_file train.tsv",
    "date": "2026-01-02",
    "commit": None,
    "versions": {"torch": "2.13.0", "transformers": "5.23.0"},
    "machine": {"accelerator": None, "processor": "a processor", "threads": 2, "cores": 4},
}


def test_labels_scores_layers_data_and_settings_are_in_the_card():
    card = render_task_card(describe_classifier, "my-classifier", {}, RESULTS, tokenizer={"pre_tokenizer": "penn"})
    for text in (
        "`bad`, `a|b`",
        "| `bad` | 50.00 | 25.00 | 33.33 | 1,234 | 1,000 | 234 |",
        "Accuracy 43.21, macro F1 25.00; always the most frequent label: 50.00.",
        "| mix 1 | 12.5% | 25.0% | 62.5% |",
        "test.tsv: 2,468 texts, 34,567 words",
        "learning_rate 0.003, seed 42 |",
        "kept | 107 |",
        'model="my-classifier"',
    ):
        assert text in card, text
    assert "None" not in card and "zero-shot" not in card and "## Seeds" not in card
    data = ModelCard(card).data
    assert data.pipeline_tag == "text-classification"
    assert {result.metric_type: result.metric_value for result in data.eval_results}["accuracy"] == 0.4321


def test_labels_that_training_did_not_have_are_scored_but_not_known():
    unseen = {**RESULTS, "unseen_labels": ["odd"], "predict_by_class": {"bad": ROW, "a|b": ROW, "odd": ROW}}
    unseen["predict_confusion"] = [[1000, 234, 0], [1134, 100, 0], [7, 1227, 0]]
    card = render_task_card(describe_classifier, "my-classifier", {}, unseen)
    assert "\n\n`bad`, `a|b`\n\n" in card and "| `odd` | 50.00 | 25.00 | 33.33 | 1,234 | 7 | 1,227 | 0 |" in card


def test_pairs_and_seeds():
    entailment = {**RESULTS, "text_pairs": True, "labels": ["entailment", "a|b"]}
    entailment["predict_by_class"] = {"entailment": ROW, "a|b": ROW}
    scores = {"predict_accuracy": 0.5, "predict_macro_f1": 0.25}
    seeds = {"seeds": [{"seed": 1}, {"seed": 2}], "mean": scores, "deviation": scores, "kept_seed": 2}
    card = render_task_card(describe_classifier, "x", {}, {**entailment, **seeds})
    assert '"text_pair"' in card and 'pipeline("zero-shot-classification", model="x")' in card
    assert "| test | 50.00 ± 50.00 | 25.00 ± 25.00 |" in card and "2 trainings" in card


def test_the_folders_card_is_that_of_its_task(tmp_path):
    for name, content in (("config.json", {}), ("results.json", RESULTS)):
        (tmp_path / name).write_text(json.dumps(content))
    write_card(tmp_path, "my-classifier")
    assert "| `bad` | 50.00 |" in (tmp_path / "README.md").read_text()


def test_a_figure_without_results_cannot_be_rendered():
    results = {key: value for key, value in RESULTS.items() if key != "predict_macro_f1"}
    with pytest.raises(ValueError, match=r"my-classifier.*'predict_macro_f1'"):
        render_task_card(describe_classifier, "my-classifier", {}, results)
