"""The scan of a projected LSTM over the real words of a batch, step by step, with a backward written by hand.

Letters in shapes: B sentences, T words, N real words in the order of steps, P projection, H cell.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import compiled
from .plain import Clips, Steps, Traces
from .products import HALVES, fits_cache, prepare, product_dtype


class Packing(NamedTuple):
    """Where the words that one direction reads lie, and the sentences of a step by falling length."""

    shape: tuple[int, int]  # (B, T)
    sizes: list[int]  # sentences with a word in each step; they are the first rows of the state
    indices: Tensor  # (N,), of each word among all B times T
    sentences: Tensor  # (B,), the sentence of each row of the state
    before: Tensor  # (N - sizes[0],), for the words of all steps but the first, the index of the word before
    last: Tensor  # (sizes[0],), the index of each sentence's last word

    @classmethod
    def of(cls, order: Any, shape: tuple[int, int], reverse: bool) -> Packing:
        """From a `hf_elmo.model.modeling_elmo.PackedOrder`."""
        indices = order.indices[order.mirrored] if reverse else order.indices
        last = order.mirrored[: order.sizes[0] if order.sizes else 0]
        return cls(shape, order.sizes, indices, order.sentences, order.before, last)

    def pack(self, inputs: Tensor) -> Tensor:
        """(B, T, D) to (N, D)."""
        return inputs.flatten(0, 1).index_select(0, self.indices)

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, D) to (B, T, D), zero where there is no word."""
        num_positions = self.shape[0] * self.shape[1]
        make = packed.new_zeros if len(packed) < num_positions else packed.new_empty
        return make(num_positions, packed.shape[1]).index_copy_(0, self.indices, packed).unflatten(0, self.shape)

    def sort(self, state: Tensor) -> Tensor:
        """A state (B, D) in the order of the state's rows; a new tensor."""
        return state.index_select(0, self.sentences)

    def restore(self, state: Tensor) -> Tensor:
        """A state (B, D) back in the batch's order."""
        return torch.empty_like(state).index_copy_(0, self.sentences, state)

    def values_before(self, first: Tensor, packed: Tensor) -> Tensor:
        """The value before each word, (N, D): of `first` (B, D) at step 0, later that of the step before."""
        return torch.cat([first[: len(self.last)], packed[self.before]])

    def values_after(self, first: Tensor, packed: Tensor) -> Tensor:
        """Each row's value (B, D) after its last word; that of `first` without any."""
        return torch.cat([packed[self.last], first[len(self.last) :]])


class ScanSettings(NamedTuple):
    packing: Packing
    clips: Clips
    matmul_dtype: torch.dtype  # of the factors of matrix products
    dtype: torch.dtype  # of everything between them
    backend: ModuleType  # plain, compiled or graphs
    is_fused: bool = False


