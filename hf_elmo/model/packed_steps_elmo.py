"""The order of packed words, and the steps of a biLSTM and of a biGRU over them, with gradients written out.

PyTorch's own functions for packed words let autograd record each step, which makes a step back cost three times as much
as a step. Here both directions run side by side, the backward one over mirrored sentences, so that a step is one
product for both, forward and back; the gradients of the weights are one product for all steps.

Letters in shapes: B sentences, T words, N real words of a batch in the order of steps, W directions, H cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class PackedOrder(NamedTuple):
    """Where the words of a padded batch lie when all first words come first, then all second ones, and so on."""

    sizes: list[int]  # Sentences that have a word in each step, falling.
    places: Tensor  # (N,), the place of each word among all B times T.
    mirrored: Tensor  # (N,), the row of the word that is as far from its sentence's end; its own inverse.
    sentences: Tensor  # (B,), the sentence of each row of a step.
    before: Tensor  # (N - sizes[0],), for the words of all steps but the first, the row of the word before.

    def pack(self, vectors: Tensor) -> Tensor:
        """The vectors of the words, (B, T, D) to (N, D)."""
        return vectors.flatten(0, 1).index_select(0, self.places)

    def unpack(self, words: Tensor, mask: Tensor) -> Tensor:
        """Vectors of the words where they stood, (N, D) to (B, T, D); zero where masked."""
        vectors = words.new_zeros(mask.numel(), words.shape[1]).index_copy(0, self.places, words)
        return torch.where(mask.unsqueeze(-1), vectors.unflatten(0, mask.shape), 0.0)


def order_words(mask: Tensor) -> PackedOrder:
    """The order for a mask (B, T), True for real words, wherever they lie; a sentence without any has one place."""
    width = mask.shape[1]
    words_first = torch.argsort(mask.logical_not().to(torch.uint8), dim=1, stable=True)
    lengths, sentences = mask.sum(dim=1).clamp(min=1).sort(descending=True)
    numbers = torch.arange(width, device=mask.device)
    sizes = (lengths.unsqueeze(1) > numbers).sum(dim=0)
    steps = numbers.repeat_interleave(sizes)
    starts = sizes.cumsum(dim=0) - sizes
    ranks = torch.arange(len(steps), device=mask.device) - starts[steps]
    rows, later = sentences[ranks], slice(len(mask), None)
    return PackedOrder(
        sizes[: int(lengths[0])].tolist(),
        rows * width + words_first[rows, steps],
        starts[lengths[ranks] - 1 - steps] + ranks,
        sentences,
        starts[steps[later] - 1] + ranks[later],
    )


def split_steps(sizes: Sequence[int], *packed: Tensor, dim: int = 0, reverse: bool = False) -> list[tuple[Any, ...]]:
    """The number of sentences of each step and its rows of each packed tensor, in the order in which they are run."""
    steps = list(zip(sizes, *(tensor.split(list(sizes), dim=dim) for tensor in packed), strict=True))
    return steps[::-1] if reverse else steps


def run_lstm_steps(gates: Tensor, recurrent: Tensor, order: PackedOrder) -> Tensor:
    """Run LSTMs over words whose products with the inputs' weights are there.

    Args:
        gates: What each word and the biases give to the gates i, f, g and o, (W, N, 4H).
        recurrent: What the h before gives to them, (W, 4H, H).
        order: Of the words.
    Returns: The h of each word, (W, N, H).
    """
    return cast("Tensor", _LSTMSteps.apply(gates, recurrent, order))


def run_gru_steps(gates: Tensor, recurrent: Tensor, bias: Tensor, order: PackedOrder) -> Tensor:
    """Run GRUs (Cho et al. 2014, with the reset gate behind the product) over words, as `run_lstm_steps` does.

    Args:
        gates: What each word and its biases give to the gates r and z and to the candidate, (W, N, 3H).
        recurrent, bias: What the h before gives to them, (W, 3H, H) and (W, 3H).
        order: Of the words.
    Returns: The h of each word, (W, N, H).
    """
    return cast("Tensor", _GRUSteps.apply(gates, recurrent, bias, order))


class _LSTMSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor, order: PackedOrder) -> Tensor:
        sizes, size = order.sizes, recurrent.shape[2]
        gates = gates.clone()
        outputs, cells, squashed = gates.new_empty(3, *gates.shape[:2], size)
        back = recurrent.transpose(1, 2)
        hidden = cell = gates.new_zeros(len(gates), sizes[0], size)
        parts = (gates, *gates.split(size, dim=2), gates[..., : 2 * size], outputs, cells, squashed)
        for number, total, i, f, g, o, i_and_f, output, new_cell, tanh_cell in split_steps(sizes, *parts, dim=1):
            total.baddbmm_(hidden[:, :number], back)
            i_and_f.sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, cell[:, :number], out=new_cell).addcmul_(i, g)
            torch.tanh(new_cell, out=tanh_cell)
            hidden, cell = torch.mul(o, tanh_cell, out=output), new_cell
        ctx.save_for_backward(gates, recurrent, outputs, cells, squashed)
        ctx.order = order
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        gates, recurrent, outputs, cells, squashed = ctx.saved_tensors
        order, size = ctx.order, recurrent.shape[2]
        i, f, g, o = gates.split(size, dim=2)
        # What a gradient of c, and for o one of h, is multiplied by on its way to each gate.
        slopes = gates * (1 - gates)
        of_i, of_f, of_g, of_o = slopes.split(size, dim=2)
        of_i.mul_(g)
        of_f[:, : order.sizes[0]] = 0.0
        of_f[:, order.sizes[0] :].mul_(cells.index_select(1, order.before))
        torch.mul(i, 1 - g * g, out=of_g)
        of_o.mul_(squashed)
        to_cell = o * (1 - squashed * squashed)
        grad_hidden = grad_outputs.clone()
        grad_cell = gates.new_zeros(len(gates), order.sizes[0], size)
        grad_gates = slopes
        by_cell = grad_gates[..., : 3 * size].unflatten(2, (3, size))
        parts = (grad_hidden, to_cell, by_cell, of_o, f, grad_gates)
        steps = split_steps(order.sizes, *parts, dim=1)
        for place, (number, grad, of_h, from_cell, of_output, forget, total) in reversed(list(enumerate(steps))):
            state = grad_cell[:, :number].addcmul_(grad, of_h)
            from_cell.mul_(state.unsqueeze(2))
            of_output.mul_(grad)
            state.mul_(forget)
            if place:
                steps[place - 1][1][:, :number].baddbmm_(total, recurrent)
        later = grad_gates[:, order.sizes[0] :]
        return grad_gates, torch.bmm(later.transpose(1, 2), outputs.index_select(1, order.before)), None


class _GRUSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor, bias: Tensor, order: PackedOrder) -> Tensor:
        sizes, size = order.sizes, recurrent.shape[2]
        gates = gates.clone()
        of_hidden = torch.empty_like(gates).copy_(bias.unsqueeze(1))
        outputs = gates.new_empty(*gates.shape[:2], size)
        back = recurrent.transpose(1, 2)
        hidden = gates.new_zeros(len(gates), sizes[0], size)
        both, of_both, of_candidate = gates[..., : 2 * size], of_hidden[..., : 2 * size], of_hidden[..., 2 * size :]
        parts = (of_hidden, both, of_both, of_candidate, *gates.split(size, dim=2), outputs)
        for number, total, sigmoids, of_sigmoids, of_n, r, z, n, output in split_steps(sizes, *parts, dim=1):
            before = hidden[:, :number]
            total.baddbmm_(before, back)
            sigmoids.add_(of_sigmoids).sigmoid_()
            n.addcmul_(r, of_n).tanh_()
            # (1 - z) n + z h
            hidden = torch.lerp(n, before, z, out=output)
        ctx.save_for_backward(gates, recurrent, of_hidden, outputs)
        ctx.order = order
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        gates, recurrent, of_hidden, outputs = ctx.saved_tensors
        order, size = ctx.order, recurrent.shape[2]
        first = order.sizes[0]
        reset, keep, candidate = gates.split(size, dim=2)
        before = outputs.new_zeros(outputs.shape)
        before[:, first:] = outputs.index_select(1, order.before)
        # What a gradient of h is multiplied by on its way to the gates, as the inputs and as the h before give them.
        to_candidate = (1 - keep) * (1 - candidate * candidate)
        to_reset = to_candidate * of_hidden[..., 2 * size :] * reset * (1 - reset)
        to_keep = (before - candidate) * keep * (1 - keep)
        grad_of_hidden = torch.stack([to_reset, to_keep, to_candidate * reset], dim=2)
        grad_hidden = grad_outputs.clone()
        parts = (grad_hidden, grad_of_hidden, grad_of_hidden.flatten(2), keep)
        steps = split_steps(order.sizes, *parts, dim=1)
        for place, (number, grad, by_gate, total, kept) in reversed(list(enumerate(steps))):
            by_gate.mul_(grad.unsqueeze(2))
            if place:
                steps[place - 1][1][:, :number].baddbmm_(total, recurrent).addcmul_(grad, kept)
        grad_of_hidden = grad_of_hidden.flatten(2)
        grad_gates = torch.cat([grad_of_hidden[..., : 2 * size], to_candidate.mul_(grad_hidden)], dim=2)
        grad_recurrent = torch.bmm(grad_of_hidden[:, first:].transpose(1, 2), before[:, first:])
        return grad_gates, grad_recurrent, grad_of_hidden.sum(dim=1), None
