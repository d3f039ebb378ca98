"""Zipf's law in its log-uniform form: the shares of words that stand by falling frequency, from their places alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def log_uniform_probabilities(ids: Tensor, vocab_size: int, dtype: torch.dtype) -> Tensor:
    """log((k + 2) / (k + 1)) / log(V + 1) for each word k, in the shape of `ids`; all V words together have 1.

    That is by what bilm-tf draws the negatives of its sampled softmax (TensorFlow's log-uniform candidate sampler).

    Args:
        ids: Places k of the words in the vocabulary, from 0.
        vocab_size: Number V of its words.
        dtype: Of the probabilities.
    """
    return torch.log1p(1 / (ids.to(dtype) + 1)) / math.log1p(vocab_size)
