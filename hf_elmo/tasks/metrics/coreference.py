"""MUC, B-cubed and CEAFe of clusters of mentions, and their mean: an `evaluate` metric that needs no network."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import datasets
import evaluate
import numpy as np

try:
    from scipy.optimize import linear_sum_assignment
except ImportError as error:
    raise ImportError("scipy is not installed; install it with: pip install 'hf_elmo[tasks]'") from error

Clusters = Sequence[Sequence[Hashable]]

_DESCRIPTION = "How well predicted clusters of mentions agree with the right ones, over several documents."

_CITATION = """\
@inproceedings{pradhan-etal-2014-scoring,
  title={Scoring Coreference Partitions of Predicted Mentions: A Reference Implementation},
  author={Pradhan, Sameer and Luo, Xiaoqiang and Recasens, Marta and Hovy, Eduard and Ng, Vincent and Strube, Michael},
  booktitle={Proceedings of ACL},
  year={2014},
}"""

_INPUTS = """
Args:
    predictions: For each document its predicted clusters, each a list of mentions, each a list of whole numbers, the
        first and the last word for example.
    references: For each document its right clusters, as many documents.
Returns: `muc`, `b_cubed` and `ceafe`, each a dict of `precision`, `recall` and `f1` in [0, 1], and `mean_f1`, the mean
    of the three. What is not defined is 0.
"""


class _Sums(NamedTuple):
    """Numerators and denominators over documents, which are divided at the end."""

    recall: float
    gold: float
    precision: float
    predicted: float


class CoreferenceMetric(evaluate.Metric):
    """The scores of the reference scorer, version 8.01 (Pradhan et al. 2014): sums over documents, then shares.

    Clusters of one mention count in B-cubed and CEAFe as any other; leave them out where the data mark none. Make it
    directly, `CoreferenceMetric(keep_in_memory=True)`; nothing is downloaded.
    """

    def _info(self) -> evaluate.MetricInfo:
        mention = datasets.Sequence(datasets.Value("int64"))
        document = datasets.Sequence(datasets.Sequence(mention))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": document, "references": document}),
            reference_urls=["https://github.com/conll/reference-coreference-scorers"],
        )

    def _compute(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, Any]:
        read = [
            [[[tuple(mention) for mention in cluster] for cluster in document] for document in documents]
            for documents in (predictions, references)
        ]
        return score_clusters(*read)


def score_clusters(predictions: Sequence[Clusters], references: Sequence[Clusters]) -> dict[str, Any]:
    """The scores of all documents together; see `CoreferenceMetric`.

    Args:
        predictions, references: For each document its clusters of mentions, which can be anything with a hash.
    Raises: ValueError naming the document where a mention stands twice or a cluster is empty, or where their numbers
        differ.
    """
    if len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} documents, but references has {len(references)}; give one for each."
        )
    places: list[tuple[dict[Hashable, int], dict[Hashable, int]]] = [
        (_places("references", number, gold), _places("predictions", number, predicted))
        for number, (gold, predicted) in enumerate(zip(references, predictions, strict=True))
    ]
    scores: dict[str, Any] = {}
    for name, count in (("muc", _count_muc), ("b_cubed", _count_b_cubed), ("ceafe", _count_ceafe)):
        counts = [
            count(gold, predicted, *place)
            for gold, predicted, place in zip(references, predictions, places, strict=True)
        ]
        sums = _Sums(*(float(sum(column)) for column in zip(*counts, strict=True))) if counts else _Sums(0, 0, 0, 0)
        recall, precision = _share(sums.recall, sums.gold), _share(sums.precision, sums.predicted)
        f1 = _share(2 * precision * recall, precision + recall)
        scores[name] = {"precision": precision, "recall": recall, "f1": f1}
    return {**scores, "mean_f1": sum(row["f1"] for row in scores.values()) / 3}


def _places(argument: str, number: int, clusters: Clusters) -> dict[Hashable, int]:
    """The number of the cluster of each mention."""
    places: dict[Hashable, int] = {}
    for place, cluster in enumerate(clusters):
        if not cluster:
            raise ValueError(f"{argument}, document {number}: a cluster is empty; leave it out.")
        for mention in cluster:
            if mention in places:
                raise ValueError(
                    f"{argument}, document {number}: the mention {mention!r} stands twice; join its clusters."
                )
            places[mention] = place
    return places


def _count_muc(
    gold: Clusters, predicted: Clusters, gold_places: Mapping[Hashable, int], predicted_places: Mapping[Hashable, int]
) -> _Sums:
    """Links that a side lacks to hold the other's clusters together (Vilain et al. 1995)."""

    def links(clusters: Clusters, places: Mapping[Hashable, int]) -> tuple[int, int]:
        kept = wanted = 0
        for cluster in clusters:
            # Each mention that the other side lacks is a part of its own.
            parts = {places.get(mention, (mention,)) for mention in cluster}
            kept += len(cluster) - len(parts)
            wanted += len(cluster) - 1
        return kept, wanted

    return _Sums(*links(gold, predicted_places), *links(predicted, gold_places))


def _count_b_cubed(
    gold: Clusters, predicted: Clusters, gold_places: Mapping[Hashable, int], predicted_places: Mapping[Hashable, int]
) -> _Sums:
    """For each mention the share of its cluster that the other side has beside it too (Bagga and Baldwin 1998)."""
    shared = _count_shared(gold, predicted, predicted_places).astype(float) ** 2
    gold_sizes, predicted_sizes = _sizes(gold), _sizes(predicted)
    recall = float((shared / gold_sizes[:, None]).sum()) if shared.size else 0.0
    precision = float((shared / predicted_sizes).sum()) if shared.size else 0.0
    return _Sums(recall, len(gold_places), precision, len(predicted_places))


def _count_ceafe(
    gold: Clusters, predicted: Clusters, gold_places: Mapping[Hashable, int], predicted_places: Mapping[Hashable, int]
) -> _Sums:
    """The best matching of clusters one to one, by twice the mentions shared over those of both (Luo 2005)."""
    shared = _count_shared(gold, predicted, predicted_places)
    similarity = 0.0
    if shared.size:
        alike = 2 * shared / (_sizes(gold)[:, None] + _sizes(predicted))
        similarity = float(alike[linear_sum_assignment(alike, maximize=True)].sum())
    return _Sums(similarity, len(gold), similarity, len(predicted))


def _count_shared(gold: Clusters, predicted: Clusters, predicted_places: Mapping[Hashable, int]) -> np.ndarray:
    """How many mentions each gold cluster (rows) shares with each predicted one (columns)."""
    shared = np.zeros((len(gold), len(predicted)), dtype=np.int64)
    for row, cluster in enumerate(gold):
        for mention in cluster:
            if mention in predicted_places:
                shared[row, predicted_places[mention]] += 1
    return shared


def _sizes(clusters: Clusters) -> np.ndarray:
    return np.array([len(cluster) for cluster in clusters], dtype=np.int64)


def _share(part: float, of: float) -> float:
    return part / of if of else 0.0
