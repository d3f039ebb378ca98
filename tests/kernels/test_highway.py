"""The fast highway layer against the equations of the readable one: vectors and gradients, whatever was done to it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_scan import build_or_skip
from tolerances import BFLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn

from hf_elmo import kernels
from hf_elmo.model.modeling_elmo import ElmoHighway


@pytest.fixture(autouse=True)
def _built():
    build_or_skip()


@pytest.fixture
def ran(monkeypatch):
    """What the fast layer gave each time."""
    results = []
    original = kernels.highway

    def note(*arguments):
        results.append(original(*arguments))
        return results[-1]

    monkeypatch.setattr(kernels, "highway", note)
    return results


def make_highway(size, dtype=torch.float32):
    torch.manual_seed(size)
    layer = ElmoHighway(size).to(dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=size**-0.5)
    return layer


def run(layer, x, backend="auto"):
    """The layer's vectors, and its gradients, those of x first."""
    x = x.detach().requires_grad_(True)
    with kernels.use_backend(backend):
        y = layer(x)
        weights = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).sin().to(y).reshape(y.shape)
        return y.detach(), torch.autograd.grad(y, [x, *layer.parameters()], weights)


@given(number=st.integers(1, 130), size=st.integers(1, 150), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_vectors_and_gradients_are_those_of_the_equations(number, size, dtype):
    layer, x = make_highway(size, dtype), torch.randn(number, size, dtype=dtype)
    y, gradients = run(layer, x)
    wanted, wanted_gradients = run(layer, x, "readable")
    tolerance = 100 * (REORDERED_FLOAT64 if dtype == torch.float64 else REORDERED_FLOAT32)
    for found in (y, layer(x).detach(), torch.no_grad()(layer)(x)):
        torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance)
    for found, gradient in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(found, gradient, rtol=0, atol=tolerance)


@pytest.mark.parametrize("number", [1, 2, 20, 48, 49, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_few_rows_in_inference(number, dtype, ran):
    layer, x = make_highway(520, dtype), torch.randn(number, 520, dtype=dtype)
    with torch.inference_mode():
        found = layer(x)
        exact = layer.double()(x.double())
    assert found.dtype == dtype and len(ran) == 2
    torch.testing.assert_close(found.double(), exact, rtol=BFLOAT16, atol=BFLOAT16 if dtype.itemsize == 2 else 1e-5)


@pytest.mark.parametrize("way", ["native", "float32"])
@pytest.mark.parametrize("number", [3, 60])
def test_autocast_rounds_no_more_than_the_modules(way, number, ran):
    # What the filters give under autocast is rounded already.
    layer, x = make_highway(70), torch.randn(number, 70).bfloat16()
    exact, exact_gradients = run(layer, x.float(), "readable")
    errors = {}
    for backend in ("auto", "readable"):
        with torch.autocast("cpu", torch.bfloat16), kernels.half_products(way):
            y, gradients = run(layer, x, backend)
        assert y.dtype == torch.bfloat16 and all(gradient.dtype == torch.float32 for gradient in gradients[1:])
        pairs = zip([y, *gradients], [exact, *exact_gradients], strict=True)
        errors[backend] = [float((found - wanted).norm() / wanted.norm()) for found, wanted in pairs]
    assert sum(result is not None for result in ran) == 1
    assert all(found <= 1.5 * allowed for found, allowed in zip(errors["auto"], errors["readable"], strict=True))


def test_frozen_maps_get_no_gradients_and_the_others_theirs():
    layer, x = make_highway(9), torch.randn(7, 9)
    _, wanted = run(layer, x)
    layer.transform.requires_grad_(False)
    y = layer(x)
    found = torch.autograd.grad(y, list(layer.carry.parameters()), torch.linspace(-1, 1, 63).sin().reshape(7, 9))
    for gradient, wanted_gradient in zip(found, wanted[1:3], strict=True):
        torch.testing.assert_close(gradient, wanted_gradient, rtol=0, atol=10 * REORDERED_FLOAT32)
    layer.carry.requires_grad_(False)
    assert not layer(x).requires_grad


def test_values_that_are_not_numbers_go_through():
    layer, x = make_highway(40), torch.randn(3, 40)
    x[1, 5] = torch.nan
    for found in (layer(x), torch.no_grad()(layer)(x)):
        assert found.isnan().all(dim=1).tolist() == [False, True, False]


class Doubled(nn.Module):
    """What a tool puts in the place of a map."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return 2 * self.module(x)


@torch.no_grad()
def test_wrapped_and_hooked_maps_run_themselves(ran):
    layer, x = make_highway(9), torch.randn(7, 9)
    gate = torch.sigmoid(2 * nn.functional.linear(x, layer.carry.weight, layer.carry.bias))
    transformed = nn.functional.linear(x, layer.transform.weight, layer.transform.bias).relu()
    wanted = gate * transformed + (1 - gate) * x
    handle = layer.carry.register_forward_hook(lambda module, inputs, outputs: 2 * outputs)
    found = [layer(x)]
    handle.remove()
    layer.carry = Doubled(layer.carry)
    found.append(layer(x))
    for vectors in found:
        torch.testing.assert_close(vectors, wanted, rtol=0, atol=10 * REORDERED_FLOAT32)
    assert not ran


def test_other_shapes_than_rows_are_the_modules_own():
    layer, x = make_highway(9), torch.randn(4, 5, 9)
    torch.testing.assert_close(layer(x), layer(x.flatten(0, 1)).reshape(x.shape), rtol=0, atol=10 * REORDERED_FLOAT32)
    assert layer(x[0, :0]).shape == (0, 9)


def test_gradients_of_gradients_are_left_to_the_readable_twin():
    layer, x = make_highway(5, torch.float64), torch.randn(3, 5, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="readable"):
        torch.autograd.grad(layer(x).square().sum(), layer.carry.weight, create_graph=True)
    with kernels.use_backend("readable"):
        gradient = torch.autograd.grad(layer(x).square().sum(), layer.carry.weight, create_graph=True)[0]
        assert torch.autograd.grad(gradient.sum(), layer.carry.weight)[0].any()
