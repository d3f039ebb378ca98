"""The schemes of labels: spans there and back, conversion, and the rules of each."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.model.modeling_elmo_tasks import (
    SCHEMES,
    Span,
    can_follow,
    convert_labels,
    labels_of,
    read_spans,
    split_label,
    write_spans,
)

EXAMPLES = {
    "IOB1": ["I-x", "I-x", "B-x", "I-y", "O", "I-x"],
    "IOB2": ["B-x", "I-x", "B-x", "B-y", "O", "B-x"],
    "BIOES": ["B-x", "E-x", "S-x", "S-y", "O", "S-x"],
}
SPANS = [Span("x", 0, 2), Span("x", 2, 3), Span("y", 3, 4), Span("x", 5, 6)]


@st.composite
def sentences(draw):
    """A number of words, and spans over some of them."""
    widths = draw(st.lists(st.tuples(st.sampled_from([None, "x", "y-z"]), st.integers(1, 3)), max_size=6))
    spans, place = [], 0
    for type_, width in widths:
        if type_ is not None:
            spans.append(Span(type_, place, place + width))
        place += width
    return place, spans


@pytest.mark.parametrize("scheme", SCHEMES)
@given(sentence=sentences())
def test_labels_of_spans_are_read_as_these_spans(scheme, sentence):
    length, spans = sentence
    labels = write_spans(spans, length, scheme)
    assert read_spans(labels, scheme) == spans
    assert set(labels) <= set(labels_of(["x", "y-z"], scheme))


@pytest.mark.parametrize(("source", "target"), itertools.product(SCHEMES, SCHEMES))
def test_a_known_sentence_is_converted(source, target):
    assert convert_labels(EXAMPLES[source], source, target) == EXAMPLES[target]
    assert read_spans(EXAMPLES[source], source) == SPANS


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_allowed_is_what_spans_can_give(scheme):
    """All sequences of four labels against the labels of all ways to mark four words."""
    labels = labels_of(["x", "y"], scheme)
    given_by_spans = set()
    for cuts in itertools.product([None, "x", "y"], [True, False], repeat=4):
        types, begins = cuts[::2], cuts[1::2]
        spans = []
        for place, (type_, is_new) in enumerate(zip(types, begins, strict=True)):
            if type_ is None:
                continue
            if spans and not is_new and spans[-1].stop == place and spans[-1].type == type_:
                spans[-1] = spans[-1]._replace(stop=place + 1)
            else:
                spans.append(Span(type_, place, place + 1))
        given_by_spans.add(tuple(write_spans(spans, 4, scheme)))
    allowed = {
        sequence
        for sequence in itertools.product(labels, repeat=4)
        if all(can_follow(*pair, scheme) for pair in itertools.pairwise([None, *sequence, None]))
    }
    assert allowed == given_by_spans


@pytest.mark.parametrize(
    ("call", "arguments", "named"),
    [
        (read_spans, (["O", "I-x"], "IOB2"), ("labels[1]", "I-x", "IOB2")),
        (read_spans, (["B-x"], "IOB1"), ("labels[0]", "B-x")),
        (read_spans, (["B-x", "O"], "BIOES"), ("labels[1]", "O")),
        (read_spans, (["B-x"], "BIOES"), ("labels[1]", "B-x")),
        (read_spans, (["B-x", "E-y"], "BIOES"), "E-y"),
        (split_label, ("E-x", "IOB2"), ("E-x", "IOB2")),
        (split_label, ("B", "IOB2"), "'B'"),
        (split_label, ("B-", "IOB2"), "'B-'"),
        (split_label, ("-x", "IOB2"), "'-x'"),
        (split_label, ("O", "IOB"), "'IOB'"),
        (labels_of, (["x"], "IOB"), "'IOB'"),
        (write_spans, ([Span("x", 0, 2), Span("y", 1, 3)], 3, "IOB2"), "start=1"),
        (write_spans, ([Span("x", 2, 4)], 3, "IOB2"), "stop=4"),
        (write_spans, ([Span("x", 1, 1)], 3, "IOB2"), "stop=1"),
        (write_spans, ([], 1, "IOB"), "'IOB'"),
    ],
)
def test_what_the_scheme_does_not_have_is_refused(call, arguments, named):
    assert_refused(ValueError, named, call, *arguments)
