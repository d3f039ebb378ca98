"""Words told apart and filters over their characters: the token encoder's own numbers, whatever was done to it."""

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from test_scan import build_or_skip
from tolerances import BFLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn

from hf_elmo import ElmoModel, kernels
from hf_elmo.model.characters_elmo import encode_word

# Of all lengths: markers, one character, as many as a row holds, and more.
WORDS = ["<S>", "</S>", "a", "bc", "déf", "日本語", "x" * 47, "y" * 48, "z" * 60, "word", "a", "bc"]


@pytest.fixture(autouse=True)
def _built():
    build_or_skip()


@pytest.fixture
def rows():
    return torch.tensor([encode_word(word) for word in WORDS])


@pytest.fixture
def ran(monkeypatch):
    """How often the compiled filters ran, instead of returning None."""
    results = []
    original = kernels.filter_maxima

    def count(*arguments):
        found = original(*arguments)
        results.extend([] if found is None else [found])
        return found

    monkeypatch.setattr(kernels, "filter_maxima", count)
    return results


def make_encoder(**overrides):
    return ElmoModel(make_tiny_config(**overrides)).eval().token_encoder


@given(
    filters=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 140)), min_size=1, max_size=4),
    size=st.integers(1, 20),
    words=st.lists(st.text(max_size=12) | st.text(min_size=40, max_size=60), min_size=1, max_size=9),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_maxima_are_those_of_the_convolutions(filters, size, words, dtype):
    torch.manual_seed(0)
    encoder = make_encoder(filters=[list(pair) for pair in filters], character_embedding_size=size).to(dtype)
    rows = torch.tensor([encode_word(word) for word in words])
    with torch.no_grad():
        found = encoder._filter(encoder.character_embedding, rows)
        embedded = encoder.character_embedding(rows).transpose(1, 2)
        wanted = [nn.functional.conv1d(embedded, f.weight, f.bias).amax(dim=2) for f in encoder.convolutions]
    tolerance = 10 * (REORDERED_FLOAT64 if dtype == torch.float64 else REORDERED_FLOAT32)
    torch.testing.assert_close(found, torch.cat(wanted, dim=1), rtol=0, atol=tolerance)


def test_they_follow_every_change_of_the_filters(rows, ran):
    encoder = make_encoder()
    with torch.no_grad():
        for change in (
            lambda: encoder.convolutions[1].weight.data.mul_(-1),
            lambda: encoder.convolutions[0].bias.data.add_(1),
            lambda: encoder.character_embedding.weight.data.mul_(0.5),
        ):
            change()
            found = encoder._filter(encoder.character_embedding, rows)
            with kernels.use_backend("readable"):
                torch.testing.assert_close(
                    found, encoder._filter(encoder.character_embedding, rows), rtol=0, atol=REORDERED_FLOAT32
                )
    assert len(ran) == 3


def test_training_runs_the_modules_themselves(rows, ran):
    encoder = make_encoder().requires_grad_(True)
    encoder(rows).sum().backward()
    assert not ran and all(filters.weight.grad.any() for filters in encoder.convolutions)
    encoder.requires_grad_(False)
    encoder(rows)
    assert len(ran) == 1


class Doubled(nn.Module):
    """What a tool puts in the place of a module, with its parameters."""

    def __init__(self, module):
        super().__init__()
        self.weight, self.bias, self.kernel_size, self.module = module.weight, module.bias, module.kernel_size, module

    def forward(self, inputs):
        return 2 * self.module(inputs)


@torch.no_grad()
def test_wrapped_and_hooked_modules_run_themselves(rows, ran):
    encoder = make_encoder()
    wanted = encoder._filter(encoder.character_embedding, rows)
    handle = encoder.convolutions[2].register_forward_hook(lambda module, inputs, outputs: outputs * 2)
    last = encoder.convolutions[2].out_channels
    hooked = encoder._filter(encoder.character_embedding, rows)
    handle.remove()
    encoder.convolutions[2] = Doubled(encoder.convolutions[2])
    wrapped = encoder._filter(encoder.character_embedding, rows)
    for found in (hooked, wrapped):
        torch.testing.assert_close(found[:, :-last], wanted[:, :-last], rtol=0, atol=REORDERED_FLOAT32)
        torch.testing.assert_close(found[:, -last:], 2 * wanted[:, -last:], rtol=0, atol=REORDERED_FLOAT32)
    assert len(ran) == 1


@pytest.mark.parametrize("way", ["native", "float32"])
def test_halves_run_by_the_filters_only_where_they_are_widened_or_rounded_by_autocast(rows, ran, way):
    encoder = make_encoder()
    with torch.no_grad(), kernels.half_products(way):
        wanted = encoder._filter(encoder.character_embedding, rows)
        ran.clear()
        found = encoder.bfloat16()._filter(encoder.character_embedding, rows)
        with torch.autocast("cpu", torch.bfloat16):
            under_autocast = encoder.float()._filter(encoder.character_embedding, rows)
    assert found.dtype == under_autocast.dtype == torch.bfloat16
    for result in (found, under_autocast):
        torch.testing.assert_close(result.float(), wanted, rtol=BFLOAT16, atol=BFLOAT16)
    assert len(ran) == (2 if way == "float32" else 1)


def test_distinct_rows_are_those_of_torch(rows):
    with torch.no_grad():
        distinct, places = kernels.distinct_rows(rows)
        assert torch.equal(distinct[places], rows)
        assert list(map(tuple, distinct.tolist())) == list(dict.fromkeys(map(tuple, rows.tolist())))
        empty, none = kernels.distinct_rows(rows[:0])
        assert empty.shape == (0, rows.shape[1]) and none.shape == (0,)
        with kernels.use_backend("readable"):
            assert kernels.distinct_rows(rows) is None
    assert kernels.distinct_rows(rows) is None


@pytest.mark.parametrize("number", [1, 5, 48, 49, 130])
@pytest.mark.parametrize("shape", [(7, 512), (130, 1000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_linear_map_of_few_rows(number, shape, dtype):
    x, weight = torch.randn(number, shape[1], dtype=dtype), torch.randn(shape, dtype=dtype) / 30
    bias = torch.randn(shape[0], dtype=dtype)
    with torch.no_grad():
        found = kernels.linear(x, weight, bias)
        assert (found is None) is (number > 48)
        if found is not None:
            torch.testing.assert_close(found, nn.functional.linear(x, weight, bias), rtol=0, atol=3 * REORDERED_FLOAT32)
