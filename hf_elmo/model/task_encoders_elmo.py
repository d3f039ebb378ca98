"""What a task puts between the scalar mix and its own layer: a biLSTM over the real words.

Letters in shapes: B sentences, T words, D vector, H cell.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def run_lstm(lstm: nn.LSTM, vectors: Tensor, mask: Tensor) -> Tensor:
    """Run a torch LSTM over the real words only, wherever the padding lies; (B, T, D) to (B, T, 2H)."""
    order = torch.argsort(mask.logical_not().to(torch.uint8), dim=1, stable=True)
    lengths = mask.sum(dim=1).clamp(min=1)
    gathered = vectors.gather(1, order.unsqueeze(-1).expand_as(vectors))
    packed = pack_padded_sequence(gathered, lengths.cpu(), batch_first=True, enforce_sorted=False)
    outputs, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
    restored = torch.zeros_like(outputs).scatter(1, order.unsqueeze(-1).expand_as(outputs), outputs)
    return torch.where(mask.unsqueeze(-1), restored, 0.0)
