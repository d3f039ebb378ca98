"""How far the steps of a run are: a bar on a terminal, and elsewhere a line every half minute."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm

from ..text.progress import SECONDS_BETWEEN_LINES


class StepProgress:
    """Shows steps, loss, words per second and the time left on stderr.

    Args:
        num_steps: Steps of the whole run.
        step: Steps that were made before.
        shown: False shows nothing, as the other processes of a run do.
    """

    def __init__(self, num_steps: int, step: int = 0, shown: bool = True):
        self.num_steps = num_steps
        self._bar: tqdm | None = None
        self._shown = shown
        self._first_step = self._last_step = self._printed_step = step
        self._started = self._printed = time.monotonic()
        self._figures = ""
        if shown and sys.stderr.isatty():
            self._bar = tqdm(total=num_steps, initial=step, desc="pre-training", unit="step", dynamic_ncols=True)

    def __enter__(self) -> StepProgress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._shown and self._last_step > self._printed_step:
            self._print()

    def update(self, step: int, loss: float, words_per_second: float) -> None:
        """Show that a step was made."""
        self._last_step = step
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
        seconds = self._printed - self._started
        left = seconds * (self.num_steps - self._last_step) / (self._last_step - self._first_step)
        print(
            f"pre-training: step {self._last_step:,} of {self.num_steps:,}, {self._figures}, "
            f"{tqdm.format_interval(seconds)} so far, {tqdm.format_interval(left)} left",
            file=sys.stderr,
            flush=True,
        )
