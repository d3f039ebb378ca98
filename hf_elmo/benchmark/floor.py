"""The floor under the biLM's time: its matrix products at the rate of one large product in the same rounds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..configuration_elmo import ElmoConfig

MATRIX_SIZE = 2048


def matrix_product(device: torch.device) -> Callable[[], Tensor]:
    """One product of two float32 matrices of 2048 x 2048, large enough for a library's full rate."""
    left, right = torch.randn(2, MATRIX_SIZE, MATRIX_SIZE, device=device).unbind()
    return lambda: left @ right


def count_matrix_product_operations() -> int:
    """Multiplications and additions of `matrix_product`."""
    return 2 * MATRIX_SIZE**3


def count_bilm_operations(config: ElmoConfig, words: int) -> int:
    """Multiplications and additions of the biLM's matrix products over this many real words, padding left out.

    A word passes, in each layer and direction, P x 4H weights from the input, as many from the hidden state before it,
    and H x P of the projection.
    """
    weights = (2 * 4 + 1) * config.projection_size * config.cell_size
    return 2 * weights * config.num_hidden_layers * 2 * words


def floor_seconds(matrix_product_seconds: list[float], operations: int) -> list[float]:
    """What the operations would take at the rate of each round's large product, in seconds."""
    share = operations / count_matrix_product_operations()
    return [share * seconds for seconds in matrix_product_seconds]
