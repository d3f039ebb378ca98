"""The scores of arguments: cases counted by hand after CoNLL-2005's script, and properties of the counting."""

import evaluate
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.metrics.semantic_roles import Argument, SemanticRoleMetric, read_arguments

tags = st.lists(
    st.sampled_from(
        ["O", *(f"{letter}-{role}" for letter in "BI" for role in ("A0", "A1", "C-A1", "R-A0", "V", "C-V"))]
    ),
    min_size=1,
    max_size=8,
)


def compute(predictions, references):
    # Not through compute, which writes each batch to a table first.
    return SemanticRoleMetric(keep_in_memory=True)._compute(
        [row.split() for row in predictions], [row.split() for row in references]
    )


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ("B-A0 I-A0 B-V O B-A1", [("A0", (0, 2)), ("A1", (4, 5))]),
        ("B-A1 B-V B-C-A1 I-C-A1", [("A1", (0, 1), (2, 4))]),
        # Of two arguments the nearest before it is continued; without any it is an argument itself.
        ("B-A1 O B-A1 B-V B-C-A1", [("A1", (0, 1)), ("A1", (2, 3), (4, 5))]),
        ("B-C-A1 B-V B-C-A1", [("A1", (0, 1), (2, 3))]),
        ("B-V O B-C-V", []),
        ("B-A0 B-R-A0 B-V", [("A0", (0, 1)), ("R-A0", (1, 2))]),
        ("I-A0 I-A0 I-A1", [("A0", (0, 2)), ("A1", (2, 3))]),
        ("O O", []),
    ],
)
def test_arguments_are_read_with_their_pieces(row, wanted):
    assert read_arguments(row.split()) == [Argument(role, pieces) for role, *rest in wanted for pieces in [tuple(rest)]]


@pytest.mark.parametrize(
    ("prediction", "reference", "scores"),
    [
        # A wrong role is one too many and one that is missed.
        ("B-A1 B-V B-A1", "B-A0 B-V B-A1", (1 / 2, 1 / 2)),
        # A piece that is lacking spoils the whole argument.
        ("B-A1 B-V O", "B-A1 B-V B-C-A1", (0, 0)),
        ("B-A1 B-V B-C-A1", "B-A1 B-V B-C-A1", (1, 1)),
        # A predicate that was not found misses all its arguments.
        ("O O O", "B-A1 B-V B-A0", (0, 0)),
        ("B-A1 I-A1 B-V", "B-A1 O B-V", (0, 0)),
        ("B-A0 B-V B-A1", "B-A0 O O", (1 / 2, 1)),
        ("B-V O O", "B-V O O", (0, 0)),
    ],
)
def test_arguments_are_counted_as_the_script_counts_them(prediction, reference, scores):
    result = compute([prediction], [reference])
    assert (result["overall_precision"], result["overall_recall"]) == scores


def test_predicates_are_counted_together_and_roles_apart():
    result = compute(["B-A0 B-V", "B-A0 B-V B-R-A0"], ["B-A0 B-V", "O B-V B-R-A0"])
    assert result["overall_precision"] == pytest.approx(2 / 3) and result["overall_recall"] == 1
    assert result["overall_f1"] == pytest.approx(0.8)
    assert result["A0"] == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "number": 1}
    assert result["R-A0"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 1}


@given(st.lists(st.tuples(tags, tags), min_size=1, max_size=4))
def test_precision_and_recall_change_places_with_the_sides(rows):
    first, second = ([" ".join(pair[side][: min(map(len, pair))]) for pair in rows] for side in (0, 1))
    one, other = compute(first, second), compute(second, first)
    assert one["overall_precision"] == other["overall_recall"]
    assert one["overall_f1"] == pytest.approx(other["overall_f1"])
    whole = compute(first, first)
    has_arguments = any(read_arguments(row.split()) for row in first)
    assert whole["overall_f1"] == (1 if has_arguments else 0)


def test_it_is_a_metric_with_the_usual_interface():
    metric = SemanticRoleMetric(keep_in_memory=True)
    assert isinstance(metric, evaluate.Metric)
    metric.add_batch(predictions=[["B-A0", "B-V"]], references=[["B-A0", "B-V"]])
    assert metric.compute()["overall_f1"] == 1


def test_what_cannot_be_scored_is_named():
    assert_refused(ValueError, ("predictions[0]", "1", "2"), compute, ["O"], ["O O"])
    assert_refused(ValueError, ("'X-A0'",), compute, ["X-A0"], ["O"])
