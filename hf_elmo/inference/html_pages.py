"""Predictions as pages to look at: one HTML file each, which needs nothing beside it and runs no scripts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

from ..model.modeling_elmo_tasks import OUTSIDE, Span, read_spans
from .coreference import ResolvedText
from .reader import FoundAnswer
from .role_labeller import Frame
from .tagger import TaggedWord

# Neighbours on this way around the circle of hues are as far apart as can be, however many there are.
_FIRST_HUE, _GOLDEN_ANGLE = 210, 137.508
_LONGEST_NAME = 40
# The share of a word's letters that a letter of a role takes, by the sizes in page.html.
_LABEL_SIZE = 0.8
_PREDICATE = "V"


class Markup(str):
    """What is markup already; any other string is text, and escaped where it becomes part of a page."""


class Drawing(NamedTuple):
    """What a page shows.

    Args:
        title: Its heading.
        legend: What its colours mean; empty where they need no words.
        body: Its sections.
    """

    title: str
    legend: Markup
    body: Markup


class _Mark(NamedTuple):
    """A piece of text, text[start:stop], that is drawn as a box with a tag at its beginning."""

    start: int
    stop: int
    tag: str
    hue: int | None  # None for a piece that is hardly marked
    title: str
    id: str | None = None


def render_page(drawing: Drawing, facts: Sequence[str], note: str | None = None) -> str:
    """A whole page.

    Args:
        drawing: What it shows.
        facts: What stands below the heading: the model, the date and so on.
        note: What stands below all.
    """
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    body = drawing.body + ("" if note is None else "\n" + _element("p", note, class_="note"))
    title, line = escape(drawing.title), escape(" · ".join(facts))
    return template.substitute(title=title, facts=line, legend=drawing.legend, body=body)


def draw_answers(answered: Sequence[tuple[str, str, FoundAnswer]]) -> Drawing:
    """Answers marked in their contexts, by the numbers of their questions.

    Args:
        answered: Each question, its context and its answer. Questions of one context that follow one another share it.
    """
    sections, number = [], 0
    for context, group in itertools.groupby(answered, lambda each: each[1]):
        marks, questions = [], []
        for place, (question, _, answer) in enumerate(group):
            number += 1
            hue = _hue(place)
            marks.append(_Mark(answer.start, answer.end, str(number), hue, question))
            questions.append(
                _element(
                    "li",
                    _element("span", str(number), class_="tag", style=f"--hue:{hue}"),
                    _element("span", question, dir="auto"),
                    _element("span", answer.text or "no answer", class_="answer", dir="auto"),
                    _element("span", f"{answer.score:.3f}", class_="score", title="probability of both its ends"),
                )
            )
        sections.append(_section(_element("ol", *questions, class_="questions"), _text(context, marks)))
    legend = _legend([_example("1", _hue(0), "the answer to question 1"), "at the right: its probability"])
    return Drawing("Answers", legend, _lines(sections))


def draw_clusters(resolved: ResolvedText) -> Drawing:
    """The mentions of a document in the colours and with the numbers of their clusters, and those that stand alone."""
    marks: list[_Mark] = []
    names: list[Markup] = []
    for cluster in resolved.clusters:
        if len(cluster) == 1:
            marks.append(_Mark(cluster[0].start, cluster[0].stop, "", None, "mentioned once"))
            continue
        number, hue = len(names) + 1, _hue(len(names))
        for place, mention in enumerate(cluster):
            title = f"{number}: {_shortened(cluster[0].text)}, mention {place + 1} of {len(cluster)}"
            id_ = None if place else f"cluster-{number}"
            marks.append(_Mark(mention.start, mention.stop, str(number), hue, title, id_))
        name = _element("a", _shortened(cluster[0].text), href=f"#cluster-{number}", dir="auto")
        names.append(_example(str(number), hue, name, f" ({len(cluster)})"))
    if any(len(cluster) == 1 for cluster in resolved.clusters):
        names.append(_element("span", "mentioned once", class_="once"))
    return Drawing("Who is who", _legend(names or ["no clusters"]), _section(_text(resolved.text, marks)))


def draw_roles(sentences: Iterable[tuple[Sequence[str], Sequence[Frame]]]) -> Drawing:
    """The words of each sentence, above them a row for each predicate with its arguments."""
    drawn = [
        (words, frames, [read_spans(frame.tags, "IOB2") for frame in frames]) for words, frames in sentences if words
    ]
    roles = {_plain_role(span.type) for *_, rows in drawn for row in rows for span in row}
    hues = _hues(roles - {_PREDICATE})
    sections = []
    for words, frames, rows in drawn:
        columns: list[list[Markup]] = [[] for _ in words]
        for frame, spans in zip(frames, rows, strict=True):
            for column, cell in zip(columns, _role_cells(words, frame, spans, hues), strict=True):
                # What would be empty above all else of a column is left out, so that a line is no higher than it must.
                if cell is not None or column:
                    column.append(cell or _element("span", class_="cell"))
        places = {frame.place for frame in frames}
        for place, (word, column) in enumerate(zip(words, columns, strict=True)):
            column.append(_element("span", word, class_="word predicate" if place in places else "word"))
        sections.append(_section(_columns(columns)))
    predicate = _element("span", _PREDICATE, class_="cell predicate first last")
    legend = [_element("span", predicate, "the predicate of the row"), *itertools.starmap(_example, hues.items())]
    return Drawing("Semantic roles", _legend(legend if roles else ["no predicates"]), _lines(sections))


def draw_entities(sentences: Iterable[tuple[Sequence[str], Sequence[Span]]]) -> Drawing:
    """The spans of each sentence in the colours of their types."""
    drawn = [(words, spans) for words, spans in sentences if words]
    counts = Counter(span.type for _, spans in drawn for span in spans)
    hues = _hues(counts)
    sections = []
    for words, spans in drawn:
        starts = list(itertools.accumulate((len(word) + 1 for word in words), initial=0))
        marks = [
            _Mark(starts[span.start], starts[span.stop] - 1, span.type, hues[span.type], span.type) for span in spans
        ]
        sections.append(_text(" ".join(words), marks))
    legend = [_example(type_, hue, f"({counts[type_]:,})") for type_, hue in hues.items()]
    return Drawing("Entities", _legend(legend or ["no entities"]), _section(*sections))


def draw_labels(sentences: Iterable[Sequence[TaggedWord]]) -> Drawing:
    """The words of each sentence with their labels above them, but for O, which says that a word has none."""
    drawn = [sentence for sentence in sentences if sentence]
    hues = _hues({word.label for sentence in drawn for word in sentence} - {OUTSIDE})
    sections = []
    for sentence in drawn:
        columns = [
            [
                _cell(
                    "" if word.label == OUTSIDE else word.label,
                    hues.get(word.label),
                    "first last",
                    f"{word.label}, probability {word.probability:.3f}",
                ),
                _element("span", word.word, class_="word"),
            ]
            for word in sentence
        ]
        sections.append(_section(_columns(columns)))
    return Drawing("Labels", _legend(list(itertools.starmap(_example, hues.items()))), _lines(sections))


def draw_classes(classified: Iterable[tuple[Sequence[str], Mapping[str, float]]]) -> Drawing:
    """Texts, or pairs of them, with the probability of each label as a bar."""
    sections, hues = [], dict[str, int]()
    for texts, probabilities in classified:
        hues = hues or {label: _hue(place) for place, label in enumerate(probabilities)}
        best = max(probabilities, key=probabilities.__getitem__)
        bars = []
        for label, share in probabilities.items():
            chosen = "chosen" if label == best else "other"
            bars.append(_element("span", label, " ", _element("span", f"{share:.3f}", class_="score"), class_=chosen))
            filled = _element("i", style=f"width:{100 * share:.1f}%;--hue:{hues[label]}")
            bars.append(_element("span", filled, class_="bar"))
        sections.append(_section(*(_text(text) for text in texts), _element("div", *bars, class_="classes")))
    return Drawing("Labels of texts", Markup(), _lines(sections))


def _role_cells(
    words: Sequence[str], frame: Frame, spans: Sequence[Span], hues: Mapping[str, int]
) -> list[Markup | None]:
    """The cells of a predicate's row, one for each word, None where it is nothing to the predicate."""
    cells: list[Markup | None] = [None] * len(words)
    predicate = words[frame.place]
    for span in spans:
        text = " ".join(words[span.start : span.stop])
        hue = hues.get(_plain_role(span.type))
        is_predicate = hue is None
        title = f"predicate: {text}" if is_predicate else f"{span.type} of {predicate}: {text}"
        for place in range(span.start, span.stop):
            ends = [name for name, at in (("first", span.start), ("last", span.stop - 1)) if place == at]
            # A label as wide as its words must not push the first one away from the others.
            flows = span.stop - span.start > 1 and len(span.type) * _LABEL_SIZE < len(text)
            kinds = [*ends, *(["predicate"] if is_predicate else []), *(["flows"] if flows else [])]
            label = span.type if place == span.start else "\N{NO-BREAK SPACE}"
            cells[place] = _cell(label, hue, " ".join(kinds), title)
    return cells