def scan(
    inputs: Tensor,
    order: Any,
    weights: tuple[Tensor, Tensor, Tensor, Tensor],
    state: tuple[Tensor, Tensor] | None,
    clips: Clips,
    reverse: bool,
    backend: ModuleType,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run one direction of a projected LSTM; see `hf_elmo.kernels.run_projected_lstm`.

    In half precision, and under autocast, the factors of products are halves and everything between is float32.
    """
    device, (rows, length, size), cell_size = inputs.device, inputs.shape, weights[3].shape[1]
    result_dtype = matmul_dtype = cell_dtype = inputs.dtype
    if torch.is_autocast_enabled(device.type):
        result_dtype = matmul_dtype = torch.get_autocast_dtype(device.type)
        cell_dtype = torch.promote_types(matmul_dtype, torch.float32)
    settings = ScanSettings(
        Packing.of(order, (rows, length), reverse),
        clips,
        product_dtype(matmul_dtype, device.type),
        torch.promote_types(matmul_dtype, torch.float32),
        backend,
    )
    if state is None:
        state = inputs.new_zeros(rows, size), inputs.new_zeros(rows, cell_size)
    gates = 4 * cell_size
    shapes = [(gates, size), (gates, size), (gates,), (size, cell_size), (rows, size), (rows, cell_size)]
    # The C++ reads memory by these sizes.
    if [tuple(tensor.shape) for tensor in (*weights, *state)] != shapes:
        raise ValueError(
            f"weights and state of an LSTM over inputs of shape {tuple(inputs.shape)} want the shapes {shapes}."
        )
    tensors = (inputs, *weights, *state)
    with torch.autocast(device.type, enabled=False):
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            is_fused = backend is compiled and compiled.fused_pays(settings, weights[1])
            outputs, hidden, cell = ScanFunction.apply(settings._replace(is_fused=is_fused), *tensors)
        else:
            outputs, hidden, cell = _infer(settings, *tensors)
    return outputs.to(result_dtype), (hidden.to(result_dtype), cell.to(cell_dtype))


# What runs a scan: the words, (N, P), the weights, and the state in the order of its rows, (B, P) and (B, H).
Packed = tuple[Tensor, list[Tensor], Tensor, Tensor]


def _pack(settings: ScanSettings, inputs: Tensor, *others: Tensor) -> Packed:
    *weights, hidden, cell = others
    hidden, cell = (settings.packing.sort(part).to(settings.dtype) for part in (hidden, cell))
    return settings.packing.pack(inputs).to(settings.matmul_dtype), weights, hidden, cell


def _infer(settings: ScanSettings, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    packing = settings.packing
    steps = _make_steps(settings, *_pack(settings, *tensors))
    (outputs,) = settings.backend.run_steps(steps, keeps=False)  # the last cells go where the first ones were
    hidden = packing.restore(packing.values_after(steps.hidden, outputs))
    return packing.unpack(outputs), hidden, packing.restore(steps.cell)


def _make_steps(settings: ScanSettings, words: Tensor, weights: list[Tensor], hidden: Tensor, cell: Tensor) -> Steps:
    packing, backend, dtype = settings.packing, settings.backend, settings.matmul_dtype
    input_weight, recurrent, bias, projection = weights
    gates = backend.multiply_inputs(words, backend.cast_weight(input_weight, dtype), settings.dtype)
    rows, own = max(packing.sizes, default=0), recurrent.dtype
    is_small_batch = backend is compiled and rows <= compiled.small_batch(recurrent)
    is_contiguous = recurrent.is_contiguous() and projection.is_contiguous() and projection.dtype == own
    # Halves are widened as they are read; what stays in the processor's caches gains nothing by autocast's rounding.
    stays_in_cache = own == torch.float32 == settings.dtype and fits_cache(recurrent)
    if is_small_batch and is_contiguous and (own == dtype or own in HALVES or stays_in_cache):
        first, second = (prepare(weight, rows=1) for weight in (recurrent, projection))
    else:
        cast = (backend.cast_weight(weight, dtype) for weight in (recurrent, projection))
        first, second = (prepare(weight, rows, packs_float32=backend is not compiled) for weight in cast)
    bias = bias.to(settings.dtype).contiguous()
    return Steps(gates, bias, first, second, hidden, cell, packing.sizes, settings.clips)


class ScanFunction(torch.autograd.Function):
    """A scan that trains, by single steps or fused; the gradients that nobody wants are not computed."""

    @staticmethod
    def forward(ctx: Any, settings: ScanSettings, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        packing = settings.packing
        words, weights, hidden, cell = _pack(settings, *tensors)
        run = compiled.run_fused if settings.is_fused else _run_keeping
        outputs, cell, kept = run(settings, words, weights, hidden, cell)
        ctx.settings = settings
        ctx.dtypes = [tensor.dtype for tensor in tensors]
        ctx.save_for_backward(words, hidden, *kept)
        return packing.unpack(outputs), packing.restore(packing.values_after(hidden, outputs)), packing.restore(cell)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *of_results: Tensor) -> tuple[Tensor | None, ...]:
        settings, packing = ctx.settings, ctx.settings.packing
        packed = [packing.pack(of_results[0]), *map(packing.sort, of_results[1:])]
        gradients = [gradient.to(settings.dtype) for gradient in packed]
        run = compiled.run_fused_backward if settings.is_fused else _run_backward
        of_words, *of_weights = run(settings, gradients, *ctx.saved_tensors)
        of_state = [lambda: packing.restore(gradients[1]), lambda: packing.restore(gradients[2])]
        computed = [lambda: packing.unpack(of_words()), *of_weights, *of_state]
        each = zip(computed, ctx.dtypes, ctx.needs_input_grad[1:], strict=True)
        return None, *(compute().to(kind) if is_needed else None for compute, kind, is_needed in each)


def _run_keeping(
    settings: ScanSettings, words: Tensor, weights: list[Tensor], hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The outputs, each row's last cell, and what `_run_backward` takes besides."""
    steps = _make_steps(settings, words, weights, hidden, cell)
    traces = Traces(steps.gates, *settings.backend.run_steps(steps, keeps=True))
    return traces.outputs, settings.packing.values_after(cell, traces.cells), [cell, *weights, *traces]


def _run_backward(
    settings: ScanSettings, gradients: list[Tensor], words: Tensor, hidden: Tensor, cell: Tensor, *kept: Tensor
) -> list[Callable[[], Tensor]]:
    """The gradients of the words and of each weight, the latter by one product for all steps."""
    packing, dtype = settings.packing, settings.matmul_dtype
    (input_weight, recurrent, _, projection), traces = kept[:4], Traces(*kept[4:])
    transposes = [prepare(weight.t().to(dtype), max(packing.sizes, default=0)) for weight in (recurrent, projection)]
    of_all_gates = settings.backend.run_steps_backward(
        traces, *transposes, cell, gradients, packing.sizes, settings.clips
    )
    of_gates, of_outputs = of_all_gates.to(dtype), gradients[0].to(dtype)
    output_gates = traces.gates[:, -traces.cells.shape[1] :]
    return [
        lambda: of_gates @ input_weight.to(dtype),
        lambda: of_gates.t() @ words,
        lambda: of_gates.t() @ packing.values_before(hidden, traces.outputs).to(dtype),
        lambda: of_all_gates.sum(dim=0),
        lambda: of_outputs.t() @ (output_gates * traces.tanh_cells).to(dtype),
    ]
