"""What a task puts between the scalar mix and its own layer: a biLSTM, or a biGRU, over the real words.

Letters in shapes: B sentences, T words, D vector, H cell, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init

from .packed_steps_elmo import PackedOrder, order_words, run_gru_steps, run_lstm_steps
from .tracing_elmo import is_traced
from .word_steps_elmo import scan_words

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
            return self.run_readable(vectors, mask)
        order = order_words(mask)
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

    def run_readable(self, vectors: Tensor, mask: Tensor) -> Tensor:
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
