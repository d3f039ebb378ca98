"""The picture of the shares of the biLM's layers that a trained task reads, with their deviation over seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .plots import fingerprint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that stay apart for colour-blind readers and in print (Okabe and Ito 2008).
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")
_MIXES = ("mix at the input", "mix at the output")


def plot_layer_shares(results: dict[str, Any], file: str | os.PathLike) -> None:
    """Draw the shares as a PNG; equal results make equal files where matplotlib is the same.

    Args:
        results: What a run measured, as in results.json.
        file: The picture.
    Raises:
        ImportError: matplotlib is not installed.
        ValueError: The results have no shares.
    """
    figure = build_shares_figure(results)
    import matplotlib

    with matplotlib.style.context("default"):
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None, "Description": fingerprint(results)})


def build_shares_figure(results: Mapping[str, Any]) -> Figure:
    """A bar for each layer and mix: its share, over several seeds the mean one with the deviation; raises as above."""
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError as error:
        raise ImportError("the plot of a task's layers needs matplotlib: pip install 'hf_elmo[plots]'.") from error
    mean, deviation = mean_shares(results)
    num_mixes, num_layers = mean.shape
    names = layer_names(num_layers)
    # A user's own style must not change the picture.
    with matplotlib.style.context("default"):
        figure = Figure(figsize=(5.5, 3.2), layout="constrained")
        axes = figure.subplots()
        width = 0.8 / num_mixes
        for mix in range(num_mixes):
            places = np.arange(num_layers) + (mix - (num_mixes - 1) / 2) * width
            label = _MIXES[mix] if num_mixes <= len(_MIXES) else f"mix {mix + 1}"
            errors = None if deviation is None else deviation[mix]
            axes.bar(places, mean[mix], width, yerr=errors, capsize=3, color=_COLOURS[mix % 4], label=label)
        axes.axhline(1 / num_layers, color="#999999", linestyle=":", label="even shares")
        axes.set_xticks(np.arange(num_layers), names)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_ylim(bottom=0)
        seeds = "" if deviation is None else f", mean and deviation of {len(results['seeds'])} seeds"
        axes.set_ylabel("share of the layer")
        axes.set_title(f"Layers that the task reads{seeds}", fontsize="medium")
        figure.legend(fontsize="small", loc="outside lower center", ncols=3)
    return figure


def layer_names(num_layers: int) -> list[str]:
    """What the layers are called, the token encoder's first."""
    return ["token encoder", *(f"layer {number}" for number in range(1, num_layers))]


def mean_shares(results: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray | None]:
    """The shares, (mixes, layers), over all seeds, and their deviation where there are several.

    Raises: ValueError where the results have none.
    """
    rows = [run["layer_shares"] for run in results.get("seeds", []) if "layer_shares" in run]
    rows = rows or [results.get("layer_shares")]
    if not rows[0]:
        raise ValueError(
            "results have no layer_shares: they are not those of a trained task that reads ELMo; take those that "
            "hf-elmo train-... wrote."
        )
    shares = np.array(rows, dtype=float)
    return shares.mean(axis=0), shares.std(axis=0, ddof=1) if len(rows) > 1 else None
