"""Several trainings of one task that differ by their seed: which one is kept, and what all of them scored."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any


def best_of(runs: Sequence[Mapping[str, Any]], score: str, greater_is_better: bool) -> int:
    """The place of the run whose validation score is best; the first where they have none, or the same one.

    Args:
        runs: The results of each run.
        score: The name of the score, with `eval_` before it or without.
        greater_is_better: Whether a higher one is better.
    """
    key = f"eval_{score.removeprefix('eval_')}"
    sign = 1 if greater_is_better else -1
    return max(range(len(runs)), key=lambda place: (sign * runs[place].get(key, 0.0), -place))


def summarize(runs: Mapping[int, Mapping[str, Any]], scores: Sequence[str]) -> dict[str, Any]:
    """What results.json says of several seeds.

    Args:
        runs: The results of the run of each seed.
        scores: The names of its scores, `predict_f1` for example.
    Returns: `seeds`, a row for each with its scores, the step that was kept and the shares of layers; `mean` and
        `deviation` (of a sample: divided by one less than there are seeds; None for a single one) of each score.
    """
    kept = [*scores, "train_loss", "kept_step", "layer_shares"]
    rows = [{"seed": seed, **{key: run[key] for key in kept if key in run}} for seed, run in runs.items()]
    values = {score: [row[score] for row in rows] for score in scores}
    return {
        "seeds": rows,
        "mean": {score: statistics.fmean(numbers) for score, numbers in values.items()},
        "deviation": {
            score: statistics.stdev(numbers) if len(numbers) > 1 else None for score, numbers in values.items()
        },
    }


def describe_seeds(summary: Mapping[str, Any], prefixes: Mapping[str, str], shown: Sequence[str]) -> str:
    """A line for each split with the mean and the deviation of its scores, in percent.

    Args:
        summary: What `summarize` gave.
        prefixes: What the scores of each split begin with.
        shown: Which scores.
    """
    mean, deviation = summary["mean"], summary["deviation"]
    lines = []
    for split, prefix in prefixes.items():
        parts = [
            f"{name} {100 * mean[key]:.2f} ± {100 * deviation[key]:.2f}"
            for name in shown
            if (key := f"{prefix}_{name}") in mean
        ]
        if parts:
            lines.append(f"Mean and deviation of {len(summary['seeds'])} seeds, {split}: {', '.join(parts)}.")
    return "\n".join(lines)
