"""Whether matrix products of bf16 and fp16 numbers run as such: only where the processor has instructions for them.

Without them the libraries widen every number in every product: on a CPU with AVX-512 alone, bf16 took three times the
time of float32. The products then run in float32 by weights that are widened once, which are the same rounded weights
and no worse in any digit; results keep the dtype that was asked for.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from contextvars import ContextVar

import torch

from .prepared import why_not_packed

WAYS = ("auto", "native", "float32")
HALVES = (torch.bfloat16, torch.float16)

# What oneDNN may be told to stay below; older names than these have no instructions for bf16.
_WITH_BFLOAT16 = ("AVX512_CORE_BF16", "AVX512_CORE_FP16", "AVX512_CORE_AMX", "AVX10_", "DEFAULT")

_way: ContextVar[str] = ContextVar("hf_elmo_half_products", default="auto")


@contextlib.contextmanager
def half_products(way: str) -> Iterator[None]:
    """Choose how products of bf16 and fp16 numbers run on the CPU inside a `with` block, for this thread or task.

    - "auto", the default: "native" where the processor has instructions for the dtype, else "float32".
    - "native": as they are, by whatever PyTorch has for them.
    - "float32": in float32, by weights that are widened once and kept (`hf_elmo.kernels.packed_bytes`).

    Raises: ValueError for another way.
    """
    if way not in WAYS:
        raise ValueError(f"way is {way!r}; the ways are {', '.join(WAYS)}.")
    before = _way.get()
    _way.set(way)
    try:
        yield
    finally:
        _way.set(before)


@torch.compiler.assume_constant_result
def product_dtype(dtype: torch.dtype, device_type: str = "cpu") -> torch.dtype:
    """The dtype in which products of factors of `dtype` run now: float32 for a half that is not multiplied natively."""
    if dtype not in HALVES or device_type != "cpu":
        return dtype
    way = _way.get()
    is_native = why_not_native(dtype) is None if way == "auto" else way == "native"
    return dtype if is_native else torch.float32


def why_not_native(dtype: torch.dtype) -> str | None:
    """Why the CPU has no products of bf16 or fp16 of its own; None where it has."""
    reason = why_not_packed(dtype)
    if reason is not None or dtype == torch.float16 or platform.machine().lower() not in ("x86_64", "amd64"):
        return reason
    # oneDNN says that it multiplies bf16 wherever there is AVX-512, and without these instructions emulates them.
    checks = [getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    if not any(check is not None and check() for check in checks):
        return "this processor has neither AVX512_BF16 nor AMX"
    allowed = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
    if not allowed.startswith(_WITH_BFLOAT16):
        return f"ONEDNN_MAX_CPU_ISA is {allowed}, which has no instructions for bf16"
    return None
