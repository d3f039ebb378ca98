"""The steps of `plain` in training, replayed as CUDA graphs: on a GPU a step is shorter than its launches from Python.

A graph works on memory of its own, into which and out of which tensors are copied. It is recorded for one shape, so
that it serves windows of pre-training, whose lanes are full; batches of sentences have other sizes each time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import plain
from .plain import Clips, Steps, Traces, cast_weight, multiply_inputs
from .products import Weight, prepare

__all__ = ["cast_weight", "free", "multiply_inputs", "pays", "run_steps", "run_steps_backward"]

# The forward and the backward steps of the windows in training and of a second size or precision.
_MOST_RECORDINGS = 4

_Run = Callable[..., Sequence[Tensor]]


def pays(inputs: Tensor, sizes: Sequence[int]) -> bool:
    """Whether steps of these sizes, over inputs on any device, come again and can be recorded now."""
    is_full = len(sizes) > 1 and sizes[0] == sizes[-1]
    return is_full and inputs.device.type == "cuda" and not torch.cuda.is_current_stream_capturing()


def run_steps(steps: Steps, keeps: bool) -> list[Tensor]:
    """As `plain.run_steps`; recorded for training, which `keeps` what the steps leave."""
    if not keeps:
        return plain.run_steps(steps, keeps)

    def run(gates: Tensor, bias: Tensor, recurrent: Tensor, projection: Tensor, *state: Tensor) -> list[Tensor]:
        weights, (hidden, cell) = _prepare(recurrent, projection), state
        own = Steps(gates, bias, *weights, hidden, cell, steps.sizes, steps.clips)
        return [gates, *plain.run_steps(own, keeps=True)]

    weights = steps.recurrent.rows, steps.projection.rows
    tensors = (steps.gates, steps.bias, *weights, steps.hidden, steps.cell)
    gates, *kept = _replay(run, tensors, ("forward", len(steps.sizes), steps.clips))
    steps.gates.copy_(gates)
    return kept


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

    def run(recurrent: Tensor, projection: Tensor, cell: Tensor, *rest: Tensor) -> list[Tensor]:
        of_results = list(rest[:3])
        transposes = _prepare(recurrent, projection)
        grad_gates = plain.run_steps_backward(Traces(*rest[3:]), *transposes, cell, of_results, sizes, clips)
        return [grad_gates, *of_results]

    tensors = (recurrent.rows, projection.rows, cell, *gradients, *traces)
    grad_gates, *after = _replay(run, tensors, ("backward", len(sizes), clips))
    for gradient, new in zip(gradients, after, strict=True):
        gradient.copy_(new)
    return grad_gates


def _prepare(recurrent: Tensor, projection: Tensor) -> tuple[Weight, Weight]:
    return prepare(recurrent, rows=1), prepare(projection, rows=1)  # views, on a GPU


class _Recording:
    """One recorded call and the memory that its graph reads and writes."""

    def __init__(self, run: _Run, tensors: Sequence[Tensor]):
        self._inputs = [tensor.clone() for tensor in tensors]
        with torch.cuda.device(tensors[0].device):
            self._launch = _record(lambda: run(*self._inputs))

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        for own, tensor in zip(self._inputs, tensors, strict=True):
            own.copy_(tensor)
        # The next call writes to the same memory.
        return [result.clone() for result in self._launch()]


def _record(run: Callable[[], Sequence[Tensor]]) -> Callable[[], Sequence[Tensor]]:
    """A call that launches all that `run` does as one, and returns the same tensors each time."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()  # libraries take memory at their first call
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Another thread may wait for the device meanwhile.
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        results = run()

    def launch() -> Sequence[Tensor]:
        graph.replay()
        return results

    return launch


# By shapes and settings; None where they were met once. The last one used comes last.
_recordings: OrderedDict[Any, _Recording | None] = OrderedDict()
_lock = threading.Lock()


def _replay(run: _Run, tensors: Sequence[Tensor], settings: tuple[Any, ...]) -> Sequence[Tensor]:
    """What `run` gives of these tensors, recorded when shapes and settings come for the second time."""
    device = tensors[0].device
    # Work of two streams would meet in the memory of one graph.
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
    key = (settings, stream, *((tensor.shape, tensor.stride(), tensor.dtype, tensor.device) for tensor in tensors))
    with _lock:
        is_known, recording = key in _recordings, _recordings.pop(key, None)
        if is_known and recording is None:
            recording = _Recording(run, tensors)
        _recordings[key] = recording
        if len(_recordings) > _MOST_RECORDINGS:
            _recordings.popitem(last=False)
        return run(*tensors) if recording is None else recording(tensors)


def free() -> None:
    """Forget all recordings, and with them their memory."""
    with _lock:
        _recordings.clear()
