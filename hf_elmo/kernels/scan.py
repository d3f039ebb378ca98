"""The projected LSTM scan at speed: the twin of `recurrence_elmo.scan_projected_lstm`, with its arguments and results.

Letters in shapes: B sentences, T words, N real words in the order of steps, P projection, H cell.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .plain import Clips
from .prepared import prepare, prepare_cached
from .steps import Steps, lay_out


class ScanSettings(NamedTuple):
    """All of a scan that is not a tensor."""

    steps: Steps
    clips: Clips
    matmul_dtype: torch.dtype  # of the factors of matrix products
    dtype: torch.dtype  # of everything between them
    backend: ModuleType  # plain or compiled
    int8: bool


def scan(
    inputs: Tensor,
    mask: Tensor | None,
    weights: tuple[Tensor, Tensor, Tensor, Tensor],
    state: tuple[Tensor, Tensor] | None,
    cell_clip: float | None,
    projection_clip: float | None,
    reverse: bool,
    backend: ModuleType,
    int8: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run one direction of a projected LSTM; the arguments are those of the twin, with a backend's steps.

    In half precision, and under autocast, matrix products take half-precision factors and everything between them is
    float32: the twin rounds there too.
    """
    batch_size, length, projection_size = inputs.shape
    device = inputs.device
    result_dtype = matmul_dtype = cell_dtype = inputs.dtype
    if torch.is_autocast_enabled(device.type):
        result_dtype = matmul_dtype = torch.get_autocast_dtype(device.type)
        cell_dtype = torch.promote_types(matmul_dtype, torch.float32)
    settings = ScanSettings(
        lay_out(mask, (batch_size, length), reverse, device),
        Clips(cell_clip, projection_clip),
        matmul_dtype,
        torch.promote_types(matmul_dtype, torch.float32),
        backend,
        int8,
    )
    if state is None:
        hidden = inputs.new_zeros(batch_size, projection_size)
        cell = inputs.new_zeros(batch_size, weights[3].shape[1])
    else:
        hidden, cell = state
    tensors = (inputs, *weights, hidden, cell)
    needs_gradients = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    with torch.autocast(device.type, enabled=False):
        if needs_gradients:
            outputs, hidden, cell = ProjectedLSTMFunction.apply(settings, *tensors)
        else:
            outputs, hidden, cell = _infer(settings, *tensors)
    return outputs.to(result_dtype), (hidden.to(result_dtype), cell.to(cell_dtype))


def _infer(
    settings: ScanSettings,
    inputs: Tensor,
    input_weight: Tensor,
    recurrent: Tensor,
    bias: Tensor,
    projection: Tensor,
    hidden: Tensor,
    cell: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    steps = settings.steps
    dtype = settings.matmul_dtype
    gates = prepare_cached(input_weight, dtype, steps.num_words, settings.int8).linear(
        steps.pack(inputs).to(dtype), bias.to(dtype)
    )
    gates = gates.to(settings.dtype)
    hidden = steps.sort_rows(hidden).to(settings.dtype)
    cell = steps.sort_rows(cell).to(settings.dtype)
    if steps.sizes:
        rows = steps.sizes[0]
        prepared = [prepare_cached(weight, dtype, rows, settings.int8) for weight in (recurrent, projection)]
        outputs = settings.backend.run_steps(gates, *prepared, hidden, cell, steps.sizes, settings.clips)
    else:
        outputs = gates.new_empty(0, hidden.shape[1])
    return steps.unpack(outputs), steps.restore_rows(steps.last(hidden, outputs)), steps.restore_rows(cell)


class ProjectedLSTMFunction(torch.autograd.Function):
    """The scan with a backward written by hand: one product a weight for the gradients of all its steps."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: ScanSettings,
        inputs: Tensor,
        input_weight: Tensor,
        recurrent: Tensor,
        bias: Tensor,
        projection: Tensor,
        hidden: Tensor,
        cell: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, dtype = settings.steps, settings.matmul_dtype
        words = steps.pack(inputs).to(dtype)
        gates = F.linear(words, input_weight.to(dtype), bias.to(dtype)).to(settings.dtype)
        first_hidden = steps.sort_rows(hidden).to(settings.dtype)
        first_cell = steps.sort_rows(cell).to(settings.dtype)
        rows = steps.sizes[0] if steps.sizes else 0
        traces = settings.backend.run_steps_keeping(
            gates,
            prepare(recurrent, dtype, rows),
            prepare(projection, dtype, rows),
            first_hidden,
            first_cell,
            steps.sizes,
            settings.clips,
        )
        ctx.settings = settings
        ctx.dtypes = [tensor.dtype for tensor in (inputs, input_weight, recurrent, bias, projection, hidden, cell)]
        ctx.save_for_backward(words, input_weight, recurrent, projection, first_hidden, first_cell, *traces)
        return (
            steps.unpack(traces.outputs),
            steps.restore_rows(steps.last(first_hidden, traces.outputs)),
            steps.restore_rows(steps.last(first_cell, traces.cells)),
        )

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor, grad_hidden: Tensor, grad_cell: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "create_graph=True asks for the gradient of a gradient, which the fast scan's hand-written backward "
                'does not have. Run forward and backward under hf_elmo.kernels.use_backend("readable").'
            )
        settings = ctx.settings
        steps, dtype = settings.steps, settings.matmul_dtype
        words, input_weight, recurrent, projection, first_hidden, first_cell, *kept = ctx.saved_tensors
        traces = settings.backend.Traces(*kept)
        rows = steps.sizes[0] if steps.sizes else 0
        gradients = settings.backend.run_steps_back(
            traces,
            prepare(recurrent.t(), dtype, rows),
            prepare(projection.t(), dtype, rows),
            first_cell,
            (
                steps.pack(grad_outputs).to(settings.dtype, copy=True),
                steps.sort_rows(grad_hidden).to(settings.dtype),
                steps.sort_rows(grad_cell).to(settings.dtype),
            ),
            steps.sizes,
            settings.clips,
        )
        of_gates, of_outputs = gradients.gates.to(dtype), gradients.outputs.to(dtype)
        found: list[Tensor | None] = [None] * 7
        needed = ctx.needs_input_grad[1:]
        if needed[0]:
            found[0] = steps.unpack(of_gates @ input_weight.to(dtype))
        if needed[1]:
            found[1] = of_gates.t() @ words
        if needed[2]:
            found[2] = of_gates.t() @ steps.before(first_hidden, traces.outputs).to(dtype)
        if needed[3]:
            found[3] = gradients.gates.sum(dim=0)
        if needed[4]:
            output_gates = traces.gates[:, -traces.cells.shape[1] :]
            found[4] = of_outputs.t() @ (output_gates * traces.squashed_cells).to(dtype)
        if needed[5]:
            found[5] = steps.restore_rows(gradients.hidden)
        if needed[6]:
            found[6] = steps.restore_rows(gradients.cell)
        results = (None if grad is None else grad.to(kind) for grad, kind in zip(found, ctx.dtypes, strict=True))
        return None, *results
