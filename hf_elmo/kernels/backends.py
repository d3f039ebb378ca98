"""Which implementation runs a scan: chosen by name, or the fastest that is there."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Iterator
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.nn import functional as F

from . import compiled, cuda_graphs, library, plain
from .half_precision import HALVES, product_dtype, why_not_native
from .prepared import cast_cached, why_not_packed
from .scan import scan

BACKENDS = ("auto", "readable", "plain", "compiled", "int8", "cuda_graphs")
_STEPS = {"plain": plain, "compiled": compiled, "int8": plain, "cuda_graphs": cuda_graphs}
_DEVICES = {"compiled": "cpu", "int8": "cpu", "cuda_graphs": "cuda"}

# Numbers in a module's weights from which on a build of half a minute is soon made up for: those of the smallest
# published model, but not of toys and tests, which nobody wants to wait for.
_WORTH_A_BUILD = 2**19

logger = logging.getLogger(__name__)
_said: set[str] = set()

# For all threads, and for one thread or asyncio task; None where it has not chosen.
_of_process: str | None = None
_of_context: ContextVar[str | None] = ContextVar("hf_elmo_backend", default=None)


def set_backend(name: str) -> None:
    """Choose the implementation for all of this process, but for where `use_backend` has chosen; see there.

    Raises: ValueError for an unknown name; RuntimeError where the backend cannot run here, with the reason.
    """
    global _of_process
    _check(name)
    _of_process = name


def _check(name: str) -> None:
    if name not in BACKENDS:
        raise ValueError(f"name is {name!r}; the backends are {', '.join(BACKENDS)}.")
    if name == "compiled":
        library.build()
    reason = _REASONS[name]() if name in _REASONS else None
    if reason is not None:
        raise RuntimeError(f"the backend {name!r} cannot run here: {reason}.")


# What traces a model takes the name for a constant: it cannot look into a ContextVar.
@torch.compiler.assume_constant_result
def get_backend() -> str:
    """The name that holds here: `use_backend`'s inside of its block, else the process's, else HF_ELMO_KERNELS'."""
    return _of_context.get() or _of_process or _of_environment()


@functools.cache
def _of_environment() -> str:
    name = os.environ.get("HF_ELMO_KERNELS") or "auto"
    try:
        _check(name)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"HF_ELMO_KERNELS is {name!r}: {error}") from error
    return name


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Choose the implementation inside a `with` block, for the thread or asyncio task that runs it.

    Other threads and tasks keep theirs. A backward pass runs what its forward pass ran; but gradient checkpointing
    computes the forward pass again, on a GPU in a thread of PyTorch's own: choose with `set_backend` there.

    - "auto", the default: on a CPU "compiled", which it builds at the first use of a model that this pays for, else
      "plain"; "readable" for what neither takes (while torch.compile or torch.export traces, under torch.func, for
      tensor subclasses, for cells without a projection). Where it falls back it says so once, by logging.
    - "readable": the definition, `hf_elmo.model.modeling_elmo.scan_projected_lstm`; has gradients of gradients.
    - "plain": PyTorch's own operators, weights in the layout that suits them, a backward written by hand.
    - "compiled": the same steps in C++ (CPU), built at once where it is not there.
    - "cuda_graphs": "plain" on a GPU, its steps recorded as CUDA graphs where shapes repeat.
    - "int8": weights and the inputs of each product in eight bits (CPU), for inference only. Approximate.

    A backend asked for by name runs or raises; only "auto" chooses for itself. The environment variable
    HF_ELMO_KERNELS names the backend of a process that chooses none.
    """
    _check(name)
    before = _of_context.get()
    _of_context.set(name)
    try:
        yield
    finally:
        _of_context.set(before)


def why_not() -> dict[str, str]:
    """Why a backend, or a part of it, does not run here; empty where all do.

    "packed" is the part of "plain" that needs oneDNN's private operators; without it "plain" multiplies by
    torch.nn.functional.linear. "bfloat16" and "float16" are products in half precision on the CPU; without them the
    products run in float32 (`half_products`).
    """
    reasons = {name: why() for name, why in _REASONS.items()}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def why_not_int8() -> str | None:
    """Why products in eight bits cannot run here; None where they can."""
    has_operators = hasattr(torch, "quantize_per_channel") and hasattr(torch.ops.quantized, "linear_dynamic")
    if not has_operators or torch.backends.quantized.engine == "none":
        return f"PyTorch {torch.__version__} was built without quantized products (torch.backends.quantized)"
    return None


_REASONS = {
    "packed": lambda: why_not_packed(torch.float32),
    "compiled": library.why_not,
    "int8": why_not_int8,
    "cuda_graphs": cuda_graphs.why_not,
    "bfloat16": lambda: why_not_native(torch.bfloat16),
    "float16": lambda: why_not_native(torch.float16),
}


def takes(*tensors: Tensor) -> bool:
    """Whether the fast scans run on these tensors now: plain ones, on a real device, and nobody traces."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._are_functorch_transforms_active():
        return False
    return all(type(t) in (Tensor, torch.nn.Parameter) and t.device.type in ("cpu", "cuda") for t in tensors)


