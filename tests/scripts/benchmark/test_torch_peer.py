"""torch's own LSTMs are the same biLM, padded or packed, where nothing is clipped."""

import pytest
import torch
from benchmark.cases import train_bilm
from benchmark.torch_peer import TorchBiLM
from conftest import make_tiny_config
from tolerances import REORDERED_FLOAT32

from hf_elmo import ElmoModel


@pytest.fixture
def unclipped():
    return ElmoModel(make_tiny_config(cell_clip=None, projection_clip=None, dropout=0.0, freeze_bilm=False))


@pytest.mark.parametrize("packed", [False, True])
def test_real_words_have_the_same_vectors(unclipped, packed):
    vectors = torch.randn(3, 5, 6)
    mask = torch.arange(5) < torch.tensor([[5], [2], [4]])
    with torch.no_grad():
        wanted = torch.cat(unclipped.bilm(vectors, vectors, mask)[0][-1], dim=-1)
        found = TorchBiLM(unclipped)(vectors, mask, packed)
    torch.testing.assert_close(found[mask], wanted[mask], rtol=0, atol=REORDERED_FLOAT32)


def test_gradients_come_in_our_order(unclipped):
    vectors, coefficients = torch.randn(2, 4, 6, requires_grad=True), torch.randn(2, 4, 12)
    wanted = train_bilm(unclipped.bilm, vectors, coefficients)
    found = TorchBiLM(unclipped).train_step(vectors, coefficients)
    assert len(found) == len(wanted) == 1 + 4 * 4
    for first, second in zip(found, wanted, strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=10 * REORDERED_FLOAT32)
