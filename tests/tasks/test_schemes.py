"""Schemes of spans: told from the labels, broken ones counted, exchanged and back without a loss."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.model.configuration_elmo import TokenClassificationHead
from hf_elmo.model.modeling_elmo_tasks import SCHEMES, Span, can_follow, write_spans
from hf_elmo.tasks.readers.columns import TaggedSentences
from hf_elmo.tasks.token_classification import SchemeExchange, find_scheme, settle_scheme

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
        exchange = SchemeExchange(scheme, model)
        converted = exchange.to_model(sentences)
        assert {label for row in converted.labels for label in row} <= set(converted.known_labels)
        for row in converted.labels:
            marks = [None, *row, None]
            assert all(can_follow(*pair, model) for pair in itertools.pairwise(marks))
        assert [exchange.to_corpus(row) for row in converted.labels] == sentences.labels


def test_predictions_that_break_the_rules_are_read_as_they_are_scored():
    assert SchemeExchange("IOB2", "BIOES").to_corpus(["I-X", "E-X", "O", "S-Y"]) == ["B-X", "I-X", "O", "B-Y"]


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
    settings = TokenClassificationHead(output_layer="crf")
    exchange, note = settle_scheme(settings, [first, second], "spans", None, False)
    assert exchange.to_model(second).labels == [read]
    assert note.startswith(f"{len(wrong)} label") and "test_file 'y', line" in note and scheme in note


def test_a_label_without_a_type_has_no_scheme():
    words = [TaggedSentences("train_file 'x'", [["w"] * 2], [["B", "I"]])]
    assert_refused(ValueError, ("train_file 'x'", "'B'", "--head output_layer=softmax"), find_scheme, words)


@pytest.mark.parametrize(
    "head, asked, has_classifier, scheme, found",
    [
        ({}, None, False, None, None),
        ({"output_layer": "crf"}, None, False, "IOB2", None),
        ({"output_layer": "crf"}, "BIOES", False, "BIOES", ("IOB2", "BIOES")),
        ({"scheme": "BIOES"}, None, True, "BIOES", ("IOB2", "BIOES")),
        ({"scheme": "BIOES", "output_layer": "crf"}, None, False, "IOB2", None),
        ({}, "IOB2", False, "IOB2", None),
    ],
)
def test_which_scheme_a_model_learns(head, asked, has_classifier, scheme, found):
    settings = TokenClassificationHead(**head)
    sentences = [corpus([[Span("X", 0, 2)]], "IOB2")]
    settled = settle_scheme(settings, sentences, "spans", asked, has_classifier)
    assert settings.scheme == scheme
    assert settled == (found and SchemeExchange(*found), None)


def test_labels_of_words_have_no_scheme():
    settings = TokenClassificationHead(output_layer="crf", scheme="IOB2")
    words = [TaggedSentences("x", [["w"]], [["NN"]])]
    assert settle_scheme(settings, words, "words", None, False) == (None, None) and settings.scheme is None
    assert_refused(ValueError, "convert_scheme is 'BIOES'", settle_scheme, settings, words, "words", "BIOES", False)
