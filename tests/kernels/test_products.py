"""Products of halves: where they run natively, and how many rows they have. Their numbers are in test_scan.py."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import kernels
from hf_elmo.kernels import products
from hf_elmo.kernels.products import native_unavailable_reason, pad_rows, product_dtype, round_rows

# What there is to say against native products.
WAYS = {"native": None, "float32": "no instructions"}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Has products of halves run as they are, or in float32 as on a processor without instructions for them."""
    monkeypatch.setattr(products, "native_unavailable_reason", lambda dtype: WAYS[request.param])
    return request.param


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_multiplied_in_float32_where_the_processor_cannot(dtype, way):
    assert product_dtype(dtype) == (torch.float32 if way == "float32" else dtype)
    assert product_dtype(torch.float32) == torch.float32 and product_dtype(torch.float64) == torch.float64
    # What a GPU multiplies is none of this processor's business.
    assert product_dtype(dtype, "cuda") == dtype


@pytest.mark.parametrize(
    ("machine", "supported", "reason"),
    [
        ("x86_64", "_is_amx_tile_supported", None),
        ("AMD64", "_is_avx512_bf16_supported", None),
        ("x86_64", "", "neither AVX512_BF16 nor AMX"),
        # Elsewhere oneDNN's word counts.
        ("aarch64", "", None),
    ],
)
def test_bfloat16_wants_instructions_of_its_own(monkeypatch, machine, supported, reason):
    monkeypatch.setattr(products, "packing_unavailable_reason", lambda dtype: None)
    monkeypatch.setattr(products.platform, "machine", lambda: machine)
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name == supported)
    found = native_unavailable_reason(torch.bfloat16)
    assert found is None if reason is None else reason in found
    assert kernels.unavailable_reasons().get("bfloat16") == found


@given(number=st.integers(0, 10**6))
def test_a_rounded_number_is_little_more_and_stays(number):
    rounded = round_rows(number)
    assert number <= rounded <= number * 17 / 16
    assert round_rows(rounded) == rounded


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_rows_of_halves_alone_are_padded_and_gradients_are_those_of_the_rows(dtype, way):
    rows = torch.randn(1001, 3, dtype=dtype, requires_grad=True)
    padded = pad_rows(rows, dtype, value=7)
    assert len(padded) == (1001 if dtype == torch.float32 or way == "float32" else 1024)
    assert torch.equal(padded[:1001], rows)
    assert (padded[1001:] == 7).all()
    (gradient,) = torch.autograd.grad(padded.float().square().sum(), rows)
    assert torch.equal(gradient, 2 * rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert len(pad_rows(rows, torch.float32)) == (1001 if way == "float32" else 1024)
