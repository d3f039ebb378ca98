"""Dropout by quick draws: what nn.Dropout does, at the same rate."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from hf_elmo.model.modeling_elmo import ElmoDropout

ONES = torch.ones(3, 100_001)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5, 0.97])
def test_so_many_are_left_out_and_the_others_make_up_for_them(rate):
    dropped = ElmoDropout(rate)(ONES)
    kept = dropped != 0
    # Five deviations of a count of so many draws.
    assert abs(kept.float().mean() - (1 - rate)) < 5 * (rate * (1 - rate) / ONES.numel()) ** 0.5
    torch.testing.assert_close(dropped[kept], torch.full((int(kept.sum()),), 1 / (1 - rate)), rtol=1e-3, atol=0)
    torch.testing.assert_close(dropped.mean(), torch.tensor(1.0), rtol=0.05, atol=0)


def test_no_draw_depends_on_its_neighbours_or_its_place():
    kept = (ElmoDropout(0.5)(torch.ones(400_000)) != 0).float().view(-1, 4)
    # The four that come from one draw, and draws that follow each other.
    together = torch.corrcoef(torch.cat([kept[:-1], kept[1:]], dim=1).T)
    assert (together - torch.eye(8)).abs().max() < 0.02
    assert (kept.mean(dim=0) - 0.5).abs().max() < 0.01


def test_gradients_come_through_what_was_kept():
    inputs = torch.randn(3, 5000, requires_grad=True)
    outputs = ElmoDropout(0.3)(inputs)
    outputs.sum().backward()
    torch.testing.assert_close(inputs.grad * inputs, outputs)
    assert ((inputs.grad == 0) == (outputs == 0)).all()


def test_the_seed_says_what_is_kept_and_a_second_run_of_a_checkpointed_part_keeps_the_same():
    dropout, inputs = ElmoDropout(0.5), torch.randn(2, 4000, requires_grad=True)
    torch.manual_seed(3)
    first = dropout(inputs)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(inputs)) and not torch.equal(first, dropout(inputs))
    outputs = checkpoint(dropout, inputs, use_reentrant=False)
    outputs.sum().backward()
    torch.testing.assert_close(inputs.grad * inputs, outputs)


@pytest.mark.parametrize("dropout", [ElmoDropout(0.5).eval(), ElmoDropout(0.0)])
def test_all_is_kept_in_evaluation_and_without_a_rate(dropout):
    assert torch.equal(dropout(ONES), ONES)


def test_all_is_left_out_at_a_rate_of_one():
    assert not ElmoDropout(1.0)(ONES).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_stay_what_they_are(dtype):
    dropped = ElmoDropout(0.5)(ONES.to(dtype))
    assert dropped.dtype == dtype and set(dropped.unique().tolist()) == {0.0, 2.0}


def test_small_tensors_have_torchs_own():
    torch.manual_seed(0)
    found = ElmoDropout(0.5)(ONES[:, :9])
    torch.manual_seed(0)
    assert torch.equal(found, nn.Dropout(0.5)(ONES[:, :9]))
