"""Schemes of spans: told from the labels, broken ones counted, exchanged and back without a loss."""

import itertools

import pytest
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from toy_tasks import prepare

from hf_elmo.model.modeling_elmo_tasks import SCHEMES, Span, can_follow, write_spans
from hf_elmo.tasks.readers.columns import TaggedSentences
from hf_elmo.tasks.token_classification import TokenClassification, find_scheme, in_scheme, to_scheme

LETTERS = {"BILOU": str.maketrans("ES", "LU"), "BMES": str.maketrans("I", "M")}
ALL = (*SCHEMES, *LETTERS)


@st.composite
def spans_of_sentences(draw):
    """Spans of some sentences, among them one with two neighbours of a type and one of three words."""
    rows = [[Span("X", 0, 1), Span("X", 1, 2), Span("X", 3, 6)]]
    for _ in range(draw(st.integers(0, 3))):
        row, place = [], 0
        for kind, gap, length in draw(st.lists(st.tuples(st.sampled_from("XY"), st.integers(0, 2), st.integers(1, 3)))):
            row.append(Span(kind, place + gap, place + gap + length))
            place += gap + length
        rows.append(row)
    return rows


def corpus(rows, scheme):
    labels = []
    for row in rows:
        length = row[-1].stop + 1 if row else 2
        written = write_spans(row, length, "BIOES" if scheme in LETTERS else scheme)
        change = LETTERS.get(scheme, {})
        labels.append([label[0].translate(change) + label[1:] for label in written])
    return TaggedSentences("train_file 'x'", [["w"] * len(row) for row in labels], labels)


@pytest.mark.parametrize("scheme", ALL)
@given(spans_of_sentences())
def test_a_scheme_is_told_and_comes_back(scheme, rows):
    sentences = corpus(rows, scheme)
    assert find_scheme([sentences]) == (scheme, [])
    for model in SCHEMES:
        converted = to_scheme(sentences, model)
        assert {label for row in converted.labels for label in row} <= set(converted.known_labels)
        for row in converted.labels:
            marks = [None, *row, None]
            assert all(can_follow(*pair, model) for pair in itertools.pairwise(marks))
        assert [in_scheme(row, scheme) for row in converted.labels] == sentences.labels


def test_predictions_that_break_the_rules_are_read_as_they_are_scored():
    assert in_scheme(["I-X", "E-X", "O", "S-Y"], "IOB2") == ["B-X", "I-X", "O", "B-Y"]


@pytest.mark.parametrize(
    "labels, scheme, wrong, read",
    [
        (["B-X", "I-X", "O", "I-X"], "IOB2", ["line 6: the label 'I-X'"], ["B-X", "I-X", "O", "B-X"]),
        (["S-X", "O", "B-X", "O"], "BIOES", ["line 5: the label 'B-X'"], ["S-X", "O", "S-X", "O"]),
        # As in eng.train of CoNLL-2003.
        (["I-X", "O", "B-Y", "I-Y"], "IOB1", ["line 5: the label 'B-Y'"], ["I-X", "O", "I-Y", "I-Y"]),
        (["L-X", "U-X", "B-X", "O"], "BILOU", ["line 3: ", "line 5: "], ["S-X", "S-X", "S-X", "O"]),
    ],
)
def test_labels_that_break_the_rules_are_counted_and_read_as_conlleval_reads_them(labels, scheme, wrong, read):
    first = TaggedSentences("train_file 'x'", [["w"] * 3], corpus([[Span("Z", 0, 2)]], scheme).labels, [[1, 2, 3]])
    second = TaggedSentences("test_file 'y'", [["w"] * 4], [labels], [[3, 4, 5, 6]])
    found, places = find_scheme([first, second])
    assert found == scheme and len(places) == len(wrong)
    assert all(place.startswith(f"test_file 'y', {start}") for place, start in zip(places, wrong, strict=True))
    assert to_scheme(second, scheme if scheme in SCHEMES else "BIOES").labels == [read]


def test_a_label_without_a_type_has_no_scheme():
    words = [TaggedSentences("train_file 'x'", [["w"] * 2], [["B", "I"]])]
    assert_refused(ValueError, ("train_file 'x'", "'B'", "--head output_layer=softmax"), find_scheme, words)


@pytest.mark.parametrize(
    "labels, settings, scheme, converted",
    [
        ("BIO", {}, None, None),
        ("BIO", {"output_layer": "crf"}, "IOB2", None),
        ("BIO", {"output_layer": "crf", "convert_scheme": "BIOES"}, "BIOES", "IOB2"),
        ("BIO", {"output_layer": "crf", "scheme": "BIOES"}, "IOB2", None),
        ("BIO", {"convert_scheme": "IOB2"}, "IOB2", None),
        ("BLO", {"output_layer": "crf"}, "BIOES", "BILOU"),
        ("NVV", {"output_layer": "crf", "scheme": "IOB2"}, None, None),
    ],
)
def test_which_scheme_a_model_learns(labels, settings, scheme, converted, tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    lines = (f"w\t{label}-X\n" if label in "BIL" else f"w\t{label}\n" for label in labels)
    (tmp_path / "train.conll").write_text("".join(lines))
    model = {"model_name_or_path": str(tmp_path), "from_scratch": True, **settings}
    data, training = {"train_file": str(tmp_path / "train.conll")}, {"output_dir": str(tmp_path / "out")}
    task = prepare(TokenClassification, model, data, training)
    assert (task.model.config.head.scheme, task.corpus_scheme) == (scheme, converted)
