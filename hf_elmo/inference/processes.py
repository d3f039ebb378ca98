"""The processes of one run, as accelerate and torchrun start them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accelerate import PartialState


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is.

    Args:
        rank: Its number, from 0.
        count: How many there are.
        state: What accelerate knows of them; None where there is one alone.
    """

    rank: int = 0
    count: int = 1
    state: PartialState | None = None

    @property
    def device(self) -> str | None:
        """The device that is this process's own; None for a process alone."""
        return None if self.state is None else str(self.state.device)

    @contextmanager
    def first_goes_first(self) -> Iterator[None]:
        """The first process goes through the block before all others do."""
        if self.state is not None and self.rank:
            self.state.wait_for_everyone()
        yield
        if self.state is not None and not self.rank:
            self.state.wait_for_everyone()


@contextmanager
def joined_processes(on_cpu: bool) -> Iterator[Processes]:
    """The processes that were started together, by `accelerate launch` or torchrun; this one alone if by neither.

    Args:
        on_cpu: Whether they are to compute on the CPU, whatever else there is.
    """
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        yield Processes()
        return
    state = PartialState(cpu=on_cpu)
    try:
        yield Processes(state.process_index, state.num_processes, state)
    finally:
        state.destroy_process_group()
