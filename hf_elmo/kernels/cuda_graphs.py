"""The steps of `plain.py` recorded as CUDA graphs, where shapes repeat: a step is too short for launches from Python.

A graph works on memory of its own; tensors are copied in and out, which is little beside the steps. A place for a
fused Triton kernel is beside this file, with the same three functions.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import plain
from .plain import Clips, Gradients, Traces, few_rows, multiply_inputs
from .prepared import DenseWeight

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

Results = tuple[Tensor, ...]


def record_cuda_graph(run: Callable[[], Results]) -> Callable[[], Results]:
    """Record what `run` launches; the result launches it again as one and gives the same tensors, filled anew."""
    # Libraries allocate what they need at their first call, which a recording must not meet.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        results = run()

    def replay() -> Results:
        graph.replay()
        return results

    return replay


class Recording:
    """One recorded call, with the memory that its graph reads."""

    def __init__(self, function: Callable[..., Results], tensors: Results, settings: tuple, record: Callable):
        self._inputs = [torch.empty_like(tensor).copy_(tensor) for tensor in tensors]
        self._replay = record(lambda: function(*self._inputs, *settings))

    def __call__(self, tensors: Results) -> Results:
        for own, tensor in zip(self._inputs, tensors, strict=True):
            own.copy_(tensor)
        # The next replay writes to the same memory.
        return tuple(result.clone() for result in self._replay())


class RecordedCalls:
    """Calls of functions of tensors, recorded at the second call with the same shapes and settings.

    Args:
        record: Turns a call without arguments into one that repeats it.
        max_recordings: How many to keep; the one unused for longest goes first.
    """

    def __init__(self, record: Callable = record_cuda_graph, max_recordings: int = 16):
        self._record = record
        self._max_recordings = max_recordings
        self._recordings: OrderedDict[tuple, Recording | None] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, function: Callable[..., Results], tensors: Results, settings: tuple) -> Results:
        key = (function, settings, *((t.shape, t.stride(), t.dtype, t.device) for t in tensors))
        with self._lock:
            if key not in self._recordings:
                self._keep(key, None)
                return function(*tensors, *settings)
            recording = self._recordings[key]
            if recording is None:
                recording = Recording(function, tensors, settings, self._record)
            self._keep(key, recording)
            return recording(tensors)

    def _keep(self, key: tuple, recording: Recording | None) -> None:
        self._recordings[key] = recording
        self._recordings.move_to_end(key)
        if len(self._recordings) > self._max_recordings:
            self._recordings.popitem(last=False)

    def clear(self) -> None:
        """Forget all recordings and free their memory."""
        with self._lock:
            self._recordings.clear()


CALLS = RecordedCalls()


def why_not() -> str | None:
    """Why graphs cannot be recorded here; None where they can."""
    return None if torch.cuda.is_available() else "torch.cuda.is_available() is False"


def run_steps(
    gates: Tensor,
    bias: Tensor,
    recurrent: DenseWeight,
    projection: DenseWeight,
    hidden: Tensor,
    cell: Tensor,
    sizes: list[int],
    clips: Clips,
) -> Tensor:
    """As `plain.run_steps`."""
    tensors = (gates, bias, recurrent.transposed, projection.transposed, hidden, cell)
    outputs, after = CALLS(_run_steps, tensors, (tuple(sizes), clips))
    cell.copy_(after)
    return outputs


def _run_steps(
    gates: Tensor,
    bias: Tensor,
    recurrent: Tensor,
    projection: Tensor,
    hidden: Tensor,
    cell: Tensor,
    sizes: tuple[int, ...],
    clips: Clips,
) -> Results:
    weights = DenseWeight(recurrent.t()), DenseWeight(projection.t())
    return plain.run_steps(gates, bias, *weights, hidden, cell, list(sizes), clips), cell


def run_steps_keeping(
    gates: Tensor,
    bias: Tensor,
    recurrent: DenseWeight,
    projection: DenseWeight,
    hidden: Tensor,
    cell: Tensor,
    sizes: list[int],
    clips: Clips,
) -> Traces:
    """As `plain.run_steps_keeping`."""
    tensors = (gates, bias, recurrent.transposed, projection.transposed, hidden, cell)
    return Traces(*CALLS(_run_steps_keeping, tensors, (tuple(sizes), clips)))


def _run_steps_keeping(
    gates: Tensor,
    bias: Tensor,
    recurrent: Tensor,
    projection: Tensor,
    hidden: Tensor,
    cell: Tensor,
    sizes: tuple[int, ...],
    clips: Clips,
) -> Results:
    weights = DenseWeight(recurrent.t()), DenseWeight(projection.t())
    return tuple(plain.run_steps_keeping(gates, bias, *weights, hidden, cell, list(sizes), clips))


def run_steps_back(
    traces: Traces,
    recurrent: DenseWeight,
    projection: DenseWeight,
    cell: Tensor,
    gradients: tuple[Tensor, Tensor, Tensor],
    sizes: list[int],
    clips: Clips,
) -> Gradients:
    """As `plain.run_steps_back`."""
    tensors = (recurrent.transposed, projection.transposed, cell, *gradients, *traces)
    return Gradients(*CALLS(_run_steps_back, tensors, (tuple(sizes), clips)))


def _run_steps_back(
    recurrent: Tensor,
    projection: Tensor,
    cell: Tensor,
    grad_outputs: Tensor,
    grad_hidden: Tensor,
    grad_cell: Tensor,
    *traces_sizes_and_clips: Any,
) -> Results:
    *traces, sizes, clips = traces_sizes_and_clips
    weights = DenseWeight(recurrent.t()), DenseWeight(projection.t())
    gradients = (grad_outputs, grad_hidden, grad_cell)
    return tuple(plain.run_steps_back(Traces(*traces), *weights, cell, gradients, list(sizes), clips))
