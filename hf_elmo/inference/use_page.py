"""Maps of uses as one HTML file, which needs nothing beside it: a use that is clicked shows its nearest ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from .use_layout import HEIGHT, RADIUS, WIDTH, WORD_RADIUS, place_dots, place_words
from .use_maps import COLOURS, Group, UseMap
from .word_uses import Use

# Words shown on either side of a use.
_AROUND = 16


def render_page(maps: Sequence[UseMap], facts: Sequence[str]) -> str:
    """The page of some words.

    Args:
        maps: One for each word.
        facts: What stands below the heading: the model, the text and so on.
    """
    template = Template(files(__package__).joinpath("uses.html").read_text(encoding="utf-8"))
    names = [each.found.word for each in maps]
    links = "".join(f'<a href="#word-{number}">{escape(name)}</a>' for number, name in enumerate(names))
    return template.substitute(
        title=escape(f"Uses of {', '.join(names)}"),
        facts=escape(" · ".join(facts)),
        contents=f"<nav>{links}</nav>" if len(maps) > 1 else "",
        sections="\n".join(_section(each, number) for number, each in enumerate(maps)),
    )


def _section(drawn: UseMap, number: int) -> str:
    found, ids = drawn.found, [f"use-{number}-{use}" for use in range(len(drawn.uses))]
    of_all = f", of {found.num_found:,} in the text" if found.num_found > len(found.uses) else ""
    figures = [_figure("layer 0: no context", drawn.caption(0), _draw_static(drawn))]
    for layer in range(1, len(drawn.places) + 1):
        figures.append(_figure(f"layer {layer}", drawn.caption(layer), _draw_layer(drawn, layer, ids)))
    colours = [COLOURS[group] for group in drawn.group_of]
    lines = (_line(use, id_, colour) for use, id_, colour in zip(drawn.uses, ids, colours, strict=True))
    return f"""<section id="word-{number}">
<h2 lang="">{escape(found.word)}</h2>
<p class="faint">{len(found.uses):,} uses{of_all}, coloured by {escape(drawn.grouped_by)}</p>
<ul class="legend">{"".join(map(_legend_entry, drawn.groups, COLOURS))}</ul>
<div class="panels">
{"".join(figures)}</div>
<p class="hint faint">Click a use, a dot or a line, to see its nearest uses in each layer.</p>
<p class="choice" lang="" hidden></p>
<div class="answers" lang=""></div>
<ol class="uses" lang="">
{"".join(lines)}</ol>
<script type="application/json">{_data(drawn)}</script>
</section>"""


def _legend_entry(group: Group, colour: str) -> str:
    around = f"; around it: <i>{escape(', '.join(group.words_around))}</i>" if group.words_around else ""
    name = f"{escape(group.name)} ({group.size:,})"
    return f'<li><span class="chip" style="--colour:{colour}"></span>{name}{around}</li>'


def _figure(title: str, caption: str, drawing: str) -> str:
    return f"<figure><figcaption>{title}<small>{escape(caption)}</small></figcaption>\n{drawing}</figure>\n"


def _draw_static(drawn: UseMap) -> str:
    parts = []
    for word in place_words(drawn):
        kind, radius = ("form", RADIUS) if word.is_form else ("word", WORD_RADIUS)
        parts.append(
            f'<circle class="{kind}" cx="{word.x:.1f}" cy="{word.y:.1f}" r="{radius}"/>'
            f'<text class="{kind}" x="{word.left:.1f}" y="{word.base:.1f}">{escape(word.word)}</text>'
        )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" lang="">{"".join(parts)}</svg>\n'


def _draw_layer(drawn: UseMap, layer: int, ids: Sequence[str]) -> str:
    parts = []
    dots = place_dots(drawn.places[layer - 1])
    for use, group, id_, (x, y) in zip(drawn.uses, drawn.group_of, ids, dots, strict=True):
        title = f"{drawn.groups[group].name}: {use.snippet()}"
        parts.append(
            f'<a href="#{id_}"><circle class="use" cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" '
            f'style="--colour:{COLOURS[group]}"><title>{escape(title)}</title></circle></a>'
        )
    return f'<svg class="layer" viewBox="0 0 {WIDTH} {HEIGHT}" lang="">{"".join(parts)}</svg>\n'


def _line(use: Use, id_: str, colour: str) -> str:
    left = " ".join(use.words[max(0, use.position - _AROUND) : use.position])
    right = " ".join(use.words[use.position + 1 :][:_AROUND])
    return (
        f'<li id="{id_}"><a href="#{id_}" style="--colour:{colour}"><span class="left">{escape(left)}</span>'
        f"<b>{escape(use.word)}</b><span>{escape(right)}</span></a></li>\n"
    )


def _data(drawn: UseMap) -> str:
    """What the page's script reads: `forms`, `form_of` each use, and `nearest` by layer and use."""
    form_of = [0] * len(drawn.uses)
    for number, form in enumerate(drawn.forms):
        for use in form.uses:
            form_of[use] = number
    nearest = [
        [
            [[int(use), round(float(cosine), 3)] for use, cosine in zip(*row, strict=True)]
            for row in zip(numbers, cosines, strict=True)
        ]
        for numbers, cosines in zip(drawn.nearest, drawn.similarities, strict=True)
    ]
    forms = [[[word, round(cosine, 3)] for word, cosine in form.nearest] for form in drawn.forms]
    content = json.dumps({"forms": forms, "form_of": form_of, "nearest": nearest}, separators=(",", ":"))
    # No text may end the element that it stands in.
    return content.replace("<", "\\u003c")
