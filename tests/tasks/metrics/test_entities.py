"""The entity metric: conlleval's scores through `evaluate`, offline, and sensible scores for plain tags."""

import socket
import warnings

import evaluate
import pytest
import seqeval.metrics
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities, precision_recall_fscore_support

from hf_elmo.tasks.metrics.entities import EntityMetric, tag_scheme_of

IOB2 = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.fixture
def metric(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the metric opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    return EntityMetric(keep_in_memory=True)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_it_is_a_metric_with_the_usual_interface(metric):
    assert isinstance(metric, evaluate.Metric)
    metric.add_batch(predictions=[["B-PER", "O"]], references=[["B-PER", "O"]])
    metric.add(prediction=["O", "O"], reference=["B-LOC", "O"])
    scores = metric.compute()
    assert scores["PER"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 1}
    assert scores["LOC"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "number": 1}
    assert scores["overall_precision"] == 1.0
    assert scores["overall_recall"] == 0.5
    assert scores["overall_f1"] == pytest.approx(2 / 3)
    assert scores["overall_accuracy"] == 0.75


def test_without_keeping_in_memory(tmp_path):
    metric = EntityMetric(cache_dir=str(tmp_path))
    assert metric.compute(predictions=[["B-X"]], references=[["B-X"]])["overall_f1"] == 1.0


def test_a_span_counts_only_with_both_ends_right(metric):
    gold = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    predicted = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    scores = metric.compute(predictions=predicted, references=gold)
    assert (scores["overall_precision"], scores["overall_recall"], scores["overall_f1"]) == (0.5, 0.5, 0.5)
    assert scores["MISC"]["f1"] == 0.0
    assert scores["overall_accuracy"] == 0.8


@pytest.mark.parametrize(
    "tags",
    [
        ["I-PER", "I-PER", "B-PER", "O", "I-LOC"],  # IOB1
        ["B-PER", "I-PER", "B-PER", "O", "B-LOC"],  # IOB2
        ["B-PER", "E-PER", "S-PER", "O", "S-LOC"],  # IOBES
        ["B-PER", "L-PER", "U-PER", "O", "U-LOC"],  # BILOU
    ],
)
def test_all_schemes_mark_the_same_entities(metric, tags):
    iob2 = ["B-PER", "I-PER", "B-PER", "O", "B-LOC"]
    scores = metric.compute(predictions=[tags], references=[iob2])
    assert scores["PER"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 2}
    assert scores["LOC"]["number"] == 1
    assert scores["overall_f1"] == 1.0


def test_bmes_and_types_with_hyphens(metric):
    scores = metric.compute(predictions=[["B-a-b", "M-a-b", "E-a-b"]], references=[["B-a-b", "I-a-b", "I-a-b"]])
    assert scores["a-b"]["f1"] == 1.0


def test_plain_tags_are_spans_of_one_word(metric):
    gold = [["DET", "NOUN", "NOUN", "VERB"], ["-LRB-", "NOUN"]]
    predicted = [["DET", "NOUN", "VERB", "VERB"], ["-LRB-", "DET"]]
    scores = metric.compute(predictions=predicted, references=gold)
    assert scores["NOUN"] == {"precision": 1.0, "recall": pytest.approx(1 / 3), "f1": 0.5, "number": 3}
    assert scores["VERB"] == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "number": 1}
    assert scores["-LRB-"]["number"] == 1
    assert [scores[f"overall_{name}"] for name in ("precision", "recall", "f1", "accuracy")] == [
        pytest.approx(4 / 6)
    ] * 4


def test_plain_tags_with_o_leave_it_out_of_the_entities(metric):
    scores = metric.compute(predictions=[["PER", "O", "O"]], references=[["PER", "PER", "O"]])
    assert scores["PER"] == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "number": 2}
    assert "O" not in scores
    assert scores["overall_accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("sentences", [[["O", "O"], ["O"]], [[]], []])
def test_without_entities(metric, sentences):
    scores = metric.compute(predictions=sentences, references=sentences)
    accuracy = 1.0 if any(sentences) else 0.0
    assert scores == {
        "overall_precision": 0.0,
        "overall_recall": 0.0,
        "overall_f1": 0.0,
        "overall_accuracy": accuracy,
    }


def test_schemes_are_told_apart():
    for tags in (IOB2, ["O"], [], ["B", "I", "O"]):
        assert tag_scheme_of(tags) == "spans", tags
    for tags in (["NOUN", "VERB"], ["PER", "O"], ["0", "1"]):
        assert tag_scheme_of(tags) == "words", tags


def test_a_mixture_is_refused_unless_asked_for(metric):
    sentences = [["B-PER", "X", "O"]]
    with pytest.raises(ValueError, match=r"'X'.*'B-PER'.*tag_scheme='words'"):
        metric.compute(predictions=sentences, references=sentences)
    scores = metric.compute(predictions=sentences, references=sentences, tag_scheme="words")
    assert scores["B-PER"]["number"] == scores["X"]["number"] == 1


def test_spans_asked_for_where_there_are_none(metric):
    with pytest.raises(ValueError, match=r"tag_scheme is 'spans'.*'NOUN'"):
        metric.compute(predictions=[["NOUN"]], references=[["NOUN"]], tag_scheme="spans")
    with pytest.raises(ValueError, match="tag_scheme is 'span'"):
        metric.compute(predictions=[["O"]], references=[["O"]], tag_scheme="span")


def test_lengths_must_agree(metric):
    with pytest.raises(ValueError, match=r"predictions\[1\].*references\[1\]"):
        metric.compute(predictions=[["O"], ["O"]], references=[["O"], ["O", "O"]])
    with pytest.raises(ValueError, match=r"predictions.*references"):
        EntityMetric(keep_in_memory=True).compute(predictions=[["O"]], references=[["O"], ["O"]])


PAIRS = st.lists(st.lists(st.tuples(st.sampled_from(IOB2), st.sampled_from(IOB2)), max_size=6), min_size=1, max_size=4)


@given(PAIRS)
def test_the_scores_are_those_of_seqeval(pairs):
    gold = [[pair[0] for pair in sentence] for sentence in pairs]
    predicted = [[pair[1] for pair in sentence] for sentence in pairs]
    scores = EntityMetric(keep_in_memory=True).compute(predictions=predicted, references=gold)
    _assert_seqevals(scores, gold, predicted)


@given(PAIRS)
def test_plain_tags_score_as_seqeval_scores_spans_of_one_word(pairs):
    gold, predicted = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    metric = EntityMetric(keep_in_memory=True)
    scores = metric.compute(predictions=predicted, references=gold, tag_scheme="words")
    spans = [
        [[tag if tag == "O" else f"S-{tag}" for tag in sentence] for sentence in sentences]
        for sentences in (gold, predicted)
    ]
    _assert_seqevals(scores, *spans)


def _assert_seqevals(scores, gold, predicted):
    for name in ("precision", "recall", "f1"):
        wanted = getattr(seqeval.metrics, f"{name}_score")(gold, predicted, zero_division=0)
        assert scores[f"overall_{name}"] == pytest.approx(wanted)
    kinds = {kind for tags in (gold, predicted) for kind, *_ in get_entities(tags)}
    by_type = precision_recall_fscore_support(gold, predicted, average=None, zero_division=0)
    found = [scores[kind].values() for kind in sorted(kinds)]
    assert [list(row) for row in zip(*found, strict=True)] == [pytest.approx(list(row)) for row in by_type if kinds]
    assert set(scores) - kinds == {f"overall_{name}" for name in ("precision", "recall", "f1", "accuracy")}
