"""The scores of `metrics` as metrics of `evaluate`, for `evaluate.combine` and a Trainer of one's own.

Make them directly, `EntityMetric(keep_in_memory=True)`; nothing is downloaded. `compute` takes what the function takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import datasets
import evaluate

from .metrics import score_answers, score_classes, score_clusters, score_roles, score_spans

_TEXT = datasets.Value("string")
_TEXTS = datasets.Sequence(_TEXT)
_CLUSTERS = datasets.Sequence(datasets.Sequence(datasets.Sequence(datasets.Value("int64"))))


class _ScoresMetric(evaluate.Metric):
    score: ClassVar[Callable[..., dict[str, Any]]]
    # The features of predictions and of references.
    forms: ClassVar[tuple[Any, Any]] = (_TEXTS, _TEXTS)

    def _info(self) -> evaluate.MetricInfo:
        features = datasets.Features(dict(zip(("predictions", "references"), self.forms, strict=True)))
        about = {"description": self.__doc__ or "", "citation": "", "inputs_description": self.score.__doc__ or ""}
        return evaluate.MetricInfo(features=features, **about)

    def _compute(self, predictions: Any, references: Any, **settings: Any) -> Any:
        return self.score(predictions, references, **settings)


class EntityMetric(_ScoresMetric):
    """Precision, recall and F1 of spans, and the accuracy of words, as conlleval has them."""

    score = staticmethod(score_spans)


class ClassificationMetric(_ScoresMetric):
    """Accuracy, macro F1, and precision, recall and F1 by class."""

    score = staticmethod(score_classes)
    forms = (_TEXT, _TEXT)


class SemanticRoleMetric(_ScoresMetric):
    """Precision, recall and F1 of the arguments of given predicates, as CoNLL-2005 counts them."""

    score = staticmethod(score_roles)


class AnswerMetric(_ScoresMetric):
    """Exact match and F1 of answers to questions: a dict per question, its `id` and `prediction_text` or `answers`."""

    score = staticmethod(score_answers)
    forms = ({"id": _TEXT, "prediction_text": _TEXT}, {"id": _TEXT, "answers": _TEXTS})

    def _compute(self, predictions: Any, references: Any, **settings: Any) -> Any:
        found = {row["id"]: row["prediction_text"] for row in predictions}
        return super()._compute(found, {row["id"]: row["answers"] for row in references}, **settings)


class CoreferenceMetric(_ScoresMetric):
    """MUC, B-cubed and CEAFe of clusters of mentions, pairs of numbers, and the mean of their F1."""

    score = staticmethod(score_clusters)
    forms = (_CLUSTERS, _CLUSTERS)
