"""Numbers of rows are rounded up to few, by little, and nothing that is read changes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.kernels import half_products, pad_rows, round_rows, use_backend


@given(number=st.integers(0, 10**6))
def test_a_rounded_number_is_little_more_and_stays(number):
    rounded = round_rows(number)
    assert number <= rounded <= number * 17 / 16
    assert round_rows(rounded) == rounded


@given(start=st.integers(5, 20))
def test_there_are_sixteen_numbers_between_two_powers_of_two(start):
    assert len({round_rows(number) for number in range(2**start + 1, 2 ** (start + 1) + 1, 2 ** (start - 5))}) == 16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_rows_of_halves_alone_are_padded_and_gradients_are_those_of_the_rows(dtype):
    rows = torch.randn(1001, 3, dtype=dtype, requires_grad=True)
    with half_products("native"):
        padded = pad_rows(rows, dtype, value=7)
    assert len(padded) == (1001 if dtype == torch.float32 else 1024)
    assert torch.equal(padded[:1001], rows)
    assert (padded[1001:] == 7).all()
    (gradient,) = torch.autograd.grad(padded.float().square().sum(), rows)
    assert torch.equal(gradient, 2 * rows)


def test_where_halves_are_widened_or_read_as_they_are_written_rows_stay_as_they_are():
    rows = torch.ones(1001, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with half_products("float32"):
            assert pad_rows(rows, torch.float32) is rows
        with half_products("native"), use_backend("readable"):
            assert pad_rows(rows, torch.float32) is rows
        with half_products("native"):
            assert len(pad_rows(rows, torch.float32)) == 1024
