"""Pre-training as anybody would write it from torch's own modules, with the weights of a model of ours.

Characters go through nn.Conv1d at the full width of a row, each layer and direction is an `nn.LSTM(proj_size)`, which
cannot clip, and the sampled softmax is the readable one.

Letters in shapes: B lanes, T words, N words encoded, C characters, P projection, H cell.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hf_elmo.model.modeling_elmo import ElmoForPreTraining, ElmoTokenEncoder
from hf_elmo.pretraining.lanes import NO_TARGET, LaneWindow
from hf_elmo.pretraining.sampling import LogUniformSampler
from hf_elmo.pretraining.softmax_losses import sampled_cross_entropy

from .torch_peer import TorchBiLM

# Hidden and cell states of a layer and direction, (1, B, P) and (1, B, H); the layers of the forward direction first.
PlainState = list[tuple[Tensor, Tensor]]


class PlainTrainer(nn.Module):
    """Char CNN, two stacks of LSTMs and a sampled softmax that both directions share.

    Args:
        model: Of ours, with a shared full softmax; its weights are copied.
        num_negative_samples: Words drawn for each direction of each window.
        seed: Of the draws.
        encodes_distinct: Whether each distinct word of a window is encoded once, as ours are, or every word.
    """

    def __init__(
        self, model: ElmoForPreTraining, num_negative_samples: int, seed: int = 0, encodes_distinct: bool = False
    ):
        super().__init__()
        self.encoder = PlainEncoder(model.elmo.token_encoder)
        self.lstms = TorchBiLM(model.elmo)
        self.dropout = nn.Dropout(model.config.dropout)
        self.softmax = copy.deepcopy(model.word_softmax)
        self.sampler = LogUniformSampler(model.config.word_vocab_size, num_negative_samples, seed)
        self.encodes_distinct = encodes_distinct

    def forward(self, window: LaneWindow, state: PlainState | None = None) -> tuple[Tensor, PlainState]:
        """The mean of both directions' losses in nats per word, and the states after the window."""
        directions = (
            (self.lstms.forward_lstms, window.forward_words, window.forward_targets),
            (self.lstms.backward_lstms, window.backward_words, window.backward_targets),
        )
        distinct = self.encoder(window.rows) if self.encodes_distinct else None
        depth, losses, states = len(self.lstms.adds_input), [], []
        for direction, (lstms, words, targets) in enumerate(directions):
            if distinct is None:
                vectors = self.encoder(window.rows[words.flatten()]).view(*words.shape, -1)
            else:
                vectors = distinct[words]
            before = [None] * depth if state is None else state[direction * depth :][:depth]
            outputs, after = self._run(lstms, vectors, before)
            has_target = targets != NO_TARGET
            losses.append(self._sampled_loss(outputs[has_target], targets[has_target]))
            states += after
        return torch.cat(losses).mean(), states

    def _run(
        self, lstms: nn.ModuleList, vectors: Tensor, states: list[tuple[Tensor, Tensor] | None]
    ) -> tuple[Tensor, PlainState]:
        after = []
        for lstm, adds_input, state in zip(lstms, self.lstms.adds_input, states, strict=True):
            outputs, (hidden, cell) = lstm(self.dropout(vectors), state)
            vectors = outputs + vectors if adds_input else outputs
            after.append((hidden.detach(), cell.detach()))
        return self.dropout(vectors), after

    def _sampled_loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        sample = self.sampler.draw()
        weights = [F.embedding(ids, self.softmax.weight) for ids in (targets, sample.ids)]
        biases = [self.softmax.bias[ids] for ids in (targets, sample.ids)]
        return sampled_cross_entropy(hidden, targets, (weights[0], biases[0]), sample, (weights[1], biases[1]))


class PlainEncoder(nn.Module):
    """Embedding, convolutions with a maximum over positions, highway layers and projection."""

    def __init__(self, encoder: ElmoTokenEncoder):
        super().__init__()
        self.embedding = copy.deepcopy(encoder.character_embedding)
        self.convolutions = nn.ModuleList(map(_copy_convolution, encoder.convolutions))
        self.activation = encoder.activation
        self.carries = nn.ModuleList(_copy_linear(highway.carry) for highway in encoder.highways)
        self.transforms = nn.ModuleList(_copy_linear(highway.transform) for highway in encoder.highways)
        self.projection = _copy_linear(encoder.projection)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of character ids (N, C) to word vectors, (N, P)."""
        characters = self.embedding(rows).transpose(1, 2)
        vectors = torch.cat([self.activation(filters(characters).amax(2)) for filters in self.convolutions], dim=1)
        for carry, transform in zip(self.carries, self.transforms, strict=True):
            gate = torch.sigmoid(carry(vectors))
            vectors = gate * F.relu(transform(vectors)) + (1 - gate) * vectors
        return self.projection(vectors)


def _copy_convolution(filters: nn.Conv1d) -> nn.Conv1d:
    copied = nn.Conv1d(filters.in_channels, filters.out_channels, filters.kernel_size[0])
    copied.load_state_dict(filters.state_dict())
    return copied


def _copy_linear(linear: nn.Linear) -> nn.Linear:
    copied = nn.Linear(linear.in_features, linear.out_features)
    copied.load_state_dict(linear.state_dict())
    return copied
