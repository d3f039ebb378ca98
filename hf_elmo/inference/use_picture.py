"""Maps of uses as a PNG: a row for each word, a column for each layer."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .use_layout import FONT_SIZE, FORM_FONT_SIZE, HEIGHT, RADIUS, WIDTH, WORD_RADIUS, place_dots, place_words
from .use_maps import COLOURS, UseMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Units of the layout an inch, and of a font's size, which counts in 72nds of it.
_UNITS = 100
_POINTS = 72 / _UNITS


def plot_uses(maps: Sequence[UseMap], file: str | os.PathLike) -> None:
    """Draw the maps as a PNG; equal maps make equal files where matplotlib is the same.

    Raises: ImportError where matplotlib is not installed.
    """
    figure = build_uses_figure(maps)
    import matplotlib

    with matplotlib.style.context("default"):
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None})


def build_uses_figure(maps: Sequence[UseMap]) -> Figure:
    """The figure: words of layer 0 at the left, then the uses in each layer; raises as above."""
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the picture of uses needs matplotlib: pip install 'hf_elmo[look]'.") from error
    columns = 1 + len(maps[0].places)
    # A user's own style must not change the picture.
    with matplotlib.style.context("default"):
        # Below each row its legend has two groups on a line.
        heights = [HEIGHT + 135 + 22 * ((len(drawn.groups) + 1) // 2) for drawn in maps]
        size = (columns * (WIDTH + 20) / _UNITS, sum(heights) / _UNITS)
        figure = Figure(figsize=size, layout="constrained")
        rows = figure.subfigures(len(maps), squeeze=False, height_ratios=heights)[:, 0]
        for drawn, row in zip(maps, rows, strict=True):
            row.suptitle(f"{drawn.found.word}: {len(drawn.uses):,} uses", fontweight="bold")
            panels = row.subplots(1, columns, squeeze=False)[0]
            for layer, axes in enumerate(panels):
                axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0), xticks=(), yticks=(), aspect="equal")
                axes.set_title(f"layer {layer}" if layer else "layer 0: no context", fontsize="medium")
                axes.set_xlabel(textwrap.fill(drawn.caption(layer), 66), fontsize="small")
                if layer:
                    _draw_layer(axes, drawn, layer)
                else:
                    _draw_static(axes, drawn)
            handles = panels[-1].get_legend_handles_labels()
            row.legend(*handles, fontsize="small", loc="outside lower center", ncols=2, markerscale=1.3)
    return figure


def _draw_static(axes: Axes, drawn: UseMap) -> None:
    for word in place_words(drawn):
        size, weight, colour, radius = (
            (FORM_FONT_SIZE, "bold", "black", RADIUS) if word.is_form else (FONT_SIZE, "normal", "#62676e", WORD_RADIUS)
        )
        axes.plot(word.x, word.y, "o", color=colour, markersize=radius * 2 * _POINTS)
        # What has dollars or backslashes in it is no formula.
        axes.text(word.left, word.base, word.word, fontsize=size * _POINTS, fontweight=weight, parse_math=False)


def _draw_layer(axes: Axes, drawn: UseMap, layer: int) -> None:
    dots = place_dots(drawn.places[layer - 1])
    for number, (group, colour) in enumerate(zip(drawn.groups, COLOURS, strict=False)):
        x, y = dots[drawn.group_of == number].T
        style: dict[str, Any] = {
            "markersize": RADIUS * 2 * _POINTS,
            "alpha": 0.75,
            "markeredgecolor": "white",
            "markeredgewidth": 0.4,
        }
        around = f"; around it: {', '.join(group.words_around)}" if group.words_around else ""
        axes.plot(x, y, "o", color=colour, label=f"{group.name} ({group.size:,}){around}".replace("$", r"\$"), **style)
