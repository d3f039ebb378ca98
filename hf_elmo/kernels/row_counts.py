"""Few numbers of rows for products of halves: each new one costs oneDNN time for new code, and memory that it keeps.

The words of a batch and the targets of a window are as many as the text has it, a new number nearly every time. With
rows of no meaning behind them there are sixteen numbers between a power of two and the next, at most 6 % more rows.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .backends import get_backend, takes
from .half_precision import HALVES, product_dtype

# Numbers of rows between a power of two and the next: five bits of a number are kept, and the rest rounded up.
_KEPT_BITS = 5


def round_rows(number: int) -> int:
    """The least of the few numbers of rows that is not below `number`; up to 32 each is one."""
    step = 1 << max(0, (number - 1).bit_length() - _KEPT_BITS)
    return -(-number // step) * step


def pad_rows(rows: Tensor, dtype: torch.dtype, value: float = 0) -> Tensor:
    """`rows` (N, I) with others behind them, so that products on the CPU meet few shapes; the same rows in float32.

    Args:
        rows: What the factors of products are made from, or those themselves.
        dtype: The dtype of the products' factors where autocast is off.
        value: What the others are full of.
    """
    if rows.device.type != "cpu" or get_backend() == "readable" or not takes(rows):
        return rows
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else dtype
    missing = round_rows(len(rows)) - len(rows)
    return F.pad(rows, (0, 0, 0, missing), value=value) if missing and product_dtype(dtype) in HALVES else rows
