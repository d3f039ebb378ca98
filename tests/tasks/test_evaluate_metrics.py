"""The scores of tasks as metrics of `evaluate`, alone, combined and in a Trainer."""

import evaluate
import pytest
from conftest import make_tiny_config
from transformers import DataCollatorForTokenClassification, Trainer, TrainingArguments

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification
from hf_elmo.tasks.evaluate_metrics import (
    AnswerMetric,
    ClassificationMetric,
    CoreferenceMetric,
    EntityMetric,
    SemanticRoleMetric,
)

METRICS = [
    (EntityMetric, [["B-PER", "O"]], [["B-PER", "B-LOC"]], {}, {"overall_recall": 0.5, "overall_accuracy": 0.5}),
    (ClassificationMetric, ["a", "a", "b"], ["a", "b", "b"], {"labels": ["b", "a"]}, {"accuracy": 2 / 3}),
    (SemanticRoleMetric, [["B-A0", "B-V"]], [["B-A0", "B-V"]], {}, {"overall_f1": 1}),
    (
        AnswerMetric,
        [{"id": "b", "prediction_text": "dog"}, {"id": "a", "prediction_text": "a cat"}],
        [{"id": "a", "answers": ["cat", "the cat"]}, {"id": "b", "answers": ["cat"]}],
        {},
        {"exact_match": 0.5, "f1": 0.5},
    ),
    (CoreferenceMetric, [[[[0, 1], [4, 4]]], []], [[[[0, 1], [4, 4]]], [[[1, 1], [2, 2]]]], {}, {"mean_f1": 2 / 3}),
]


@pytest.mark.parametrize(("kind", "predictions", "references", "settings", "scores"), METRICS)
def test_each_is_a_metric_of_evaluate(kind, predictions, references, settings, scores, monkeypatch, tmp_path):
    monkeypatch.setattr("socket.socket", lambda *args, **kwargs: pytest.fail("the metric opened a socket"))
    for metric in (kind(keep_in_memory=True), kind(cache_dir=str(tmp_path))):
        assert isinstance(metric, evaluate.Metric)
        metric.add_batch(predictions=predictions[:1], references=references[:1])
        metric.add_batch(predictions=predictions[1:], references=references[1:])
        found = metric.compute(**settings)
        assert {name: found[name] for name in scores} == pytest.approx(scores)


def test_they_are_combined():
    combined = evaluate.combine(
        {"roles": SemanticRoleMetric(keep_in_memory=True), "spans": EntityMetric(keep_in_memory=True)}
    )
    found = combined.compute(predictions=[["B-A0", "O"]], references=[["B-A0", "B-V"]])
    # The predicate is no argument, but a span.
    assert (found["roles_overall_recall"], found["spans_overall_recall"]) == (1, 0.5)


def test_a_trainer_computes_with_them(tmp_path):
    rows = ElmoCharTokenizer()([["Anna", "sleeps"], ["no"]], is_split_into_words=True)
    data = [
        {"input_ids": ids, "attention_mask": mask, "labels": [-100, *[0] * (len(ids) - 2), -100]}
        for ids, mask in zip(rows["input_ids"], rows["attention_mask"], strict=True)
    ]

    def compute(output):
        is_word = output.label_ids != -100
        found = output.predictions.argmax(-1)[is_word]
        metric, gold = ClassificationMetric(keep_in_memory=True), ["0"] * len(found)
        return {
            "right": metric.compute(predictions=list(map(str, found)), references=gold, labels=["0", "1"])["accuracy"]
        }

    trainer = Trainer(
        ElmoForTokenClassification(make_tiny_config(num_labels=1)),
        TrainingArguments(str(tmp_path), use_cpu=True, disable_tqdm=True),
        DataCollatorForTokenClassification(ElmoCharTokenizer()),
        eval_dataset=data,
        compute_metrics=compute,
    )
    assert trainer.evaluate()["eval_right"] == 1
