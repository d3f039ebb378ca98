"""Figures as tables and sentences: which layer leads on senses and on tags, and which layers a task reads."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

# What a results file calls its kind, and what people call it.
SENSES, TAGS = "senses", "tags"
_UNITS = {SENSES: "uses", TAGS: "words"}


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    """A table in Markdown, without a line end behind it; any text may stand in a cell.

    The first `names` columns stand at the left, the figures behind them at the right.
    """
    lines = [head, ["---" if column < names else "---:" for column in range(len(head))], *rows]
    if uneven := [line for line in lines if len(line) != len(head)]:
        raise ValueError(f"a row has {len(uneven[0])} cells, {list(uneven[0])}; expected {len(head)}, as in {head}.")
    cells = ([" ".join(text.replace("|", "\\|").splitlines()) for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def averaged(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scores with `mean`, `deviation` (of a sample; None of one) and `values` in place of each list of figures."""
    if isinstance(scores, Mapping):
        return {name: averaged(each) for name, each in scores.items()}
    deviation = statistics.stdev(scores) if len(scores) > 1 else None
    return {"mean": statistics.fmean(scores), "deviation": deviation, "values": list(scores)}


def scores_table(results: Mapping[str, Any]) -> str:
    """A row for each layer and each way without one, a column for each set of words and measure, in Markdown."""
    scores = results["scores"]
    first = next(iter(scores.values()))
    columns = [(name, measure) for name, ways in scores.items() for measure in next(iter(ways.values()))]
    head = ["in percent", *(name if measure == "accuracy" else f"{name}, {measure}" for name, measure in columns)]
    rows = [[way, *(_cell(scores[name][way][measure]) for name, measure in columns)] for way in first]
    return markdown_table(head, rows)


def _cell(figures: Mapping[str, Any]) -> str:
    mean = f"{100 * figures['mean']:.2f}"
    return mean if figures["deviation"] is None else f"{mean} ± {100 * figures['deviation']:.2f}"


def paired_errors(right: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, dict[str, dict[str, float]]]:
    """The standard error of the difference between the accuracies of each two ways, over the items of a set of words.

    It is that of a paired bootstrap, without its draws: of the mean of N differences drawn from themselves. `right` has
    by set and way how often each item is found, in [0, 1], (N,).
    """
    return {
        name: {
            way: {other: float((found - found_too).std() / len(found) ** 0.5) for other, found_too in ways.items()}
            for way, found in ways.items()
        }
        for name, ways in right.items()
    }


def what_leads(results: Mapping[str, Any]) -> str:
    """Which layer leads over all words, and where a way without a model is above all layers, in some sentences.

    A lead is larger than the deviation over repeats and than the standard error over the test's items.
    """
    errors = results["standard_errors"]
    ranked = {
        name: sorted(((measures["accuracy"], way) for way, measures in ways.items()), key=lambda each: -each[0]["mean"])
        for name, ways in results["scores"].items()
    }
    name = "all words" if "all words" in ranked else next(iter(ranked))
    (best, first), (next_best, second) = [each for each in ranked[name] if each[1].startswith("layer ")][:2]
    lead, items = best["mean"] - next_best["mean"], _UNITS[results["kind"]]
    bounds = {
        "the larger deviation of the two": max(best["deviation"] or 0, next_best["deviation"] or 0),
        f"the standard error of their difference over the test's {items}": errors[name][first][second],
    }
    above = [f"{what} ({100 * bound:.2f})" for what, bound in bounds.items() if lead <= bound]
    said = above or [f"{what} ({100 * bound:.2f})" for what, bound in bounds.items()]
    more = f"{first} has {100 * lead:.2f} more than {second}, which is"
    more = f"No layer leads: {more} no" if above else more.capitalize()
    sentences = [f"{more} more than {' and '.join(said)}."]
    for name, ways in ranked.items():
        best, layer = next(each for each in ways if each[1].startswith("layer "))
        for figures, way in ways:
            lead, error = figures["mean"] - best["mean"], errors[name][way][layer]
            if lead > error:
                sentences.append(
                    f"The {way}, which needs no model, has {100 * lead:.2f} more than every layer on {name} (standard "
                    f"error {100 * error:.2f})."
                )
    return " ".join(sentences)


def layer_names(num_layers: int) -> list[str]:
    """What the layers are called, the token encoder's first."""
    return ["token encoder", *(f"layer {number}" for number in range(1, num_layers))]


def mean_shares(results: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray | None]:
    """The shares, (mixes, layers), over all seeds, and their deviation where there are several."""
    rows = [run["layer_shares"] for run in results.get("seeds", []) if "layer_shares" in run]
    shares = np.array(rows or [results["layer_shares"]], dtype=float)
    return shares.mean(axis=0), shares.std(axis=0, ddof=1) if len(rows) > 1 else None