def _plain_role(role: str) -> str:
    """A role without the marks of a continuation and of a reference: `ARG0` of C-ARG0 and R-ARG0, which look alike."""
    return role.removeprefix("C-").removeprefix("R-")


def _cell(label: str, hue: int | None, kinds: str, title: str) -> Markup:
    # What stands in bdi has no part in which way the words around it run.
    filled = {} if hue is None else {"style": f"--hue:{hue}"}
    return _element(
        "span", _element("bdi", label), class_=f"cell {'' if hue is None else 'filled '}{kinds}", title=title, **filled
    )


def _columns(columns: Iterable[Sequence[Markup]]) -> Markup:
    return _element(
        "div", *(_element("span", *column, class_="column") for column in columns), class_="words", dir="auto"
    )


def _text(text: str, marks: Sequence[_Mark] = ()) -> Markup:
    return _element("div", _marked(text, marks), class_="text marked" if marks else "text", dir="auto")


def _marked(text: str, marks: Iterable[_Mark]) -> Markup:
    """A text with boxes around its marks, which may lie in one another; of two that cross the one is cut in two."""
    begins: dict[int, list[_Mark]] = {}
    for mark in marks:
        if mark.start < mark.stop:
            begins.setdefault(mark.start, []).append(mark)
    stops = {mark.stop for beginning in begins.values() for mark in beginning}
    places = sorted({0, len(text), *begins, *stops})
    contents: list[list[str]] = [[]]  # of the page, and of each mark that is open
    opened: list[tuple[_Mark, bool]] = []  # with whether it was cut before
    for place, next_place in itertools.zip_longest(places, places[1:]):
        cut = []
        while any(mark.stop == place for mark, _ in opened):
            mark, was_cut = opened.pop()
            inner = contents.pop()
            contents[-1].append(_box(mark, inner, was_cut, mark.stop > place))
            if mark.stop > place:
                cut.append(mark)
        new = sorted(begins.get(place, ()), key=lambda mark: -mark.stop)
        for mark, was_cut in [*((mark, True) for mark in reversed(cut)), *((mark, False) for mark in new)]:
            opened.append((mark, was_cut))
            contents.append([])
        contents[-1].append(text[place:next_place])
    return _joined(contents[0])


