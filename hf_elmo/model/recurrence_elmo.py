"""The projected LSTM scan: one direction of the recurrence, with state, clipping and masks.

Letters in shapes: B sentences, T words, P projection, H cell.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .word_steps_elmo import scan_words

# The package's kernels give the same numbers faster. A checkpoint's own code takes them where the program has imported
# the package, and never imports it: that would put the package's classes in place of these in the middle of a program.
kernels: Any = importlib.import_module("hf_elmo.kernels") if "hf_elmo" in sys.modules else None


class ProjectedLSTMWeights(NamedTuple):
    """The weights of one direction of one layer; the rows of the first three hold the gates in the order i, f, g, o."""

    input: Tensor  # (4H, P)
    recurrent: Tensor  # (4H, P)
    bias: Tensor  # (4H,), the forget gate's constant included
    projection: Tensor | None  # (P, H); None where the cell's output is the hidden state, H = P


def scan_projected_lstm(
    inputs: Tensor,
    mask: Tensor | None,
    weights: ProjectedLSTMWeights,
    state: tuple[Tensor, Tensor] | None = None,
    *,
    cell_clip: float | None = None,
    projection_clip: float | None = None,
    reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run one direction of a projected LSTM over a padded batch (Sak et al. 2014; Peters et al. 2018, sec. 3.1).

    A step is c = sigmoid(f) c + sigmoid(i) tanh(g), clipped to +-cell_clip before the output tanh, and
    h = W (sigmoid(o) tanh(c)), clipped to +-projection_clip; without W, h = sigmoid(o) tanh(c), which is not clipped.
    Masked words neither change the state nor give output, so the side and the amount of padding do not matter.

    Args:
        inputs: Word vectors, (B, T, P).
        mask: True for real words, (B, T); None where all are.
        weights: The direction's weights.
        state: Carried (hidden (B, P), cell (B, H)); None starts from zeros.
        cell_clip: Bound on |cell| after each step; None disables it.
        projection_clip: Bound on |hidden| after each step's projection; None disables it.
        reverse: Read from the last word to the first.
    Returns: Outputs (B, T, P), zero where masked, and the state after each row's last word read.
    Raises: ValueError naming the axis and both sizes when shapes disagree.
    """
    _check_shapes(inputs, mask, weights, state)
    batch_size, _, projection_size = inputs.shape
    cell_size = len(weights.bias) // 4
    # The inputs of all steps go through one matrix product; only the recurrent one has to wait for its step.
    input_gates = F.linear(inputs, weights.input, weights.bias)
    if state is None:
        hidden = inputs.new_zeros(batch_size, projection_size)
        cell = inputs.new_zeros(batch_size, cell_size)
    else:
        hidden, cell = state

    def step(before: tuple[Tensor, Tensor], read: tuple[Tensor, ...]) -> tuple[tuple[Tensor, Tensor], Tensor]:
        (hidden, cell), (of_word,) = before, read
        gates = of_word + F.linear(hidden, weights.recurrent)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
        new_cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
        if cell_clip is not None:
            new_cell = new_cell.clamp(-cell_clip, cell_clip)
        new_hidden = torch.sigmoid(output_gate) * torch.tanh(new_cell)
        if weights.projection is not None:
            new_hidden = F.linear(new_hidden, weights.projection)
            # As bilm-tf and AllenNLP do it: what is not projected is not clipped either.
            if projection_clip is not None:
                new_hidden = new_hidden.clamp(-projection_clip, projection_clip)
        return (new_hidden, new_cell), new_hidden

    return scan_words(step, (hidden, cell), (input_gates,), mask, reverse=reverse)


def run_projected_lstm(
    inputs: Tensor,
    mask: Tensor | None,
    weights: ProjectedLSTMWeights,
    state: tuple[Tensor, Tensor] | None = None,
    *,
    cell_clip: float | None = None,
    projection_clip: float | None = None,
    reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """As `scan_projected_lstm`, by the fastest implementation at hand (`hf_elmo.kernels.use_backend` chooses)."""
    settings: dict[str, Any] = {"cell_clip": cell_clip, "projection_clip": projection_clip, "reverse": reverse}
    if kernels is not None:
        _check_shapes(inputs, mask, weights, state)
        results = kernels.run_projected_lstm(inputs, mask, weights, state, **settings)
        if results is not None:
            return results
    return scan_projected_lstm(inputs, mask, weights, state, **settings)


def _check_shapes(
    inputs: Tensor, mask: Tensor | None, weights: ProjectedLSTMWeights, state: tuple[Tensor, Tensor] | None
) -> None:
    if inputs.ndim != 3 or inputs.shape[1] == 0:
        raise ValueError(f"inputs has the shape {tuple(inputs.shape)}; wanted (sentences, words >= 1, projection).")
    batch_size, length, projection_size = inputs.shape
    cell_size = len(weights.bias) // 4 if weights.projection is None else weights.projection.shape[1]
    pairs: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
        ("weights.input", weights.input.shape, (4 * cell_size, projection_size)),
        ("weights.recurrent", weights.recurrent.shape, (4 * cell_size, projection_size)),
        ("weights.bias", weights.bias.shape, (4 * cell_size,)),
    ]
    if weights.projection is not None:
        pairs.append(("weights.projection", weights.projection.shape, (projection_size, cell_size)))
    else:
        pairs.append(("weights.recurrent without a projection", (cell_size,), (projection_size,)))
    if mask is not None:
        pairs.append(("mask", mask.shape, (batch_size, length)))
    if state is not None:
        pairs.append(("state hidden", state[0].shape, (batch_size, projection_size)))
        pairs.append(("state cell", state[1].shape, (batch_size, cell_size)))
    for name, found, wanted in pairs:
        if tuple(found) != tuple(wanted):
            raise ValueError(
                f"{name} has the shape {tuple(found)}, but inputs of shape {tuple(inputs.shape)} with cells of size "
                f"{cell_size} want {tuple(wanted)}."
            )
