"""Matrix products on a CPU: halves where it has instructions, numbers of rows, and weights laid out for many of them.

Without instructions for halves libraries widen every number in every product (three times float32's time with AVX-512
alone): our own products run in float32 there. Results keep the dtype that was asked for. A general product packs its
operands in every call, and a scan multiplies by the same two matrices at each step: these are prepared once a call.
Letters in shapes: M or N rows of a product, I inputs, O outputs.
"""

from __future__ import annotations

import platform
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

HALVES = (torch.bfloat16, torch.float16)

# Numbers of rows between a power of two and the next: five bits of a number are kept, and the rest rounded up.
_KEPT_BITS = 5
# Float32 weights of at most this size (bytes) stay in a processor's caches from step to step.
_CACHE_BYTES = 4 * 2**20
# oneDNN packs for a number of rows; with this one the layout is good from two rows to hundreds.
_TYPICAL_ROWS = 32
# More of them pay for the packing of float32 by themselves.
_MANY_ROWS = 96


def product_dtype(dtype: torch.dtype, device_type: str = "cpu") -> torch.dtype:
    """The dtype for products of factors of `dtype`: float32 for a half that this CPU lacks instructions for."""
    if dtype in HALVES and device_type == "cpu" and native_unavailable_reason(dtype) is not None:
        return torch.float32
    return dtype


def native_unavailable_reason(dtype: torch.dtype) -> str | None:
    """Why the CPU has no instructions for products of bf16 or fp16; None where it has."""
    reason = packing_unavailable_reason(dtype)
    if reason is not None or dtype != torch.bfloat16 or platform.machine().lower() not in ("x86_64", "amd64"):
        return reason
    # oneDNN claims bf16 wherever there is AVX-512, and without these instructions emulates it.
    has_instructions = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return None if has_instructions else "this processor has neither AVX512_BF16 nor AMX"


def packing_unavailable_reason(dtype: torch.dtype) -> str | None:
    """Why oneDNN cannot pack weights of float32, bf16 or fp16 here; None where it can."""
    if not torch.backends.mkldnn.is_available() or not torch.backends.mkldnn.enabled:
        return "this PyTorch runs without oneDNN (torch.backends.mkldnn)"
    name = {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype)
    if name is not None and not getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported")():
        return f"oneDNN does not multiply {name} on this processor"
    return None


def round_rows(number: int) -> int:
    """`number`, rounded up to one of sixteen values between two powers of two; up to 32, itself."""
    # oneDNN generates and keeps code for each number of rows, and batches have another one nearly every time.
    step = 1 << max(0, (number - 1).bit_length() - _KEPT_BITS)
    return -(-number // step) * step


def pad_rows(rows: Tensor, dtype: torch.dtype, value: float = 0) -> Tensor:
    """`rows` (N, I) padded to `round_rows(N)` if products of halves, of `dtype` or by autocast, follow on the CPU."""
    if rows.device.type != "cpu":
        return rows
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else dtype
    missing = round_rows(len(rows)) - len(rows)
    return F.pad(rows, (0, 0, 0, missing), value=value) if missing and product_dtype(dtype) in HALVES else rows


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
