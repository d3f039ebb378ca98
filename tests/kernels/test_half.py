"""Products of halves: natively or in float32, whichever the processor is good at, with the same rounded weights."""

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from scan_cases import make_weights
from test_scan import build_or_skip
from tolerances import BFLOAT16, FLOAT16

from hf_elmo import ElmoModel, kernels
from hf_elmo.kernels import half
from hf_elmo.kernels.half import native_unavailable_reason, pad_rows, product_dtype, round_rows
from hf_elmo.model.modeling_elmo import run_projected_lstm, scan_projected_lstm

HALVES = [(torch.bfloat16, BFLOAT16), (torch.float16, FLOAT16)]


@pytest.fixture(params=["plain", "compiled"])
def backend(request):
    if request.param == "compiled":
        build_or_skip()
    with kernels.use_backend(request.param):
        yield request.param


WAYS = {"native": None, "float32": "no instructions"}


def choose(monkeypatch, way):
    """Have products of halves run as they are, or in float32 as on a processor without instructions for them."""
    monkeypatch.setattr(half, "native_unavailable_reason", lambda dtype: WAYS[way])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_multiplied_in_float32_where_the_processor_cannot(monkeypatch, dtype):
    assert product_dtype(dtype) == (torch.float32 if native_unavailable_reason(dtype) else dtype)
    choose(monkeypatch, "native")
    assert product_dtype(dtype) == dtype
    choose(monkeypatch, "float32")
    assert product_dtype(dtype) == torch.float32
    assert product_dtype(torch.float32) == torch.float32 and product_dtype(torch.float64) == torch.float64
    # What a GPU multiplies is none of this processor's business.
    assert product_dtype(dtype, "cuda") == dtype


@pytest.mark.parametrize(
    ("machine", "supported", "environment", "reason"),
    [
        ("x86_64", ["_is_amx_tile_supported"], None, None),
        ("x86_64", ["_is_avx512_bf16_supported"], None, None),
        ("AMD64", ["_is_avx512_bf16_supported"], "AVX512_CORE_AMX", None),
        ("x86_64", [], None, "neither AVX512_BF16 nor AMX"),
        ("AMD64", [], None, "neither AVX512_BF16 nor AMX"),
        ("x86_64", ["_is_amx_tile_supported"], "AVX512_CORE", "ONEDNN_MAX_CPU_ISA"),
        ("x86_64", ["_is_amx_tile_supported"], "avx512_core_vnni", "ONEDNN_MAX_CPU_ISA"),
        # Elsewhere oneDNN's word counts.
        ("aarch64", [], None, None),
    ],
)
def test_bfloat16_wants_instructions_of_its_own(monkeypatch, machine, supported, environment, reason):
    monkeypatch.setattr(half, "packing_unavailable_reason", lambda dtype: None)
    monkeypatch.setattr(half.platform, "machine", lambda: machine)
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name in supported, raising=False)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if environment is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", environment)
    found = native_unavailable_reason(torch.bfloat16)
    assert found is None if reason is None else reason in found
    assert kernels.unavailable_reasons().get("bfloat16") == found


def make_scan(dtype, rows):
    inputs = torch.randn(rows, 5, 40).to(dtype)
    mask = torch.arange(5) < torch.randint(1, 6, (rows, 1))
    mask[0] = True
    return inputs, mask, make_weights(40, 70, scale=0.2, dtype=dtype)


@pytest.mark.parametrize("rows", [1, 3, 30])
@pytest.mark.parametrize(("dtype", "tolerance"), HALVES)
@pytest.mark.parametrize("trains", [False, True])
def test_products_in_float32_are_nearer_to_the_exact_ones(backend, dtype, tolerance, rows, trains, monkeypatch):
    inputs, mask, weights = make_scan(dtype, rows)
    leaves = [tensor.requires_grad_(trains) for tensor in (inputs, *weights)]
    exact_leaves = [tensor.detach().double().requires_grad_() for tensor in leaves]
    exact, _ = scan_projected_lstm(exact_leaves[0], mask, type(weights)(*exact_leaves[1:]))
    errors = {}
    for way in WAYS:
        choose(monkeypatch, way)
        outputs, (hidden, cell) = run_projected_lstm(inputs, mask, weights)
        assert {outputs.dtype, hidden.dtype, cell.dtype} == {dtype}
        errors[way] = float((outputs.detach().double() - exact.detach()).square().mean().sqrt())
        assert (outputs.double() - exact).abs().max() < tolerance
        if trains:
            gradients = torch.autograd.grad(outputs.float().mean(), leaves)
            wanted = torch.autograd.grad(exact.mean(), exact_leaves, retain_graph=True)
            for gradient, exact_gradient in zip(gradients, wanted, strict=True):
                assert gradient.dtype == dtype
                torch.testing.assert_close(gradient.double(), exact_gradient, rtol=0, atol=tolerance)
    assert errors["float32"] <= errors["native"]


def ids_of(words: int) -> torch.Tensor:
    ids = torch.full((2, words, 50), 261)
    ids[..., 0], ids[..., 1], ids[..., 2] = 259, torch.randint(1, 257, (2, words)), 260
    return ids


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("trains", [False, True])
def test_models_under_autocast_give_about_the_same_numbers_and_gradients(backend, trains, way, monkeypatch):
    model, ids = ElmoModel(make_tiny_config()).eval(), ids_of(4)
    model.freeze_bilm(not trains)
    wanted = model(ids).last_hidden_state
    choose(monkeypatch, way)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(ids).last_hidden_state
    torch.testing.assert_close(found.float(), wanted, rtol=BFLOAT16, atol=BFLOAT16)
    if trains:
        names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        parameters = [model.get_parameter(name) for name in names]
        both = [torch.autograd.grad(total.float().mean(), parameters) for total in (found, wanted)]
        for name, gradient, exact in zip(names, *both, strict=True):
            torch.testing.assert_close(gradient, exact, rtol=0, atol=BFLOAT16, msg=name)


@given(number=st.integers(0, 10**6))
def test_a_rounded_number_is_little_more_and_stays(number):
    rounded = round_rows(number)
    assert number <= rounded <= number * 17 / 16
    assert round_rows(rounded) == rounded


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_rows_of_halves_alone_are_padded_and_gradients_are_those_of_the_rows(dtype, way, monkeypatch):
    choose(monkeypatch, way)
    rows = torch.randn(1001, 3, dtype=dtype, requires_grad=True)
    padded = pad_rows(rows, dtype, value=7)
    assert len(padded) == (1001 if dtype == torch.float32 or way == "float32" else 1024)
    assert torch.equal(padded[:1001], rows)
    assert (padded[1001:] == 7).all()
    (gradient,) = torch.autograd.grad(padded.float().square().sum(), rows)
    assert torch.equal(gradient, 2 * rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert len(pad_rows(rows, torch.float32)) == (1001 if way == "float32" else 1024)
