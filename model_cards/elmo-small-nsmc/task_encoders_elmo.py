"""What a task puts between the scalar mix and its own layer: a biLSTM, or a biGRU, over the real words.

Letters in shapes: B sentences, T words, D vector, H cell, L layers.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from transformers import initialization as init

from .tracing_elmo import is_traced
from .word_steps_elmo import scan_words

_State = tuple[Tensor, ...]


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
            return self._run_by_steps(vectors, mask)
        order = torch.argsort(mask.logical_not().to(torch.uint8), dim=1, stable=True)
        lengths = mask.sum(dim=1).clamp(min=1)
        gathered = vectors.gather(1, order.unsqueeze(-1).expand_as(vectors))
        packed = pack_padded_sequence(gathered, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(self._run_packed(packed), batch_first=True, total_length=mask.shape[1])
        restored = torch.zeros_like(outputs).scatter(1, order.unsqueeze(-1).expand_as(outputs), outputs)
        return torch.where(mask.unsqueeze(-1), restored, 0.0)

    def _run_packed(self, packed: PackedSequence) -> PackedSequence:
        zeros = packed.data.new_zeros(2 * self.num_layers, int(packed.batch_sizes[0]), self.hidden_size)
        weights: list[Tensor] = [weight for layer in self.all_weights for weight in layer]
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        return packed._replace(data=self._run_fast(packed.data, packed.batch_sizes, zeros, weights, options))

    def _run_by_steps(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """As `forward`, without reading from the mask how many words there are."""
        outputs = vectors
        for layer in range(self.num_layers):
            inputs = F.dropout(outputs, self.dropout, self.training) if layer else outputs
            outputs = torch.cat([self._scan(f"l{layer}{way}", inputs, mask) for way in ("", "_reverse")], dim=-1)
        return outputs

    def _run_fast(
        self, data: Tensor, batch_sizes: Tensor, zeros: Tensor, weights: list[Tensor], options: tuple
    ) -> Tensor:
        """The outputs for packed words by PyTorch's own function for this kind of recurrence."""
        raise NotImplementedError

    def _scan(self, suffix: str, inputs: Tensor, mask: Tensor) -> Tensor:
        """One direction of one layer by its definition, (B, T, D) to (B, T, H); zero where masked."""
        raise NotImplementedError


class ElmoTaskLSTM(ElmoTaskRNN):
    """A biLSTM over the real words."""

    kind = "LSTM"

    def _run_fast(
        self, data: Tensor, batch_sizes: Tensor, zeros: Tensor, weights: list[Tensor], options: tuple
    ) -> Tensor:
        return torch.lstm(data, batch_sizes, (zeros, zeros), weights, *options)[0]

    def _scan(self, suffix: str, inputs: Tensor, mask: Tensor) -> Tensor:
        bias = getattr(self, f"bias_ih_{suffix}") + getattr(self, f"bias_hh_{suffix}")
        input_gates = F.linear(inputs, getattr(self, f"weight_ih_{suffix}"), bias)
        recurrent = getattr(self, f"weight_hh_{suffix}")

        def step(before: _State, read: tuple[Tensor, Tensor]) -> tuple[_State, Tensor]:
            hidden, cell = before
            of_word, is_real = read
            input_gate, forget_gate, candidate, output_gate = (of_word + F.linear(hidden, recurrent)).chunk(4, dim=-1)
            new_cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
            new_hidden = torch.sigmoid(output_gate) * torch.tanh(new_cell)
            after = (torch.where(is_real, new_hidden, hidden), torch.where(is_real, new_cell, cell))
            return after, torch.where(is_real, new_hidden, 0.0)

        zeros = inputs.new_zeros(inputs.shape[0], self.hidden_size)
        read = (input_gates, mask.unsqueeze(-1))
        return scan_words(step, (zeros, zeros), read, reverse=suffix.endswith("_reverse"))[0]


class ElmoTaskGRU(ElmoTaskRNN):
    """A biGRU over the real words (Cho et al. 2014)."""

    kind = "GRU"

    def _run_fast(
        self, data: Tensor, batch_sizes: Tensor, zeros: Tensor, weights: list[Tensor], options: tuple
    ) -> Tensor:
        return torch.gru(data, batch_sizes, zeros, weights, *options)[0]

    def _scan(self, suffix: str, inputs: Tensor, mask: Tensor) -> Tensor:
        input_gates = F.linear(inputs, getattr(self, f"weight_ih_{suffix}"), getattr(self, f"bias_ih_{suffix}"))
        weight, bias = getattr(self, f"weight_hh_{suffix}"), getattr(self, f"bias_hh_{suffix}")

        def step(before: _State, read: tuple[Tensor, Tensor]) -> tuple[_State, Tensor]:
            (hidden,), (of_word, is_real) = before, read
            of_input, of_hidden = (gates.chunk(3, dim=-1) for gates in (of_word, F.linear(hidden, weight, bias)))
            reset, keep = (torch.sigmoid(of_input[gate] + of_hidden[gate]) for gate in (0, 1))
            new_hidden = (1 - keep) * torch.tanh(of_input[2] + reset * of_hidden[2]) + keep * hidden
            return (torch.where(is_real, new_hidden, hidden),), torch.where(is_real, new_hidden, 0.0)

        zeros = inputs.new_zeros(inputs.shape[0], self.hidden_size)
        read = (input_gates, mask.unsqueeze(-1))
        return scan_words(step, (zeros,), read, reverse=suffix.endswith("_reverse"))[0]


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
