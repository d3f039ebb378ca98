"""Arguments about checkpoints: sizes that have names, where a run writes and goes on from, what goes to the Hub."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..given.flags import check_least, flag

# The sizes that have names, each a class method of ElmoConfig and nothing else beside.
Preset = Literal["small", "medium", "original", "fast"]


@dataclass(frozen=True, kw_only=True)
class OutputArguments:
    """Where it is written."""

    output_dir: str = flag("Directory to write; nothing in it has its name before it is whole.")
    overwrite_output_dir: bool = flag(
        "Replace a full output directory; what it holds stays until something whole takes its place.", default=False
    )


@dataclass(frozen=True, kw_only=True)
class SavingArguments(OutputArguments):
    """Which checkpoints a run keeps, and which it goes on from."""

    save_steps: int | None = flag(
        "Steps between checkpoints, beside one at each best evaluation; left out, a quarter of the run, 500 at most; 0 "
        "writes the finished one alone.",
        default=None,
    )
    save_total_limit: int | None = flag(
        "Most checkpoints kept; the last and the best one always are. 0 keeps all.", default=2
    )
    resume_from_checkpoint: str | None = flag(
        "Go on from a checkpoint-N directory, from the `last` one of output_dir or, with `auto`, from that if there is "
        "any.",
        default=None,
    )
    report_to: str | None = flag("A tracker that accelerate knows, such as tensorboard.", default=None)
    logging_dir: str | None = flag("Where it writes; left out, runs/NAME beside output_dir.", default=None)

    def settled_save_steps(self, max_steps: int) -> int | None:
        """Steps between the checkpoints of a run of so many steps, -1 for any number; None for no checkpoints."""
        settled = 500 if max_steps < 0 else min(500, math.ceil(max_steps / 4))
        return (settled if self.save_steps is None else self.save_steps) or None

    def check(self) -> None:
        """Check the numbers.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        check_least(self, ("save_steps", "save_total_limit"), 0)


@dataclass(frozen=True, kw_only=True)
class HubArguments:
    """Whether and under which name the finished checkpoint goes to the Hub."""

    push_to_hub: bool = flag("Upload the finished checkpoint to the Hub.", default=False)
    hub_model_id: str | None = flag("Its name there; left out, that of output_dir under your account.", default=None)
    hub_private_repo: bool = flag("Whether others may not see it.", default=False)

    def check(self) -> None:
        """Check that nothing is said about an upload that is not asked for.

        Raises: ValueError naming the arguments.
        """
        if not self.push_to_hub and (self.hub_model_id is not None or self.hub_private_repo):
            raise ValueError("--hub_model_id and --hub_private_repo are for --push_to_hub; add it, or leave them out.")
