"""The picture of a pre-training run: loss, held-out perplexities and baselines over words and minutes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that stay apart for colour-blind readers and in print (Okabe and Ito 2008).
_BLACK, _GREY = "#000000", "#999999"
_ORANGE, _BLUE, _GREEN, _RED, _PURPLE = "#e69f00", "#0072b2", "#009e73", "#d55e00", "#cc79a7"
# Losses in the history, what a legend calls them, and their colours. The sampled loss lies below the full one of the
# same window; the mean of all windows' training losses is drawn where there is no such pair.
_SAMPLED_LOSSES = (
    ("sampled_loss", "training, sampled softmax: exp(loss), no perplexity", _GREY),
    ("full_loss", "training, full softmax", _ORANGE),
)
_LOSSES = (("loss", "training", _ORANGE),)
_HELD_OUT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("forward", {"color": _BLUE, "linestyle": "--", "marker": ">", "markersize": 9}),
    ("backward", {"color": _GREEN, "linestyle": "--", "marker": "<", "markersize": 9}),
    # Small and on top: the three lie close together.
    ("mean", {"color": _BLACK, "marker": "o", "markersize": 4}),
)


# Up to so many points are drawn as points, too.
_FEW_POINTS = 20


def plot_run(results: dict[str, Any], file: str | os.PathLike) -> None:
    """Draw a run as a PNG; equal results make equal files where matplotlib is the same.

    The file bears the results' fingerprint, so that a picture of other results can be told.

    Args:
        results: What the run measured, as in results.json.
        file: The picture.
    Raises:
        ImportError: matplotlib is not installed.
        ValueError: The results lack what is drawn.
    """
    figure = build_figure(results)
    import matplotlib

    with matplotlib.style.context("default"):
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None, "Description": fingerprint(results)})


def fingerprint(results: dict[str, Any]) -> str:
    """What a picture of these results bears, whether they come from a run or from its results.json."""
    content = json.dumps(results, sort_keys=True)
    return f"results {hashlib.sha256(content.encode('ascii')).hexdigest()}"


def build_figure(results: dict[str, Any]) -> Figure:
    """The figure of a run: perplexities above, learning rate and speed below.

    Args:
        results: What the run measured, as in results.json.
    Raises: As `plot_run`.
    """
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter
    except ImportError as error:
        raise ImportError("the plot of a run needs matplotlib: pip install 'hf_elmo[plots]'.") from error
    missing = [name for name in ("history", "evaluations") if name not in results]
    if missing:
        raise ValueError(
            f"results lack {' and '.join(missing)}, which the plot of a run draws; take those that "
            "hf-elmo pretrain wrote."
        )
    # A user's own style must not change the picture.
    with matplotlib.style.context("default"):
        figure = Figure(figsize=(8, 7.5), layout="constrained")
        perplexity, rate, speed = figure.subplots(3, sharex=True, gridspec_kw={"height_ratios": (5, 1, 1)})
        _draw_perplexities(perplexity, results)
        for axes, key, label in ((rate, "learning_rate", "learning rate"), (speed, "words_per_second", "words/s")):
            _draw(axes, results["history"], key, color=_PURPLE)
            axes.set_ylabel(label)
            # From zero, with room above a line that hardly changes.
            axes.update_datalim([(0, 0)])
            axes.set_ylim(bottom=0)
        speed.xaxis.set_major_formatter(EngFormatter())
        speed.set_xlabel("words trained on")
        _mark_kept(perplexity, results)
        _draw_times(perplexity, results)
        for axes in (perplexity, rate, speed):
            axes.grid(True, which="major", alpha=0.3)
            for words in _words_at(results.get("resumed_from_steps", ()), results["history"]):
                axes.axvline(words, color=_GREY, linestyle=":", label="resumed")
        _draw_legend(figure, perplexity)
    return figure


def _draw_perplexities(axes: Axes, results: dict[str, Any]) -> None:
    history, evaluations = results["history"], results["evaluations"]
    axes.set_yscale("log")
    axes.set_ylabel("perplexity")
    is_sampled = any("sampled_loss" in entry for entry in history)
    for key, label, colour in _SAMPLED_LOSSES if is_sampled else _LOSSES:
        _draw(axes, history, key, np.exp, color=colour, label=label)
    for key, style in _HELD_OUT:
        _draw(axes, evaluations, key, **style, label=f"held-out, {key}")
    cold = results.get("perplexity_cold")
    if cold:
        label = "held-out, mean, each sentence alone"
        # It was measured with the weights that were kept.
        words = [entry["words"] for entry in evaluations if entry.get("step") == results.get("kept_step")]
        words = words or [results["words_trained"]]
        axes.plot(words[:1], cold["mean"], color=_BLACK, linestyle="", marker="x", label=label)
    for name, line in (("bigram", "-."), ("unigram", ":")) if results.get("baselines") else ():
        axes.axhline(results["baselines"][name], color=_RED, linestyle=line, label=f"{name} baseline")
    _set_ticks(axes)


def _set_ticks(axes: Axes) -> None:
    """Numbers of one kind on a logarithmic axis, some few of them however little or much the perplexities differ."""
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

    low, high = axes.get_ylim()
    for locator in (LogLocator(subs=(1, 2, 5)), LogLocator(numticks=8), MaxNLocator(nbins=6)):
        ticks = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]
        if 3 <= len(ticks) <= 12:
            break
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    if max(ticks) >= 1e7:
        form = "{x:.0e}"
    else:
        # As many places for all as the finest needs.
        places = max(len(f"{tick:.3f}".rstrip("0").partition(".")[2]) for tick in ticks)
        form = f"{{x:,.{places}f}}"
    axes.yaxis.set_major_formatter(form)


def _draw_times(axes: Axes, results: dict[str, Any]) -> None:
    """Minutes or hours of the run above, where its words were trained on by then; earlier versions noted none."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator

    entries = [entry for entry in (*results["evaluations"], *results["history"]) if "seconds" in entry]
    if not entries:
        return
    # An evaluation stands at one number of words and takes its time.
    seconds, words = np.array(sorted((entry["seconds"], entry["words"]) for entry in entries), dtype=float).T
    unit, length = ("hours", 3600) if seconds[-1] > 3 * 3600 else ("minutes", 60)
    times = MaxNLocator(nbins=8).tick_values(0, seconds[-1] / length)
    times = [time for time in times if seconds[0] <= time * length <= seconds[-1]]
    # Of those that an evaluation puts at one place the last.
    places = dict(zip(np.interp([time * length for time in times], seconds, words), times, strict=True))
    above = axes.secondary_xaxis("top")
    above.xaxis.set_major_locator(FixedLocator(list(places)))
    above.xaxis.set_major_formatter(FixedFormatter([f"{time:g}" for time in places.values()]))
    above.set_xlabel(f"{unit} of the run, all that it does included")


