"""The functions of `plain.py` in C++ on the CPU (`csrc/lstm_steps.h`)."""

from __future__ import annotations

import torch
from torch import Tensor

from .plain import Clips, Steps, Traces
from .products import HALVES, Weight, product_dtype

# Rows up to which a product reads the weight once, in place and unpacked, as a single sentence's do. Measured: the
# fewer numbers a row has, the more of such a product goes into adding up vectors.
_SMALL_BATCH, _SMALL_BATCH_OF_SHORT_ROWS, _LONG_ROW = 48, 8, 256
# The inputs' weight is read once in a call, and not at each step as the others are: packing it never pays for so few.
_LONG_ROW_OF_INPUTS = 128


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
