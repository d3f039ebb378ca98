"""Weighted products of pairs: the fast twin gives the definition's numbers, and its gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tolerances import REORDERED_FLOAT64

from hf_elmo.model.modeling_elmo_coref import weigh_pairs, weigh_pairs_in_blocks


def draw(count, size=5, hidden=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(rows, size, generator=generator, dtype=dtype).requires_grad_() for rows in (count, hidden)]


def test_the_definition_is_the_product_of_each_with_the_ones_before_it():
    vectors, weight = draw(4)
    products = weigh_pairs(vectors, weight, 2)
    assert products.shape == (4, 2, 3)
    torch.testing.assert_close(products[3, 0], weight @ (vectors[3] * vectors[2]))
    torch.testing.assert_close(products[3, 1], weight @ (vectors[3] * vectors[1]))
    assert not products[0].any() and not products[1, 1].any()


@given(count=st.integers(1, 50), width=st.integers(0, 60))
def test_blocks_give_the_definitions_numbers_and_gradients(count, width):
    inputs = draw(count)
    wanted, found = (run(*inputs, width) for run in (weigh_pairs, weigh_pairs_in_blocks))
    torch.testing.assert_close(found, wanted, rtol=0, atol=REORDERED_FLOAT64)
    given_back = torch.randn(wanted.shape, dtype=wanted.dtype)
    for ours, theirs in zip(
        *(torch.autograd.grad(products, inputs, given_back) for products in (found, wanted)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=100 * REORDERED_FLOAT64)


def test_gradients_are_those_of_small_differences():
    assert torch.autograd.gradcheck(lambda *inputs: weigh_pairs_in_blocks(*inputs, 4), draw(19, size=3, hidden=2))


def test_autocast_multiplies_in_its_precision():
    vectors, weight = draw(20, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = weigh_pairs_in_blocks(vectors, weight, 6)
    found.sum().backward()
    assert found.dtype == torch.bfloat16 and vectors.grad.dtype == weight.grad.dtype == torch.float32
    torch.testing.assert_close(found.float(), weigh_pairs(vectors, weight, 6), rtol=0.05, atol=0.1)


def test_the_definition_runs_where_pytorch_traces():
    vectors, weight = draw(9, dtype=torch.float32)
    exported = torch.export.export(Weighing(), (vectors.detach(), weight.detach()))
    torch.testing.assert_close(exported.module()(vectors, weight), weigh_pairs(vectors, weight, 4))


class Weighing(torch.nn.Module):
    def forward(self, vectors, weight):
        return weigh_pairs_in_blocks(vectors, weight, 4)


@pytest.mark.parametrize("count", [1, 40])
def test_memory_has_no_vector_for_each_pair(count):
    vectors, weight = draw(count, size=64)
    with torch.profiler.profile(profile_memory=True) as profile:
        weigh_pairs_in_blocks(vectors, weight, 30)
    largest = max(event.nbytes() for event in profile.profiler.kineto_results.events() if event.name() == "[memory]")
    # That of sixteen vectors' own weights; pairs would take 40 x 30 x 64.
    assert largest <= max(16 * 3 * 64, count * 30 * 3) * 8
