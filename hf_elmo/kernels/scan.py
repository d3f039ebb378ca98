"""The projected LSTM scan at speed: the twin of `modeling_elmo.scan_projected_lstm`, with its arguments and results.

Letters in shapes: B sentences, T words, N real words in the order of steps, P projection, H cell.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from . import compiled, fused, panels
from .gradients import refuse_create_graph
from .half_precision import HALVES, product_dtype
from .plain import Clips
from .prepared import DenseWeight, Prepared, cast_cached, is_small, prepare, prepare_cached
from .scan_settings import ScanSettings
from .steps import lay_out


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
        product_dtype(matmul_dtype, device.type),
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
            # Whole passes in one call where there is one, single steps elsewhere.
            is_fused = backend is compiled and fused.suits(settings, weights[1])
            function = fused.FusedLSTMFunction if is_fused else ProjectedLSTMFunction
            outputs, hidden, cell = function.apply(settings, *tensors)
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
    words = steps.pack(inputs).to(settings.matmul_dtype)
    hidden = steps.sort_rows(hidden).to(settings.dtype)
    cell = steps.sort_rows(cell).to(settings.dtype).contiguous()
    bias = bias.to(settings.dtype)
    rest = hidden, cell, steps.sizes, settings.clips
    if not steps.sizes:
        outputs = hidden.new_empty(0, hidden.shape[1])
    elif settings.backend is compiled and panels.suits(settings, recurrent):
        outputs = panels.run_steps(words, input_weight, recurrent, bias, projection, *rest)
    else:
        gates = _multiply_inputs(settings, words, input_weight).to(settings.dtype)
        weights = _prepare_for_steps(settings, recurrent, projection, prepare_cached)
        outputs = settings.backend.run_steps(gates, bias, *weights, *rest)
    return steps.unpack(outputs), steps.restore_rows(steps.last(hidden, outputs)), steps.restore_rows(cell)


def _multiply_inputs(settings: ScanSettings, words: Tensor, weight: Tensor) -> Tensor:
    """The inputs' share of the gates, (N, 4H), in inference."""
    dtype = settings.matmul_dtype
    if settings.int8 or dtype in HALVES:
        return prepare_cached(weight, dtype, len(words), settings.int8).linear(words, None)
    return settings.backend.multiply_inputs(words, cast_cached(weight, dtype))


def _prepare_for_steps(
    settings: ScanSettings, recurrent: Tensor, projection: Tensor, make: Callable[..., Prepared]
) -> list[Prepared]:
    """Both weights of the steps: as they lie where the backend wants that for few rows, else made by `make`."""
    rows = max(settings.steps.sizes, default=0)
    weights = [recurrent, projection]
    few = settings.backend.few_rows(recurrent.dtype, recurrent.shape[1])
    lie_well = all(weight.is_contiguous() and weight.dtype == recurrent.dtype for weight in weights)
    # Halves are widened as they are read; what stays in the processor's caches gains nothing by autocast's rounding.
    stays = recurrent.dtype == torch.float32 == settings.dtype and is_small(recurrent)
    suits = recurrent.dtype == settings.matmul_dtype or recurrent.dtype in HALVES or stays
    if rows <= few and lie_well and suits and not settings.int8:
        return [DenseWeight(weight.detach()) for weight in weights]
    return [make(weight, settings.matmul_dtype, rows, settings.int8) for weight in weights]


class ProjectedLSTMFunction(torch.autograd.Function):
    """The scan with a backward written by hand: one product per weight for the gradients of all its steps."""

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
        gates = settings.backend.multiply_inputs(words, input_weight.to(dtype)).to(settings.dtype)
        first_hidden = steps.sort_rows(hidden).to(settings.dtype)
        first_cell = steps.sort_rows(cell).to(settings.dtype)
        traces = settings.backend.run_steps_keeping(
            gates,
            bias.to(settings.dtype),
            *_prepare_for_steps(settings, recurrent, projection, prepare),
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
        refuse_create_graph("the fast scan")
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
