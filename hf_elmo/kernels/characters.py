"""What a token encoder does before its highway layers, at speed: words told apart, and filters over their characters.

Both are for inference on the CPU. Letters in shapes: N words, U distinct ones, C characters per word, D character
embedding, W width of a filter, F filters.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from . import library
from .backends import get_backend, takes
from .half_precision import product_dtype
from .prepared import lay_out_cached
from .words import keys_of

# Filters of one width get so many columns, or a multiple: as many as the longest vectors have numbers.
_COLUMNS = 16


class FilterColumns:
    """Filters (F, D, W) of one width, one row for each number of a window, (W D, F), zeros up to whole vectors."""

    def __init__(self, weight: Tensor):
        num_filters, size, width = weight.shape
        self.weight = weight
        self.columns = weight.new_zeros(width * size, -(-num_filters // _COLUMNS) * _COLUMNS)
        self.columns[:, :num_filters] = weight.permute(2, 1, 0).reshape(-1, num_filters)
        self.nbytes = self.columns.nbytes


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """As `torch.unique(rows, dim=0, return_inverse=True)`, rows (U, C) in the order of their first appearance.

    Returns: The distinct rows and the place among them of each row, (N,); None where torch's own is to be taken: in
        training, on a GPU, and while somebody traces.
    """
    if torch.is_grad_enabled() or rows.device.type != "cpu" or get_backend() == "readable" or not takes(rows):
        return None
    known: dict[bytes, int] = {}
    places, firsts = [], []
    for place, key in enumerate(keys_of(rows)):
        number = known.setdefault(key, len(known))
        if number == len(firsts):
            firsts.append(place)
        places.append(number)
    return rows[torch.tensor(firsts, dtype=torch.long)], torch.tensor(places, dtype=torch.long)


def filter_maxima(
    rows: Tensor, lengths: Tensor, embedding: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor | None:
    """The maximum of each filter over each word's windows, (N, F), all widths side by side.

    Windows behind the first that holds nothing but padding are like it, and are left out.

    Args:
        rows: Character ids, (N, C), N at least 1.
        lengths: Characters of each word before its padding, (N,).
        embedding: Vectors of characters, (V, D).
        weights, biases: For each width, (F, D, W) and (F,).
    Returns: None where the compiled library is not there or not wanted, in training, on a GPU, while somebody traces,
        and for half precision where the processor multiplies that itself.
    """
    if get_backend() not in ("auto", "compiled", "int8") or not takes(rows, embedding, *weights, *biases):
        return None
    tensors = (embedding, *weights, *biases)
    if rows.device.type != "cpu" or (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
        return None
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else embedding.dtype
    # Under autocast the filters stay as exact as they are.
    wide = product_dtype(embedding.dtype)
    if wide not in (torch.float32, torch.float64) or not library.is_ready():
        return None
    widths = torch.tensor([weight.shape[2] for weight in weights])
    longest = min(int(lengths.max() + widths.max()), rows.shape[1])
    characters = F.embedding(rows[:, :longest], embedding.detach()).to(wide)
    windows = torch.minimum(lengths + 1, rows.shape[1] + 1 - widths.unsqueeze(1))
    columns = [lay_out_cached(weight, wide, FilterColumns).columns for weight in weights]
    counts = [weight.shape[0] for weight in weights]
    found = torch.ops.hf_elmo_kernels.filter_maxima(characters, windows, columns, counts)
    return (found + torch.cat([bias.detach() for bias in biases]).to(wide)).to(dtype)
