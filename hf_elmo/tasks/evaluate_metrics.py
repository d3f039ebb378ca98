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

    score = staticmethod(score_spans)
    forms = (_TEXTS, _TEXTS)


class ClassificationMetric(_ScoresMetric):
    """Accuracy, macro F1, and precision, recall and F1 by class."""

    score = staticmethod(score_classes)
    forms = (_TEXT, _TEXT)


class SemanticRoleMetric(_ScoresMetric):
    """Precision, recall and F1 of the arguments of given predicates, as CoNLL-2005 counts them."""

    score = staticmethod(score_roles)
    forms = (_TEXTS, _TEXTS)


def _score_answer_rows(
    predictions: Sequence[Mapping[str, str]], references: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Exact match and F1 as `metrics.score_answers`.

    Args:
        predictions: A dict per question, of its `id` and `prediction_text`; "" for a question without an answer.
        references: A dict per question, of its `id` and `answers`, a list of texts of which each is right.
    """
    return score_answers(
        {row["id"]: row["prediction_text"] for row in predictions}, {row["id"]: row["answers"] for row in references}
    )


class AnswerMetric(_ScoresMetric):
    """Exact match and F1 of answers to questions, as SQuAD 1.1 counts them."""

    score = staticmethod(_score_answer_rows)
    forms = ({"id": _TEXT, "prediction_text": _TEXT}, {"id": _TEXT, "answers": _TEXTS})


def _score_cluster_lists(predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, Any]:
    """MUC, B-cubed and CEAFe as `metrics.score_clusters`.

    Args:
        predictions: For each document its predicted clusters, each a list of mentions, each a list of whole numbers,
            the first and the last word for example.
        references: For each document its right clusters, as many documents.
    """
    sides = (
        [[[tuple(mention) for mention in cluster] for cluster in document] for document in documents]
        for documents in (predictions, references)
    )
    return score_clusters(*sides)


class CoreferenceMetric(_ScoresMetric):
    """MUC, B-cubed and CEAFe of clusters of mentions, and the mean of their F1."""

    score = staticmethod(_score_cluster_lists)
    forms = (datasets.Sequence(datasets.Sequence(datasets.Sequence(datasets.Value("int64")))),) * 2
