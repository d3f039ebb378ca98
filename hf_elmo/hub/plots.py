"""The pictures beside a card: a pre-training run, what each layer knows, and which layers a task reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .scores import layer_names, mean_shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colors that stay apart for color-blind readers and in print (Okabe and Ito 2008).
_BLACK, _GREY, _DARK_GREY = "#000000", "#999999", "#555555"
_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _RED = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"
_COLORS = (_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _RED)
# Losses in the history, what a legend calls them, and their colors. The sampled loss lies below the full one of the
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
_MIXES = ("mix at the input", "mix at the output")


def plot_run(results: Mapping[str, Any], file: str | os.PathLike) -> None:
    """Draw a pre-training run as a PNG: perplexities above, learning rate and speed below.

    Args:
        results: What the run measured, as in results.json.
        file: The picture.
    Raises:
        ImportError: matplotlib is not installed.
        KeyError: The results lack what is drawn.
    """
    _save(draw_run, results, file, (8, 7.5))


def plot_layer_scores(results: Mapping[str, Any], file: str | os.PathLike) -> None:
    """Draw the accuracy of each layer on each set of words as a PNG; `results` as in senses.json or tags.json."""
    _save(draw_layer_scores, results, file, (6.5, 3.6))


def plot_layer_shares(results: Mapping[str, Any], file: str | os.PathLike) -> None:
    """Draw the shares of the layers that a task's model reads as a PNG; `results` as in its results.json."""
    _save(draw_layer_shares, results, file, (5.5, 3.2))


def _save(
    draw: Callable[[Figure, Mapping[str, Any]], None],
    results: Mapping[str, Any],
    file: str | os.PathLike,
    inches: tuple[float, float],
) -> None:
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib; run: pip install 'hf_elmo[plots]'") from error
    # A user's own style must not change the picture.
    with matplotlib.style.context("default"):
        figure = Figure(figsize=inches, layout="constrained")
        draw(figure, results)
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None})


def draw_run(figure: Figure, results: Mapping[str, Any]) -> None:
    """Draw a run, as `plot_run`."""
    from matplotlib.ticker import EngFormatter

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


def draw_layer_scores(figure: Figure, results: Mapping[str, Any]) -> None:
    """Draw a point for each layer and set of words, with its deviation."""
    from matplotlib.ticker import PercentFormatter

    scores = results["scores"]
    ways = list(next(iter(scores.values())))
    others = [way for way in ways if not way.startswith("layer ")]
    axes = figure.subplots()
    for number, way in enumerate(ways):
        is_layer = way not in others
        color = _COLORS[(number - len(others)) % len(_COLORS)] if is_layer else (_GREY, _DARK_GREY)[number % 2]
        places = [place + (number - (len(ways) - 1) / 2) * 0.8 / len(ways) for place in range(len(scores))]
        figures = [each[way]["accuracy"] for each in scores.values()]
        axes.errorbar(
            places,
            [each["mean"] for each in figures],
            yerr=[each["deviation"] or 0 for each in figures],
            fmt="o" if is_layer else "x",
            color=color,
            capsize=3,
            label=way,
        )
    axes.set_xticks(range(len(scores)), list(scores))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(True, axis="y", alpha=0.3)
    axes.set_ylabel("accuracy")
    figure.legend(fontsize="small", loc="outside lower center", ncols=3)


def draw_layer_shares(figure: Figure, results: Mapping[str, Any]) -> None:
    """Draw a bar for each layer and mix: its share, over several seeds the mean one with the deviation."""
    from matplotlib.ticker import PercentFormatter

    mean, deviation = mean_shares(results)
    num_mixes, num_layers = mean.shape
    names = layer_names(num_layers)
    axes = figure.subplots()
    width = 0.8 / num_mixes
    for mix in range(num_mixes):
        places = np.arange(num_layers) + (mix - (num_mixes - 1) / 2) * width
        label = _MIXES[mix] if num_mixes <= len(_MIXES) else f"mix {mix + 1}"
        errors = None if deviation is None else deviation[mix]
        axes.bar(places, mean[mix], width, yerr=errors, capsize=3, color=_COLORS[mix % 4], label=label)
    axes.axhline(1 / num_layers, color=_GREY, linestyle=":", label="even shares")
    axes.set_xticks(np.arange(num_layers), names)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylim(bottom=0)
    seeds = "" if deviation is None else f", mean and deviation of {len(results['seeds'])} seeds"
    axes.set_ylabel("share of the layer")
    axes.set_title(f"Layers that the task reads{seeds}", fontsize="medium")
    figure.legend(fontsize="small", loc="outside lower center", ncols=3)


def _draw_perplexities(axes: Axes, results: Mapping[str, Any]) -> None:
    history, evaluations = results["history"], results["evaluations"]
    axes.set_yscale("log")
    axes.set_ylabel("perplexity")
    is_sampled = any("sampled_loss" in entry for entry in history)
    for key, label, color in _SAMPLED_LOSSES if is_sampled else _LOSSES:
        _draw(axes, history, key, np.exp, color=color, label=label)
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


def _draw_times(axes: Axes, results: Mapping[str, Any]) -> None:
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


def _mark_kept(axes: Axes, results: Mapping[str, Any]) -> None:
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
