"""How labels of words mark spans: the schemes IOB1, IOB2 and BIOES, their rules, and conversion between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"

# The letters of each scheme. IOB1 begins a span with B only right behind another one of its type (Ramshaw and Marcus
# 1995); IOB2 begins each with B; BIOES also ends each with E and has S for a span of one word.
SCHEMES = {"IOB1": "IB", "IOB2": "BI", "BIOES": "BIES"}


class Span(NamedTuple):
    """The words of a sentence from `start` up to `stop`, and what they are."""

    type: str
    start: int
    stop: int


def split_label(label: str, scheme: str) -> tuple[str, str]:
    """The letter and the type of a label, `("B", "PER")`; `("O", "")` outside of spans.

    Raises: ValueError naming the scheme, or a label that is none of its labels.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme is {scheme!r}; it must be one of {sorted(SCHEMES)}.")
    if label == OUTSIDE:
        return OUTSIDE, ""
    letter, dash, type_ = label.partition("-")
    if letter not in tuple(SCHEMES[scheme]) or not dash or not type_:
        wanted = ", ".join(f"{letter}-..." for letter in SCHEMES[scheme])
        raise ValueError(f"{label!r} is no label of {scheme}; wanted O, {wanted}. Convert the labels, or name another.")
    return letter, type_


def can_follow(previous: str | None, label: str | None, scheme: str) -> bool:
    """Whether a label may stand behind another one.

    Args:
        previous: The label before; None at the start of a sentence.
        label: The label behind; None at the end of a sentence.
        scheme: "IOB1", "IOB2" or "BIOES".
    Raises: ValueError as `split_label`.
    """
    before, type_before = (OUTSIDE, "") if previous is None else split_label(previous, scheme)
    behind, type_behind = (OUTSIDE, "") if label is None else split_label(label, scheme)
    is_same_span_type = before != OUTSIDE and type_before == type_behind
    if scheme == "IOB1":
        return behind != "B" or is_same_span_type
    if scheme == "IOB2":
        return behind != "I" or is_same_span_type
    is_open = before in ("B", "I")
    return (behind in ("I", "E")) == is_open and (not is_open or is_same_span_type)


def read_spans(labels: Sequence[str], scheme: str) -> list[Span]:
    """The spans that the labels of a sentence mark, in their order.

    Raises: ValueError naming the first label that may not stand where it does, and its place.
    """
    spans: list[Span] = []
    start, previous = None, None
    for place, label in enumerate([*labels, None]):
        if not can_follow(previous, label, scheme):
            raise ValueError(
                f"labels[{place}] is {label!r} behind {previous!r}, which {scheme} does not allow; name the scheme "
                "that the labels are in, or mend them."
            )
        letter, type_ = (OUTSIDE, "") if label is None else split_label(label, scheme)
        if start is not None and previous is not None:
            type_before = split_label(previous, scheme)[1]
            if letter in (OUTSIDE, "B", "S") or type_ != type_before:
                spans.append(Span(type_before, start, place))
                start = None
        if start is None and letter != OUTSIDE:
            start = place
        previous = label
    return spans


def write_spans(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """The labels of a sentence of `length` words with these spans.

    Raises: ValueError naming the scheme, or a span that is empty, lies outside the sentence or overlaps another.
    """
    labels = [OUTSIDE] * length
    end, type_before = 0, None
    for span in sorted(spans, key=lambda span: span.start):
        if not end <= span.start < span.stop <= length:
            raise ValueError(
                f"{span} has no words of its own in a sentence of {length} words; wanted spans that do not overlap."
            )
        letters = ["I"] * (span.stop - span.start)
        if scheme != "IOB1" or (span.start == end and span.type == type_before):
            letters[0] = "B"
        if scheme == "BIOES":
            letters[-1] = "S" if len(letters) == 1 else "E"
        labels[span.start : span.stop] = [f"{letter}-{span.type}" for letter in letters]
        end, type_before = span.stop, span.type
    for label in labels:
        split_label(label, scheme)
    return labels


def convert_labels(labels: Sequence[str], source: str, target: str) -> list[str]:
    """The labels of a sentence in another scheme; raises ValueError as `read_spans`."""
    return write_spans(read_spans(labels, source), len(labels), target)


def labels_of(types: Iterable[str], scheme: str) -> list[str]:
    """All labels of a scheme for spans of these types, O first."""
    labels = [OUTSIDE, *(f"{letter}-{type_}" for type_ in types for letter in SCHEMES.get(scheme, "?"))]
    for label in labels:
        split_label(label, scheme)
    return labels
