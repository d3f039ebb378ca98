"""Pages to look at: one HTML file each, which needs nothing beside it; and texts with marked spans on one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import accumulate, pairwise
from string import Template
from typing import NamedTuple

# Neighbors on this way around the circle of hues are as far apart as can be, however many there are.
_FIRST_HUE, _GOLDEN_ANGLE = 210, 137.508


class Mark(NamedTuple):
    """A span text[start:end], its label, which gives the color, and the pointer's tooltip; without a label a line."""

    start: int
    end: int
    label: str
    title: str = ""


class Passage(NamedTuple):
    """A text with its spans, which may lie in one another and cross, and lines above it."""

    text: str
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = ()


def fill_page(name: str, title: str, facts: Sequence[str], scripts: bool = False, **parts: str) -> str:
    """A whole page, which needs nothing beside it and no network.

    `name` is the file of this folder with its own style and, behind that, all that follows the facts (the model, the
    date and so on); `parts` are HTML for the other names in it; its own scripts run with `scripts` alone.
    """
    frame, own = (files(__package__).joinpath(file).read_text(encoding="utf-8") for file in ("page.html", name))
    style, content = own.split("</style>\n")
    return Template(frame).substitute(
        policy="script-src 'unsafe-inline'; " * scripts,
        title=escape(title),
        facts=escape(" · ".join(facts)),
        style=style,
        content=Template(content).substitute(parts),
    )


def marks_of_words(words: Sequence[str], spans: Iterable[tuple[str, int, int]]) -> list[Mark]:
    """The spans of a sentence, their labels, first words and the words behind their last ones, in " ".join(words)."""
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    return [Mark(starts[first], starts[behind] - 1, label) for label, first, behind in spans]


def render_spans(title: str, passages: Iterable[Passage], facts: Sequence[str] = ()) -> str:
    """A page of texts, without scripts; a legend counts their labels, but for numbers, which the notes explain."""
    passages = list(passages)
    counts = Counter(mark.label for passage in passages for mark in passage.marks if mark.label)
    # R-ARG0 and C-ARG0 are pieces of the role ARG0.
    kinds = sorted({_kind(label) for label in counts}, key=lambda kind: (len(kind), kind))
    hues = {kind: round(_FIRST_HUE + number * _GOLDEN_ANGLE) % 360 for number, kind in enumerate(kinds)}
    legend = [
        f'<li><span class="mark" style="--hue:{hues[_kind(label)]}">{escape(label)}</span> ({counts[label]:,})</li>'
        for label in sorted(counts)
        if not label.isdigit()
    ]
    sections = []
    for passage in passages:
        notes = "".join(f'<p class="note" dir="auto">{escape(note)}</p>' for note in passage.notes)
        sections.append(f'<section>{notes}<div class="text" dir="auto">{_mark(passage, hues)}</div></section>')
    return fill_page("spans.html", title, facts, legend="\n".join(legend), body="\n".join(sections))


def _kind(label: str) -> str:
    return label.removeprefix("C-").removeprefix("R-")


def _mark(passage: Passage, hues: Mapping[str, int]) -> str:
    """The text as pieces from end to end of its marks, each in the boxes of all marks that it lies in."""
    text, marks = passage.text, sorted(passage.marks, key=lambda mark: (mark.start, -mark.end))
    cuts = sorted({0, len(text), *(mark.start for mark in marks), *(mark.end for mark in marks)})
    pieces = []
    for start, end in pairwise(cuts):
        piece = escape(text[start:end])
        for mark in reversed(marks):
            if mark.start <= start and end <= mark.end:
                piece = _box(mark, piece, mark.start < start, end < mark.end, hues)
        pieces.append(piece)
    return "".join(pieces)


def _box(mark: Mark, content: str, goes_on: bool, is_cut: bool, hues: Mapping[str, int]) -> str:
    title = f'title="{escape(mark.title)}"'
    if not mark.label:
        return f'<span class="unlabeled" {title}>{content}</span>'
    # What stands in bdi has no part in which way the words around it run.
    label = "" if goes_on else f"<bdi>{escape(mark.label)}</bdi>"
    classes = "mark" + " goes-on" * goes_on + " is-cut" * is_cut
    return f'<span class="{classes}" style="--hue:{hues[_kind(mark.label)]}" {title}>{label}{content}</span>'
