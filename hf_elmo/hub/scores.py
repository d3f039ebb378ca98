"""What is said of layers: which of them leads on senses and on parts of speech, and which of them a task reads."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .tables import markdown_table

# What a results file calls its kind, and what people call it.
SENSES, TAGS = "senses", "tags"
_UNITS = {SENSES: "uses", TAGS: "words"}


def averaged(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scores as a results file has them: for each list of figures its mean, its deviation and itself.

    Args:
        scores: By set of words, way of finding and measure, a figure for each repeat; of ways without chance only one.
    Returns: The same with `mean`, `deviation` (of a sample: divided by one less than there are; None of one) and
        `values` in place of each list.
    """
    return {
        name: {
            way: {measure: _average(values) for measure, values in measures.items()} for way, measures in ways.items()
        }
        for name, ways in scores.items()
    }


def _average(values: Sequence[float]) -> dict[str, Any]:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "deviation": deviation, "values": list(values)}


def scores_table(results: Mapping[str, Any]) -> str:
    """A row for each layer and each way without one, a column for each set of words and measure, in Markdown.

    Args:
        results: As in senses.json or tags.json.
    Raises: KeyError naming what they lack.
    """
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

    It is that of a paired bootstrap, without its draws: of the mean of N differences drawn from themselves.

    Args:
        right: By set of words and way of finding, how often each item is found, in [0, 1], (N,).
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

    A lead is one where it is larger than the deviation over repeats and than the standard error over the test's items.

    Args:
        results: As in senses.json or tags.json.
    Raises: KeyError naming what they lack.
    """
    scores, errors = results["scores"], results["standard_errors"]
    name = "all words" if "all words" in scores else next(iter(scores))
    layers, _ = _accuracies(scores[name])
    first, second = sorted(layers, key=lambda way: -layers[way]["mean"])[:2]
    lead = layers[first]["mean"] - layers[second]["mean"]
    bounds = {
        "the larger deviation of the two": max(layers[first]["deviation"] or 0, layers[second]["deviation"] or 0),
        f"the standard error of their difference over the test's {_UNITS[results['kind']]}": errors[name][first][
            second
        ],
    }
    said = [f"{what} ({100 * bound:.2f})" for what, bound in bounds.items()]
    above = [f"{what} ({100 * bound:.2f})" for what, bound in bounds.items() if lead <= bound]
    more = f"{first} has {100 * lead:.2f} more than {second}"
    if above:
        sentences = [f"No layer leads: {more}, which is no more than {' and '.join(above)}."]
    else:
        sentences = [f"{more[0].upper()}{more[1:]}, which is more than {' and '.join(said)}."]
    for name, ways in scores.items():
        layers, others = _accuracies(ways)
        best = max(layers, key=lambda way: layers[way]["mean"])
        for way, figures in others.items():
            lead, error = figures["mean"] - layers[best]["mean"], errors[name][way][best]
            if lead > error:
                sentences.append(
                    f"The {way}, which needs no model, has {100 * lead:.2f} more than every layer on {name} (standard "
                    f"error {100 * error:.2f})."
                )
    return " ".join(sentences)


def _accuracies(ways: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The accuracies of layers, and of ways without one."""
    accuracies = {way: measures["accuracy"] for way, measures in ways.items()}
    layers = {way: figures for way, figures in accuracies.items() if way.startswith("layer ")}
    return layers, {way: figures for way, figures in accuracies.items() if way not in layers}


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
