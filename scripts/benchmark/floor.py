"""The floors under a model's time: its products at full rate, and the reading of its recurrent weights at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hf_elmo.model.configuration_elmo import ElmoConfig

MATRIX_SIZE = 2048
# A scan comes back to its weights at every step, when the caches hold what they can of them.
READINGS = 8


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


def count_encoder_operations(config: ElmoConfig, words: int) -> int:
    """Multiplications and additions of the token encoder's highway layers and projection over this many distinct words.

    Filters are look-ups and additions, and are left out: a floor without them is one all the same.
    """
    features = sum(count for _, count in config.filters)
    weights = 2 * config.num_highway_layers * features**2 + features * config.projection_size
    return 2 * weights * words


def floor_seconds(matrix_product_seconds: list[float], operations: int) -> list[float]:
    """What the operations would take at the rate of each round's large product, in seconds."""
    share = operations / count_matrix_product_operations()
    return [share * seconds for seconds in matrix_product_seconds]


def read_recurrent_weights(config: ElmoConfig, device: torch.device) -> Callable[[], None]:
    """Some readings of as many float32 numbers as a step of one direction of one layer has to multiply by."""
    numbers = torch.randn(_recurrent_weights(config), device=device)

    def read() -> None:
        for _ in range(READINGS):
            numbers.sum()

    return read


def reading_floor_seconds(
    matrix_product_seconds: Sequence[float], reading_seconds: Sequence[float], config: ElmoConfig, rows: Sequence[int]
) -> list[float]:
    """As `floor_seconds`, where no step takes less than reading its recurrent weights takes.

    With few rows the processor waits for the weights: they do not fit into its own caches and are read at each step.

    Args:
        matrix_product_seconds: Of the large product, one for each round.
        reading_seconds: Of `read_recurrent_weights`, one for each round.
        config: The sizes.
        rows: Sentences that have a word at each step.
    """
    seconds = []
    for product, reading in zip(matrix_product_seconds, reading_seconds, strict=True):
        operation = product / count_matrix_product_operations()
        inputs = 2 * sum(rows) * 4 * config.projection_size * config.cell_size * operation
        steps = sum(max(2 * count * _recurrent_weights(config) * operation, reading / READINGS) for count in rows)
        seconds.append(config.num_hidden_layers * 2 * (inputs + steps))
    return seconds


def _recurrent_weights(config: ElmoConfig) -> int:
    """Weights that wait for the step before, in one direction of one layer: recurrent ones and projection."""
    return (4 + 1) * config.projection_size * config.cell_size
