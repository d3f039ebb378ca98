"""What a user sees of a training run: bars on a terminal, lines in a file, and a line for each log of the Trainer."""

from __future__ import annotations

import sys
import time
from typing import Any

from tqdm.auto import tqdm
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback

from ..text.progress import SECONDS_BETWEEN_LINES, progress_line


def show_in_lines(trainer: Trainer, scores: tuple[str, ...]) -> None:
    """Have a Trainer print our lines in place of its dumps of dictionaries.

    Args:
        trainer: The Trainer.
        scores: The scores that the lines show, in percent.
    """
    trainer.add_callback(_LogLines(scores))
    trainer.remove_callback(PrinterCallback)
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(_Bars if sys.stderr.isatty() else _ProgressLines)


class _Bars(ProgressCallback):
    """transformers' progress bars without its dumps of dictionaries."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        pass


class _ProgressLines(TrainerCallback):
    """What a file gets in place of bars: a line each half minute."""

    def __init__(self) -> None:
        self._first_step = self._predicted = 0
        self._started = self._printed = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._first_step = state.global_step
        self._started = self._printed = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        taken = state.global_step - self._first_step
        seconds = time.monotonic() - self._started
        # Of a run that goes on only the steps since then took these seconds.
        self._show("training", "steps", state.global_step, state.max_steps, seconds * state.global_step / taken, state)

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, eval_dataloader: Any = None, **kwargs: Any
    ) -> None:
        self._predicted += 1
        if self._predicted == 1:
            self._first_predicted = time.monotonic()
            return
        # The first one is done when the clock starts.
        seconds = (time.monotonic() - self._first_predicted) * self._predicted / (self._predicted - 1)
        self._show("predicting", "batches", self._predicted, len(eval_dataloader), seconds, state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._predicted = 0

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any, **kwargs: Any) -> None:
        self._predicted = 0

    def _show(self, what: str, unit: str, number: int, total: int, seconds: float, state: Any) -> None:
        if state.is_world_process_zero and time.monotonic() - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            print(progress_line(what, unit, number, total, seconds), file=sys.stderr, flush=True)


class _LogLines(TrainerCallback):
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
