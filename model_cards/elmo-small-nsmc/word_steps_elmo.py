"""A recurrence over words, one step each: a loop, or in an exported model one operator with the step as its body.

Letters in shapes: B sentences, T words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .tracing_elmo import is_exported

try:
    from torch._higher_order_ops import scan as _scan
except ImportError:  # older versions of torch export a fixed number of words
    _scan = None  # type: ignore[assignment]

# Whether what is exported takes any number of words: its steps are one operator then.
CAN_RECORD_STEPS = _scan is not None and hasattr(torch.compiler, "is_exporting")

# A state is one or several tensors, and so is what is read of a word; which, a recurrence knows.
Step = Callable[[Any, Any], tuple[Any, Tensor]]


def scan_words(
    step: Step, state: Sequence[Tensor], inputs: Sequence[Tensor], *, reverse: bool = False
) -> tuple[Tensor, Any]:
    """Go from word to word, from the first to the last or the other way round.

    While torch.export records a model the steps are not written out one by one, so that what is exported takes any
    number of words, as long as torch has its `scan` operator.

    Args:
        step: Gets the state before a word and what is read of the word, (B, ...) each; gives the state after it and
            what comes out there.
        state: The state before the first step.
        inputs: What is read of all words, (B, T, ...) each.
        reverse: Go from the last word to the first.
    Returns: What came out at each word, (B, T, ...), and the state after the last step.
    """
    if CAN_RECORD_STEPS and is_exported():
        # Neither what is carried nor what comes out may be a tensor that stands elsewhere too.
        def recorded(carried: Any, read: Any) -> tuple[Any, Tensor]:
            carried, output = step(carried, read)
            return carried, output.clone()

        first = tuple(part.clone() for part in state)
        carried, outputs = _scan(recorded, first, tuple(part.transpose(0, 1) for part in inputs), reverse=reverse)
        return outputs.transpose(0, 1), carried
    places = range(inputs[0].shape[1])
    found: list[Tensor] = [state[0]] * len(places)
    for place in reversed(places) if reverse else places:
        state, found[place] = step(state, tuple(part[:, place] for part in inputs))
    return torch.stack(found, dim=1), state
