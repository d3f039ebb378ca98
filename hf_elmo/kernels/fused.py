"""The scan that trains, each pass in one call of C++: products, gates and the gradients of weights (`fused_lstm.h`).

A core runs all steps of its own rows, forward and backward, so that cores wait for each other only once a pass. bf16 is
multiplied by the processor's tiles (AMX), with sums of float32. Letters in shapes as in `scan.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import library
from .gradients import refuse_create_graph
from .panels import PANEL, by_cells, lay_out_panels
from .prepared import is_small
from .scan_settings import ScanSettings

# Sizes that fill whole panels of a weight and whole tiles of a processor.
_WHOLE = 32
# Rows per core from which a float32 scan pays: each core reads all weights in each step.
_ROWS_OF_FLOATS = 64


def suits(settings: ScanSettings, recurrent: Tensor) -> bool:
    """Whether the fused scan runs, and pays.

    Few rows, and many cores for them, are better off by single steps, as are float32 weights that leave the caches.
    """
    dtype, rows = settings.matmul_dtype, max(settings.steps.sizes, default=0)
    if recurrent.device.type != "cpu" or settings.dtype != torch.float32 or not library.is_ready():
        return False
    if dtype != torch.float32 and not (dtype == torch.bfloat16 and torch.ops.hf_elmo_kernels.has_tiles()):
        return False
    gates, projection_size = recurrent.shape
    if projection_size % _WHOLE or gates % (4 * _WHOLE):
        return False
    cores = torch.get_num_threads()
    if dtype == torch.bfloat16:
        # A core takes whole tiles of rows.
        return rows >= PANEL * max(cores // 2, 2)
    return rows >= _ROWS_OF_FLOATS * cores and is_small(recurrent)


class FusedLSTMFunction(torch.autograd.Function):
    """As `scan.ProjectedLSTMFunction`, with one call for each pass."""

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
        words = steps.pack(inputs).to(dtype).contiguous()
        weights = torch.cat([input_weight, recurrent], dim=1)
        panels = [lay_out_panels(by_cells(weights), dtype), lay_out_panels(projection, dtype)]
        first_hidden = steps.sort_rows(hidden).to(torch.float32).contiguous()
        first_cell = steps.sort_rows(cell).to(torch.float32).contiguous()
        last_cell = first_cell.clone()
        traces = torch.ops.hf_elmo_kernels.run_fused(
            words, panels, bias.to(torch.float32).contiguous(), first_hidden, last_cell, steps.sizes, *settings.clips
        )
        ctx.settings = settings
        ctx.dtypes = [tensor.dtype for tensor in (inputs, input_weight, recurrent, bias, projection, hidden, cell)]
        ctx.save_for_backward(words, weights, projection, first_hidden, *traces)
        outputs = traces[-1]
        return (
            steps.unpack(outputs),
            steps.restore_rows(steps.last(first_hidden, outputs)),
            steps.restore_rows(last_cell),
        )

    @staticmethod
    def backward(ctx: Any, grad_outputs: Tensor, grad_hidden: Tensor, grad_cell: Tensor) -> tuple[Tensor | None, ...]:
        refuse_create_graph("the fast scan")
        settings = ctx.settings
        steps = settings.steps
        words, weights, projection, first_hidden, *traces = ctx.saved_tensors
        panels = [lay_out_panels(weight.t(), settings.matmul_dtype) for weight in (projection, weights)]
        gradients = [
            steps.pack(grad_outputs).to(torch.float32).contiguous(),
            *(steps.sort_rows(state).to(torch.float32).contiguous() for state in (grad_hidden, grad_cell)),
        ]
        of_words, of_weights, of_bias, of_projection = torch.ops.hf_elmo_kernels.run_fused_back(
            words, traces, panels, first_hidden, gradients, steps.sizes, *settings.clips
        )
        of_input, of_recurrent = (part.t().contiguous() for part in of_weights.chunk(2))
        found = (
            steps.unpack(of_words),
            of_input,
            of_recurrent,
            of_bias.sum(dim=0),
            of_projection,
            *(steps.restore_rows(state) for state in gradients[1:]),
        )
        return None, *(grad.to(kind) for grad, kind in zip(found, ctx.dtypes, strict=True))
