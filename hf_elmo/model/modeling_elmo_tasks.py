"""Token classification, sequence classification and question answering over ELMo's mixes.

Letters in shapes: B sentences, T words, C characters per word, P projection, H cell, L biLM layers, M scalar mixes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers import initialization as init
from transformers.modeling_outputs import QuestionAnsweringModelOutput, SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig, QuestionAnsweringHead, SequenceClassificationHead, TokenClassificationHead
from .modeling_elmo import (
    IGNORED_LABEL,
    ElmoHighway,
    ElmoState,
    ElmoTaskModel,
    PackedOrder,
    PairSplitter,
    check_word_labels,
    is_traced,
    mean_cross_entropy,
    order_words,
    scan_words,
    segment_masks,
    values_can_be_read,
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
        outputs, cells, tanh_cells = gates.new_empty(3, *gates.shape[:2], size)
        back = recurrent.transpose(1, 2)
        hidden = cell = gates.new_zeros(len(gates), sizes[0], size)
        parts = (gates, *gates.split(size, dim=2), gates[..., : 2 * size], outputs, cells, tanh_cells)
        for number, total, i, f, g, o, i_and_f, output, new_cell, tanh_cell in split_steps(sizes, *parts, dim=1):
            total.baddbmm_(hidden[:, :number], back)
            i_and_f.sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, cell[:, :number], out=new_cell).addcmul_(i, g)
            torch.tanh(new_cell, out=tanh_cell)
            hidden, cell = torch.mul(o, tanh_cell, out=output), new_cell
        ctx.save_for_backward(gates, recurrent, outputs, cells, tanh_cells)
        ctx.order = order
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        gates, recurrent, outputs, cells, tanh_cells = ctx.saved_tensors
        order, size = ctx.order, recurrent.shape[2]
        i, f, g, o = gates.split(size, dim=2)
        # What a gradient of c, and for o one of h, is multiplied by on its way to each gate.
        slopes = gates * (1 - gates)
        of_i, of_f, of_g, of_o = slopes.split(size, dim=2)
        of_i.mul_(g)
        of_f[:, : order.sizes[0]] = 0.0
        of_f[:, order.sizes[0] :].mul_(cells.index_select(1, order.before))
        torch.mul(i, 1 - g * g, out=of_g)
        of_o.mul_(tanh_cells)
        to_cell = o * (1 - tanh_cells * tanh_cells)
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


_State = tuple[Tensor, ...]


class _Weights(NamedTuple):
    """The weights of one direction of one layer, for G gates."""

    input: Tensor  # (GH, D)
    recurrent: Tensor  # (GH, H)
    input_bias: Tensor  # (GH,)
    recurrent_bias: Tensor  # (GH,)


_KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _gates_of_both(words: Tensor, weights: Sequence[_Weights], biases: Sequence[Tensor], order: PackedOrder) -> Tensor:
    """What packed words (N, D) and biases give to the gates of both directions, (2, N, GH), in one product.

    The backward direction reads mirrored sentences, from their last word to the first.
    """
    gates = F.linear(words, torch.cat([way.input for way in weights]), torch.cat(list(biases)))
    forward, backward = gates.chunk(2, dim=1)
    return torch.stack([forward, backward.index_select(0, order.mirrored)])


def _join(outputs: Tensor, order: PackedOrder) -> Tensor:
    """The outputs of both directions, (2, N, H), for the words in their order, (N, 2H)."""
    forward, backward = outputs
    return torch.cat([forward, backward.index_select(0, order.mirrored)], dim=1)


class ElmoTaskRNN(nn.RNNBase):
    """A bidirectional recurrence over the real words only, wherever the padding lies.

    Its numbers and parameters are those of torch.nn.LSTM and torch.nn.GRU; it is neither, for torch.compile refuses to
    look into them.

    Args:
        input_size: Size D of a vector.
        hidden_size: Size H of each direction.
        num_layers: Layers L.
        dropout: Dropout between layers.
    """

    kind: ClassVar[str]

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0):
        super().__init__(
            self.kind,
            input_size,
            hidden_size,
            num_layers=num_layers,
            batch_first=True,
            bidirectional=True,
            # torch warns of a dropout that has no second layer to lie before.
            dropout=dropout if num_layers > 1 else 0.0,
        )

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Run over (B, T, D) vectors, with mask (B, T) True for real words, to (B, T, 2H); zero where masked."""
        if is_traced():
            return self.run_reference(vectors, mask)
        order = order_words(mask, min_words=1)
        words = order.pack(vectors)
        # cuDNN runs all layers as one; on a CPU PyTorch's function leaves each step to autograd.
        return order.unpack(
            (self._run_packed if words.device.type == "cpu" else self._run_by_library)(words, order), mask
        )

    def _run_packed(self, words: Tensor, order: PackedOrder) -> Tensor:
        # Under autocast a product would come out in another dtype than what the steps write to.
        with torch.autocast(words.device.type, enabled=False):
            for layer in range(self.num_layers):
                weights = [self._weights(f"l{layer}{way}") for way in ("", "_reverse")]
                read = F.dropout(words, self.dropout, self.training) if layer else words
                words = self._run_steps(read.to(weights[0].input.dtype), weights, order)
        return words

    def _run_by_library(self, words: Tensor, order: PackedOrder) -> Tensor:
        weights: list[Tensor] = [weight for layer in self.all_weights for weight in layer]
        zeros = words.new_zeros(2 * self.num_layers, order.sizes[0], self.hidden_size)
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        return self._call_library(words, torch.tensor(order.sizes), zeros, weights, options)

    def _weights(self, suffix: str) -> _Weights:
        """Those of one direction of one layer, by PyTorch's names."""
        return _Weights(*(getattr(self, f"{kind}_{suffix}") for kind in _KINDS))

    def run_reference(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """As `forward`, by the definition of each step, and without reading from the mask how many words there are."""
        outputs = vectors
        for layer in range(self.num_layers):
            inputs = F.dropout(outputs, self.dropout, self.training) if layer else outputs
            outputs = torch.cat([self._scan(f"l{layer}{way}", inputs, mask) for way in ("", "_reverse")], dim=-1)
        return outputs

    def _call_library(
        self, words: Tensor, sizes: Tensor, zeros: Tensor, weights: list[Tensor], options: tuple
    ) -> Tensor:
        """The outputs for packed words by PyTorch's own function for this kind of recurrence."""
        raise NotImplementedError

    def _run_steps(self, words: Tensor, weights: Sequence[_Weights], order: PackedOrder) -> Tensor:
        """Both directions of one layer over packed words, (N, D) to (N, 2H)."""
        raise NotImplementedError

    def _scan(self, suffix: str, inputs: Tensor, mask: Tensor) -> Tensor:
        """One direction of one layer by its definition, (B, T, D) to (B, T, H); zero where masked."""
        raise NotImplementedError


class ElmoTaskLSTM(ElmoTaskRNN):
    """A biLSTM over the real words."""

    kind = "LSTM"

    def _call_library(
        self, words: Tensor, sizes: Tensor, zeros: Tensor, weights: list[Tensor], options: tuple
    ) -> Tensor:
        return torch.lstm(words, sizes, (zeros, zeros), weights, *options)[0]

    def _run_steps(self, words: Tensor, weights: Sequence[_Weights], order: PackedOrder) -> Tensor:
        gates = _gates_of_both(words, weights, [way.input_bias + way.recurrent_bias for way in weights], order)
        return _join(run_lstm_steps(gates, torch.stack([way.recurrent for way in weights]), order), order)

    def _scan(self, suffix: str, inputs: Tensor, mask: Tensor) -> Tensor:
        weights = self._weights(suffix)
        input_gates = F.linear(inputs, weights.input, weights.input_bias + weights.recurrent_bias)

        def step(before: _State, read: tuple[Tensor]) -> tuple[_State, Tensor]:
            (hidden, cell), (of_word,) = before, read
            gates = of_word + F.linear(hidden, weights.recurrent)
            input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
            new_cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
            new_hidden = torch.sigmoid(output_gate) * torch.tanh(new_cell)
            return (new_hidden, new_cell), new_hidden

        zeros = inputs.new_zeros(inputs.shape[0], self.hidden_size)
        return scan_words(step, (zeros, zeros), (input_gates,), mask, reverse=suffix.endswith("_reverse"))[0]


class ElmoTaskGRU(ElmoTaskRNN):
    """A biGRU over the real words (Cho et al. 2014)."""

    kind = "GRU"

    def _call_library(
        self, words: Tensor, sizes: Tensor, zeros: Tensor, weights: list[Tensor], options: tuple
    ) -> Tensor:
        return torch.gru(words, sizes, zeros, weights, *options)[0]

    def _run_steps(self, words: Tensor, weights: Sequence[_Weights], order: PackedOrder) -> Tensor:
        gates = _gates_of_both(words, weights, [way.input_bias for way in weights], order)
        recurrent, bias = (
            torch.stack([getattr(way, kind) for way in weights]) for kind in ("recurrent", "recurrent_bias")
        )
        return _join(run_gru_steps(gates, recurrent, bias, order), order)

    def _scan(self, suffix: str, inputs: Tensor, mask: Tensor) -> Tensor:
        weights = self._weights(suffix)
        input_gates = F.linear(inputs, weights.input, weights.input_bias)

        def step(before: _State, read: tuple[Tensor]) -> tuple[_State, Tensor]:
            (hidden,), (of_word,) = before, read
            of_before = F.linear(hidden, weights.recurrent, weights.recurrent_bias)
            of_input, of_hidden = (gates.chunk(3, dim=-1) for gates in (of_word, of_before))
            reset, keep = (torch.sigmoid(of_input[gate] + of_hidden[gate]) for gate in (0, 1))
            new_hidden = (1 - keep) * torch.tanh(of_input[2] + reset * of_hidden[2]) + keep * hidden
            return (new_hidden,), new_hidden

        zeros = inputs.new_zeros(inputs.shape[0], self.hidden_size)
        return scan_words(step, (zeros,), (input_gates,), mask, reverse=suffix.endswith("_reverse"))[0]


@torch.no_grad()
def initialize_recurrence(recurrence: ElmoTaskRNN) -> None:
    """Draw its weights: those of inputs by Glorot's rule, recurrent ones orthogonal, no biases."""
    for name, parameter in recurrence.named_parameters():
        if name.startswith("weight_hh"):
            init.orthogonal_(parameter)
        elif name.startswith("weight_ih"):
            init.xavier_uniform_(parameter)
        else:
            init.zeros_(parameter)


# Units of a maxout layer of which the largest is taken (Goodfellow et al. 2013); four as in AllenNLP's classifier.
_MAXOUT_UNITS = 4


class ElmoDense(nn.Linear):
    """A dense layer with its activation: "relu", "maxout" or none."""

    def __init__(self, input_size: int, output_size: int, activation: str | None = None):
        super().__init__(input_size, output_size * (_MAXOUT_UNITS if activation == "maxout" else 1))
        self.activation = activation

    def forward(self, vectors: Tensor) -> Tensor:
        """From (..., input_size) to (..., output_size)."""
        outputs = super().forward(vectors)
        if self.activation == "maxout":
            return outputs.unflatten(-1, (-1, _MAXOUT_UNITS)).amax(dim=-1)
        return torch.relu(outputs) if self.activation == "relu" else outputs


class ElmoVariationalDropout(nn.Dropout1d):
    """Dropout that leaves out the same features of all words of a row (Gal and Ghahramani 2016)."""

    def forward(self, vectors: Tensor) -> Tensor:
        """Drop features of words, (S, W, D)."""
        return super().forward(vectors.transpose(1, 2)).transpose(1, 2)


class TextEncoder(nn.Module):
    """What the encoders have in common.

    Args:
        input_size: Size D of the vector of a word.
        mix_size: Size M of the mix that is joined to the lowest biLSTM's output; 0 without one.
        head: The head's config.

    Attributes:
        reads_pairs: Whether the sentences are those of pairs.
        output_size: Size of the vector of a text or a pair.
    """

    reads_pairs: ClassVar[bool] = False
    output_size: int

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        """Encode texts, or pairs of them.

        Args:
            vectors: Of the words, (S, W, D).
            mask: True for real words, (S, W). A text may have none; what stands where it is False is of no account.
            mix: The mix that is joined to the lowest biLSTM's output, (S, W, M).
        Returns: A vector for each text, or for each pair, (S or S/2, output_size).
        """
        raise NotImplementedError


class PooledEncoder(TextEncoder):
    """The mean and the maximum of a text's words."""

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__()
        self.output_size = 2 * input_size

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        return torch.cat([masked_mean(vectors, mask), masked_max(vectors, mask)], dim=-1)


class PooledPairsEncoder(PooledEncoder):
    """The pooled vectors u and v of both texts of a pair as [u; v; |u - v|; u * v] (Conneau et al. 2017, sec. 3.1)."""

    reads_pairs = True

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__(input_size, mix_size, head)
        self.output_size *= 4

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        first, second = _of_pairs(super().forward(vectors, mask)).unbind(0)
        return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)