def _box(mark: _Mark, inner: Iterable[str], was_cut: bool, is_cut: bool) -> Markup:
    if mark.hue is None:
        return _element("span", *inner, class_="once", title=mark.title)
    kinds = ["mark", *(["comes-from"] if was_cut else []), *(["goes-on"] if is_cut else [])]
    tag = [] if was_cut else [_element("bdi", mark.tag, class_="tag")]
    named = {"id": mark.id} if mark.id and not was_cut else {}
    return _element("span", *tag, *inner, class_=" ".join(kinds), style=f"--hue:{mark.hue}", title=mark.title, **named)


def _example(tag: str, hue: int, *meaning: str) -> Markup:
    """An entry of a legend: a tag in its colour, and what it means."""
    box = _element("span", tag, class_="mark", style=f"--hue:{hue}")
    return _element("span", box, *([" ", *meaning] if meaning else []))


def _legend(entries: Sequence[str]) -> Markup:
    return _element("ul", *(_element("li", entry) for entry in entries), class_="legend") if entries else Markup()


def _section(*content: str) -> Markup:
    return _element("section", *content)


def _hues(names: Iterable[str]) -> dict[str, int]:
    return {name: _hue(place) for place, name in enumerate(sorted(set(names)))}


def _hue(place: int) -> int:
    return round(_FIRST_HUE + place * _GOLDEN_ANGLE) % 360


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _lines(parts: Iterable[Markup]) -> Markup:
    return Markup("\n".join(parts))


def _joined(parts: Iterable[str]) -> Markup:
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def _element(name: str, *content: str, **attributes: str) -> Markup:
    """An element; `class_` stands for the attribute that Python has another use for."""
    given = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{given}>{_joined(content)}</{name}>")
