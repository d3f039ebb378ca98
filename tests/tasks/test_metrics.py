"""The scores of tasks: cases counted by hand, the reference scorers' own values, properties, and what is refused."""

import itertools

import evaluate
import numpy as np
import pytest
import seqeval.metrics
import sklearn.metrics
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from seqeval.metrics.sequence_labeling import get_entities, precision_recall_fscore_support
from transformers import DataCollatorForTokenClassification, Trainer, TrainingArguments

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification
from hf_elmo.tasks.evaluate_metrics import (
    AnswerMetric,
    ClassificationMetric,
    CoreferenceMetric,
    EntityMetric,
    SemanticRoleMetric,
)
from hf_elmo.tasks.metrics import (
    Argument,
    normalize_answer,
    read_arguments,
    score_answers,
    score_classes,
    score_clusters,
    score_roles,
    score_spans,
    tag_scheme_of,
)

IOB2 = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.mark.parametrize(
    "tags",
    [
        "I-a-b I-a-b B-a-b O I-LOC",  # IOB1
        "B-a-b I-a-b B-a-b O B-LOC",  # IOB2
        "B-a-b E-a-b S-a-b O S-LOC",  # IOBES
        "B-a-b L-a-b U-a-b O U-LOC",  # BILOU
        "B-a-b M-a-b B-a-b O S-LOC",  # BMES
    ],
)
def test_all_schemes_mark_the_same_entities(tags):
    scores = score_spans([tags.split()], ["B-a-b I-a-b B-a-b O B-LOC".split()], "spans")
    assert scores["by_type"]["a-b"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 2}
    assert (scores["by_type"]["LOC"]["number"], scores["overall_f1"]) == (1, 1.0)


def test_schemes_are_told_apart():
    for tags in (IOB2, ["O"], [], ["B", "I", "O"]):
        assert tag_scheme_of(tags) == "spans", tags
    for tags in (["NOUN", "VERB"], ["PER", "O"], ["0", "1"]):
        assert tag_scheme_of(tags) == "words", tags
    assert_refused(ValueError, ("'X'", "'B-PER'", "--tag_scheme words"), tag_scheme_of, ["B-PER", "X", "O"])


PAIRS = st.lists(st.lists(st.tuples(st.sampled_from(IOB2), st.sampled_from(IOB2)), max_size=6), min_size=1, max_size=4)


@given(PAIRS, st.sampled_from(["spans", "words"]))
def test_the_scores_are_those_of_seqeval_of_words_as_spans_of_one(pairs, scheme):
    gold, predicted = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    scores = score_spans(predicted, gold, scheme)
    if scheme == "words":
        gold, predicted = (
            [[tag if tag == "O" else f"S-{tag}" for tag in sentence] for sentence in side] for side in (gold, predicted)
        )
    for name in ("precision", "recall", "f1"):
        wanted = getattr(seqeval.metrics, f"{name}_score")(gold, predicted, zero_division=0)
        assert scores[f"overall_{name}"] == pytest.approx(wanted)
    right = [one == other for pair in zip(gold, predicted, strict=True) for one, other in zip(*pair, strict=True)]
    assert scores["overall_accuracy"] == (pytest.approx(np.mean(right)) if right else 0)
    kinds = sorted({kind for tags in (gold, predicted) for kind, *_ in get_entities(tags)})
    by_type = precision_recall_fscore_support(gold, predicted, average=None, zero_division=0)
    found = [row.values() for row in scores["by_type"].values()]
    assert [list(row) for row in zip(*found, strict=True)] == [pytest.approx(list(row)) for row in by_type if kinds]
    assert list(scores["by_type"]) == kinds


CLASSES = ["a", "b", "c", "d"]


@given(st.lists(st.tuples(st.sampled_from(CLASSES), st.sampled_from(CLASSES)), min_size=1, max_size=30))
def test_scores_are_those_of_scikit_learn(pairs):
    predictions, references = map(list, zip(*pairs, strict=True))
    scores = score_classes(predictions, references, CLASSES)
    report = sklearn.metrics.classification_report(references, predictions, output_dict=True, zero_division=0)
    assert scores["accuracy"] == pytest.approx(np.mean([one == other for one, other in pairs]))
    assert scores["macro_f1"] == pytest.approx(report["macro avg"]["f1-score"])
    for label in {*predictions, *references}:
        assert list(scores["by_class"][label].values()) == pytest.approx(list(report[label].values()))
    assert scores["confusion"] == [[pairs.count((found, gold)) for found in CLASSES] for gold in CLASSES]


def test_answers_are_normalized_in_the_scripts_order():
    for text, wanted in (
        ("The  Cat, the hat!", "cat hat"),
        ("A-1 apple an day", "a1 apple day"),
        ("theatre Atlas and", "theatre atlas and"),
        ("don\u2019t \u00c9tude", "don\u2019t \u00e9tude"),
        # Marks go first, so that what they parted can become an article.
        ("the a-n an", ""),
        ("...", ""),
    ):
        assert normalize_answer(text) == wanted