class ElmoBCN(TextEncoder):
    """The biattentive classification network, for one text (McCann et al. 2017, sec. 5).

    A dense ReLU layer, a biLSTM giving X, attention of X to itself, C = softmax(X X^T) X, a second biLSTM over
    [X; X - C; X * C] and four pools of its output: maximum, minimum, mean and one by learned weights.
    """

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__()
        size = head.hidden_size
        self.dense = ElmoDense(input_size, size, "relu")
        self.dropout = nn.Dropout(head.hidden_dropout)  # type: ignore[arg-type]
        self.lstm = ElmoTaskLSTM(size, size, 1, 0.0)
        self.integrator = ElmoTaskLSTM(3 * (2 * size + mix_size), size, 1, 0.0)
        self.pool_scores = ElmoDense(2 * size, 1)
        self.output_size = 8 * size

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        encoded = join(self.lstm(self.dropout(self.dense(vectors)), mask), mix)
        attended = attend(encoded, encoded, mask)
        integrated = self.integrator(torch.cat([encoded, encoded - attended, encoded * attended], dim=-1), mask)
        weights = masked_softmax(self.pool_scores(integrated).squeeze(-1), mask)
        pools = [
            masked_max(integrated, mask),
            -masked_max(-integrated, mask),
            masked_mean(integrated, mask),
            (weights.unsqueeze(1) @ integrated).squeeze(1),
        ]
        return torch.cat(pools, dim=-1)


