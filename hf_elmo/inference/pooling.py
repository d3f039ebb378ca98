"""One vector for a sentence out of those of its words."""

from __future__ import annotations

import numpy as np

POOLINGS = ("none", "mean", "max", "first-last")


def pool_words(vectors: np.ndarray, pooling: str) -> np.ndarray:
    """Pool the vectors of a sentence's words; there is no padding among them.

    Args:
        vectors: (..., words, D): of one layer, or of several.
        pooling: "mean" or "max", number by number; "first-last" for what each direction has read of the whole sentence:
            the forward half of the last word's vector and the backward half of the first word's; "none" for the
            vectors as they are.
    Returns: (..., D), zeros for a sentence without words; with "none" (..., words, D).
    Raises: ValueError for another pooling.
    """
    if pooling not in POOLINGS:
        raise ValueError(f"pooling is {pooling!r}; it must be one of {list(POOLINGS)}.")
    if pooling == "none":
        return vectors
    if not vectors.shape[-2]:
        return np.zeros((*vectors.shape[:-2], vectors.shape[-1]), vectors.dtype)
    if pooling == "mean":
        return vectors.mean(axis=-2)
    if pooling == "max":
        return vectors.max(axis=-2)
    half = vectors.shape[-1] // 2
    return np.concatenate([vectors[..., -1, :half], vectors[..., 0, half:]], axis=-1)
