"""Exact match and F1 of answers to questions, as SQuAD 1.1 counts them: an `evaluate` metric that needs no network."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import evaluate

_DESCRIPTION = "How often a predicted answer is one of the right ones, and how many of its words are theirs."

_CITATION = """\
@inproceedings{rajpurkar-etal-2016-squad,
  title={{SQuAD}: 100,000+ Questions for Machine Comprehension of Text},
  author={Rajpurkar, Pranav and Zhang, Jian and Lopyrev, Konstantin and Liang, Percy},
  booktitle={Proceedings of EMNLP},
  year={2016},
}"""

_INPUTS = """
Args:
    predictions: A dict per question, of its `id` and `prediction_text`; "" for a question without an answer.
    references: A dict per question, of its `id` and `answers`, a list of texts of which each is right.
Returns: `exact_match` and `f1`, means over the questions, in [0, 1]. For each question the answer counts that is most
    like the prediction.
"""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerMetric(evaluate.Metric):
    """The scores of SQuAD 1.1's own script (Rajpurkar et al. 2016, sec. 6.1), as shares instead of percent.

    Make it directly, `AnswerMetric(keep_in_memory=True)`; nothing is downloaded.
    """

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": {"id": text, "prediction_text": text},
                    "references": {"id": text, "answers": datasets.Sequence(text)},
                }
            ),
            reference_urls=["https://rajpurkar.github.io/SQuAD-explorer/"],
        )

    def _compute(
        self, predictions: Sequence[Mapping[str, str]], references: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        return score_answers(
            {row["id"]: row["prediction_text"] for row in predictions},
            {row["id"]: row["answers"] for row in references},
        )


def score_answers(predictions: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Exact match and F1, means over the questions of the references; one that has no prediction scores 0.

    Args:
        predictions: The predicted answer by the question's id.
        references: The right answers by the question's id.
    Returns: `exact_match` and `f1`, in [0, 1].
    Raises: ValueError naming a prediction of a question that there is not, or a question without right answers.
    """
    unknown = predictions.keys() - references.keys()
    if unknown:
        raise ValueError(f"predictions has the id {min(unknown)!r}, which no reference has; give those of one file.")
    if not references:
        raise ValueError("references is empty; give at least one question.")
    matches = f1 = 0.0
    for name, answers in references.items():
        if not len(answers):
            raise ValueError(f"references has no answers for the id {name!r}; leave questions without any out.")
        predicted = predictions.get(name)
        if predicted is not None:
            matches += max(float(normalize_answer(predicted) == normalize_answer(answer)) for answer in answers)
            f1 += max(score_words(predicted, answer) for answer in answers)
    return {"exact_match": matches / len(references), "f1": f1 / len(references)}


def normalize_answer(text: str) -> str:
    """An answer without case, ASCII punctuation, articles and superfluous spaces; "A-1" is "a1"."""
    text = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def score_words(predicted: str, answer: str) -> float:
    """F1 of the words of two answers as bags; 0 where none is shared, be both of them empty once normalised."""
    words, wanted = (normalize_answer(text).split() for text in (predicted, answer))
    shared = (Counter(words) & Counter(wanted)).total()
    return 2 * shared / (len(words) + len(wanted)) if shared else 0.0
