"""What a token encoder does before its highway layers, at speed: words told apart, and filters over their characters.

Both are for the CPU. Letters in shapes: N words, U distinct ones, C characters per word, D character embedding, V
characters of the vocabulary, W width of a filter, F filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from . import library
from .backends import get_backend, takes
from .gradients import refuse_create_graph
from .words import keys_of

# The numbers of windows are kept in a byte.
_MOST_CHARACTERS = 256


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """As `torch.unique(rows, dim=0, return_inverse=True)`, rows (U, C) in the order of their first appearance.

    Torch's own compares rows as it sorts them, by a call for each two of them.

    Returns: The distinct rows and the place among them of each row, (N,); None where torch's own is to be taken: on a
        GPU, and while somebody traces.
    """
    if rows.device.type != "cpu" or get_backend() == "readable" or not takes(rows):
        return None
    known: dict[bytes, int] = {}
    places: list[int] = []
    firsts: list[int] = []
    for place, key in enumerate(keys_of(rows)):
        number = known.setdefault(key, len(known))
        if number == len(firsts):
            firsts.append(place)
        places.append(number)
    return rows[torch.tensor(firsts, dtype=torch.long)], torch.tensor(places, dtype=torch.long)


def filter_maxima(
    rows: Tensor,
    padding: int,
    embedding: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    padding_idx: int | None = None,
) -> Tensor | None:
    """The maximum of each filter over each word's windows, (N, F), all widths side by side.

    Windows behind the first that holds nothing but padding are like it, and are left out. Of windows that are equal the
    first gets the gradient. The products are in float32 at least.

    Args:
        rows: Character ids, (N, C), N at least 1.
        padding: The character that fills a row behind its word.
        embedding: Vectors of characters, (V, D).
        weights, biases: For each width, (F, D, W) and (F,).
        padding_idx: A character whose vector gets no gradient.
    Returns: None where the compiled library is not there or not wanted, on a GPU, and while somebody traces.
    Raises: IndexError where a row holds a number that is no character.
    """
    tensors = (embedding, *weights, *biases)
    if get_backend() not in ("auto", "compiled", "int8") or not takes(rows, *tensors):
        return None
    if rows.device.type != "cpu" or rows.shape[1] > _MOST_CHARACTERS:
        return None
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else embedding.dtype
    # Few numbers for each character, summed up by look-ups: no product of halves would be faster.
    wide = torch.promote_types(embedding.dtype, torch.float32)
    if wide not in (torch.float32, torch.float64) or not library.is_ready():
        return None
    rows = rows.long().contiguous()
    embedding, *filters = (tensor.to(wide).contiguous() for tensor in tensors)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        found = cast("Tensor", _FilterMaxima.apply(rows, padding, padding_idx, embedding, *filters))
    else:
        found, _ = torch.ops.hf_elmo_kernels.filter_maxima(rows, padding, embedding, *_halves(filters), False)
    return found.to(dtype)


class _FilterMaxima(torch.autograd.Function):
    """The compiled operator and its gradients."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, padding: int, padding_idx: int | None, embedding: Tensor, *filters: Tensor
    ) -> Tensor:
        found, winners = torch.ops.hf_elmo_kernels.filter_maxima(rows, padding, embedding, *_halves(filters), True)
        ctx.padding, ctx.padding_idx = padding, padding_idx
        ctx.save_for_backward(winners, rows, embedding, *filters)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        refuse_create_graph("the fast filters")
        winners, rows, embedding, *filters = ctx.saved_tensors
        found = torch.ops.hf_elmo_kernels.filter_maxima_back(
            gradient.contiguous(), winners, rows, ctx.padding, embedding, *_halves(filters)
        )
        if ctx.padding_idx is not None:
            found[0][ctx.padding_idx] = 0
        return None, None, None, *found


def _halves(filters: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The weights and the biases of a list of both."""
    return filters[: len(filters) // 2], filters[len(filters) // 2 :]
