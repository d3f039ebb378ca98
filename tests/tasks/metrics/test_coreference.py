"""The scores of clusters: the official scorer's test values, slow twins by definition, and what is refused."""

import itertools

import evaluate
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.metrics.coreference import CoreferenceMetric, score_clusters

KEY = ["a", "bc", "def"]
NAMES = ("muc", "b_cubed", "ceafe")


@st.composite
def clusterings(draw, mentions="abcdef"):
    """Some of the mentions, in clusters."""
    numbers = draw(st.lists(st.integers(-1, 3), min_size=len(mentions), max_size=len(mentions)))
    return [
        [mention for mention, number in zip(mentions, numbers, strict=True) if number == cluster]
        for cluster in sorted({*numbers} - {-1})
    ]


@pytest.mark.parametrize(
    ("response", "f1"),
    [
        (["a", "bc", "def"], (1, 1, 1)),
        (["a", "de"], (0.5, 0.56, 0.72)),
        (["a", "bcx", "defy", "z"], (0.75, 0.67485, 0.75918)),
        ([], (0, 0, 0)),
    ],
)
def test_the_reference_scorers_test_values(response, f1):
    scores = score_clusters([[list(cluster) for cluster in response]], [[list(cluster) for cluster in KEY]])
    assert [scores[name]["f1"] for name in NAMES] == pytest.approx(list(f1), abs=5e-6)
    assert scores["mean_f1"] == pytest.approx(sum(f1) / 3, abs=5e-6)


def slow_recall(key, response):
    """Numerators and denominators of recall by the definitions, mention by mention and matching by matching."""
    cluster_of = {mention: set(cluster) for cluster in response for mention in cluster}
    parts = [len({frozenset(cluster_of.get(mention, {mention})) for mention in cluster}) for cluster in key]
    muc = (sum(map(len, key)) - sum(parts), sum(len(cluster) - 1 for cluster in key))
    b_cubed = (
        sum(len({*cluster} & cluster_of.get(mention, set())) / len(cluster) for cluster in key for mention in cluster),
        sum(map(len, key)),
    )
    padded = [*response, *[()] * len(key)]
    best = max(
        sum(2 * len({*a} & {*b}) / (len(a) + len(b)) for a, b in zip(key, order, strict=False))
        for order in itertools.permutations(padded, len(key))
    )
    return muc, b_cubed, (best, len(key))


@given(st.lists(st.tuples(clusterings(), clusterings("bcdefg")), min_size=1, max_size=2))
def test_scores_are_those_of_the_definitions(documents):
    keys, responses = (list(side) for side in zip(*documents, strict=True))
    scores = score_clusters(responses, keys)
    for side, first, second in (("recall", keys, responses), ("precision", responses, keys)):
        counts = [slow_recall(*pair) for pair in zip(first, second, strict=True)]
        for place, name in enumerate(NAMES):
            part, of = (sum(count[place][number] for count in counts) for number in (0, 1))
            assert scores[name][side] == pytest.approx(part / of if of else 0.0)
    for name in NAMES:
        precision, recall = scores[name]["precision"], scores[name]["recall"]
        both = precision + recall
        assert scores[name]["f1"] == pytest.approx(2 * precision * recall / both if both else 0.0)


def test_it_is_a_metric_with_the_usual_interface():
    metric = CoreferenceMetric(keep_in_memory=True)
    assert isinstance(metric, evaluate.Metric)
    document = [[[0, 1], [4, 4]], [[7, 9]]]
    metric.add_batch(predictions=[document, []], references=[document, [[[1, 1], [2, 2]]]])
    scores = metric.compute()
    assert scores["muc"] == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}
    assert scores["b_cubed"]["recall"] == pytest.approx(3 / 5)
    assert scores["ceafe"] == {"precision": 1.0, "recall": pytest.approx(2 / 3), "f1": pytest.approx(0.8)}


def test_what_cannot_be_scored_is_named():
    assert_refused(ValueError, ("references", "2", "1"), score_clusters, [[]], [[], []])
    assert_refused(ValueError, ("predictions", "document 1", "'a'"), score_clusters, [[], ["ab", "a"]], [[], []])
    assert_refused(ValueError, ("references", "document 0", "empty"), score_clusters, [[]], [[[]]])
