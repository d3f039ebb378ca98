"""A biLM of torch's own projected LSTMs, `nn.LSTM(proj_size)`, which cannot clip."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hf_elmo.model.modeling_elmo import ElmoModel, ElmoProjectedLSTM


class TorchBiLM(nn.Module):
    """Two directions of L single-direction LSTMs with the weights of a model of ours and its skip connections.

    Padding has to lie on the right.
    """

    def __init__(self, model: ElmoModel):
        super().__init__()
        layers = model.bilm.layers
        self.forward_lstms = nn.ModuleList(_copy_lstm(layer.forward_lstm) for layer in layers)
        self.backward_lstms = nn.ModuleList(_copy_lstm(layer.backward_lstm) for layer in layers)
        self.adds_input = [layer.adds_its_input for layer in layers]

    def forward(self, vectors: Tensor, mask: Tensor | None = None, packed: bool = False) -> Tensor:
        """Run both directions through all layers.

        Args:
            vectors: Token vectors, (B, T, P).
            mask: True for real words, (B, T); None where all are.
            packed: Whether the LSTMs leave padding out, by torch's packed sequences, or compute it along.
        Returns: The top layer, (B, T, 2P); what stands at masked words is of no use.
        """
        lengths = None if mask is None else mask.sum(dim=1)
        forward = self._run(self.forward_lstms, vectors, lengths if packed else None)
        backward = self._run(self.backward_lstms, _reverse(vectors, lengths), lengths if packed else None)
        return torch.cat([forward, _reverse(backward, lengths)], dim=-1)

    def train_step(self, vectors: Tensor, coefficients: Tensor) -> tuple[Tensor, ...]:
        """The gradients of a weighted sum of the top layer by the vectors and all LSTM weights, in our order of these.

        Args:
            vectors: Token vectors that want gradients, (B, T, P).
            coefficients: The weights of the sum, (B, T, 2P).
        """
        lstms = itertools.chain(*zip(self.forward_lstms, self.backward_lstms, strict=True))
        weights = [weight for lstm in lstms for weight in lstm.parameters() if weight.requires_grad]
        return torch.autograd.grad((self(vectors) * coefficients).sum(), [vectors, *weights])

    def _run(self, lstms: nn.ModuleList, vectors: Tensor, lengths: Tensor | None) -> Tensor:
        for lstm, adds_input in zip(lstms, self.adds_input, strict=True):
            outputs = _run_padded(lstm, vectors) if lengths is None else _run_packed(lstm, vectors, lengths)
            vectors = outputs + vectors if adds_input else outputs
        return vectors


def _run_padded(lstm: nn.LSTM, vectors: Tensor) -> Tensor:
    return lstm(vectors)[0]


def _run_packed(lstm: nn.LSTM, vectors: Tensor, lengths: Tensor) -> Tensor:
    packed = pack_padded_sequence(vectors, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=vectors.shape[1])[0]


def _reverse(vectors: Tensor, lengths: Tensor | None) -> Tensor:
    """Turn the first `lengths` words of each row round and leave the padding after them where it is."""
    if lengths is None:
        return vectors.flip(1)
    places = torch.arange(vectors.shape[1], device=vectors.device).expand(vectors.shape[:2])
    mirrored = lengths.unsqueeze(1) - 1 - places
    return vectors.gather(1, torch.where(mirrored >= 0, mirrored, places).unsqueeze(-1).expand_as(vectors))


@torch.no_grad()
def _copy_lstm(ours: ElmoProjectedLSTM) -> nn.LSTM:
    weights = ours.weights()
    projection_size, cell_size = weights.projection.shape
    lstm = nn.LSTM(projection_size, cell_size, proj_size=projection_size, batch_first=True)
    lstm.weight_ih_l0.copy_(weights.input)
    lstm.weight_hh_l0.copy_(weights.recurrent)
    lstm.weight_hr_l0.copy_(weights.projection)
    lstm.bias_ih_l0.copy_(weights.bias)
    # A second bias, which would only cost time in training.
    lstm.bias_hh_l0.zero_().requires_grad_(False)
    return lstm
