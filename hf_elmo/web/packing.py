"""Weights in eight bits: of the graph, each row with its scale beside it, and of the softmax as a file of its own.

Letters in shapes: V words of the softmax, P projection.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx

# Smaller weights, biases among them, stay as they are.
_LEAST_WEIGHTS = 4096


def quantize(weights: np.ndarray, most: int = 127) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, P) as int8 from -most to most, and the scale of each, (N, 1) float32: a weight is their product."""
    scales = np.maximum(np.abs(weights).max(axis=1, keepdims=True), 1e-12).astype(np.float32) / most
    return np.rint(weights / scales).astype(np.int8), scales


def quantize_graph(model: onnx.ModelProto) -> None:
    """Put int8 weights and DequantizeLinear in the place of each large matrix, by rows or by columns.

    Whichever is closer to it is taken; onnxruntime multiplies them out when it loads the graph.
    """
    from onnx import helper, numpy_helper

    graph, kept, nodes = model.graph, [], []
    for initializer in graph.initializer:
        values = numpy_helper.to_array(initializer)
        if values.dtype != np.float32 or values.ndim != 2 or values.size < _LEAST_WEIGHTS:
            kept.append(initializer)
            continue
        choices = []
        for axis in (0, 1):
            codes, scales = quantize(values if axis == 0 else values.T)
            error = float(np.square(codes * scales - (values if axis == 0 else values.T)).sum())
            choices.append((error, axis, codes if axis == 0 else codes.T, scales.ravel()))
        _, axis, codes, scales = min(choices, key=lambda each: each[:2])
        name = initializer.name
        kept.append(numpy_helper.from_array(np.ascontiguousarray(codes), f"{name}.codes"))
        kept.append(numpy_helper.from_array(scales, f"{name}.scales"))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}.codes", f"{name}.scales"], [name], axis=axis))
    del graph.initializer[:]
    graph.initializer.extend(kept)
    nodes.extend(graph.node)
    del graph.node[:]
    graph.node.extend(nodes)


def write_packed(path: Path, *arrays: np.ndarray | bytes) -> None:
    """Arrays one behind the other, compressed; the page unpacks them with the browser's own DecompressionStream."""
    data = b"".join(each if isinstance(each, bytes) else np.ascontiguousarray(each).tobytes() for each in arrays)
    path.write_bytes(gzip.compress(data, 6, mtime=0))