class ElmoESIM(TextEncoder):
    """The enhanced sequential inference model, for pairs (Chen et al. 2017, sec. 3).

    One biLSTM reads both sentences, giving P and H; each word is aligned softly with the other sentence, p~ =
    softmax(p H^T) H; [p; p~; p - p~; p * p~] goes through a dense ReLU layer into a second biLSTM, whose output is
    pooled by mean and maximum for each sentence.
    """

    reads_pairs = True

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__()
        size = head.hidden_size
        self.lstm = ElmoTaskLSTM(input_size, size, 1, 0.0)
        self.dense = ElmoDense(4 * (2 * size + mix_size), size, "relu")
        self.dropout = ElmoVariationalDropout(head.hidden_dropout)  # type: ignore[arg-type]
        self.composition = ElmoTaskLSTM(size, size, 1, 0.0)
        self.output_size = 8 * size

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        encoded = join(self.lstm(vectors, mask), mix)
        # Beside each sentence the other one of its pair.
        aligned = attend(encoded, _swapped_halves(encoded), _swapped_halves(mask))
        enhanced = self.dense(torch.cat([encoded, aligned, encoded - aligned, encoded * aligned], dim=-1))
        composed = self.composition(self.dropout(enhanced), mask)
        pooled = torch.cat([masked_mean(composed, mask), masked_max(composed, mask)], dim=-1)
        return torch.cat(_of_pairs(pooled).unbind(0), dim=-1)


TEXT_ENCODERS: dict[str, type[TextEncoder]] = {
    "pooled": PooledEncoder,
    "pooled_pairs": PooledPairsEncoder,
    "bcn": ElmoBCN,
    "esim": ElmoESIM,
}


def attend(queries: Tensor, vectors: Tensor, mask: Tensor) -> Tensor:
    """What each word finds in a sentence by the softmax of its dot products with the words there.

    Args:
        queries: The words that look, (S, W, D).
        vectors: The words that are looked at, (S, V, D).
        mask: True for those that are real, (S, V).
    Returns: Weighted sums of `vectors`, (S, W, D); zeros where a sentence has no word.
    """
    return masked_softmax(queries @ vectors.transpose(1, 2), mask.unsqueeze(1)) @ vectors


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax over the last axis where `mask` is True, zeros elsewhere, also where it is nowhere True."""
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return weights.masked_fill(~mask, 0.0)


def masked_mean(vectors: Tensor, mask: Tensor) -> Tensor:
    """The mean over the words, (S, W, D) with mask (S, W) to (S, D); zeros where there is none."""
    total = vectors.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def masked_max(vectors: Tensor, mask: Tensor) -> Tensor:
    """The maximum over the words, (S, W, D) with mask (S, W) to (S, D); zeros where there is none."""
    largest = vectors.masked_fill(~mask.unsqueeze(-1), torch.finfo(vectors.dtype).min).amax(dim=1)
    return largest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


def join(vectors: Tensor, mix: Tensor | None) -> Tensor:
    """Vectors, with those of a second mix behind them where there is one."""
    return vectors if mix is None else torch.cat([vectors, mix], dim=-1)


def _of_pairs(sentences: Tensor) -> Tensor:
    """The first and the second sentences, (2B, ...) to (2, B, ...); an export leaves open how many there are."""
    return sentences.unflatten(0, (2, -1))


def _swapped_halves(sentences: Tensor) -> Tensor:
    """The other sentence of its pair for each, (2B, ...)."""
    return _of_pairs(sentences).flip(0).flatten(0, 1)


OUTSIDE = "O"

# The letters of each scheme. IOB1 begins a span with B only right behind another one of its type (Ramshaw and Marcus
# 1995); IOB2 begins each with B; BIOES also ends each with E and has S for a span of one word.
SCHEMES = {"IOB1": "IB", "IOB2": "BI", "BIOES": "BIES"}


class Span(NamedTuple):
    """The words of a sentence from `start` up to `stop`, and what they are."""

    type: str
    start: int
    stop: int


def split_label(label: str, scheme: str) -> tuple[str, str]:
    """The letter and the type of a label, `("B", "PER")`; `("O", "")` outside of spans.

    Raises: ValueError naming the scheme, or a label that is none of its labels.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme is {scheme!r}; it must be one of {sorted(SCHEMES)}.")
    if label == OUTSIDE:
        return OUTSIDE, ""
    letter, dash, type_ = label.partition("-")
    if letter not in tuple(SCHEMES[scheme]) or not dash or not type_:
        wanted = ", ".join(f"{letter}-..." for letter in SCHEMES[scheme])
        raise ValueError(f"{label!r} is no label of {scheme}; wanted O, {wanted}. Convert the labels, or name another.")
    return letter, type_


def can_follow(previous: str | None, label: str | None, scheme: str) -> bool:
    """Whether a label may stand behind another one.

    Args:
        previous: The label before; None at the start of a sentence.
        label: The label behind; None at the end of a sentence.
        scheme: "IOB1", "IOB2" or "BIOES".
    Raises: ValueError as `split_label`.
    """
    before, type_before = (OUTSIDE, "") if previous is None else split_label(previous, scheme)
    behind, type_behind = (OUTSIDE, "") if label is None else split_label(label, scheme)
    is_same_span_type = before != OUTSIDE and type_before == type_behind
    if scheme == "IOB1":
        return behind != "B" or is_same_span_type
    if scheme == "IOB2":
        return behind != "I" or is_same_span_type
    is_open = before in ("B", "I")
    return (behind in ("I", "E")) == is_open and (not is_open or is_same_span_type)


def read_spans(labels: Sequence[str], scheme: str) -> list[Span]:
    """The spans that the labels of a sentence mark, in their order.

    Raises: ValueError naming the first label that may not stand where it does, and its place.
    """
    spans: list[Span] = []
    start, previous = None, None
    for place, label in enumerate([*labels, None]):
        if not can_follow(previous, label, scheme):
            raise ValueError(
                f"labels[{place}] is {label!r} behind {previous!r}, which {scheme} does not allow; name the scheme "
                "that the labels are in, or mend them."
            )
        letter, type_ = (OUTSIDE, "") if label is None else split_label(label, scheme)
        if start is not None and previous is not None:
            type_before = split_label(previous, scheme)[1]
            if letter in (OUTSIDE, "B", "S") or type_ != type_before:
                spans.append(Span(type_before, start, place))
                start = None
        if start is None and letter != OUTSIDE:
            start = place
        previous = label
    return spans


