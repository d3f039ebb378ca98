"""The matrix products of a training step of the sampled softmax, by shape, and the time that they take alone.

Letters in shapes: N distinct words, F filters, B lanes, T words, P projection, H cell, M targets, S negatives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch

from hf_elmo.model.configuration_elmo import ElmoConfig


@dataclass(frozen=True)
class Product:
    """So many products, one after the other, of a matrix (rows, inner) by a matrix (inner, columns)."""

    rows: int
    inner: int
    columns: int
    count: int = 1

    @property
    def operations(self) -> int:
        """Multiplications and additions of all."""
        return 2 * self.rows * self.inner * self.columns * self.count


def encoder_products(config: ElmoConfig, words: int) -> list[Product]:
    """Highway layers and projection of N words, forward and backward; filters over characters are no products here."""
    filters = sum(count for _, count in config.filters)
    highways = 2 * config.num_highway_layers
    return [*_linear(words, filters, filters, highways), *_linear(words, filters, config.projection_size)]


def bilm_products(config: ElmoConfig, lanes: int, steps: int) -> list[Product]:
    """Both directions of all layers: what is known before the steps in one product, the recurrence step by step."""
    size, cell, scans = config.projection_size, config.cell_size, 2 * config.num_hidden_layers
    return [
        # The inputs' share of the gates, its gradient by the inputs, and the gradients of the weights.
        *_linear(lanes * steps, size, 4 * cell, scans),
        Product(4 * cell, lanes * steps, size, scans),
        Product(size, lanes * steps, cell, scans),
        # Gates from the hidden state and projections to it, then their gradients.
        Product(lanes, size, 4 * cell, scans * steps),
        Product(lanes, cell, size, scans * steps),
        Product(lanes, size, cell, scans * steps),
        Product(lanes, 4 * cell, size, scans * steps),
    ]


def softmax_products(config: ElmoConfig, targets: int, negatives: int) -> list[Product]:
    """Both directions' logits of M targets over S negatives, forward and backward."""
    return _linear(targets, config.projection_size, negatives, 2)


def run_alone(products: list[Product], dtype: torch.dtype) -> Callable[[], None]:
    """A function that runs products of random matrices, their results written into memory that is there."""
    factors = [
        (
            torch.randn(product.rows, product.inner).to(dtype),
            torch.randn(product.inner, product.columns).to(dtype),
            torch.empty(product.rows, product.columns, dtype=dtype),
        )
        for product in products
    ]

    def run() -> None:
        for product, (left, right, result) in zip(products, factors, strict=True):
            for _ in itertools.repeat(None, product.count):
                torch.mm(left, right, out=result)

    return run


def _linear(rows: int, inputs: int, outputs: int, count: int = 1) -> list[Product]:
    """A linear map of so many rows, its gradient by the inputs, and its gradient by the weights."""
    return [
        Product(rows, inputs, outputs, count),
        Product(rows, outputs, inputs, count),
        Product(outputs, rows, inputs, count),
    ]
