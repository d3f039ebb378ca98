"""Which implementation runs a scan: chosen by name, or the fastest that is there."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from . import compiled, graphs, library, plain
from .products import native_unavailable_reason
from .scan import scan

BACKENDS = ("auto", "reference", "plain", "compiled")

# Numbers in a module's weights from which a build of half a minute pays: those of the smallest published model, but not
# of toys and tests.
_WORTH_A_BUILD = 2**19

logger = logging.getLogger(__name__)

# For one thread or asyncio task; None where it has not chosen.
_chosen: ContextVar[str | None] = ContextVar("hf_elmo_backend", default=None)


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Choose the implementation inside a `with` block, for the thread or asyncio task that runs it.

    "auto", the default, is on a CPU "compiled", built at the first use of a model that this pays for, else "plain";
    "reference" for what neither takes (traces, torch.func, tensor subclasses, cells without a projection). It alone
    falls back, and says so once by logging. HF_ELMO_KERNELS names the backend of a process outside of blocks.

    Raises: ValueError for an unknown name; RuntimeError if the backend cannot run here, with the reason.
    """
    _check(name)
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)


# What traces a model takes the name for a constant: it cannot look into a ContextVar.
@torch.compiler.assume_constant_result
def get_backend() -> str:
    """The name in force: that of `use_backend`'s block, else of HF_ELMO_KERNELS, else "auto"."""
    return _chosen.get() or _of_environment()


@functools.cache
def _of_environment() -> str:
    name = os.environ.get("HF_ELMO_KERNELS") or "auto"
    try:
        _check(name)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"HF_ELMO_KERNELS is {name!r}: {error}") from error
    return name


def _check(name: str) -> None:
    if name not in BACKENDS:
        raise ValueError(f"name is {name!r}; the backends are {', '.join(BACKENDS)}.")
    if name == "compiled":
        library.build()


def unavailable_reasons() -> dict[str, str]:
    """Why "compiled", or products of "bfloat16" and "float16" on the CPU, do not run here; empty if all do."""
    reasons = {
        "compiled": library.unavailable_reason(),
        "bfloat16": native_unavailable_reason(torch.bfloat16),
        "float16": native_unavailable_reason(torch.float16),
    }
    return {name: reason for name, reason in reasons.items() if reason is not None}


def supports(*tensors: Tensor) -> bool:
    """Whether the kernels run on these tensors now: ordinary ones, on a CPU or GPU, outside of traces."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._are_functorch_transforms_active():
        return False
    return all(type(t) in (Tensor, torch.nn.Parameter) and t.device.type in ("cpu", "cuda") for t in tensors)


def takes_compiled(*weights: Tensor) -> bool:
    """Whether the C++ library runs for these weights; "auto" builds it at the first use of large ones on a CPU."""
    if get_backend() not in ("auto", "compiled") or any(weight.device.type != "cpu" for weight in weights):
        return False
    if get_backend() == "auto" and not library.was_tried and sum(w.numel() for w in weights) >= _WORTH_A_BUILD:
        library.build_on_first_use()
    return library.is_ready()


def run_projected_lstm(
    inputs: Tensor,
    order: Any,
    weights: Any,
    state: tuple[Tensor, Tensor] | None,
    *,
    cell_clip: float | None,
    projection_clip: float | None,
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, Tensor]] | None:
    """As `scan_projected_lstm`, by the chosen backend; None if that is the reference.

    `order` is a `PackedOrder` of `hf_elmo.model.modeling_elmo`; None while PyTorch traces.
    """
    name = get_backend()
    if name == "reference":
        return None
    device, is_projected, reason = inputs.device.type, weights[3] is not None, None
    if not is_projected:
        reason = "cells without a projection run by the reference scan, which is slower"
    elif not supports(inputs, *weights, *(state or ())):
        reason = "the kernels run outside of traces, on ordinary tensors on cpu and cuda, but no tensor subclasses"
    elif name == "compiled" and device != "cpu":
        reason = f"it runs on the CPU; these inputs are on {device}"
    if reason is None:
        backend = compiled if takes_compiled(inputs, *weights) else plain
        if name == "auto" and graphs.pays(inputs, order.sizes):
            backend = graphs
        return scan(inputs, order, weights, state, plain.Clips(cell_clip, projection_clip), reverse, backend)
    if name != "auto":
        raise RuntimeError(
            f'the backend {name!r} was asked for by name, but {reason}. Use use_backend("auto") or '
            'use_backend("reference").'
        )
    if not torch.compiler.is_compiling() and (not is_projected or device not in ("cpu", "cuda", "meta")):
        _say_once(reason)
    return None


@functools.cache
def _say_once(line: str) -> None:
    logger.warning("hf_elmo: %s", line)