def write_spans(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """The labels of a sentence of `length` words with these spans.

    Raises: ValueError naming the scheme, or a span that is empty, lies outside the sentence or overlaps another.
    """
    labels = [OUTSIDE] * length
    end, type_before = 0, None
    for span in sorted(spans, key=lambda span: span.start):
        if not end <= span.start < span.stop <= length:
            raise ValueError(
                f"{span} has no words of its own in a sentence of {length} words; wanted spans that do not overlap."
            )
        letters = ["I"] * (span.stop - span.start)
        if scheme != "IOB1" or (span.start == end and span.type == type_before):
            letters[0] = "B"
        if scheme == "BIOES":
            letters[-1] = "S" if len(letters) == 1 else "E"
        labels[span.start : span.stop] = [f"{letter}-{span.type}" for letter in letters]
        end, type_before = span.stop, span.type
    for label in labels:
        split_label(label, scheme)
    return labels


def labels_of(types: Iterable[str], scheme: str) -> list[str]:
    """All labels of a scheme for spans of these types, O first."""
    labels = [OUTSIDE, *(f"{letter}-{type_}" for type_ in types for letter in SCHEMES.get(scheme, "?"))]
    for label in labels:
        split_label(label, scheme)
    return labels


class ElmoCRF(nn.Module):
    """Scores of labels side by side with those of each word (Lafferty et al. 2001; Peters et al. 2018, A.7).

    A sequence y of labels has the score sum_t e_t[y_t] + sum_t A[y_t, y_t+1] + start[y_1] + end[y_T], with e given by
    the model below. The likelihood is normalised over all sequences; only `decode` leaves out those that a scheme of
    spans does not allow. Words that are masked are as good as absent, wherever they stand.

    Args:
        labels: The names of the K labels, in the order of their ids.
        scheme: "IOB1", "IOB2" or "BIOES", whose rules `decode` keeps; None for labels without rules.
        has_ends: Whether the first and the last label of a sentence have scores of their own.

    Raises: ValueError naming the scheme, or a label that is none of it.
    """

    start: nn.Parameter | None
    end: nn.Parameter | None

    def __init__(self, labels: Sequence[str], scheme: str | None = None, has_ends: bool = True):
        super().__init__()
        self.num_labels = len(labels)
        self.transitions = nn.Parameter(torch.zeros(self.num_labels, self.num_labels))
        for name in ("start", "end"):
            self.register_parameter(name, nn.Parameter(torch.zeros(self.num_labels)) if has_ends else None)
        # Lists, not buffers: they follow from the names of the labels, and are no states.
        self._forbidden = None if scheme is None else forbidden_by(scheme, labels)

    def init_weights(self) -> None:
        """Start from zeros: all sequences of labels are alike."""
        for parameter in self.parameters():
            init.zeros_(parameter)

    def forward(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """The log-likelihood of the labels of each sentence, in nats, (B,); 0 for a sentence without words.

        Args:
            emissions: Scores of each word's labels, (B, T, K).
            labels: Label ids, (B, T); anything where masked.
            mask: True for words that have a label, (B, T).
        """
        words = _left_aligned(emissions, mask)
        labels = words.gather(labels).masked_fill(~words.mask, 0).long()
        return self._score(words, labels) - self._log_partition(words)

    @torch.no_grad()
    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The probability of each label at each word, (B, T, K), zero where masked; arguments as `forward`'s."""
        words = _left_aligned(emissions, mask)
        return words.scatter(self._expectations(words).labels, 0.0)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best sequence of labels that the scheme allows for each sentence (Viterbi 1967).

        Where it allows none, as for one word and labels that a scheme wants two words for, one that breaks as few
        rules as can be.

        Returns: Label ids, (B, T), -100 where masked; and the score of each sequence, (B,).
        """
        words = _left_aligned(emissions, mask)
        labels = _best_path(words, self._all_scores(), self._forbidden)
        return words.scatter(labels.unsqueeze(-1), IGNORED_LABEL).squeeze(-1), self._score(words, labels)

    def _all_scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """The scores of transitions, starts and ends, in float32 or wider: half precision cannot hold their sums."""
        dtype = torch.promote_types(self.transitions.dtype, torch.float32)
        zeros = self.transitions.new_zeros(self.num_labels)
        ends = (zeros if end is None else end for end in (self.start, self.end))
        transitions, start, end = (scores.to(dtype) for scores in (self.transitions, *ends))
        return transitions, start, end

    def _score(self, words: _Words, labels: Tensor) -> Tensor:
        """The score of labels, (B, W), of each sentence, (B,)."""
        transitions, start, end = self._all_scores()
        scores = words.emissions.gather(2, labels.unsqueeze(-1)).squeeze(-1)
        # By embedding, whose gradients are added up in one order, as those of an indexed tensor are not.
        pairs = labels[:, :-1] * self.num_labels + labels[:, 1:]
        steps = F.embedding(pairs, transitions.reshape(-1, 1)).squeeze(-1)
        total = torch.where(words.mask, scores, 0.0).sum(1) + torch.where(words.mask[:, 1:], steps, 0.0).sum(1)
        first, last = labels[:, 0], labels.gather(1, words.last.unsqueeze(1)).squeeze(1)
        edges = F.embedding(first, start.unsqueeze(-1)) + F.embedding(last, end.unsqueeze(-1))
        return torch.where(words.mask[:, 0], total + edges.squeeze(-1), 0.0)

    def _log_partition(self, words: _Words) -> Tensor:
        with torch.no_grad():
            expected = self._expectations(words)
        # The gradients of the log-partition are the expectations: they are given to it, instead of going back through
        # each step. The differences are zero.
        transitions, start, end = self._all_scores()
        first = expected.labels[:, 0]
        last = _take(expected.labels, words.last.unsqueeze(1)).squeeze(1)
        terms = (
            (expected.labels * (words.emissions - words.emissions.detach())).sum(dim=(1, 2)),
            (expected.pairs * (transitions - transitions.detach())).sum(dim=(1, 2)),
            first @ (start - start.detach()) + last @ (end - end.detach()),
        )
        return expected.log_partition + sum(terms)

    def _expectations(self, words: _Words) -> _Expectations:
        """What is expected of each sentence under the model, by sums from both of its ends at once."""
        transitions, start, end = self._all_scores()
        count = words.emissions.shape[1]
        # Backwards the last word is the first, and a step goes from the label behind to the one before.
        places = (words.last.unsqueeze(1) - torch.arange(count, device=words.last.device)).clamp(min=0)
        both = torch.stack([words.emissions, _take(words.emissions, places)], dim=2)
        arriving = torch.stack([transitions.t(), transitions])

        def arrive(before: tuple[Tensor], read: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor], Tensor]:
            (state,), (of_word, comes_next) = before, read
            found = torch.logsumexp(state.unsqueeze(2) + arriving, dim=3) + of_word
            state = torch.where(comes_next, found, state)
            return (state,), state

        first = torch.stack([start, end]) + both[:, 0]
        states, (state,) = scan_words(arrive, (first,), (both, words.comes_next().unsqueeze(2)))
        log_partition = torch.logsumexp(state[:, 0] + end, dim=-1)
        before, behind = states.unbind(dim=2)
        behind = _take(behind, places)
        # Both hold the word's own score.
        labels = torch.exp(before + behind - words.emissions - log_partition.view(-1, 1, 1))
        pairs = before[:, :-1].unsqueeze(3) + transitions + behind[:, 1:].unsqueeze(2)
        pairs = torch.exp(pairs - log_partition.view(-1, 1, 1, 1)) * words.mask[:, 1:, None, None]
        return _Expectations(
            torch.where(words.mask[:, 0], log_partition, 0.0),
            torch.where(words.mask.unsqueeze(-1), labels, 0.0),
            pairs.sum(dim=1),
        )


def forbidden_by(scheme: str, labels: Sequence[str]) -> list[list[bool]]:
    """Which label may not stand behind which other one, the end of a sentence before all of them, (1 + K, 1 + K).

    Raises: ValueError naming the scheme, or a label that is none of it.
    """
    marks = [None, *labels]
    return [[not can_follow(first, second, scheme) for second in marks] for first in marks]


@torch.no_grad()
def decode_by_rules(emissions: Tensor, mask: Tensor, forbidden: list[list[bool]]) -> Tensor:
    """The labels of each sentence whose scores are largest together, of those that rules allow (Viterbi 1967).

    Args:
        emissions: Scores of each word's labels, logarithms of their probabilities up to a constant, (B, T, K).
        mask: True for words that have a label, (B, T).
        forbidden: As `forbidden_by` gives it.
    Returns: Label ids, (B, T), -100 where masked.
    """
    words = _left_aligned(emissions, mask)
    none = words.emissions.new_zeros(len(forbidden) - 1)
    labels = _best_path(words, (none.new_zeros(len(none), len(none)), none, none), forbidden)
    return words.scatter(labels.unsqueeze(-1), IGNORED_LABEL).squeeze(-1)


class _Words(NamedTuple):
    """The words of sentences without gaps, from the first place on."""

    emissions: Tensor  # zero behind the last word, (B, W, K)
    mask: Tensor  # True for words, (B, W)
    last: Tensor  # the place of the last word, 0 where there is none, (B,)
    order: Tensor  # where in the batch each stood, (B, W)
    length: int  # T

    def comes_next(self) -> Tensor:
        """True for words that another one stands before, (B, W, 1)."""
        is_first = torch.arange(self.mask.shape[1], device=self.mask.device) == 0
        return (self.mask & ~is_first).unsqueeze(-1)

    def gather(self, values: Tensor) -> Tensor:
        """Values of the batch, (B, T), as those of the words, (B, W)."""
        return values.gather(1, self.order)

    def scatter(self, values: Tensor, filler: float) -> Tensor:
        """Values of words, (B, W, ...), in their places in the batch, (B, T, ...); the filler elsewhere."""
        values = torch.where(self.mask.unsqueeze(-1), values, filler)
        full = values.new_full((values.shape[0], self.length, values.shape[2]), filler)
        return full.scatter(1, self.order.unsqueeze(-1).expand_as(values), values)


class _Expectations(NamedTuple):
    """What is expected of sentences: the gradients of their log-partition."""

    log_partition: Tensor  # (B,)
    labels: Tensor  # of each word, (B, W, K)
    pairs: Tensor  # of all words and the ones behind them, (B, K, K)


def _best_path(
    words: _Words, scores_of_labels: tuple[Tensor, Tensor, Tensor], forbidden: list[list[bool]] | None
) -> Tensor:
    """The best labels, (B, W), by the words' scores and those of transitions (K, K), starts and ends (K,)."""
    scores = words.emissions
    transitions, start, end = scores_of_labels
    if forbidden is not None:
        # Forbidden ones cost more than any words can win.
        width = sum(spread.max() - spread.min() for spread in scores_of_labels)
        won = (scores.amax(dim=2) - scores.amin(dim=2)).sum(dim=1).max() + scores.shape[1] * width
        lowered = torch.tensor(forbidden, device=scores.device) * (1 + won)
        transitions, start, end = transitions - lowered[1:, 1:], start - lowered[0, 1:], end - lowered[1:, 0]
    # From the label that comes to those before it, which the maximum is taken over.
    arriving = transitions.t()

    # Where the best way comes from is asked for the labels on it only: to keep that of all of them on the way costs
    # more than twice the time with a hundred labels.
    def arrive(before: tuple[Tensor], read: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor], Tensor]:
        (best,), (of_word, comes_next) = before, read
        found = (best.unsqueeze(1) + arriving).amax(dim=2) + of_word
        # At the first word and behind the last one each label leads back to itself.
        return (torch.where(comes_next, found, best),), best

    def go_back(behind: tuple[Tensor], read: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor], Tensor]:
        (label,), (best, comes_next) = behind, read
        origin = (best + arriving.index_select(0, label)).argmax(dim=1)
        return (torch.where(comes_next.squeeze(1), origin, label),), label

    comes_next = words.comes_next()
    ways, (best,) = scan_words(arrive, (start + scores[:, 0],), (scores, comes_next))
    last = (best + end).argmax(dim=1)
    return scan_words(go_back, (last,), (ways, comes_next), reverse=True)[0]


