"""What the project promises to reach, as a table, and what of it a run reached.

Promises are shares of what the same machine can do at most, so that they mean the same elsewhere: of the time of the
matrix products alone, of the reading of the weights, of float32. How many times faster ours is than others is reported
beside them and promised nowhere: that depends on what the machine is good at.
"""

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
    WHOLE_MODEL,
    WORDS_TO_VECTORS,
)
from .timing import Seconds, fastest, median_ratio

# The time of the biLM's matrix products alone; its ratio to ours is the share of our time that they account for.
FLOOR = "floor"
# The same where no step takes less than reading its weights: what float32 cannot beat with few rows.
READING_FLOOR = "floor with weights read"
# That with the token encoder's products over the distinct words, for the whole model.
WHOLE_FLOOR = "whole model, floor with weights read"

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
        least: The ratio wanted, by size and batch size; None where it is only reported, as it is in columns without.
    """

    row: str
    case: str
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    least: dict[_Column, float] | None


@dataclass(frozen=True)
class Outcome:
    """One cell of the table.

    Args:
        row, size, batch_size: Where it stands.
        target: The least ratio wanted; None where none is.
        measured: The ratio; None where the run did not time both sides.
        ours, peer: What was compared.
    """

    row: str
    size: str
    batch_size: int
    target: float | None
    measured: float | None
    ours: str | None
    peer: str | None

    @property
    def reached(self) -> bool | None:
        return None if self.measured is None or self.target is None else self.measured >= self.target


def training_loop(objective: str) -> str:
    """The name of the case of the real loop with an objective."""
    return f"training loop, {objective} softmax"


_SIZES = ("small", "original")
_AT_32, _AT_1 = ([(size, count) for size in _SIZES] for count in (32, 1))

TARGETS = (
    Target("biLM alone, share of the floor", BILM, (PLAIN, COMPILED), (FLOOR,), dict.fromkeys(_AT_32, 0.65)),
    Target(
        "biLM alone, share of the floor with weights read",
        BILM,
        (PLAIN, COMPILED),
        (READING_FLOOR,),
        dict.fromkeys(_AT_1, 0.9),
    ),
    # The whole model takes at most 1.4 times as long as its biLM.
    Target(
        "words to vectors, share that the biLM alone takes",
        BILM,
        (WHOLE_MODEL,),
        (PLAIN, COMPILED),
        {("small", 1): 0.71},
    ),
    *(
        Target(
            f"words to vectors, {name} against float32",
            WORDS_TO_VECTORS,
            (name,),
            (PLAIN, COMPILED),
            dict.fromkeys(_AT_32 + _AT_1, 0.9),
        )
        for name in (BFLOAT16, AUTOCAST)
    ),
    Target("words to vectors against AllenNLP", WORDS_TO_VECTORS, (PLAIN, COMPILED), (ALLENNLP,), None),
    Target("words to vectors against AllenNLP, bf16", WORDS_TO_VECTORS, (BFLOAT16, AUTOCAST), (ALLENNLP,), None),
    Target(
        "biLM alone against nn.LSTM(proj_size), unclipped", BILM, (PLAIN, COMPILED), (TORCH_PADDED, TORCH_PACKED), None
    ),
    Target("training step of the biLM against AllenNLP", TRAINING_STEP, (PLAIN, COMPILED), (ALLENNLP,), None),
    Target(
        "training step of the biLM against nn.LSTM(proj_size), unclipped",
        TRAINING_STEP,
        (PLAIN, COMPILED),
        (TORCH_PADDED,),
        None,
    ),
    *(
        Target(
            f"{training_loop(objective)}, share of the speed of forward + backward",
            training_loop(objective),
            (LOOP,),
            (FORWARD_BACKWARD,),
            dict.fromkeys(_AT_32, 0.85),
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
        if target.case != case or (target.least is not None and (size, batch_size) not in target.least):
            continue
        least = None if target.least is None else target.least[size, batch_size]
        ours, peer = fastest(seconds, target.ours), fastest(seconds, target.peers)
        measured = None if ours is None or peer is None else median_ratio(seconds[peer], seconds[ours])
        # What is neither promised nor measured says nothing.
        if least is not None or measured is not None:
            outcomes.append(Outcome(target.row, size, batch_size, least, measured, ours, peer))
    return outcomes


def to_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """As plain dictionaries, with what was reached."""
    return [{**asdict(outcome), "reached": outcome.reached} for outcome in outcomes]
