"""The C++ on the CPU: the functions of `plain.py` (`csrc/lstm_steps.h`), and the fused scan (`csrc/fused_lstm.h`).

The fused scan trains, each pass in one call: a core runs all steps of its own rows, forward and backward, so that cores
wait for each other only once a pass. bf16 is multiplied by the processor's AMX tiles, with sums of float32. Letters in
shapes as in `scan.py`; O outputs and I inputs of a weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import library
from .plain import Clips, Steps, Traces
from .products import HALVES, Weight, fits_cache, product_dtype

if TYPE_CHECKING:
    from .scan import ScanSettings

# Rows up to which a product reads the weight once, in place and unpacked, as a single sentence's do. Measured: the
# fewer numbers a row has, the more of such a product goes into adding up vectors.
_SMALL_BATCH, _SMALL_BATCH_OF_SHORT_ROWS, _LONG_ROW = 48, 8, 256
# The inputs' weight is read once in a call, and not at each step as the others are: packing it never pays for so few.
_LONG_ROW_OF_INPUTS = 128
# Columns of a panel of a weight, and rows of an AMX tile.
_PANEL = 16
# Sizes that fill whole panels and tiles.
_WHOLE = 32
# Rows per core from which a float32 scan pays: each core reads all weights in each step. Measured at the small size,
# 128 lanes on one core: single steps take 1.17 times as long in float32, and 2.05 times in bf16.
_ROWS_OF_FLOATS = 64


def small_batch(weight: Tensor, long_row: int = _LONG_ROW) -> int:
    """The most rows for which products read `weight`, (O, I), in place."""
    if weight.dtype in HALVES and product_dtype(weight.dtype) == weight.dtype:
        # The processor's own instructions for many rows are several times faster.
        return 1
    return _SMALL_BATCH if weight.shape[1] >= long_row else _SMALL_BATCH_OF_SHORT_ROWS


def cast_weight(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """As `plain.cast_weight`, into memory that the next call takes again."""
    if weight.dtype == dtype or not weight.is_contiguous():
        return weight.detach().to(dtype)
    return torch.ops.hf_elmo_kernels.cast_weight(weight.detach(), dtype)


def multiply_inputs(words: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """As `plain.multiply_inputs`."""
    kernels = torch.ops.hf_elmo_kernels
    is_small_batch = len(words) <= small_batch(weight, _LONG_ROW_OF_INPUTS) and weight.dtype not in HALVES
    if is_small_batch and weight.is_contiguous():
        # A library packs all of a weight first, which for a single sentence takes longer than the product.
        return kernels.multiply_small_batch(words, weight).to(dtype)
    return kernels.multiply_words(words, weight, dtype)


def run_steps(steps: Steps, keeps: bool) -> list[Tensor]:
    """As `plain.run_steps`."""
    gates, bias, recurrent, projection, hidden, cell, sizes, clips = steps
    weights, rows = [*recurrent, *projection], small_batch(recurrent.rows)
    return torch.ops.hf_elmo_kernels.run_steps(gates, bias, weights, hidden, cell, sizes, *clips, rows, keeps)


def run_steps_backward(
    traces: Traces,
    recurrent: Weight,
    projection: Weight,
    cell: Tensor,
    gradients: list[Tensor],
    sizes: list[int],
    clips: Clips,
) -> Tensor:
    """As `plain.run_steps_backward`."""
    kept = traces[:-1]  # the outputs after their clip are not needed
    weights = [*recurrent, *projection]
    return torch.ops.hf_elmo_kernels.run_steps_backward(kept, weights, cell, gradients, sizes, *clips)


# The fused scan


def fused_pays(settings: ScanSettings, recurrent: Tensor) -> bool:
    """Whether the fused scan runs, and is faster than single steps."""
    # Not with few rows for many cores, nor with float32 weights that leave the caches.
    dtype, rows = settings.matmul_dtype, max(settings.packing.sizes, default=0)
    gates, projection_size = recurrent.shape
    if settings.dtype != torch.float32 or projection_size % _WHOLE or gates % (4 * _WHOLE) or not library.is_ready():
        return False
    cores = torch.get_num_threads()
    if dtype == torch.bfloat16 and torch.ops.hf_elmo_kernels.has_amx_bf16():
        # A core takes whole tiles of rows.
        return rows >= _PANEL * max(cores // 2, 2)
    return dtype == torch.float32 and rows >= _ROWS_OF_FLOATS * cores and fits_cache(recurrent)


def make_panels(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A weight (O, I) as panels of 16 of its outputs: (O / 16, I, 16), of bf16 (O / 16, I / 2, 16, 2)."""
    rows = weight.detach().to(dtype).contiguous()
    # Two numbers of bf16 are moved as one.
    units = rows.view(torch.int32) if dtype == torch.bfloat16 else rows
    return units.view(-1, _PANEL, units.shape[1]).transpose(1, 2).contiguous().view(dtype)


def run_fused(
    settings: ScanSettings, words: Tensor, weights: list[Tensor], hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The outputs, each row's last cell, and what `run_fused_backward` takes besides."""
    input_weight, recurrent, bias, projection = weights
    both = torch.cat([input_weight, recurrent], dim=1)
    # The four gates of 16 cells side by side.
    by_cells = both.view(4, -1, _PANEL, both.shape[1]).transpose(0, 1).reshape(both.shape)
    panels = [make_panels(weight, settings.matmul_dtype) for weight in (by_cells, projection)]
    bias = bias.to(torch.float32).contiguous()
    traces = torch.ops.hf_elmo_kernels.run_fused(
        words, panels, bias, hidden, cell, settings.packing.sizes, *settings.clips
    )
    return traces[-1], cell, [both, projection, *traces]


def run_fused_backward(
    settings: ScanSettings, gradients: list[Tensor], words: Tensor, hidden: Tensor, *kept: Tensor
) -> list[Callable[[], Tensor]]:
    """The gradients of the words and of each weight; those of the state take the place of `gradients[1:]`."""
    both, projection, *traces = kept
    panels = [make_panels(weight.t(), settings.matmul_dtype) for weight in (projection, both)]
    of_words, of_weights, of_bias, of_projection = torch.ops.hf_elmo_kernels.run_fused_backward(
        words, traces, panels, hidden, gradients, settings.packing.sizes, *settings.clips
    )
    of_input, of_recurrent = of_weights.chunk(2)
    return [
        lambda: of_words,
        lambda: of_input.t().contiguous(),
        lambda: of_recurrent.t().contiguous(),
        lambda: of_bias.sum(dim=0),
        lambda: of_projection,
    ]