def _left_aligned(emissions: Tensor, mask: Tensor) -> _Words:
    # Half precision cannot hold the sums.
    emissions = emissions.to(torch.promote_types(emissions.dtype, torch.float32))
    # Words first, each in its order. ONNX knows no stable sorting, by which this would be shorter.
    places = torch.arange(mask.shape[1], device=mask.device)
    order = torch.argsort(torch.where(mask, places, places + mask.shape[1]), dim=1)
    lengths = mask.sum(dim=1)
    # In a trace the longest sentence is not known.
    count = mask.shape[1] if is_traced() else max(1, int(lengths.max()))
    order = order[:, :count]
    is_word = torch.arange(count, device=mask.device) < lengths.unsqueeze(1)
    return _Words(
        torch.where(is_word.unsqueeze(-1), _take(emissions, order), 0.0),
        is_word,
        (lengths - 1).clamp(min=0),
        order,
        mask.shape[1],
    )


def _take(values: Tensor, places: Tensor) -> Tensor:
    """The vectors (B, P, K) of values (B, W, K) at places (B, P)."""
    # Not by take_along_dim, which torch.export takes for one of a fixed size.
    return values.gather(1, places.unsqueeze(-1).expand(-1, -1, values.shape[2]))


# So far above the likeliest label of a word that of the best sequence is raised, where it is another one.
_ABOVE = 1e-3