def build_on_first_use(*weights: Tensor) -> None:
    """Have the compiled library, where "auto" may take it and weights of some size compute on a CPU for the first time.

    Not while the package is imported or a model is loaded or traced: who only looks at a model, or moves it to a GPU,
    never waits. Before a model's first vectors, so that all that it computes in a process comes from one backend.
    """
    if library.was_used() or get_backend() != "auto" or not takes(*weights):
        return
    if all(weight.device.type == "cpu" for weight in weights) and sum(w.numel() for w in weights) >= _WORTH_A_BUILD:
        library.build_on_first_use()


def _say_once(line: str) -> None:
    if not torch.compiler.is_compiling() and line not in _said:
        _said.add(line)
        logger.warning("hf_elmo: %s", line)


def run_projected_lstm(
    inputs: Tensor,
    mask: Tensor | None,
    weights: tuple[Tensor, Tensor, Tensor, Tensor | None],
    state: tuple[Tensor, Tensor] | None,
    *,
    cell_clip: float | None,
    projection_clip: float | None,
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, Tensor]] | None:
    """Run one direction of a projected LSTM by the chosen backend; None where that is the readable scan.

    Arguments and results are those of `hf_elmo.model.modeling_elmo.scan_projected_lstm`, whose checks have been made.
    """
    name = get_backend()
    if name == "readable":
        return None
    into_gates, recurrent, bias, projection = weights
    if projection is None:
        if name == "auto":
            _say_once("cells without a projection run by the readable scan, which is slower")
            return None
        raise RuntimeError(
            f"the backend {name!r} was asked for by name, but it runs only cells whose output is projected, which this "
            'model has not (its config\'s project_hidden is False). Use use_backend("auto") or use_backend("readable").'
        )
    projected = (into_gates, recurrent, bias, projection)
    if not takes(inputs, *projected, *(state or ())):
        if name == "auto":
            if inputs.device.type not in ("cpu", "cuda", "meta"):
                _say_once(f"the readable scan runs on {inputs.device.type}: the kernels are for cpu and cuda")
            return None
        raise RuntimeError(
            f"the backend {name!r} was asked for by name, but it runs neither while PyTorch traces (torch.compile, "
            "torch.export, torch.func) nor on tensor subclasses or other devices than cpu and cuda. Use "
            'use_backend("auto") or use_backend("readable").'
        )
    device = inputs.device.type
    if _DEVICES.get(name, device) != device:
        raise RuntimeError(
            f'the backend {name!r} runs on {_DEVICES[name]}; these inputs are on {inputs.device}. Use "auto".'
        )
    if name == "auto":
        build_on_first_use(*projected)
        name = "compiled" if device == "cpu" and library.is_ready() else "plain"
    if name == "int8" and torch.is_grad_enabled() and any(t.requires_grad for t in (inputs, *projected)):
        raise RuntimeError(
            'the backend "int8" has no gradients; run it under torch.inference_mode() or torch.no_grad(), or train '
            'with use_backend("auto").'
        )
    return scan(
        inputs, mask, projected, state, cell_clip, projection_clip, reverse, backend=_STEPS[name], int8=name == "int8"
    )


# Rows up to which `linear` reads a weight as it lies, and columns from which that pays.
_FEW_ROWS, _LONG_ROW = 48, 512


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
    """x W^T + b, (N, I) to (N, O), where there is a faster way than torch's; None where there is none.

    In inference, a large weight is read once for few rows; halves that the processor does not multiply itself are
    widened (`half_products`).
    """
    if bias is None or x.ndim != 2 or get_backend() == "readable" or not takes(x, weight, bias):
        return None
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    wide = product_dtype(dtype, device)
    needs_gradients = torch.is_grad_enabled() and any(t.requires_grad for t in (x, weight, bias))
    with torch.autocast(device, enabled=False):
        # Autocast would round all of a weight anew in every call; as it lies it is read once, and not rounded.
        between = wide if weight.dtype in HALVES else weight.dtype
        if reads_rows(x, weight, between) and not needs_gradients:
            found = torch.ops.hf_elmo_kernels.multiply_by_rows(x.detach().to(between), weight.detach())
            return (found + bias.to(between)).to(dtype)
        if wide == dtype:
            return None
        widened = weight.to(wide) if needs_gradients else cast_cached(weight, wide)
        return F.linear(x.to(wide), widened, bias.to(wide)).to(dtype)


def reads_rows(x: Tensor, weight: Tensor, wide: torch.dtype) -> bool:
    """Whether the compiled product of few rows is there and pays."""
    return (
        x.device.type == "cpu"
        and wide in (torch.float32, torch.float64)
        and (weight.dtype == wide or (weight.dtype in HALVES and wide == torch.float32))
        and 0 < x.shape[0] <= _FEW_ROWS
        and x.shape[1] >= _LONG_ROW
        and weight.is_contiguous()
        and get_backend() in ("auto", "compiled", "int8")
        and library.is_ready()
    )
