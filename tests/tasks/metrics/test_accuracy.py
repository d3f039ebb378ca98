"""The classification metric: accuracy, F1 by class and the confusion matrix, as scikit-learn has them."""

import evaluate
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.metrics.accuracy import ClassificationMetric

CLASSES = ["a", "b", "c", "d"]


def test_it_is_a_metric_with_the_usual_interface():
    metric = ClassificationMetric(keep_in_memory=True)
    assert isinstance(metric, evaluate.Metric)
    metric.add_batch(predictions=["a", "a"], references=["a", "b"])
    metric.add(prediction="b", reference="b")
    scores = metric.compute(labels=["b", "a", "c"])
    assert scores["accuracy"] == pytest.approx(2 / 3) and scores["macro_f1"] == pytest.approx(2 / 3)
    assert scores["confusion"] == [[1, 1, 0], [0, 1, 0], [0, 0, 0]] and scores["labels"] == ["b", "a", "c"]
    assert scores["by_class"]["a"] == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "number": 1}
    assert scores["by_class"]["c"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 0}


@given(st.lists(st.tuples(st.sampled_from(CLASSES), st.sampled_from(CLASSES)), min_size=1, max_size=30))
def test_scores_are_those_of_scikit_learn(pairs):
    metrics = pytest.importorskip("sklearn.metrics")
    predictions, references = map(list, zip(*pairs, strict=True))
    # Not through compute, which writes each batch to a table first.
    scores = ClassificationMetric(keep_in_memory=True)._compute(predictions, references, labels=CLASSES)
    assert scores["accuracy"] == pytest.approx(metrics.accuracy_score(references, predictions))
    macro = metrics.f1_score(references, predictions, average="macro", zero_division=0)
    assert scores["macro_f1"] == pytest.approx(macro)
    wanted = metrics.precision_recall_fscore_support(references, predictions, labels=CLASSES, zero_division=0)
    names = ("precision", "recall", "f1", "number")
    for name, column in zip(names, wanted, strict=True):
        assert [scores["by_class"][label][name] for label in CLASSES] == pytest.approx(list(column))
    assert np.array_equal(scores["confusion"], metrics.confusion_matrix(references, predictions, labels=CLASSES))


def test_a_class_that_labels_lack_is_named():
    call = ClassificationMetric(keep_in_memory=True).compute
    assert_refused(ValueError, ("labels", "'z'"), call, predictions=["z"], references=["a"], labels=["a"])