class ElmoForTokenClassification(ElmoTaskModel):
    """What is read of each word, a biLSTM and a classifier, a CRF on top where wanted (Peters et al. 2018, A.7).

    With a CRF the labels of a sentence are chosen together. `logits` then are, in evaluation mode, the logarithms of
    each label's probability given the whole sentence; where the best sequence that the scheme allows (Viterbi) takes
    another label than the likeliest one of a word, that is raised just above it. So the largest logit of each word is
    always its label in the best sequence, for pipelines and Trainers too, and no gradients come back through them. In
    training mode, where nobody reads labels, they are the scores that the CRF is given.
    """

    _auto_class = "AutoModelForTokenClassification"  # type: ignore[assignment]
    head_class = TokenClassificationHead

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        head = self.config.require_head(TokenClassificationHead)
        self.num_labels = cast("int", config.num_labels)
        self.lstm_reads_special_tokens = head.lstm_reads_special_tokens
        size = self.input_size
        self.lstm: ElmoTaskLSTM | None = None
        if head.lstm_layers:
            self.lstm = ElmoTaskLSTM(size, head.lstm_size, head.lstm_layers, head.dropout)
            size = 2 * head.lstm_size + self.output_mix_size
        self.classifier = nn.Linear(size, self.num_labels)
        self.crf: ElmoCRF | None = None
        if head.output_layer == "crf":
            self.crf = ElmoCRF(config.label_names, head.scheme)
        self.post_init()
        self._apply_freezing()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        state: ElmoState | None = None,
        output_hidden_states: bool | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Score the labels of each word.

        Args:
            input_ids: Character ids, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            labels: Label ids, (B, T); -100 (sentence markers, padding) is left out of the loss.
            state: Carried LSTM states of the biLM.
            output_hidden_states: Whether to return the biLM's layers.
            token_type_ids: None or zeros: there are no pairs.
            packed_layers: The biLM's layers where they were computed before; see `ElmoModel`.
        Returns: Loss in nats per word and logits (B, T, K); of a CRF see above.
        """
        words = self.embed(
            input_ids,
            attention_mask,
            state,
            output_hidden_states,
            token_type_ids=token_type_ids,
            packed_layers=packed_layers,
        )
        vectors, mask = cast("Tensor", words.last_hidden_state), cast("Tensor", words.mask)
        if self.lstm is not None:
            is_read = mask if self.lstm_reads_special_tokens else self.without_special(input_ids, mask)
            vectors = join(self.dropout(self.lstm(vectors, is_read)), self.second_mix(words))
        scores = self.classifier(vectors)
        loss = None
        if labels is not None:
            check_word_labels(labels, mask)
            loss = self.add_penalty(self._loss(scores, labels, mask))
        logits = scores if self.crf is None or self.training else self._decode(scores, input_ids, mask)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=words.hidden_states)

    def _loss(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """The mean over the words that have a label, in nats; zero, not nan, where there is none."""
        if self.crf is None:
            return mean_cross_entropy(scores, labels)
        has_label = mask & (labels != IGNORED_LABEL)
        return -self.crf(scores, labels, has_label).sum() / has_label.sum().clamp(min=1)

    @torch.no_grad()
    def _decode(self, scores: Tensor, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Log-probabilities of the labels, (B, T, K), the largest of each word that of the best sequence."""
        crf = cast("ElmoCRF", self.crf)
        is_word = self.without_special(input_ids, mask)
        logits = crf.marginals(scores, is_word).clamp(min=torch.finfo(torch.float32).tiny).log()
        best, _ = crf.decode(scores, is_word)
        likeliest, first = logits.max(dim=-1)
        is_raised = (is_word & (best != first)).unsqueeze(-1)
        is_best = best.unsqueeze(-1) == torch.arange(self.num_labels, device=best.device)
        return torch.where(is_raised & is_best, likeliest.unsqueeze(-1) + _ABOVE, logits)


