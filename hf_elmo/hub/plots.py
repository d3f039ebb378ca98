"""The pictures beside a card: a pre-training run, and what each layer knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..given import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colors that stay apart for color-blind readers and in print (Okabe and Ito 2008).
_BLUE, _ORANGE, _GREEN, _PURPLE, _RED, _GRAY = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#999999"
# Losses in the history, their legends and colors. The sampled loss lies below the full one of the same window; the mean
# of all windows' losses, the last one, is drawn where there is no such pair.
_LOSSES = {
    "sampled_loss": ("training, sampled softmax: exp(loss), no perplexity", _GRAY),
    "full_loss": ("training, full softmax", _ORANGE),
    "loss": ("training", _ORANGE),
}
_HELD_OUT: dict[str, dict[str, Any]] = {
    "forward": {"color": _BLUE, "linestyle": "--", "marker": ">", "markersize": 9},
    "backward": {"color": _GREEN, "linestyle": "--", "marker": "<", "markersize": 9},
    # Small and on top: the three lie close together.
    "mean": {"color": "black", "marker": "o", "markersize": 4},
}


@contextmanager
def _picture(file: str | os.PathLike, inches: tuple[float, float]) -> Iterator[Figure]:
    style, figures = (require(f"matplotlib.{name}", "pictures", "plots") for name in ("style", "figure"))
    # A user's own style must not change the picture.
    with style.context("default"):
        figure = figures.Figure(figsize=inches, layout="constrained")
        yield figure
        figure.legend(fontsize="small", loc="outside upper center", ncols=2)
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None})


def plot_run(results: Mapping[str, Any], file: str | os.PathLike) -> Figure:
    """Draw a pre-training run, as in results.json, as a PNG: perplexities above, learning rate and speed below."""
    history, evaluations = results["history"], results["evaluations"]
    with _picture(file, (8, 7)) as figure:
        from matplotlib.ticker import EngFormatter

        perplexity, rate, speed = figure.subplots(3, sharex=True, gridspec_kw={"height_ratios": (5, 1, 1)})
        is_sampled = any("sampled_loss" in entry for entry in history)
        for key, (label, color) in _LOSSES.items():
            if key != "loss" or not is_sampled:
                _draw(perplexity, history, key, np.exp, color=color, label=label)
        for key, style in _HELD_OUT.items():
            _draw(perplexity, evaluations, key, label=f"held-out, {key}", **style)
        if results.get("perplexity_cold"):
            # It was measured with the weights that were kept.
            kept = [entry["words"] for entry in evaluations if entry.get("step") == results.get("kept_step")]
            words, mean = [*kept, results["words_trained"]][0], results["perplexity_cold"]["mean"]
            perplexity.plot(
                words, mean, color="black", linestyle="", marker="x", label="held-out, mean, state from zeros"
            )
        for name, line in (("bigram", "-."), ("unigram", ":")) if results.get("baselines") else ():
            perplexity.axhline(results["baselines"][name], color=_RED, linestyle=line, label=f"{name} baseline")
        _draw(rate, history, "learning_rate", color=_PURPLE)
        _draw(speed, history, "words_per_second", color=_PURPLE)
        _set_ticks(perplexity)
        for axes, label in ((perplexity, "perplexity"), (rate, "learning rate"), (speed, "words/s")):
            axes.set_ylabel(label)
            axes.grid(True, which="major", alpha=0.3)
        for axes in (rate, speed):
            axes.set_ylim(bottom=0)
        speed.xaxis.set_major_formatter(EngFormatter())
        speed.set_xlabel("words trained on")
    return figure


def _draw(
    axes: Axes, entries: Sequence[dict[str, float]], key: str, change: Callable = np.asarray, **style: Any
) -> None:
    """A line through those entries that have the figure; figures without end leave a gap."""
    points = [(entry["words"], entry[key]) for entry in entries if key in entry]
    if points:
        words, figures = np.array(points, dtype=float).T
        with np.errstate(over="ignore"):
            # A line through one point is not seen, and through a few it looks like a trend.
            axes.plot(words, change(figures), **{"marker": "." if len(points) <= 20 else None, **style})


def _set_ticks(axes: Axes) -> None:
    """Plain numbers on a logarithmic axis, however little or much the perplexities differ."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1e4 * low else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:,g}")


def plot_layer_scores(results: Mapping[str, Any], file: str | os.PathLike) -> Figure:
    """Draw the accuracy of each layer, with its deviation, on each set of words; `results` as in senses.json."""
    with _picture(file, (6.5, 3.6)) as figure:
        axes = figure.subplots()
        for name, ways in results["scores"].items():
            figures = [measures["accuracy"] for measures in ways.values()]
            means, deviations = [each["mean"] for each in figures], [each["deviation"] or 0 for each in figures]
            axes.errorbar(list(ways), means, yerr=deviations, fmt="o", capsize=3, label=name)
        axes.grid(True, axis="y", alpha=0.3)
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.set_ylabel("accuracy")
    return figure
