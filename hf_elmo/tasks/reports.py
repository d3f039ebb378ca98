"""What a user sees of a run: its progress, a line for each log of the Trainer, tables of scores, and several seeds."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm.auto import tqdm
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback

from ..text.progress import SECONDS_BETWEEN_LINES, progress_line

# What the Trainer calls the results on each split.
RESULT_PREFIXES = {"validation": "eval", "test": "predict"}


def show_in_lines(trainer: Trainer, scores: tuple[str, ...]) -> None:
    """Have a Trainer print our lines in place of its dumps of dictionaries.

    Args:
        trainer: The Trainer.
        scores: The scores that the lines show, in percent.
    """
    trainer.add_callback(_Lines(scores))
    trainer.remove_callback(PrinterCallback)
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(_Bars if sys.stderr.isatty() else _ProgressLines)


class _Bars(ProgressCallback):
    """transformers' progress bars without its dumps of dictionaries."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        pass


class _ProgressLines(TrainerCallback):
    """What a file gets in place of bars: a line each half minute of training."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._first_step, self._started = state.global_step, time.monotonic()
        self._printed = self._started

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        now = time.monotonic()
        if state.is_world_process_zero and now - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = now
            # Of a run that goes on only the steps since then took these seconds.
            step, taken = state.global_step, state.global_step - self._first_step
            seconds = (now - self._started) * step / taken
            print(progress_line("training", "steps", step, state.max_steps, seconds), file=sys.stderr, flush=True)


class _Lines(TrainerCallback):
    """One readable line for each log of the Trainer that has a loss or a score in it."""

    def __init__(self, scores: tuple[str, ...]) -> None:
        self._scores = scores

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        start = f"epoch {logs.get('epoch', 0):g} of {args.num_train_epochs:g}" if args.max_steps <= 0 else ""
        start = start or f"step {state.global_step} of {args.max_steps}"
        if "loss" in logs:
            tqdm.write(f"{start}: training loss {float(logs['loss']):.4f}, learning rate {logs['learning_rate']:.3g}")
        if "eval_loss" in logs:
            scores = ", ".join(f"{name} {100 * logs[f'eval_{name}']:.2f}" for name in self._scores)
            tqdm.write(f"{start}: validation loss {logs['eval_loss']:.4f}, {scores}")


def score_lines(title: str, rows: Sequence[tuple[str, Mapping[str, float]]], width: int) -> list[str]:
    """A title, the names of the scores, and a line of percents for each row.

    Args:
        title: The first line.
        rows: Names with their "precision", "recall", "f1" and "number".
        width: Of the column of names.
    """
    lines = [title, f"{'':{width}}  precision   recall       F1  support"]
    for name, row in rows:
        scores = "  ".join(f"{100 * row[score]:7.2f}" for score in ("precision", "recall", "f1"))
        lines.append(f"{name:{width}}  {scores:>27}  {row['number']:7}")
    return lines


def by_type(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The scores of each type of a metric's report on spans, whose other entries are of all of them."""
    return {name: row for name, row in report.items() if isinstance(row, dict)}


def span_score_lines(title: str, report: Mapping[str, Any]) -> list[str]:
    """The scores of a metric's report on spans, a line for each type and the last one for all."""
    types = by_type(report)
    overall = {score: report[f"overall_{score}"] for score in ("precision", "recall", "f1")}
    overall["number"] = sum(row["number"] for row in types.values())
    return score_lines(title, [*types.items(), ("all", overall)], max(map(len, [*types, "all"])))


def class_report(title: str, report: Mapping[str, Any]) -> str:
    """The scores in percent, a line per class, and how often each class was taken for which other."""
    classes = report["by_class"]
    width = max(map(len, [*classes, "gold"]))
    lines = score_lines(title, [*classes.items()], width)
    frequent = max(classes, key=lambda name: classes[name]["number"])
    share = classes[frequent]["number"] / sum(row["number"] for row in classes.values())
    lines.append(
        f"accuracy {100 * report['accuracy']:.2f}, macro F1 {100 * report['macro_f1']:.2f}; always {frequent!r}: "
        f"accuracy {100 * share:.2f}"
    )
    widths = [max(len(name), 6) for name in classes]
    lines += ["", f"{'gold':{width}}  predicted as"]
    lines.append(" ".join([f"{'':{width}} ", *(f"{name:>{size}}" for name, size in zip(classes, widths, strict=True))]))
    for name, row in zip(classes, report["confusion"], strict=True):
        counts = (f"{count:{size}}" for count, size in zip(row, widths, strict=True))
        lines.append(" ".join([f"{name:{width}} ", *counts]))
    return "\n".join(lines)


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
