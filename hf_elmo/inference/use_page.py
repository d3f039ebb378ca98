"""Maps of uses as one HTML file, which needs nothing beside it: a click on a use shows its nearest ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

import numpy as np

from .pages import fill_page
from .use_maps import Group, UseMap
from .word_uses import Use

# Colors of the groups. They stay apart for color-blind readers and in print (Okabe and Ito 2008).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a600", "#8a8f96")
# Size of a drawing, and of its dots and letters.
WIDTH, HEIGHT, _MARGIN = 420, 360, 22
_RADIUS, _WORD_RADIUS, _FONT_SIZE, _FORM_FONT_SIZE = 5.5, 3.5, 13, 15
# The width of a letter as a fraction of the size of its font, about.
_LETTER = 0.58
# How many lines below its dot a word is tried to stand, at the right and at the left.
_LINES = (0, 1, -1, 2, -2, 3, -3)
# Words shown on either side of a use.
_AROUND = 16


def render_page(maps: Sequence[UseMap], facts: Sequence[str]) -> str:
    """The page of some words, a map for each; facts stand below its heading."""
    names = [each.found.word for each in maps]
    links = "".join(f'<a href="#word-{number}">{escape(name)}</a>' for number, name in enumerate(names))
    return fill_page(
        "uses.html",
        f"Uses of {', '.join(names)}",
        facts,
        scripts=True,
        contents=f"<nav>{links}</nav>" if len(maps) > 1 else "",
        sections="\n".join(_section(each, number) for number, each in enumerate(maps)),
    )


def _section(drawn: UseMap, number: int) -> str:
    found, ids = drawn.found, [f"use-{number}-{use}" for use in range(len(drawn.uses))]
    of_all = f", of {found.num_found:,} in the text" if found.num_found > len(found.uses) else ""
    figures = [_figure("layer 0: no context", drawn.caption(0), draw_static(drawn))]
    for layer in range(1, len(drawn.points) + 1):
        figures.append(_figure(f"layer {layer}", drawn.caption(layer), _draw_layer(drawn, layer, ids)))
    colors = [COLORS[group] for group in drawn.group_of]
    lines = (_line(use, id_, color) for use, id_, color in zip(drawn.uses, ids, colors, strict=True))
    return f"""<section id="word-{number}">
<h2 lang="">{escape(found.word)}</h2>
<p class="faint">{len(found.uses):,} uses{of_all}, colored by {escape(drawn.grouped_by)}</p>
<ul class="legend">{"".join(map(_legend_entry, drawn.groups, COLORS))}</ul>
<div class="panels">
{"".join(figures)}</div>
<p class="hint faint">Click a use, a dot or a line, to see its nearest uses in each layer.</p>
<p class="choice" lang="" hidden></p>
<div class="answers" lang=""></div>
<ol class="uses" lang="">
{"".join(lines)}</ol>
<script type="application/json">{_data(drawn)}</script>
</section>"""


def _legend_entry(group: Group, color: str) -> str:
    around = f"; around it: <i>{escape(', '.join(group.words_around))}</i>" if group.words_around else ""
    return f'<li><span class="chip" style="--color:{color}"></span>{escape(group.name)} ({group.size:,}){around}</li>'


def _figure(title: str, caption: str, drawing: str) -> str:
    return f"<figure><figcaption>{title}<small>{escape(caption)}</small></figcaption>\n{drawing}</figure>\n"


def draw_static(drawn: UseMap) -> str:
    """Layer 0, the word's spellings first; no word covers another one or its dot, where there is room."""
    forms = {form.form for form in drawn.forms}
    words = sorted(drawn.static_points, key=lambda word: word not in forms)
    sizes = [_FORM_FONT_SIZE if word in forms else _FONT_SIZE for word in words]
    widths = [len(word) * _LETTER * size for word, size in zip(words, sizes, strict=True)]
    # Words stand to the right of their dots where there is room.
    dots = _fit(np.array([drawn.static_points[word] for word in words]), max(widths)).tolist()
    # Boxes: left, top, right, bottom.
    taken = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in dots]
    parts = []
    for word, size, width, (x, y) in zip(words, sizes, widths, dots, strict=True):
        corners = [
            (left, y + (lines - 0.5) * size) for lines in _LINES for left in (x + _RADIUS + 3, x - _RADIUS - 3 - width)
        ]
        tried = [(left, top, left + width, top + size) for left, top in corners]
        inside = (box for box in tried if min(box) >= 0 and box[2] <= WIDTH and box[3] <= HEIGHT)
        box = next((box for box in inside if not any(_overlap(box, each) for each in taken)), tried[0])
        taken.append(box)
        kind, radius = ("form", _RADIUS) if word in forms else ("word", _WORD_RADIUS)
        parts.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'
            f'<text class="{kind}" x="{box[0]:.1f}" y="{box[3] - 0.2 * size:.1f}">{escape(word)}</text>'
        )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" lang="">{"".join(parts)}</svg>\n'


def _draw_layer(drawn: UseMap, layer: int, ids: Sequence[str]) -> str:
    parts = []
    dots = _fit(drawn.points[layer - 1])
    for use, group, id_, (x, y) in zip(drawn.uses, drawn.group_of, ids, dots, strict=True):
        title = f"{drawn.groups[group].name}: {use.snippet()}"
        parts.append(
            f'<a href="#{id_}"><circle class="use" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" '
            f'style="--color:{COLORS[group]}"><title>{escape(title)}</title></circle></a>'
        )
    return f'<svg class="layer" viewBox="0 0 {WIDTH} {HEIGHT}" lang="">{"".join(parts)}</svg>\n'


def _line(use: Use, id_: str, color: str) -> str:
    left, right = map(" ".join, use.around(_AROUND))
    return (
        f'<li id="{id_}"><a href="#{id_}" style="--color:{color}"><span class="left">{escape(left)}</span>'
        f"<b>{escape(use.word)}</b><span>{escape(right)}</span></a></li>\n"
    )


def _data(drawn: UseMap) -> str:
    """What the page's script reads: `forms`, `form_of` each use, and `nearest` by layer and use."""
    form_of = {use: index for index, form in enumerate(drawn.forms) for use in form.uses}
    cosines = drawn.similarities.astype(float).round(3).tolist()
    content = {
        "forms": [[[word, round(cosine, 3)] for word, cosine in form.nearest] for form in drawn.forms],
        "form_of": [form_of[use] for use in range(len(drawn.uses))],
        "nearest": [
            [list(zip(*each, strict=True)) for each in zip(*rows, strict=True)]
            for rows in zip(drawn.nearest.tolist(), cosines, strict=True)
        ],
    }
    # No text may end the element that it stands in.
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def _overlap(box: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


def _fit(points: np.ndarray, room_at_right: float = 0) -> np.ndarray:
    """Points (N, 2) in the middle of the drawing, as large as they fit in; what is above is at smaller numbers."""
    room = np.array([WIDTH - 2 * _MARGIN - room_at_right, HEIGHT - 2 * _MARGIN])
    lowest, highest = points.min(axis=0), points.max(axis=0)
    scale = (room / np.maximum(highest - lowest, 1e-9)).min()
    return (points - (lowest + highest) / 2) * np.array([scale, -scale]) + room / 2 + _MARGIN
