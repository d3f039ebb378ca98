"""What a user sees of a run while it lasts, and what is told of several seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm.auto import tqdm
from transformers import TrainerCallback

from ..text.progress import track

# What the Trainer calls the results on each split.
RESULT_PREFIXES = {"validation": "eval", "test": "predict"}


class Lines(TrainerCallback):
    """How far the training is, and a line for each log that has a loss or a score in it, those named in percent."""

    def __init__(self, scores: Sequence[str]) -> None:
        self._scores = scores

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # Of a run that is resumed the steps that are left.
        count, shown = state.max_steps - state.global_step, state.is_world_process_zero and not args.disable_tqdm
        self._steps: Any = track(range(count), "training", "steps", count, shown)
        next(self._steps, None)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        next(self._steps, None)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._steps.close()

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


def by_type(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The scores of each type of a metric's report on spans, whose other entries are of all of them."""
    return {name: row for name, row in report.items() if isinstance(row, dict)}


def best_of(runs: Mapping[int, Mapping[str, Any]], score: str, greater_is_better: bool) -> int:
    """The seed of the results with the best validation score; the first where they have none, or the same one."""
    key, sign = f"eval_{score.removeprefix('eval_')}", 1 if greater_is_better else -1
    return max(runs, key=lambda seed: sign * runs[seed].get(key, 0.0))


def summarize(runs: Mapping[int, Mapping[str, Any]], scores: Sequence[str]) -> dict[str, Any]:
    """What results.json says of the results of several seeds, by names of scores such as `predict_f1`.

    That is `seeds`, a row for each with its scores, the step that was kept and the shares of layers, and `mean` and
    `deviation` (of a sample: divided by one less than there are seeds) of each score.
    """
    kept = [*scores, "train_loss", "kept_step", "layer_shares"]
    values = {score: [run[score] for run in runs.values()] for score in scores}
    return {
        "seeds": [{"seed": seed, **{key: run[key] for key in kept if key in run}} for seed, run in runs.items()],
        "mean": {score: statistics.fmean(numbers) for score, numbers in values.items()},
        "deviation": {score: statistics.stdev(numbers) for score, numbers in values.items()},
    }
