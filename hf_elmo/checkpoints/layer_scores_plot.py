"""The picture of what each layer knows: its accuracy on each set of words, beside ways that need no model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .plots import fingerprint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that stay apart for colour-blind readers and in print (Okabe and Ito 2008).
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
_GREYS = ("#999999", "#555555")


def plot_layer_scores(results: dict[str, Any], file: str | os.PathLike) -> None:
    """Draw the accuracies as a PNG; equal results make equal files where matplotlib is the same.

    Args:
        results: As in senses.json or tags.json.
        file: The picture.
    Raises: ImportError where matplotlib is not installed.
    """
    figure = build_layer_scores_figure(results)
    import matplotlib

    with matplotlib.style.context("default"):
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None, "Description": fingerprint(results)})


def build_layer_scores_figure(results: Mapping[str, Any]) -> Figure:
    """A point for each layer and set of words, with its deviation; raises as above."""
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError as error:
        raise ImportError("the picture of the layers' scores needs matplotlib: pip install 'hf_elmo[look]'.") from error
    scores = results["scores"]
    ways = list(next(iter(scores.values())))
    others = [way for way in ways if not way.startswith("layer ")]
    # A user's own style must not change the picture.
    with matplotlib.style.context("default"):
        figure = Figure(figsize=(6.5, 3.6), layout="constrained")
        axes = figure.subplots()
        for number, way in enumerate(ways):
            is_layer = way not in others
            colour = _COLOURS[(number - len(others)) % len(_COLOURS)] if is_layer else _GREYS[number % len(_GREYS)]
            places = [place + (number - (len(ways) - 1) / 2) * 0.8 / len(ways) for place in range(len(scores))]
            figures = [each[way]["accuracy"] for each in scores.values()]
            axes.errorbar(
                places,
                [each["mean"] for each in figures],
                yerr=[each["deviation"] or 0 for each in figures],
                fmt="o" if is_layer else "x",
                color=colour,
                capsize=3,
                label=way,
            )
        axes.set_xticks(range(len(scores)), list(scores))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.grid(True, axis="y", alpha=0.3)
        axes.set_ylabel("accuracy")
        figure.legend(fontsize="small", loc="outside lower center", ncols=3)
    return figure
