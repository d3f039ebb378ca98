"""The products of pairs of vectors that lie near each other, weighted: by their definition, and a fast twin.

Letters in shapes: K vectors in a row, S numbers of each, A of them before one that it is paired with, H weights of a
pair, R vectors of a block, C of those before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .tracing_elmo import is_traced

# Vectors of a block: each has its own weights in memory, H times S of them.
_ROWS_AT_A_TIME = 16


def weigh_pairs(vectors: Tensor, weight: Tensor, width: int) -> Tensor:
    """W (g_i * g_j) for each vector g_i and the ones before it, j = i - 1 down to i - A.

    Args:
        vectors: (K, S).
        weight: W, (H, S).
        width: A, how many before it each is paired with.
    Returns: At [i, a] that of g_i and g_j with j = i - 1 - a, zero where there is none, (K, A, H).
    """
    others = _ones_before(torch.arange(len(vectors), device=vectors.device), width)
    products = F.linear(vectors.unsqueeze(1) * vectors[others.clamp(min=0)], weight)
    return products.masked_fill((others < 0).unsqueeze(-1), 0)


def weigh_pairs_in_blocks(vectors: Tensor, weight: Tensor, width: int) -> Tensor:
    """As `weigh_pairs`, without a vector of S numbers for each pair.

    W (g_i * g_j) is (W * g_i) g_j: each g_i makes weights of its own, and one product of those of some neighbours with
    all vectors before them has their pairs in it. Gradients are written out and have none themselves; while PyTorch
    traces, the definition runs.
    """
    if is_traced():
        return weigh_pairs(vectors, weight, width)
    device = vectors.device.type
    if torch.is_autocast_enabled(device):
        vectors, weight = (tensor.to(torch.get_autocast_dtype(device)) for tensor in (vectors, weight))
    return cast("Tensor", _PairsInBlocks.apply(vectors, weight, width))


class _Block(NamedTuple):
    """Neighbours, and where their pairs are in the product of all vectors before them with their own weights."""

    rows: slice
    columns: slice
    places: Tensor  # rows of (C R, H), (R, A)
    is_pair: Tensor  # (R, A)


class _PairsInBlocks(torch.autograd.Function):
    """The fast twin: a product for each block, and two on the way back."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor, width: int) -> Tensor:
        found = vectors.new_zeros(len(vectors), width, len(weight))
        with torch.autocast(vectors.device.type, enabled=False):
            for block in _blocks(vectors, width):
                own = _weights_of(vectors[block.rows], weight)
                products = (vectors[block.columns] @ own.t()).view(-1, len(weight))
                found[block.rows][block.is_pair] = products[block.places[block.is_pair]]
        ctx.save_for_backward(vectors, weight)
        ctx.width = width
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_found: Tensor) -> tuple[Tensor, Tensor, None]:
        vectors, weight = ctx.saved_tensors
        grad_vectors, grad_weight = torch.zeros_like(vectors), torch.zeros_like(weight)
        with torch.autocast(vectors.device.type, enabled=False):
            for block in _blocks(vectors, ctx.width):
                rows, columns = vectors[block.rows], vectors[block.columns]
                own = _weights_of(rows, weight)
                grad_products = vectors.new_zeros(len(columns) * len(rows), len(weight))
                grad_products[block.places[block.is_pair]] = grad_found[block.rows][block.is_pair]
                grad_products = grad_products.view(len(columns), len(own))
                grad_vectors[block.columns].addmm_(grad_products, own)
                grad_own = (grad_products.t() @ columns).view(len(rows), *weight.shape)
                grad_vectors[block.rows] += (grad_own * weight).sum(dim=1)
                grad_weight += grad_own.mul_(rows.unsqueeze(1)).sum(dim=0)
        return grad_vectors, grad_weight, None


def _blocks(vectors: Tensor, width: int) -> Iterator[_Block]:
    for rows in torch.arange(len(vectors), device=vectors.device).split(_ROWS_AT_A_TIME):
        start, stop = int(rows[0]), int(rows[0]) + len(rows)
        first = max(0, start - width)
        others = _ones_before(rows, width)
        places = (others - first) * len(rows) + (rows - start).unsqueeze(1)
        yield _Block(slice(start, stop), slice(first, stop - 1), places, others >= 0)


def _weights_of(rows: Tensor, weight: Tensor) -> Tensor:
    """The weights that each vector makes for those before it, (R H, S)."""
    return (rows.unsqueeze(1) * weight).view(-1, weight.shape[1])


def _ones_before(numbers: Tensor, width: int) -> Tensor:
    """The numbers of the ones before each, the nearest first; negative where there is none, (R, A)."""
    return numbers.unsqueeze(1) - 1 - torch.arange(width, device=numbers.device)
