"""The steps of a projected LSTM in PyTorch's own operators, forward and backward, on any device.

Gates are i, f, g, o. Letters in shapes: B rows, N words in the order of steps, P projection, H cell.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .products import Weight

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class Clips(NamedTuple):
    """Bounds on the absolute values of a step's results; None for none."""

    cell: float | None
    projection: float | None


class Steps(NamedTuple):
    """What all steps of a scan are made of."""

    gates: Tensor  # the inputs' part of the gates, (N, 4H); overwritten
    bias: Tensor  # of the gates, (4H,)
    recurrent: Weight  # (4H, P)
    projection: Weight  # (P, H)
    hidden: Tensor  # state before the first step, (B, P)
    cell: Tensor  # the same, (B, H)
    sizes: list[int]  # rows of each step, falling; they are the first rows of the state
    clips: Clips


class Traces(NamedTuple):
    """What the forward steps leave for the backward ones, in the order of steps."""

    gates: Tensor  # (N, 4H), after their sigmoids and tanh
    unclipped_cells: Tensor  # (N, H); the same tensor as cells where there is no clip
    cells: Tensor  # (N, H)
    tanh_cells: Tensor  # (N, H), tanh of the cells
    unclipped_outputs: Tensor  # (N, P); the same tensor as outputs where there is no clip
    outputs: Tensor  # (N, P)


def cast_weight(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A weight's numbers in `dtype`."""
    return weight.detach().to(dtype)


def multiply_inputs(words: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The inputs' part of the gates of all steps, (N, 4H) in `dtype`, from words (N, P) and a weight (4H, P)."""
    return F.linear(words, weight).to(dtype)


def run_steps(steps: Steps, keeps: bool) -> list[Tensor]:
    """Run all steps; what `Traces` has behind the gates, and without `keeps` the outputs, (N, P), alone.

    `steps.gates` becomes that of `Traces`, and without `keeps` `steps.cell` each row's last cell.
    """
    gates, bias, recurrent, projection, hidden, cell, sizes, clips = steps
    cell_size = cell.shape[1]
    outputs = gates.new_empty(len(gates), hidden.shape[1])
    if keeps:
        cells, tanh_cells = gates.new_empty(2, len(gates), cell_size)
        unclipped = cells if clips.cell is None else torch.empty_like(cells)
        kept = [unclipped, cells, tanh_cells, outputs if clips.projection is None else torch.empty_like(outputs)]
        buffers = [_cells_before(cell, cells, sizes), *(tensor.split(sizes) for tensor in kept)]
    else:
        kept, states = [], [cell[:size] for size in sizes]
        tanh_cells = torch.empty_like(cell)
        buffers = [states, states, states, [tanh_cells[:size] for size in sizes], outputs.split(sizes)]
    # One sentence makes steps so short that cutting views in them would show: one call cuts those of all steps.
    gates += bias
    sigmoids = gates[:, : 2 * cell_size].split(sizes)
    four = [part.split(sizes) for part in gates.split(cell_size, dim=1)]
    scratch = gates.new_empty(max(sizes, default=0), cell_size)
    for size, total, both, i, f, g, o, before, unclipped, after, tanh_cell, raw, output in zip(
        sizes, gates.split(sizes), sigmoids, *four, *buffers, outputs.split(sizes), strict=True
    ):
        recurrent.accumulate(hidden if len(hidden) == size else hidden[:size], total)
        both.sigmoid_()
        g.tanh_()
        o.sigmoid_()
        torch.mul(f, before, out=unclipped)
        unclipped.addcmul_(i, g)
        if clips.cell is not None:
            torch.clamp(unclipped, -clips.cell, clips.cell, out=after)
        torch.tanh(after, out=tanh_cell)
        cell_output = scratch if len(scratch) == size else scratch[:size]
        projection.multiply(torch.mul(tanh_cell, o, out=cell_output), raw)
        if clips.projection is not None:
            torch.clamp(raw, -clips.projection, clips.projection, out=output)
        hidden = output
    return [*kept, outputs]


def _cells_before(first: Tensor, cells: Tensor, sizes: list[int]) -> list[Tensor]:
    """The cells that each step finds."""
    before = [first, *cells.split(sizes)]
    return [cells[:size] for cells, size in zip(before, sizes, strict=False)]


def run_steps_backward(
    traces: Traces,
    recurrent: Weight,
    projection: Weight,
    cell: Tensor,
    gradients: list[Tensor],
    sizes: list[int],
    clips: Clips,
) -> Tensor:
    """Run the steps backwards, by the prepared *transposes* of the weights, (P, 4H) and (H, P).

    A clip passes gradients on within its bounds, as `torch.clamp`.

    Args:
        gradients: Of the outputs, and of the hidden state and the cell after each row's last step; overwritten by those
            of the outputs before their clip, and of the state before the first step.
    Returns: The gradient of the gates before their sigmoids and tanh, (N, 4H).
    """
    grad_outputs, grad_hidden, grad_cell = gradients
    grad_gates = torch.empty_like(traces.gates)
    cell_size = traces.cells.shape[1]
    grad_cell_output, product = traces.cells.new_empty(2, max(sizes, default=0), cell_size)
    if clips.projection is not None:
        within_outputs = (traces.unclipped_outputs.abs() <= clips.projection).split(sizes)
    parts = (
        *(part.split(sizes) for part in traces.gates.split(cell_size, dim=1)),
        *(part.split(sizes) for part in grad_gates.split(cell_size, dim=1)),
        _cells_before(cell, traces.cells, sizes),
        *(t.split(sizes) for t in (grad_gates, traces.unclipped_cells, traces.tanh_cells, grad_outputs)),
    )
    for step in reversed(range(len(sizes))):
        i, f, g, o, grad_i, grad_f, grad_g, grad_o, before, grad_total, unclipped, tanh_cell, grad_output = (
            part[step] for part in parts
        )
        size = sizes[step]
        grad_gated, scratch, grad_state = grad_cell_output[:size], product[:size], grad_cell[:size]
        grad_output.add_(grad_hidden[:size])
        if clips.projection is not None:
            grad_output.mul_(within_outputs[step])
        projection.multiply(grad_output, grad_gated)
        _sigmoid_backward(torch.mul(grad_gated, tanh_cell, out=scratch), o, grad_input=grad_o)
        grad_gated.mul_(o)
        grad_state.add_(_tanh_backward(grad_gated, tanh_cell, grad_input=grad_gated))
        if clips.cell is not None:
            grad_state.mul_(unclipped.abs() <= clips.cell)
        _sigmoid_backward(torch.mul(grad_state, g, out=scratch), i, grad_input=grad_i)
        _sigmoid_backward(torch.mul(grad_state, before, out=scratch), f, grad_input=grad_f)
        _tanh_backward(torch.mul(grad_state, i, out=scratch), g, grad_input=grad_g)
        grad_state.mul_(f)
        recurrent.multiply(grad_total, grad_hidden[:size])
    return grad_gates
