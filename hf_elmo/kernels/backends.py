"""Which implementation runs a scan: chosen by name, or the fastest that is there."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import torch
from torch import Tensor

from . import compiled, cuda_graphs, plain
from .prepared import prepare_cached, why_not_packed
from .scan import scan

logger = logging.getLogger(__name__)

BACKENDS = ("auto", "readable", "plain", "compiled", "int8", "cuda_graphs")
_STEPS = {"plain": plain, "compiled": compiled, "int8": plain, "cuda_graphs": cuda_graphs}
_DEVICES = {"compiled": "cpu", "int8": "cpu", "cuda_graphs": "cuda"}

_chosen = "auto"


def set_backend(name: str) -> None:
    """Choose the implementation for this process; see `use_backend`.

    Raises: ValueError for an unknown name; RuntimeError where the backend cannot run here, with the reason.
    """
    global _chosen
    if name not in BACKENDS:
        raise ValueError(f"name is {name!r}; the backends are {', '.join(BACKENDS)}.")
    if name == "compiled":
        compiled.build()
    reason = _REASONS[name]() if name in _REASONS else None
    if reason is not None:
        raise RuntimeError(f"the backend {name!r} cannot run here: {reason}.")
    _chosen = name


def get_backend() -> str:
    """The name chosen with `set_backend` or `use_backend`."""
    return _chosen


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Choose the implementation inside a `with` block, for all threads of the process.

    - "auto", the default: "compiled" where it has been built, else "plain"; "readable" for what neither takes (while
      torch.compile or torch.export traces, under torch.func, for tensor subclasses).
    - "readable": the definition, `hf_elmo.model.recurrence_elmo.scan_projected_lstm`; has gradients of gradients.
    - "plain": PyTorch's own operators, weights in the layout that suits them, a backward written by hand.
    - "compiled": the same steps in C++ (CPU), built when first asked for.
    - "cuda_graphs": "plain" on a GPU, its steps recorded as CUDA graphs where shapes repeat.
    - "int8": weights and the inputs of each product in eight bits (CPU), for inference only. Approximate.

    A backend asked for by name runs or raises; only "auto" chooses for itself.
    """
    before = _chosen
    set_backend(name)
    try:
        yield
    finally:
        globals()["_chosen"] = before


def why_not() -> dict[str, str]:
    """Why a backend, or a part of it, does not run here; empty where all do.

    "packed" is the part of "plain" that needs oneDNN's private operators; without it "plain" multiplies by
    torch.nn.functional.linear.
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
    "compiled": compiled.why_not,
    "int8": why_not_int8,
    "cuda_graphs": cuda_graphs.why_not,
}


def takes(*tensors: Tensor) -> bool:
    """Whether the fast scans run on these tensors now: plain ones, on a real device, and nobody traces."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._are_functorch_transforms_active():
        return False
    return all(type(t) in (Tensor, torch.nn.Parameter) and t.device.type in ("cpu", "cuda") for t in tensors)


def run_projected_lstm(
    inputs: Tensor,
    mask: Tensor | None,
    weights: tuple[Tensor, Tensor, Tensor, Tensor],
    state: tuple[Tensor, Tensor] | None,
    *,
    cell_clip: float | None,
    projection_clip: float | None,
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, Tensor]] | None:
    """Run one direction of a projected LSTM by the chosen backend; None where that is the readable scan.

    Arguments and results are those of `hf_elmo.model.recurrence_elmo.scan_projected_lstm`, whose checks have been made.
    """
    name = _chosen
    if name == "readable":
        return None
    if not takes(inputs, *weights, *(state or ())):
        if name == "auto":
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
        name = "compiled" if device == "cpu" and compiled.is_ready() else "plain"
    if name == "int8" and torch.is_grad_enabled() and any(t.requires_grad for t in (inputs, *weights)):
        raise RuntimeError(
            'the backend "int8" has no gradients; run it under torch.inference_mode() or torch.no_grad(), or train '
            'with use_backend("auto").'
        )
    return scan(
        inputs, mask, weights, state, cell_clip, projection_clip, reverse, backend=_STEPS[name], int8=name == "int8"
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor | None:
    """x W^T + b by a kept packed copy of the weight, for inference on few rows; None where that gains nothing."""
    if _chosen == "readable" or x.ndim != 2 or torch.is_autocast_enabled(x.device.type) or not takes(x, weight, bias):
        return None
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad or bias.requires_grad):
        return None
    return prepare_cached(weight, x.dtype, x.shape[0]).linear(x, bias)