class ElmoForSequenceClassification(ElmoTaskModel):
    """Sentiment, entailment and their like: an encoder over the words of a text, or of a pair, and dense layers.

    The head's config, a `SequenceClassificationHead`, chooses the encoder. The special tokens are read by the biLM
    alone.
    """

    _auto_class = "AutoModelForSequenceClassification"  # type: ignore[assignment]
    head_class = SequenceClassificationHead

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        head = self.config.require_head(SequenceClassificationHead)
        self.num_labels = cast("int", config.num_labels)
        if head.encoder == "esim":
            self.dropout = ElmoVariationalDropout(head.dropout)
        self.encoder_name = head.encoder
        self.text_encoder = TEXT_ENCODERS[head.encoder](self.input_size, self.output_mix_size, head)
        self.reads_pairs = self.text_encoder.reads_pairs
        activation = head.output_activation
        sizes = [self.text_encoder.output_size, *cast("list[int]", head.output_sizes)]
        *dropouts, last_dropout = map(nn.Dropout, cast("list[float]", head.output_dropouts))
        layers = (ElmoDense(*pair, activation) for pair in itertools.pairwise(sizes))
        parts = [part for pair in zip(dropouts, layers, strict=True) for part in pair]
        self.output = nn.Sequential(*parts, last_dropout)
        self.classifier = ElmoDense(sizes[-1], self.num_labels, "maxout" if activation == "maxout" else None)
        self.post_init()
        self._apply_freezing()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Dense layers by Glorot's rule, recurrences orthogonal, the forget gates of ESIM open (Chen et al. 2017)."""
        if isinstance(module, ElmoDense):
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, ElmoTaskLSTM):
            initialize_recurrence(module)
            for name, parameter in module.named_parameters():
                # One of the two biases that are added; a part of one that was loaded does not say so itself.
                is_loaded = getattr(parameter, "_is_hf_initialized", False)
                if self.encoder_name == "esim" and name.startswith("bias_hh") and not is_loaded:
                    init.ones_(parameter[module.hidden_size : 2 * module.hidden_size])
        else:
            super()._init_weights(module)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Score the labels of each text or pair.

        Args:
            input_ids: Character ids, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            labels: Label ids, (B,); numbers, (B,) or (B, K), for a regression; or K zeros and ones for each text,
                (B, K). The config's `problem_type` says which, or else the first labels that are seen, as in
                transformers: a regression where there is one label, integers for one label a text.
            output_hidden_states: Whether to return the biLM's layers.
            token_type_ids: 1 for the words of the second text of a pair, (B, T); encoders of pairs need it.
            packed_layers: The biLM's layers where they were computed before; see `ElmoModel`.
        Returns: The mean loss, with the mix's penalty in training, and logits, (B, K).
        """
        if self.reads_pairs and token_type_ids is None:
            raise ValueError(
                f"token_type_ids is None, but the encoder {self.encoder_name!r} reads pairs; call the tokenizer with "
                "text and text_pair, and pass on what it gives (an empty text_pair will do)."
            )
        words = self.embed(
            input_ids,
            attention_mask,
            output_hidden_states=output_hidden_states,
            token_type_ids=token_type_ids,
            packed_layers=packed_layers,
        )
        mask = self.without_special(input_ids, cast("Tensor", words.mask), token_type_ids)
        vectors, mix = cast("Tensor", words.last_hidden_state), self.second_mix(words)
        if self.reads_pairs:
            pairs = PairSplitter(*segment_masks(mask, cast("Tensor", token_type_ids)))
            vectors, mix, mask = pairs.split(vectors), None if mix is None else pairs.split(mix), pairs.mask
        logits = self.classifier(self.output(self.text_encoder(vectors, mask, mix)))
        loss = None if labels is None else self.add_penalty(self._loss(logits, labels))
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=words.hidden_states)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type is None:
            # As transformers guesses it. Pipelines read it, and later batches are of the same kind.
            several = "multi_label_classification" if labels.is_floating_point() else "single_label_classification"
            self.config.problem_type = "regression" if self.num_labels == 1 else several  # type: ignore[assignment]
        # In float32 whatever the model's precision.
        scores = logits.float()
        if self.config.problem_type == "single_label_classification":
            return F.cross_entropy(scores, labels if labels.is_floating_point() else labels.long())
        if self.config.problem_type == "multi_label_classification":
            return F.binary_cross_entropy_with_logits(scores, labels.float())
        return F.mse_loss(scores, labels.view_as(scores).float())


class TextVectors(NamedTuple):
    """The words of one text of each pair.

    Args:
        vectors: What the reader's first layer reads, (B, V, D).
        mask: True for real words, (B, V).
        mix: The mix that is joined to the lowest recurrence's output, (B, V, M); None without one.
    """

    vectors: Tensor
    mask: Tensor
    mix: Tensor | None = None


class ElmoTrilinear(nn.Linear):
    """The score of two words h and q: w1 . h + w2 . q + w3 . (h * q) (Seo et al. 2016, sec. 2).

    It has no bias, which the softmax over such scores would take out again.
    """

    def __init__(self, size: int):
        super().__init__(3 * size, 1, bias=False)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:  # type: ignore[override]
        """Scores of all words of two texts, (B, V, D) and (B, W, D) to (B, V, W)."""
        of_first, of_second, of_both = self.weight.view(3, -1)
        one_by_one = (first @ of_first).unsqueeze(2) + (second @ of_second).unsqueeze(1)
        return one_by_one + (first * of_both) @ second.transpose(1, 2)


class ElmoBidirectionalAttention(nn.Module):
    """What a context finds in its question, and which of its words the question finds, beside the context.

    For h, a word of the context, [h; c; h * c; h * q~], (B, V, 4D): c is the softmax of its scores over the question,
    and q~, alike for all words, the softmax of their best scores over the context (Seo et al. 2016, sec. 2).
    """

    def __init__(self, size: int):
        super().__init__()
        self.scores = ElmoTrilinear(size)

    def forward(self, context: Tensor, context_mask: Tensor, question: Tensor, question_mask: Tensor) -> Tensor:
        """From (B, V, D) and (B, W, D) to (B, V, 4D)."""
        scores = self.scores(context, question)
        found = masked_softmax(scores, question_mask.unsqueeze(1)) @ question
        lowest = torch.finfo(scores.dtype).min
        best = scores.masked_fill(~question_mask.unsqueeze(1), lowest).amax(dim=2)
        # To a question without words all are alike; padding is not one of them.
        best = best.masked_fill(~question_mask.any(dim=1, keepdim=True), 0.0)
        summary = masked_softmax(best, context_mask).unsqueeze(1) @ context
        return torch.cat([context, found, context * found, context * summary], dim=-1)


class ElmoSelfAttention(nn.Module):
    """What the words of a context find in its other words, or in none of them (Clark and Gardner 2017, sec. 2.2).

    For a word x, [a; x; a * x], (B, V, 3D): a is the softmax over the others and a learned score that stands for no
    word.
    """

    def __init__(self, size: int):
        super().__init__()
        self.scores = ElmoTrilinear(size)
        self.score_of_none = nn.Parameter(torch.empty(1))

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """From (B, V, D) to (B, V, 3D)."""
        scores = self.scores(vectors, vectors)
        is_itself = torch.eye(vectors.shape[1], dtype=torch.bool, device=vectors.device)
        scores = scores.masked_fill(~mask.unsqueeze(1) | is_itself, torch.finfo(scores.dtype).min)
        none = self.score_of_none.expand(*scores.shape[:2], 1)
        weights = torch.softmax(torch.cat([scores, none], dim=-1), dim=-1)[..., :-1]
        found = weights @ vectors
        return torch.cat([found, vectors, found * vectors], dim=-1)


class QAReader(nn.Module):
    """What the readers have in common.

    Args:
        input_size: Size D of the vector of a word.
        mix_size: Size M of the mix that is joined to the lowest recurrence's output; 0 without one.
        head: The head's config.
    """

    def forward(self, question: TextVectors, context: TextVectors) -> tuple[Tensor, Tensor]:
        """Score each word of the contexts as the first and as the last one of the answer, (B, V) and (B, V).

        A text may have no words; what stands where its mask is False is of no account.
        """
        raise NotImplementedError


class SelfAttentionReader(QAReader):
    """One biGRU for both texts, attention both ways, a residual layer of self-attention, and a biGRU for each end.

    As Clark and Gardner 2017, sec. 2.2, whose dropout leaves out the same features of all words before and behind the
    recurrences; the biGRU of the answer's end reads what that of its start gives.
    """

    def __init__(self, input_size: int, mix_size: int, head: QuestionAnsweringHead):
        super().__init__()
        size: int = head.hidden_size  # type: ignore[assignment]
        self.dropout = ElmoVariationalDropout(head.hidden_dropout)
        self.encoder = ElmoTaskGRU(input_size, size)
        self.attention = ElmoBidirectionalAttention(2 * size + mix_size)
        self.merge = ElmoDense(4 * (2 * size + mix_size), 2 * size, "relu")
        self.inner_encoder = ElmoTaskGRU(2 * size, size)
        self.self_attention = ElmoSelfAttention(2 * size)
        self.inner_merge = ElmoDense(3 * 2 * size, 2 * size, "relu")
        self.start_encoder = ElmoTaskGRU(2 * size, size)
        self.start_scores = ElmoDense(2 * size, 1)
        self.end_encoder = ElmoTaskGRU(4 * size, size)
        self.end_scores = ElmoDense(2 * size, 1)

    def forward(self, question: TextVectors, context: TextVectors) -> tuple[Tensor, Tensor]:
        asked, read = self._encode(question), self._encode(context)
        merged = self.merge(self.attention(read, context.mask, asked, question.mask))
        inner = self.dropout(self.inner_encoder(self.dropout(merged), context.mask))
        merged = self.dropout(merged + self.inner_merge(self.self_attention(inner, context.mask)))
        start = self.start_encoder(merged, context.mask)
        end = self.end_encoder(torch.cat([merged, start], dim=-1), context.mask)
        return self.start_scores(start).squeeze(-1), self.end_scores(end).squeeze(-1)

    def _encode(self, text: TextVectors) -> Tensor:
        return join(self.dropout(self.encoder(self.dropout(text.vectors), text.mask)), text.mix)


class ElmoBiDAF(QAReader):
    """As AllenNLP has it: highway layers, one biLSTM for both texts, attention both ways, a biLSTM of two layers.

    With G what the attention gives and M what that biLSTM makes of it, the start is scored on [G; M]. One more biLSTM
    reads [G; M; s~; M * s~], where s~ is the sum of M's words by their probabilities as starts; its output scores the
    end, beside G (Seo et al. 2016, sec. 2).
    """

    def __init__(self, input_size: int, mix_size: int, head: QuestionAnsweringHead):
        super().__init__()
        size: int = head.hidden_size  # type: ignore[assignment]
        attended = 4 * (2 * size + mix_size)
        self.dropout = nn.Dropout(head.hidden_dropout)
        self.highways = nn.ModuleList(ElmoHighway(input_size) for _ in range(head.highway_layers or 0))
        self.encoder = ElmoTaskLSTM(input_size, size)
        self.attention = ElmoBidirectionalAttention(2 * size + mix_size)
        self.modeling = ElmoTaskLSTM(attended, size, head.modeling_layers, head.hidden_dropout)
        self.start_scores = ElmoDense(attended + 2 * size, 1)
        self.end_encoder = ElmoTaskLSTM(attended + 3 * 2 * size, size)
        self.end_scores = ElmoDense(attended + 2 * size, 1)

    def forward(self, question: TextVectors, context: TextVectors) -> tuple[Tensor, Tensor]:
        asked, read = self._encode(question), self._encode(context)
        attended = self.dropout(self.attention(read, context.mask, asked, question.mask))
        modeled = self.dropout(self.modeling(attended, context.mask))
        start = self.start_scores(torch.cat([attended, modeled], dim=-1)).squeeze(-1)
        weights = masked_softmax(start, context.mask)
        expected = (weights.unsqueeze(1) @ modeled).expand_as(modeled)
        inputs = torch.cat([attended, modeled, expected, modeled * expected], dim=-1)
        ends = self.dropout(self.end_encoder(inputs, context.mask))
        return start, self.end_scores(torch.cat([attended, ends], dim=-1)).squeeze(-1)

    def _encode(self, text: TextVectors) -> Tensor:
        vectors = text.vectors.flatten(0, 1)
        for highway in self.highways:
            vectors = highway(vectors)
        return join(self.dropout(self.encoder(vectors.view_as(text.vectors), text.mask)), text.mix)


READERS: dict[str, type[QAReader]] = {"self_attention": SelfAttentionReader, "bidaf": ElmoBiDAF}


class ElmoForQuestionAnswering(ElmoTaskModel):
    """Answers that stand in a context, by their first and their last word (Peters et al. 2018, sec. 4 and A.4).

    The head's config, a `QuestionAnsweringHead`, chooses the reader. A row is a pair from the tokenizer, the question
    first: `tokenizer(question, context)`. The special tokens are read by the biLM alone.
    """

    _auto_class = "AutoModelForQuestionAnswering"  # type: ignore[assignment]
    head_class = QuestionAnsweringHead
    reads_pairs = True

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        head = self.config.require_head(QuestionAnsweringHead)
        self.max_answer_words = head.max_answer_words
        self.reader = READERS[head.reader](self.input_size, self.output_mix_size, head)
        self.post_init()
        self._apply_freezing()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Dense layers and scores by Glorot's rule, recurrences orthogonal, no word preferred to one of the context."""
        if isinstance(module, (ElmoDense, ElmoTrilinear)):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, ElmoTaskRNN):
            initialize_recurrence(module)
        elif isinstance(module, ElmoSelfAttention):
            init.constant_(module.score_of_none, -1.0)
        else:
            super()._init_weights(module)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_hidden_states: bool | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Score each word of the contexts as the first and as the last one of the answer.

        Args:
            input_ids: Character ids of pairs, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            start_positions: The index in T of the answer's first word, (B,); -100 where there is none in this row.
            end_positions: That of its last word, (B,), as `start_positions`.
            output_hidden_states: Whether to return the biLM's layers.
            token_type_ids: 0 for the words of the questions, 1 for those of the contexts, (B, T).
            packed_layers: The biLM's layers where they were computed before; see `ElmoModel`.
        Returns: The loss, the mean of the start's and the end's cross entropy, each the mean over the rows that have an
            answer (0 where none has one), with the mix's penalty in training; and `start_logits` and `end_logits`,
            (B, T), which have their dtype's lowest number for all but the context's words. `best_spans` reads them.
        Raises: ValueError naming the argument, what it was and what is wanted.
        """
        if token_type_ids is None:
            raise ValueError(
                "token_type_ids is None, but this model reads pairs of a question and a context; call the tokenizer "
                "with text (the question) and text_pair (the context), and pass on what it gives."
            )
        words = self.embed(
            input_ids,
            attention_mask,
            output_hidden_states=output_hidden_states,
            token_type_ids=token_type_ids,
            packed_layers=packed_layers,
        )
        mask = self.without_special(input_ids, cast("Tensor", words.mask), token_type_ids)
        is_question, is_answer = segment_masks(mask, token_type_ids)
        question, context = PairSplitter(is_question), PairSplitter(is_answer)
        vectors, mix = cast("Tensor", words.last_hidden_state), self.second_mix(words)
        # Each text is no longer than the longest of its kind.
        texts = (
            TextVectors(each.split(vectors), each.mask, None if mix is None else each.split(mix))
            for each in (question, context)
        )
        logits = context.merge(torch.stack(self.reader(*texts), dim=-1))
        start, end = logits.masked_fill(~is_answer.unsqueeze(-1), torch.finfo(logits.dtype).min).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            each_end = ((start, start_positions), (end, end_positions))
            loss = self.add_penalty(torch.stack([_loss_of_positions(*each, is_answer) for each in each_end]).mean())
        return QuestionAnsweringModelOutput(
            loss=loss, start_logits=start, end_logits=end, hidden_states=words.hidden_states
        )

    def best_spans(self, start_logits: Tensor, end_logits: Tensor) -> AnswerSpans:
        """The best answers by these logits, as long as the head's config allows; see the function of this name."""
        return best_spans(start_logits, end_logits, self.max_answer_words)


