"""What the project promises to reach on two CPU cores, as a table, and what of it a run reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hf_elmo.pretraining.objectives import OBJECTIVES

from .cases import (
    ALLENNLP,
    AUTOCAST,
    BFLOAT16,
    BILM,
    COMPILED,
    PLAIN,
    TORCH_PACKED,
    TORCH_PADDED,
    TRAINING_STEP,
    WORDS_TO_VECTORS,
)
from .timing import Seconds, fastest, median_ratio

# The time of the biLM's matrix products alone; its ratio to ours is the share of our time that they account for.
FLOOR = "floor"
# The same where no step takes less than reading its weights: what float32 cannot beat with few rows.
READING_FLOOR = "floor with weights read"

LOOP, FORWARD_BACKWARD, WITH_OPTIMIZER = "loop", "forward + backward", "forward + backward + optimizer"
# Words without markers that become windows of rows, on one core.
COLLATOR_WORDS_PER_SECOND = 1.5e6

_Column = tuple[str, int]


@dataclass(frozen=True)
class Target:
    """One row: how much less time than the fastest of `peers` the fastest of `ours` is to take.

    Args:
        row: Its name.
        case: The name of the case that was timed.
        ours, peers: Names of functions; those that were not timed are passed over.
        least: The ratio wanted, by size and batch size.
    """

    row: str
    case: str
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    least: dict[_Column, float]


@dataclass(frozen=True)
class Outcome:
    """One cell of the table.

    Args:
        row, size, batch_size: Where it stands.
        target: The least ratio wanted.
        measured: The ratio; None where the run did not time both sides.
        ours, peer: What was compared.
    """

    row: str
    size: str
    batch_size: int
    target: float
    measured: float | None
    ours: str | None
    peer: str | None

    @property
    def reached(self) -> bool | None:
        return None if self.measured is None else self.measured >= self.target


def training_loop(objective: str) -> str:
    """The name of the case of the real loop with an objective."""
    return f"training loop, {objective} softmax"


def _columns(small_32: float, small_1: float | None, original_32: float, original_1: float | None) -> dict:
    values = {
        ("small", 32): small_32,
        ("small", 1): small_1,
        ("original", 32): original_32,
        ("original", 1): original_1,
    }
    return {column: value for column, value in values.items() if value is not None}


TARGETS = (
    Target(
        "words to vectors against AllenNLP, plain PyTorch",
        WORDS_TO_VECTORS,
        (PLAIN,),
        (ALLENNLP,),
        _columns(5.5, 2.2, 3.9, 6.0),
    ),
    Target(
        "words to vectors against AllenNLP, compiled",
        WORDS_TO_VECTORS,
        (COMPILED,),
        (ALLENNLP,),
        _columns(7.0, 4.5, 4.3, 7.4),
    ),
    Target(
        "biLM alone against nn.LSTM(proj_size), unclipped",
        BILM,
        (PLAIN, COMPILED),
        (TORCH_PADDED, TORCH_PACKED),
        _columns(1.5, 2.0, 2.0, 3.0),
    ),
    Target(
        "biLM alone, share of the floor",
        BILM,
        (PLAIN, COMPILED),
        (FLOOR,),
        _columns(0.55, None, 0.80, None),
    ),
    Target(
        "words to vectors against AllenNLP, bf16",
        WORDS_TO_VECTORS,
        (BFLOAT16, AUTOCAST),
        (ALLENNLP,),
        _columns(7.0, 5.0, 5.8, 14.0),
    ),
    Target(
        "training step of the biLM against AllenNLP",
        TRAINING_STEP,
        (PLAIN, COMPILED),
        (ALLENNLP,),
        _columns(1.8, None, 3.5, None),
    ),
    *(
        Target(
            f"{training_loop(objective)}, share of the speed of forward + backward",
            training_loop(objective),
            (LOOP,),
            (FORWARD_BACKWARD,),
            _columns(0.85, None, 0.85, None),
        )
        for objective in OBJECTIVES
    ),
)


def judge(case: str, size: str, batch_size: int, seconds: Seconds) -> list[Outcome]:
    """The cells of the table that a case's timings fill.

    Args:
        case, size, batch_size: Of the case.
        seconds: Of each function, one entry a round.
    """
    outcomes = []
    for target in TARGETS:
        least = target.least.get((size, batch_size))
        if target.case != case or least is None:
            continue
        ours, peer = fastest(seconds, target.ours), fastest(seconds, target.peers)
        measured = None if ours is None or peer is None else median_ratio(seconds[peer], seconds[ours])
        outcomes.append(Outcome(target.row, size, batch_size, least, measured, ours, peer))
    return outcomes


def to_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """As plain dictionaries, with what was reached."""
    return [{**asdict(outcome), "reached": outcome.reached} for outcome in outcomes]
