"""How many steps a run takes that is to end by the clock, settled anew as it goes and written down each time."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any

# Of a budget that is left alone, for what nobody measures.
_SPARE_SHARE, _MOST_SPARE_SECONDS = 0.01, 60.0
# The first one is made after so many steps, the next after four times as many, and then this many in a run.
_FIRST_STEP, _NUM_DECISIONS = 4, 20


class RunClock:
    """The seconds of a run, all that it does and all its legs together.

    A leg is what one process does of a run; of one that was killed, what came after its last checkpoint is forgotten.
    """

    def __init__(self) -> None:
        self._started, self._before = time.monotonic(), 0.0

    @property
    def seconds(self) -> float:
        """Up to now."""
        return self._before + time.monotonic() - self._started

    def resume(self, seconds: float) -> None:
        """Go on from what earlier legs took; this leg's own seconds so far count, too."""
        self._before = seconds


@dataclass(frozen=True)
class Decision:
    """What was settled from the clock at one step, and nothing else of it changes a run.

    Args:
        step: Steps that were taken by then.
        max_steps: Those that the run ends with, as far as could be told.
        progress: The place in the schedule at `step`, from 0 to 1.
        seconds: Of the run, by then.
        train_seconds: Those of them that the steps took.
    """

    step: int
    max_steps: int
    progress: float
    seconds: float
    train_seconds: float


@dataclass
class TimeBudget:
    """Settles how many steps fit into the time that a run has.

    Between two decisions the schedule goes evenly from where it is to its end at the step that was settled. A
    checkpoint is written with each decision, so that a run that goes on from it takes the same steps.

    Args:
        total_seconds: All that the run may take, its text, evaluations and checkpoints included.
        clock: Of the run.
        most_steps: No more than these, however much time there is; None for any number.
        decisions: Those made so far.
        evaluation_seconds, checkpoint_seconds: What the last evaluation and the last checkpoint took.
    """

    total_seconds: float
    clock: RunClock
    most_steps: int | None = None
    decisions: list[Decision] = field(default_factory=list)
    evaluation_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    _is_changed: bool = False

    def is_due(self, step: int) -> bool:
        """Whether a decision is to be made after a step."""
        if not self.decisions:
            return step >= _FIRST_STEP
        last = self.decisions[-1]
        if self._is_changed:
            return True
        # Soon after the first one, which has little to go by.
        return step >= last.step + max(1, min(3 * last.step, math.ceil(last.max_steps / _NUM_DECISIONS)))

    def decide(
        self,
        step: int,
        train_seconds: float,
        eval_steps: int | None = None,
        num_evaluations: int = 1,
        save_steps: int | None = None,
    ) -> Decision:
        """Settle how many steps the run takes.

        Args:
            step: Steps taken.
            train_seconds: What they took.
            eval_steps: Steps between evaluations; None where they follow the length of the run.
            num_evaluations: How many there are in the run then, the last one included.
            save_steps: Steps between checkpoints beside those of decisions; None where none are written.
        """
        seconds = self.clock.seconds
        each, at_intervals = self._step_seconds(step, train_seconds), 0.0
        if eval_steps:
            each += self.evaluation_seconds / eval_steps
        else:
            at_intervals += (num_evaluations - 1) * self.evaluation_seconds
        if save_steps:
            each += self.checkpoint_seconds / save_steps
            at_intervals += _NUM_DECISIONS * self.checkpoint_seconds
        left = self.total_seconds - self.reserved_seconds - seconds - (1 - self.progress(step)) * at_intervals
        max_steps = step + max(0, math.floor(left / each))
        if self.most_steps is not None:
            max_steps = max(step, min(max_steps, self.most_steps))
        return self._add(Decision(step, max_steps, self.progress(step), seconds, train_seconds))

    def end_after(self, step: int, train_seconds: float) -> Decision:
        """Settle that a step that is about to be taken is the last one."""
        return self._add(Decision(step - 1, step, self.progress(step - 1), self.clock.seconds, train_seconds))

    def is_used_up(self, step: int, train_seconds: float) -> bool:
        """Whether there is no time for more than one further step."""
        each = self._step_seconds(step, train_seconds) if step else 0.0
        # By half of a step, so that no rounding of the clock takes one from what was settled.
        return self.clock.seconds + 1.5 * each + self.reserved_seconds > self.total_seconds

    def progress(self, step: int) -> float:
        """The place in the schedule after a step, from 0 to 1; 0 before the first decision."""
        if not self.decisions:
            return 0.0
        last = self.decisions[-1]
        share = (step - last.step) / max(1, last.max_steps - last.step)
        return last.progress + (1 - last.progress) * min(1.0, share)

    @property
    def reserved_seconds(self) -> float:
        """What the end of the run takes: two evaluations, the last checkpoint and the finished one."""
        spare = min(_SPARE_SHARE * self.total_seconds, _MOST_SPARE_SECONDS)
        return 2 * (self.evaluation_seconds + self.checkpoint_seconds) + spare

    def state_dict(self) -> dict[str, Any]:
        """What a run that goes on needs of it, for JSON."""
        return {
            "total_seconds": self.total_seconds,
            "decisions": [asdict(decision) for decision in self.decisions],
            "evaluation_seconds": self.evaluation_seconds,
            "checkpoint_seconds": self.checkpoint_seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`; where it was of another time, the next step is followed by a decision."""
        self._is_changed = state["total_seconds"] != self.total_seconds
        self.decisions = [Decision(**decision) for decision in state["decisions"]]
        self.evaluation_seconds, self.checkpoint_seconds = state["evaluation_seconds"], state["checkpoint_seconds"]

    def _step_seconds(self, step: int, train_seconds: float) -> float:
        """What a step takes, by those since the last decision; by all of them before there is any."""
        earlier = [(last.step, last.train_seconds) for last in self.decisions if last.step < step]
        last_step, last_seconds = earlier[-1] if earlier else (0, 0.0)
        return (train_seconds - last_seconds) / (step - last_step)

    def _add(self, decision: Decision) -> Decision:
        self.decisions.append(decision)
        self._is_changed = False
        return decision
