"""The scores of `metrics` as metrics of `evaluate`, for `evaluate.combine` and a Trainer of one's own.

Make them directly, `EntityMetric(keep_in_memory=True)`; nothing is downloaded. What `compute` takes and returns is in
the docstring of the function that each one calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import datasets
import evaluate

from .metrics import score_answers, score_classes, score_clusters, score_roles, score_spans

_TEXT = datasets.Value("string")
_TEXTS = datasets.Sequence(_TEXT)


class _ScoresMetric(evaluate.Metric):
    """A metric that a function of predictions and references computes."""

    score: ClassVar[Callable[..., dict[str, Any]]]
    # The features of predictions and of references.
    forms: ClassVar[tuple[Any, Any]]

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=(self.__doc__ or "").partition("\n")[0],
            citation="",
            inputs_description=type(self).score.__doc__ or "",
            features=datasets.Features(dict(zip(("predictions", "references"), self.forms, strict=True))),
        )

    def _compute(self, predictions: Any, references: Any, **settings: Any) -> dict[str, Any]:
        return type(self).score(predictions, references, **settings)


class EntityMetric(_ScoresMetric):
    """Precision, recall and F1 of spans, and the accuracy of words, as conlleval has them."""

    score, forms = staticmethod(score_spans), (_TEXTS, _TEXTS)


class ClassificationMetric(_ScoresMetric):
    """Accuracy, macro F1, and precision, recall and F1 by class."""

    score, forms = staticmethod(score_classes), (_TEXT, _TEXT)


class SemanticRoleMetric(_ScoresMetric):
    """Precision, recall and F1 of the arguments of given predicates, as CoNLL-2005 counts them."""

    score, forms = staticmethod(score_roles), (_TEXTS, _TEXTS)


class AnswerMetric(_ScoresMetric):
    """Exact match and F1 of answers to questions, as SQuAD 1.1 counts them."""

    forms = ({"id": _TEXT, "prediction_text": _TEXT}, {"id": _TEXT, "answers": _TEXTS})

    @staticmethod
    def score(predictions: Sequence[Mapping[str, str]], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """As `metrics.score_answers`, of a dict per question: its `id`, and its `prediction_text` or its `answers`."""
        return score_answers(
            {row["id"]: row["prediction_text"] for row in predictions},
            {row["id"]: row["answers"] for row in references},
        )


class CoreferenceMetric(_ScoresMetric):
    """MUC, B-cubed and CEAFe of clusters of mentions, and the mean of their F1."""

    forms = (datasets.Sequence(datasets.Sequence(datasets.Sequence(datasets.Value("int64")))),) * 2

    @staticmethod
    def score(predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, Any]:
        """As `metrics.score_clusters`, of mentions that are lists of whole numbers, first and last word for example."""
        sides = (
            [[[tuple(mention) for mention in cluster] for cluster in document] for document in documents]
            for documents in (predictions, references)
        )
        return score_clusters(*sides)