def _mark_kept(axes: Axes, results: dict[str, Any]) -> None:
    """A ring around the evaluation whose weights the checkpoint has, where that is not the last one."""
    kept = [entry for entry in results["evaluations"] if entry.get("step") == results.get("kept_step")]
    if kept and kept[0] is not results["evaluations"][-1]:
        style: dict[str, Any] = {"marker": "o", "markersize": 13, "markerfacecolor": "none", "markeredgecolor": _RED}
        axes.plot(kept[0]["words"], kept[0]["mean"], linestyle="", **style, label="kept, the best evaluation")


def _draw(
    axes: Axes, entries: Sequence[dict[str, float]], key: str, change: Callable = np.asarray, **style: Any
) -> None:
    """A line through those entries that have the figure; figures without end leave a gap."""
    points = [(entry["words"], entry[key]) for entry in entries if key in entry]
    if points:
        words, figures = np.array(points, dtype=float).T
        with np.errstate(over="ignore"):
            # A line through one point is not seen, and through a few it looks like a trend.
            marker: dict[str, Any] = {"marker": "."} if len(points) <= _FEW_POINTS and "marker" not in style else {}
            axes.plot(words, change(figures), **style, **marker)


def _words_at(steps: Sequence[int], history: Sequence[dict[str, float]]) -> list[float]:
    """The words that were trained on when these steps had been made."""
    known = np.array([(0, 0), *((entry["step"], entry["words"]) for entry in history)])
    return list(np.interp(steps, known[:, 0], known[:, 1]))


def _draw_legend(figure: Figure, axes: Axes) -> None:
    # One entry per label, however often it was drawn, and above the axes, where it hides no point.
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), fontsize="small", loc="outside upper center", ncols=2)
