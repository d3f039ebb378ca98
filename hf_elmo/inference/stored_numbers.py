"""Vectors in the precision that they are stored in, and how far that is from what was computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

StorageDtype = Literal["float32", "float16", "int8"]
STORAGE_DTYPES = ("float32", "float16", "int8")
_MOST_INT8 = 127


@dataclass(frozen=True)
class StoredNumbers:
    """Vectors as they are stored.

    Args:
        values: (rows, D), in float32, float16 or int8.
        scales: What the whole numbers of each row are multiplied with, (rows,), float32; None where they are not int8.
    """

    values: np.ndarray
    scales: np.ndarray | None = None

    def restore(self) -> np.ndarray:
        """The vectors as a reader has them, (rows, D), float32."""
        values = self.values.astype(np.float32)
        return values if self.scales is None else values * self.scales[:, None]


def store_numbers(vectors: np.ndarray, dtype: StorageDtype) -> StoredNumbers:
    """Round vectors, (rows, D), to what is stored; with int8 each row has the scale that its largest number asks for.

    Raises: FloatingPointError where a number is too large for float16.
    """
    if dtype != "int8":
        with np.errstate(over="raise"):
            return StoredNumbers(vectors.astype(dtype, copy=False))
    largest = np.abs(vectors).max(axis=1, initial=0)
    scales = (largest / _MOST_INT8).astype(np.float32)
    # A row of zeros, or of numbers whose scale float32 cannot hold, stays zeros.
    steps = np.where(scales > 0, scales, np.inf).astype(np.float32)
    return StoredNumbers(np.rint(vectors / steps[:, None]).clip(-_MOST_INT8, _MOST_INT8).astype(np.int8), scales)


@dataclass
class StorageError:
    """What rounding cost, measured on every number that was stored.

    Args:
        squared_error: Sum of the squared differences.
        squared_norm: Sum of the squared numbers.
        largest: The largest difference.
    """

    squared_error: float = 0.0
    squared_norm: float = 0.0
    largest: float = 0.0

    def measure(self, vectors: np.ndarray, stored: StoredNumbers) -> None:
        """Add what lies between some vectors and what is stored of them."""
        difference = (vectors - stored.restore()).ravel()
        self.squared_error += float(np.dot(difference, difference))
        self.squared_norm += float(np.dot(vectors.ravel(), vectors.ravel()))
        self.largest = max(self.largest, float(np.abs(difference).max(initial=0)))

    def __add__(self, other: StorageError) -> StorageError:
        return StorageError(
            self.squared_error + other.squared_error,
            self.squared_norm + other.squared_norm,
            max(self.largest, other.largest),
        )

    @property
    def relative(self) -> float:
        """The root of the mean squared difference, as a share of that of the numbers."""
        return math.sqrt(self.squared_error / self.squared_norm) if self.squared_norm else 0.0
