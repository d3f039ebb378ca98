"""The steps of a projected LSTM in C++, forward and backward, on the CPU: `projected_lstm.h`, the twin of `plain.py`.

Letters in shapes as there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .half_precision import HALVES, product_dtype
from .plain import Clips, Gradients, Traces
from .prepared import FloatWeight, PackedWeight

__all__ = [
    "Clips",
    "Gradients",
    "Traces",
    "few_rows",
    "multiply_inputs",
    "run_steps",
    "run_steps_back",
    "run_steps_keeping",
]


# Measured: the fewer numbers a row has, the more of a product of the weight as it lies goes into adding up vectors.
_FEW_ROWS, _FEW_SHORT_ROWS, _LONG_ROW = 48, 8, 256
# The inputs' weight is read once in a call, and not at each step as the others are: packing it never pays for so few.
_LONG_ROW_OF_INPUTS = 128


def few_rows(dtype: torch.dtype, inputs: int) -> int:
    """As `plain.few_rows`: up to so many rows, weights are read once as they lie, and need no copy."""
    return _few_rows(dtype, inputs >= _LONG_ROW)


def multiply_inputs(words: Tensor, weight: Tensor) -> Tensor:
    """As `plain.multiply_inputs`."""
    kernels = torch.ops.hf_elmo_kernels
    few = _few_rows(weight.dtype, weight.shape[1] >= _LONG_ROW_OF_INPUTS)
    if words.dtype == weight.dtype and len(words) <= few and weight.is_contiguous():
        # A library packs all of a weight first, which for a single sentence takes longer than the product.
        return kernels.multiply_by_rows(words, weight)
    return kernels.multiply_into_large_pages(words, weight)


def _few_rows(dtype: torch.dtype, is_long: bool) -> int:
    if dtype in HALVES and product_dtype(dtype) == dtype:
        # The processor's own instructions for many rows are several times faster.
        return 1
    return _FEW_ROWS if is_long else _FEW_SHORT_ROWS


def run_steps(
    gates: Tensor,
    bias: Tensor,
    recurrent: FloatWeight,
    projection: FloatWeight,
    hidden: Tensor,
    cell: Tensor,
    sizes: list[int],
    clips: Clips,
) -> Tensor:
    """As `plain.run_steps`."""
    weights, final = _hand_over(recurrent, projection), cell.contiguous()
    few = few_rows(recurrent.weight.dtype, recurrent.weight.shape[1])
    (outputs,) = torch.ops.hf_elmo_kernels.run_steps(
        gates, bias, weights, hidden.contiguous(), final, sizes, *clips, few, False
    )
    if final is not cell:
        cell.copy_(final)
    return outputs


def run_steps_keeping(
    gates: Tensor,
    bias: Tensor,
    recurrent: FloatWeight,
    projection: FloatWeight,
    hidden: Tensor,
    cell: Tensor,
    sizes: list[int],
    clips: Clips,
) -> Traces:
    """As `plain.run_steps_keeping`."""
    weights, states = _hand_over(recurrent, projection), (hidden.contiguous(), cell.contiguous())
    few = few_rows(recurrent.weight.dtype, recurrent.weight.shape[1])
    return Traces(gates, *torch.ops.hf_elmo_kernels.run_steps(gates, bias, weights, *states, sizes, *clips, few, True))


def run_steps_back(
    traces: Traces,
    recurrent: FloatWeight,
    projection: FloatWeight,
    cell: Tensor,
    gradients: tuple[Tensor, Tensor, Tensor],
    sizes: list[int],
    clips: Clips,
) -> Gradients:
    """As `plain.run_steps_back`."""
    weights = _hand_over(recurrent, projection)
    kept = traces[:-1]  # the outputs after their clip are not needed
    found = [gradient.contiguous() for gradient in gradients]
    grad_gates = torch.ops.hf_elmo_kernels.run_steps_back(kept, weights, cell.contiguous(), found, sizes, *clips)
    return Gradients(grad_gates, *found)


def _hand_over(*weights: FloatWeight) -> list[Tensor]:
    """Each weight as it is, and in the layout for general products."""
    found = []
    for prepared in weights:
        found += [prepared.weight, prepared.packed if isinstance(prepared, PackedWeight) else prepared.transposed]
    return found
