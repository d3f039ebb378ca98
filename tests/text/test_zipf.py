"""Zipf's law: a distribution over the vocabulary that falls as one over the place."""

import pytest
import torch
from tolerances import REORDERED_FLOAT32

from hf_elmo.text.zipf import log_uniform_probabilities


@pytest.mark.parametrize("size", [1, 2, 50, 100_000])
def test_all_words_together_have_one_and_shares_fall_with_the_place(size):
    shares = log_uniform_probabilities(torch.arange(size), size, torch.float64)
    assert shares.sum().item() == pytest.approx(1, abs=REORDERED_FLOAT32)
    assert (shares.diff() < 0).all()
    ratio = shares[size // 2] * (size // 2 + 1.5) / (shares[size - 1] * (size + 0.5))
    assert ratio.item() == pytest.approx(1, rel=0.1)
