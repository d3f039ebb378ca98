"""Ctrl-C and SIGTERM in a run: the first asks it to stop after the step at hand, a second one stops it at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOTED = b"\nstopping: a checkpoint follows after the step or evaluation at hand; a second signal stops without it\n"
# A launcher passes on what its processes got already: signals this close to the first are the same one.
_SECONDS_OF_ONE = 1.0


class Stopped(BaseException):
    """A signal has ended the run.

    Args:
        signal_number: Which.
        step: The step after which a checkpoint was written; None where the signal came outside of the loop.
    """

    def __init__(self, signal_number: int, step: int | None = None):
        super().__init__(signal_number, step)
        self.signal_number = signal_number
        self.step = step

    @property
    def exit_code(self) -> int:
        """128 and the signal's number, as shells have it: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.signal_number


class Interruption:
    """Heeds the signals while a run is on: raises `Stopped`, or only takes note of them in the block of `noted`.

    Outside of the main thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._is_noting = False
        self._first = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            # What is ignored, as Ctrl-C by a shell's background jobs, stays so.
            heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._heed) for number in heeded}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """In this block the first signal is noted in `signal_number`, and whoever runs the block looks there."""
        self._is_noting = True
        try:
            yield
        finally:
            self._is_noting = False

    def _heed(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal_number is None:
            self.signal_number, self._first = number, now
            if not self._is_noting:
                raise Stopped(number)
            if int(os.environ.get("RANK", 0)) == 0:
                # Not by print: the signal may have come in the midst of another.
                with suppress(OSError):
                    os.write(2, _NOTED)
        elif now - self._first >= _SECONDS_OF_ONE:
            # Not an exception: it may be an exception's clean-up that takes too long.
            os._exit(128 + number)
