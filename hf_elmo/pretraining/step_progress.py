"""How far the steps of a run are: a bar on a terminal, and elsewhere a line every half minute."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

from ..text.progress import SECONDS_BETWEEN_LINES
from .time_budget import TimeBudget


class StepProgress:
    """Shows steps, loss, words per second and the time left on stderr.

    Args:
        num_steps: Steps of the whole run; -1 where that is not known as yet.
        step: Steps that were made before.
        shown: False shows nothing, as the other processes of a run do.
        budget: The time that the run has; None where it ends by its steps.
    """

    def __init__(self, num_steps: int, step: int = 0, shown: bool = True, budget: TimeBudget | None = None):
        self.num_steps = num_steps
        self._budget = budget
        self._bar: tqdm | None = None
        self._shown = shown
        self._first_step = self._last_step = self._printed_step = step
        self._started = self._printed = time.monotonic()
        self._figures = ""
        if shown and sys.stderr.isatty():
            self._bar = tqdm(
                total=num_steps if num_steps >= 0 else None,
                initial=step,
                desc="pre-training",
                unit="step",
                dynamic_ncols=True,
            )

    def __enter__(self) -> StepProgress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._shown and self._last_step > self._printed_step:
            self._print()

    def update(self, step: int, loss: float, words_per_second: float, num_steps: int | None = None) -> None:
        """Show that a step was made, and of how many where that has changed."""
        self._last_step = step
        if num_steps not in (None, self.num_steps):
            self.num_steps = num_steps
            if self._bar is not None:
                self._bar.total = num_steps
        self._figures = f"loss {loss:.3f}, {words_per_second:,.0f} words/s"
        if self._bar is not None:
            self._bar.set_postfix_str(self._figures, refresh=False)
            self._bar.update()
        elif self._shown and time.monotonic() - self._printed >= SECONDS_BETWEEN_LINES:
            self._print()

    def clear(self) -> None:
        """Make room for another line."""
        if self._bar is not None:
            self._bar.clear()

    def _print(self) -> None:
        self._printed, self._printed_step = time.monotonic(), self._last_step
        of = f" of {self.num_steps:,}" if self.num_steps >= 0 else ""
        print(
            f"pre-training: step {self._last_step:,}{of}, {self._figures}, {self._times()}", file=sys.stderr, flush=True
        )

    def _times(self) -> str:
        """How long the run has been going on, and what is left."""
        if self._budget is not None:
            # With all that it does and with its earlier legs.
            seconds, total = self._budget.clock.seconds, self._budget.total_seconds
            return f"{seconds / 3600:.2f} of {total / 3600:.2f} hours"
        seconds = self._printed - self._started
        left = seconds * (self.num_steps - self._last_step) / (self._last_step - self._first_step)
        return f"{tqdm.format_interval(seconds)} so far, {tqdm.format_interval(left)} left"
