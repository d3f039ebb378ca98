"""What each layer knows, as measured on senses and on parts of speech: their figures, tables, and section of a card."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .tables import markdown_table

# What a results file calls its kind, and what people call it.
SENSES, TAGS = "senses", "tags"
_ABOUT = {
    SENSES: "Senses: a use gets the sense whose mean vector is nearest to its own, as do the bag of words of its "
    "sentence and, of all uses, the most frequent sense; mean and deviation of {repeats} splits.",
    TAGS: "Parts of speech: softmax regression on the vectors of a layer, and the tag that a word has most often in "
    "training; mean and deviation of {repeats} orders of the training data.",
}


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


def best_layer(results: Mapping[str, Any]) -> str:
    """Which layer leads over all words, and whether by more than the deviations, in a sentence."""
    scores = results["scores"]
    ways = scores.get("all words") or next(iter(scores.values()))
    layers = {way: measures["accuracy"] for way, measures in ways.items() if way.startswith("layer ")}
    first, second = sorted(layers, key=lambda way: -layers[way]["mean"])[:2]
    lead = layers[first]["mean"] - layers[second]["mean"]
    spread = max(layers[first]["deviation"] or 0, layers[second]["deviation"] or 0)
    means = "more" if lead > spread else "no more"
    return f"{first.capitalize()} leads {second} by {100 * lead:.2f}, {means} than the larger deviation of the two."


def layers_section(known: Sequence[tuple[Mapping[str, Any], str | None]]) -> str | None:
    """The section of a card on what each layer knows; None where nothing was measured.

    Args:
        known: The results of senses, of parts of speech or of both, and the name of each one's picture beside the card.
    Raises: KeyError naming the figure that results lack.
    """
    if not known:
        return None
    parts = ["## Which layer knows what"]
    for results, plot in known:
        unit = "uses" if results["kind"] == SENSES else "words"
        data = "; ".join(f"{name}: {text['source']}, {text[unit]:,} {unit}" for name, text in results["data"].items())
        parts.append(f"{_ABOUT[results['kind']].format(repeats=results['repeats'])} Data: {data}.")
        parts.append(scores_table(results))
        parts.append(best_layer(results))
        if plot:
            parts.append(f"![accuracy of each layer on {results['kind']}]({plot})")
    return "\n\n".join(parts)
