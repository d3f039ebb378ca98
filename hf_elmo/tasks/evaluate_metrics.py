"""The scores of `metrics` as metrics of `evaluate`, for `evaluate.combine` and a Trainer of one's own.

Make them directly, `EntityMetric(keep_in_memory=True)`; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import datasets
import evaluate

from .metrics import Clusters, score_answers, score_classes, score_clusters, score_roles, score_spans

_TEXT = datasets.Value("string")
_TEXTS = datasets.Sequence(_TEXT)
_CLUSTERS = datasets.Sequence(datasets.Sequence(datasets.Sequence(datasets.Value("int64"))))


class _ScoresMetric(evaluate.Metric):
    # The features of predictions and of references.
    forms: ClassVar[tuple[Any, Any]] = (_TEXTS, _TEXTS)

    def _info(self) -> evaluate.MetricInfo:
        features = datasets.Features(dict(zip(("predictions", "references"), self.forms, strict=True)))
        return evaluate.MetricInfo(
            description=self.__doc__ or "",
            citation="",
            inputs_description=self._compute.__doc__ or "",
            features=features,
        )


class EntityMetric(_ScoresMetric):
    """Precision, recall and F1 of spans, and the accuracy of words, as conlleval has them."""

    def _compute(self, predictions: Sequence[Any], references: Sequence[Any], tag_scheme: str = "spans") -> Any:
        """Tags of each sentence; see `metrics.score_spans`."""
        return score_spans(predictions, references, tag_scheme)


class ClassificationMetric(_ScoresMetric):
    """Accuracy, macro F1, and precision, recall and F1 by class."""

    forms = (_TEXT, _TEXT)

    def _compute(self, predictions: Sequence[str], references: Sequence[str], labels: Sequence[str] = ()) -> Any:
        """A class each; see `metrics.score_classes`. Without `labels`, those that occur, sorted."""
        return score_classes(predictions, references, labels or sorted({*predictions, *references}))


class SemanticRoleMetric(_ScoresMetric):
    """Precision, recall and F1 of the arguments of given predicates, as CoNLL-2005 counts them."""

    def _compute(self, predictions: Sequence[Any], references: Sequence[Any]) -> Any:
        """Tags of each predicate's sentence; see `metrics.score_roles`."""
        return score_roles(predictions, references)


class AnswerMetric(_ScoresMetric):
    """Exact match and F1 of answers to questions, as SQuAD 1.1 counts them."""

    forms = ({"id": _TEXT, "prediction_text": _TEXT}, {"id": _TEXT, "answers": _TEXTS})

    def _compute(self, predictions: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]) -> Any:
        """A dict per question: its `id`, and its `prediction_text` or its `answers`; see `metrics.score_answers`."""
        return score_answers(
            {row["id"]: row["prediction_text"] for row in predictions},
            {row["id"]: row["answers"] for row in references},
        )


class CoreferenceMetric(_ScoresMetric):
    """MUC, B-cubed and CEAFe of clusters of mentions, and the mean of their F1."""

    forms = (_CLUSTERS, _CLUSTERS)

    def _compute(self, predictions: Sequence[Any], references: Sequence[Any]) -> Any:
        """Clusters of each document, of mentions as lists of two numbers; see `metrics.score_clusters`."""
        return score_clusters([_as_tuples(one) for one in predictions], [_as_tuples(one) for one in references])


def _as_tuples(clusters: Sequence[Any]) -> Clusters:
    return [[tuple(mention) for mention in cluster] for cluster in clusters]
