"""The scan of a projected LSTM over the real words of a batch, step by step, with a backward written by hand.

Letters in shapes: B sentences, T words, N real words in the order of steps, P projection, H cell.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import compiled, fused
from .half import HALVES, product_dtype
from .plain import Clips, Steps, Traces
from .weights import Weight, fits_cache, in_place, prepare


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
    backend: ModuleType  # plain or compiled


def scan(
    inputs: Tensor,
    order: Any,
    weights: tuple[Tensor, Tensor, Tensor, Tensor],
    state: tuple[Tensor, Tensor] | None,
    cell_clip: float | None,
    projection_clip: float | None,
    reverse: bool,
    backend: ModuleType,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run one direction of a projected LSTM; see `hf_elmo.kernels.run_projected_lstm`.

    In half precision, and under autocast, the factors of products are halves and everything between is float32.
    """
    device = inputs.device
    result_dtype = matmul_dtype = cell_dtype = inputs.dtype
    if torch.is_autocast_enabled(device.type):
        result_dtype = matmul_dtype = torch.get_autocast_dtype(device.type)
        cell_dtype = torch.promote_types(matmul_dtype, torch.float32)
    settings = ScanSettings(
        Packing.of(order, (inputs.shape[0], inputs.shape[1]), reverse),
        Clips(cell_clip, projection_clip),
        product_dtype(matmul_dtype, device.type),
        torch.promote_types(matmul_dtype, torch.float32),
        backend,
    )
    input_weight, recurrent, bias, projection = weights
    cell_size = projection.shape[1]
    if state is None:
        state = inputs.new_zeros(len(inputs), inputs.shape[2]), inputs.new_zeros(len(inputs), cell_size)
    gates, size, rows = 4 * cell_size, inputs.shape[2], len(inputs)
    shapes = [(gates, size), (gates, size), (gates,), (size, cell_size), (rows, size), (rows, cell_size)]
    # The C++ reads memory by these sizes.
    if [tuple(tensor.shape) for tensor in (*weights, *state)] != shapes:
        raise ValueError(
            f"weights and state of an LSTM over inputs of shape {tuple(inputs.shape)} want the shapes {shapes}."
        )
    tensors = (inputs, input_weight, recurrent, bias.contiguous(), projection, *state)
    needs_gradients = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    with torch.autocast(device.type, enabled=False):
        if needs_gradients:
            is_fused = backend is compiled and fused.pays(settings, recurrent)
            function = fused.FusedLSTMFunction if is_fused else ProjectedLSTMFunction
            outputs, hidden, cell = function.apply(settings, *tensors)
        else:
            outputs, hidden, cell = _infer(settings, *tensors)
    return outputs.to(result_dtype), (hidden.to(result_dtype), cell.to(cell_dtype))


def _infer(settings: ScanSettings, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    packing = settings.packing
    _, steps = _make_steps(settings, *tensors)
    first_hidden, cell = steps.hidden, steps.cell
    outputs = settings.backend.run_steps(steps)  # the last cells go where the first ones were
    return packing.unpack(outputs), packing.restore(packing.values_after(first_hidden, outputs)), packing.restore(cell)


def _make_steps(
    settings: ScanSettings,
    inputs: Tensor,
    input_weight: Tensor,
    recurrent: Tensor,
    bias: Tensor,
    projection: Tensor,
    hidden: Tensor,
    cell: Tensor,
) -> tuple[Tensor, Steps]:
    """The packed words, (N, P), and what the steps over them are made of."""
    packing, backend, dtype = settings.packing, settings.backend, settings.matmul_dtype
    hidden, cell = packing.sort(hidden).to(settings.dtype), packing.sort(cell).to(settings.dtype)
    words = packing.pack(inputs).to(dtype)
    gates = backend.multiply_inputs(words, backend.cast_weight(input_weight, dtype), settings.dtype)
    weights = _prepare_for_steps(settings, recurrent, projection)
    return words, Steps(gates, bias.to(settings.dtype), *weights, hidden, cell, packing.sizes, settings.clips)


def _prepare_for_steps(settings: ScanSettings, recurrent: Tensor, projection: Tensor) -> tuple[Weight, Weight]:
    """Both weights for the forward steps."""
    rows, dtype = max(settings.packing.sizes, default=0), recurrent.dtype
    is_small_batch = settings.backend is compiled and rows <= compiled.small_batch(recurrent)
    is_contiguous = recurrent.is_contiguous() and projection.is_contiguous() and projection.dtype == dtype
    # Halves are widened as they are read; what stays in the processor's caches gains nothing by autocast's rounding.
    stays_in_cache = dtype == torch.float32 == settings.dtype and fits_cache(recurrent)
    if is_small_batch and is_contiguous and (dtype == settings.matmul_dtype or dtype in HALVES or stays_in_cache):
        return in_place(recurrent), in_place(projection)
    cast = [settings.backend.cast_weight(weight, settings.matmul_dtype) for weight in (recurrent, projection)]
    first, second = (prepare(weight, rows, packs_float32=settings.backend is not compiled) for weight in cast)
    return first, second


class ProjectedLSTMFunction(torch.autograd.Function):
    """The scan with one product per weight for the gradients of all its steps."""

    @staticmethod
    def forward(ctx: Any, settings: ScanSettings, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        packing = settings.packing
        words, steps = _make_steps(settings, *tensors)
        traces = settings.backend.run_steps_keeping(steps)
        ctx.settings = settings
        ctx.dtypes = [tensor.dtype for tensor in tensors]
        _, input_weight, recurrent, _, projection, *_ = tensors
        ctx.save_for_backward(words, input_weight, recurrent, projection, steps.hidden, steps.cell, *traces)
        return (
            packing.unpack(traces.outputs),
            packing.restore(packing.values_after(steps.hidden, traces.outputs)),
            packing.restore(packing.values_after(steps.cell, traces.cells)),
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor, grad_hidden: Tensor, grad_cell: Tensor) -> tuple[Tensor | None, ...]:
        settings = ctx.settings
        packing, dtype = settings.packing, settings.matmul_dtype
        words, input_weight, recurrent, projection, first_hidden, first_cell, *kept = ctx.saved_tensors
        traces = Traces(*kept)
        rows = max(packing.sizes, default=0)
        of_state = [packing.pack(grad_outputs), packing.sort(grad_hidden), packing.sort(grad_cell)]
        gradients = settings.backend.run_steps_backward(
            traces,
            prepare(recurrent.t().to(dtype), rows),
            prepare(projection.t().to(dtype), rows),
            first_cell,
            tuple(gradient.to(settings.dtype) for gradient in of_state),
            packing.sizes,
            settings.clips,
        )
        of_gates, of_outputs = gradients.gates.to(dtype), gradients.outputs.to(dtype)
        output_gates = traces.gates[:, -traces.cells.shape[1] :]
        computed = (
            lambda: packing.unpack(of_gates @ input_weight.to(dtype)),
            lambda: of_gates.t() @ words,
            lambda: of_gates.t() @ packing.values_before(first_hidden, traces.outputs).to(dtype),
            lambda: gradients.gates.sum(dim=0),
            lambda: of_outputs.t() @ (output_gates * traces.tanh_cells).to(dtype),
            lambda: packing.restore(gradients.hidden),
            lambda: packing.restore(gradients.cell),
        )
        each = zip(computed, ctx.dtypes, ctx.needs_input_grad[1:], strict=True)
        return None, *(compute().to(kind) if is_needed else None for compute, kind, is_needed in each)
