"""Surprisals of a text as a heat map: one HTML file without scripts, and a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from .surprisal import DIRECTIONS, SpacedWord

# At so many bits and more the colour is full: one word of a million.
MOST_BITS = 20.0
_COLUMNS = 100
_COLOUR = "#d55e00"
# The size of a letter of the picture in inches, width and height of a line.
_LETTER, _LINE = 0.085, 0.24


def render_surprisals(lines: Sequence[Sequence[SpacedWord]], direction: str, facts: Sequence[str]) -> str:
    """The page: each line with its words, the more surprising the darker; a word that is pointed at tells its bits.

    Args:
        lines: The words of each line.
        direction: Which of `DIRECTIONS` is shown first; the page can show each.
        facts: What stands below the heading.
    """
    template = Template(files(__package__).joinpath("surprisal.html").read_text(encoding="utf-8"))
    choices = "".join(
        f'<label><input type="radio" name="direction" id="{each}"{" checked" if each == direction else ""}> '
        f"{each}</label>"
        for each in DIRECTIONS
    )
    body = "\n".join(f"<p>{' '.join(map(_word, words))}</p>" for words in lines)
    return template.substitute(
        facts=escape(" · ".join(facts)), choices=choices, most=f"{MOST_BITS:g}", colour=_COLOUR, body=body
    )


def _word(word: SpacedWord) -> str:
    shares = ";".join(f"--{name}:{_share(getattr(word, name)):.2f}" for name in DIRECTIONS)
    told = ", ".join(f"{name} {getattr(word, name):.1f}" for name in DIRECTIONS)
    unknown = "; unknown to the softmax" if word.unknown else ""
    kind = ' class="unknown"' if word.unknown else ""
    return f'<span{kind} style="{shares}" title="bits: {told}{unknown}">{escape(word.word)}</span>'


def _share(bits: float) -> float:
    return min(max(bits, 0.0) / MOST_BITS, 1.0)


def plot_surprisals(
    lines: Sequence[Sequence[SpacedWord]], direction: str, file: str | os.PathLike, max_rows: int = 60
) -> None:
    """Draw the first rows of the text as a PNG.

    Args:
        lines: The words of each line.
        direction: Which of `DIRECTIONS`.
        file: The picture.
        max_rows: Rows of a hundred letters that it has at most.
    Raises: ImportError where matplotlib is not installed.
    """
    try:
        import matplotlib.style
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError as error:
        raise ImportError("the picture of surprisals needs matplotlib: pip install 'hf_elmo[look]'.") from error
    rows = cut_rows(lines)[:max_rows]
    colours = LinearSegmentedColormap.from_list("bits", ["#ffffff", _COLOUR])
    # A user's own style must not change the picture.
    with matplotlib.style.context("default"):
        figure = Figure(figsize=(_COLUMNS * _LETTER, (len(rows) + 2) * _LINE))
        axes = figure.add_axes((0.01, 0, 0.98, 1))
        axes.set(xlim=(-0.5, _COLUMNS), ylim=(len(rows) + 1.5, -0.5))
        axes.axis("off")
        for row, words in enumerate(rows):
            for column, word in words:
                colour = colours(_share(getattr(word, direction)))
                axes.add_patch(Rectangle((column - 0.3, row + 0.1), len(word.word) + 0.6, 0.8, color=colour))
                # What has dollars in it is no formula.
                place = (column, row + 0.5)
                axes.text(*place, word.word, family="monospace", fontsize=10, va="center", parse_math=False)
                if word.unknown:
                    ends = (column, column + len(word.word))
                    axes.plot(ends, (row + 0.82, row + 0.82), ":", color="black", linewidth=1)
        told = f"surprisal, {direction}: white 0 bits, full colour {MOST_BITS:g} bits and more"
        if any(word.unknown for words in rows for _, word in words):
            told += "; dotted: unknown to the softmax, scored as one word"
        axes.text(0, len(rows) + 0.8, told, fontsize=8, va="center", color="#62676e")
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None})


def cut_rows(lines: Sequence[Sequence[SpacedWord]]) -> list[list[tuple[int, SpacedWord]]]:
    """The words of the picture's rows with the columns that they begin in; each line begins a row."""
    rows: list[list[tuple[int, SpacedWord]]] = []
    for words in lines:
        column = _COLUMNS
        for number, word in enumerate(words):
            if not number or column + len(word.word) > _COLUMNS:
                rows.append([])
                column = 0
            rows[-1].append((column, word))
            column += len(word.word) + 1
    return rows
