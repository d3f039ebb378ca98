"""Precision, recall and F1 of things that have a type, from how many there are."""

from __future__ import annotations

from collections import Counter
from typing import Any


def score_counts(right: Counter[str], predicted: Counter[str], gold: Counter[str]) -> dict[str, Any]:
    """The scores of each type, and over all of them.

    Args:
        right, predicted, gold: How many there are of each type.
    Returns: For each type a dict of `precision`, `recall`, `f1` and `number`, its things in the references; and
        `overall_precision`, `overall_recall` and `overall_f1`, micro averages. What is not defined is 0.
    """
    by_type = {kind: _scores(right[kind], predicted[kind], gold[kind]) for kind in sorted({*predicted, *gold})}
    overall = _scores(right.total(), predicted.total(), gold.total())
    return {**by_type, **{f"overall_{name}": overall[name] for name in ("precision", "recall", "f1")}}


def _scores(right: int, predicted: int, gold: int) -> dict[str, float]:
    return {
        "precision": right / predicted if predicted else 0.0,
        "recall": right / gold if gold else 0.0,
        "f1": 2 * right / (predicted + gold) if right else 0.0,
        "number": gold,
    }