class AnswerSpans(NamedTuple):
    """The best answer of each row.

    Args:
        starts: The index in T of its first word, (B,).
        ends: That of its last word, (B,).
        probabilities: That of its start times that of its end, (B,), float32.
    """

    starts: Tensor
    ends: Tensor
    probabilities: Tensor


def best_spans(start_logits: Tensor, end_logits: Tensor, max_words: int | None = None) -> AnswerSpans:
    """The answers of the largest sum of a start's and an end's score, whose end does not stand before their start.

    Args:
        start_logits: (B, T), as the model gives them.
        end_logits: (B, T).
        max_words: Words that an answer may have; None for no bound.
    """
    length = start_logits.shape[1]
    width = length if max_words is None else min(max_words, length)
    # Probabilities, so that sums of two lowest numbers stay finite.
    starts, ends = start_logits.float().log_softmax(dim=-1), end_logits.float().log_softmax(dim=-1)
    best_ends, steps = F.pad(ends, (0, width - 1), value=-torch.inf).unfold(1, width, 1).max(dim=-1)
    best, first = (starts + best_ends).max(dim=-1)
    last = first + steps.gather(1, first.unsqueeze(1)).squeeze(1)
    return AnswerSpans(first, last, best.exp())


def _loss_of_positions(logits: Tensor, positions: Tensor, is_answer: Tensor) -> Tensor:
    """The mean cross entropy over the rows that have a position, in float32 whatever the model's precision.

    Raises: ValueError where no word of the context is: its logit is the lowest number, which no loss survives.
    """
    has_answer = positions != IGNORED_LABEL
    if values_can_be_read(positions):
        indices = positions.clamp(0, is_answer.shape[1] - 1).unsqueeze(1)
        is_inside = is_answer.gather(1, indices).squeeze(1) & (indices.squeeze(1) == positions)
        if bool((has_answer & ~is_inside).any()):
            raise ValueError(
                f"start_positions or end_positions is {int(positions[has_answer & ~is_inside][0])}, where no word of "
                f"the context is; give the index of one, or {IGNORED_LABEL} where a row has no answer."
            )
    total = F.cross_entropy(logits.float(), positions, ignore_index=IGNORED_LABEL, reduction="sum")
    return total / has_answer.sum().clamp(min=1)