@pytest.mark.parametrize(
    ("predicted", "answers", "match", "f1"),
    [
        ("the cat", ["a cat", "dog"], 1, 1),
        ("black cat", ["cat", "a black dog"], 0, 2 / 3),
        # Nothing is left of either: they match, and share no word.
        ("The", ["the"], 1, 0),
        ("", ["cat"], 0, 0),
        ("cat cat", ["cat"], 0, 2 / 3),
    ],
)
def test_the_answer_that_is_most_alike_counts(predicted, answers, match, f1):
    # The second question has no prediction, and scores nothing.
    scores = score_answers({"1": predicted}, {"1": answers, "2": ["dog"]})
    assert scores == {"exact_match": match / 2, "f1": pytest.approx(f1 / 2)}


def compute(predictions, references):
    return score_roles([row.split() for row in predictions], [row.split() for row in references])


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
    assert result["by_type"]["A0"] == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "number": 1}
    assert result["by_type"]["R-A0"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 1}


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
    assert [scores[f"{name}_f1"] for name in NAMES] == pytest.approx(list(f1), abs=5e-6)
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
            assert scores[f"{name}_{side}"] == pytest.approx(part / of if of else 0.0)
    for name in NAMES:
        precision, recall = scores[f"{name}_precision"], scores[f"{name}_recall"]
        both = precision + recall
        assert scores[f"{name}_f1"] == pytest.approx(2 * precision * recall / both if both else 0.0)


# As metrics of evaluate

METRICS = [
    (EntityMetric, [["B-PER", "O"]], [["B-PER", "B-LOC"]], {}, {"overall_recall": 0.5, "overall_accuracy": 0.5}),
    (ClassificationMetric, ["a", "a", "b"], ["a", "b", "b"], {"labels": ["b", "a"]}, {"accuracy": 2 / 3}),
    (SemanticRoleMetric, [["B-A0", "B-V"]], [["B-A0", "B-V"]], {}, {"overall_f1": 1}),
    (
        AnswerMetric,
        [{"id": "b", "prediction_text": "dog"}, {"id": "a", "prediction_text": "a cat"}],
        [{"id": "a", "answers": ["cat", "the cat"]}, {"id": "b", "answers": ["cat"]}],
        {},
        {"exact_match": 0.5, "f1": 0.5},
    ),
    (CoreferenceMetric, [[[[0, 1], [4, 4]]], []], [[[[0, 1], [4, 4]]], [[[1, 1], [2, 2]]]], {}, {"mean_f1": 2 / 3}),
]


@pytest.mark.parametrize(("kind", "predictions", "references", "settings", "scores"), METRICS)
def test_each_is_a_metric_of_evaluate(kind, predictions, references, settings, scores, monkeypatch, tmp_path):
    monkeypatch.setattr("socket.socket", lambda *args, **kwargs: pytest.fail("the metric opened a socket"))
    for metric in (kind(keep_in_memory=True), kind(cache_dir=str(tmp_path))):
        assert isinstance(metric, evaluate.Metric)
        metric.add_batch(predictions=predictions[:1], references=references[:1])
        metric.add_batch(predictions=predictions[1:], references=references[1:])
        found = metric.compute(**settings)
        assert {name: found[name] for name in scores} == pytest.approx(scores)


def test_they_are_combined():
    combined = evaluate.combine(
        {"roles": SemanticRoleMetric(keep_in_memory=True), "spans": EntityMetric(keep_in_memory=True)}
    )
    found = combined.compute(predictions=[["B-A0", "O"]], references=[["B-A0", "B-V"]])
    # The predicate is no argument, but a span.
    assert (found["roles_overall_recall"], found["spans_overall_recall"]) == (1, 0.5)


def test_a_trainer_computes_with_them(tmp_path):
    tokenizer, metric = ElmoCharTokenizer(), ClassificationMetric(keep_in_memory=True)
    rows = tokenizer([["Anna", "sleeps"], ["no"]], is_split_into_words=True)
    data = [{"input_ids": ids, "labels": [-100, *[0] * (len(ids) - 2), -100]} for ids in rows["input_ids"]]

    def compute(output):
        found = output.predictions.argmax(-1)[output.label_ids != -100]
        return metric.compute(predictions=list(map(str, found)), references=["0"] * len(found), labels=["0", "1"])

    model, args = ElmoForTokenClassification(make_tiny_config(num_labels=1)), TrainingArguments(tmp_path, use_cpu=True)
    collator = DataCollatorForTokenClassification(tokenizer)
    trainer = Trainer(model, args, collator, eval_dataset=data, compute_metrics=compute)
    assert trainer.evaluate()["eval_accuracy"] == 1
