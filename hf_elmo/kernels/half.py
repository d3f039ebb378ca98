"""Products of bf16 and fp16 on a CPU: whether the processor has instructions for them, and their row counts.

Without such instructions libraries widen every number in every product (three times float32's time with AVX-512 alone):
our own products run in float32 there. Results keep the dtype that was asked for.
"""

from __future__ import annotations

import platform

import torch
from torch import Tensor
from torch.nn import functional as F

HALVES = (torch.bfloat16, torch.float16)

# Numbers of rows between a power of two and the next: five bits of a number are kept, and the rest rounded up.
_KEPT_BITS = 5


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
