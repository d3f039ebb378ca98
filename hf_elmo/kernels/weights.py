"""Weight matrices in the layout in which the many small products of a scan are fastest, prepared anew in each call.

A general matrix product packs its operands in every call, and a scan multiplies by the same two matrices at each step.
Letters in shapes: M rows of a product, I inputs, O outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .half import HALVES, packing_unavailable_reason

# Float32 weights of at most this size (bytes) stay in a processor's caches from step to step.
_CACHE_BYTES = 4 * 2**20
# oneDNN packs for a number of rows; with this one the layout is good from two rows to hundreds.
_TYPICAL_ROWS = 32
# More of them pay for the packing of float32 by themselves.
_MANY_ROWS = 96


class Weight(NamedTuple):
    rows: Tensor  # (O, I)
    prepared: Tensor  # its transpose (I, O), a view or a copy; or oneDNN's own layout

    def multiply(self, x: Tensor, out: Tensor) -> None:
        """Write x W^T, (M, O), into `out`."""
        if self._is_direct(x, out):
            torch.mm(x, self.prepared, out=out)
        else:
            out.copy_(self._product(x))

    def accumulate(self, x: Tensor, total: Tensor) -> None:
        """Add x W^T to `total`, (M, O)."""
        if self._is_direct(x, total):
            total.addmm_(x, self.prepared)
        else:
            total.add_(self._product(x))

    def _is_direct(self, x: Tensor, out: Tensor) -> bool:
        return x.dtype == self.rows.dtype == out.dtype and not self.prepared.is_mkldnn

    def _product(self, x: Tensor) -> Tensor:
        x = x.to(self.rows.dtype)
        if self.prepared.is_mkldnn:
            return torch.ops.mkldnn._linear_pointwise(x, self.prepared, None, "none", [], "")
        return x @ self.prepared


def prepare(weight: Tensor, rows: int, packs_float32: bool = False) -> Weight:
    """The best layout of `weight` (O, I) for many products of up to `rows` rows with factors of its dtype."""
    weight, dtype = weight.detach(), weight.dtype
    # A single row waits for the weight to be read, whatever its layout.
    if weight.device.type == "cpu" and rows > 1:
        if dtype == torch.float32 and fits_cache(weight):
            # Along the outputs, as a general product of few rows runs.
            return Weight(weight, weight.t().contiguous())
        # Measured on AMX with 32 sentences: without packing the biLM in bf16 takes 1.2 times as long at both sizes, and
        # `plain` in float32 as long at the original one. A view takes longer to pack than it saves.
        packs = dtype in HALVES or (packs_float32 and dtype == torch.float32 and rows <= _MANY_ROWS)
        if packs and weight.is_contiguous() and packing_unavailable_reason(dtype) is None:
            return Weight(weight, torch.ops.mkldnn._reorder_linear_weight(weight, _TYPICAL_ROWS))
    return Weight(weight, weight.t())


def fits_cache(weight: Tensor) -> bool:
    """Whether a weight stays in a processor's caches from step to step, in float32."""
    return weight.numel() * 4 <= _CACHE_BYTES
