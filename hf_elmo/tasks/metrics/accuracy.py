"""Accuracy, F1 by class and the confusion of classes: an `evaluate` metric that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

_DESCRIPTION = "How often the predicted class is the right one, overall and class by class."

_INPUTS = """
Args:
    predictions: Predicted classes, strings.
    references: Gold classes, as many.
    labels: The classes in the order of the confusion matrix; by default those that occur, sorted.
Returns: `accuracy`; `macro_f1`, the mean F1 of the classes that occur in either; `by_class`, for each class a dict of
    `precision`, `recall`, `f1` and `number`, how often it is the gold one; `labels`, and `confusion`, a row per gold
    class and a column per predicted one. Scores lie in [0, 1]; what is not defined is 0.
"""


class ClassificationMetric(evaluate.Metric):
    """Accuracy, and precision, recall and F1 by class as scikit-learn has them (`zero_division=0`).

    Make it directly, `ClassificationMetric(keep_in_memory=True)`; nothing is downloaded.
    """

    def _info(self) -> evaluate.MetricInfo:
        names = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": names, "references": names}),
        )

    def _compute(
        self, predictions: Sequence[str], references: Sequence[str], labels: Sequence[str] | None = None
    ) -> dict[str, Any]:
        predictions, references = list(predictions), list(references)
        occurring = {*predictions, *references}
        labels = sorted(occurring) if labels is None else list(labels)
        unknown = sorted(occurring - set(labels))
        if unknown:
            raise ValueError(f"labels is {labels[:20]}, but {unknown[0]!r} occurs; name all classes.")
        numbers = {label: number for number, label in enumerate(labels)}
        confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
        np.add.at(confusion, ([numbers[gold] for gold in references], [numbers[name] for name in predictions]), 1)
        right, gold, predicted = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
        precision, recall, f1 = (
            _share(part, of) for part, of in ((right, predicted), (right, gold), (2 * right, gold + predicted))
        )
        by_class = {
            label: {"precision": float(p), "recall": float(r), "f1": float(f), "number": int(number)}
            for label, p, r, f, number in zip(labels, precision, recall, f1, gold, strict=True)
        }
        return {
            "accuracy": float(right.sum() / len(references)),
            "macro_f1": float(f1[gold + predicted > 0].mean()),
            "by_class": by_class,
            "labels": labels,
            "confusion": confusion.tolist(),
        }


def _share(part: np.ndarray, of: np.ndarray) -> np.ndarray:
    return np.divide(part, of, out=np.zeros(len(of)), where=of > 0)
