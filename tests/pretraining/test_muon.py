"""Muon takes torch's steps for each map of a matrix, and AdamW those of the rest."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tolerances import BFLOAT16

from hf_elmo.pretraining.muon import MuonWithAdamW, orthogonalize


def draw_gradients(parameters, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has its own Muon from 2.9 on")
def test_each_map_of_a_matrix_takes_the_steps_that_it_would_take_alone():
    torch.manual_seed(0)
    matrix, bias = torch.nn.Parameter(torch.randn(16, 6)), torch.nn.Parameter(torch.randn(6))
    maps = [torch.nn.Parameter(part.clone()) for part in matrix.detach().chunk(4)]
    alone = torch.nn.Parameter(bias.detach().clone())
    optimizer = MuonWithAdamW(
        [
            {"params": [matrix], "lr": 0.1, "weight_decay": 0.2, "num_maps": 4},
            {"params": [bias], "lr": 0.3, "weight_decay": 0.0},
        ],
        learning_rate=1.0,
        adam_beta2=0.9,
    )
    muon = torch.optim.Muon(maps, lr=0.1, weight_decay=0.2, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW([alone], lr=0.3, betas=(0.9, 0.9), weight_decay=0.0, fused=True)
    for step in range(3):
        draw_gradients([matrix, bias], step)
        for part, gradient in zip(maps, matrix.grad.chunk(4), strict=True):
            part.grad = gradient.clone()
        alone.grad = bias.grad.clone()
        for each in (optimizer, muon, adamw):
            each.step()
    # Three steps of about 0.02 in each number; torch rounds its products to bfloat16 on every processor.
    torch.testing.assert_close(matrix, torch.cat(list(maps)), rtol=0, atol=0.06 * BFLOAT16)
    assert torch.equal(bias, alone)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(0, 40)),
    spread=st.floats(0, 2),
    seed=st.integers(0, 999),
)
def test_singular_values_become_alike_and_vectors_stay(shape, spread, seed):
    number, rows, more = shape
    generator = torch.Generator().manual_seed(seed)
    left = torch.linalg.qr(torch.randn(number, rows, rows, generator=generator))[0]
    right = torch.linalg.qr(torch.randn(number, rows + more, rows, generator=generator))[0].mT
    matrices = left @ torch.diag(torch.logspace(0, -spread, rows)) @ right
    found = orthogonalize(matrices)
    torch.testing.assert_close(orthogonalize(matrices.mT), found.mT, rtol=0, atol=1e-4)
    kept = left.mT @ found @ right.mT
    values = torch.diagonal(kept, dim1=1, dim2=2)
    assert values.min() > 0.5 and values.max() < 1.5
    torch.testing.assert_close(kept, torch.diag_embed(values), rtol=0, atol=1e-3)


def test_parameters_without_a_gradient_rest():
    matrix, other = (torch.nn.Parameter(torch.ones(4, 2)) for _ in range(2))
    optimizer = MuonWithAdamW([{"params": [matrix, other], "weight_decay": 0.1, "num_maps": 1}], 0.1)
    draw_gradients([matrix], 0)
    optimizer.step()
    assert torch.equal(other, torch.ones(4, 2)) and not torch.equal(matrix, other)
    assert list(optimizer.state) == [matrix]
