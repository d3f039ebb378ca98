"""Prepared weights: the same products in every layout, and copies that notice a change and never leave the process."""

import copy
import gc
import io
import pickle

import pytest
import torch
from conftest import make_tiny_config
from tolerances import INT8, REORDERED_FLOAT32

from hf_elmo import ElmoModel, kernels
from hf_elmo.kernels import prepared
from hf_elmo.kernels.prepared import (
    DenseWeight,
    Int8Weight,
    PackedWeight,
    TransposedWeight,
    prepare,
    prepare_cached,
    why_not_packed,
)


@pytest.fixture(autouse=True)
def _no_copies():
    kernels.clear_packed()
    yield
    kernels.clear_packed()


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
@pytest.mark.parametrize("kind", [DenseWeight, TransposedWeight, PackedWeight, Int8Weight])
def test_every_layout_gives_the_product(kind, rows):
    if kind is PackedWeight and why_not_packed(torch.float32):
        pytest.skip(why_not_packed(torch.float32))
    weight, x = torch.randn(24, 10) / 4, torch.randn(rows, 10)
    tolerance = INT8 if kind is Int8Weight else REORDERED_FLOAT32
    layout, wanted = kind(weight), x @ weight.t()
    out, total, bias = torch.empty(rows, 24), torch.randn(rows, 24), torch.randn(24)
    layout.multiply(x, out)
    torch.testing.assert_close(out, wanted, rtol=0, atol=tolerance)
    before = total.clone()
    layout.accumulate(x, total)
    torch.testing.assert_close(total, before + wanted, rtol=0, atol=tolerance)
    torch.testing.assert_close(layout.linear(x, bias), wanted + bias, rtol=0, atol=tolerance)
    torch.testing.assert_close(layout.linear(x, None), wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_nothing_is_kept_of_a_view_which_is_another_tensor_at_each_call(monkeypatch, mode):
    kept = []
    monkeypatch.setattr(prepared, "lay_out_cached", lambda *arguments: kept.append(arguments))
    weight = torch.nn.Parameter(torch.randn(5, 4, 2).bfloat16())
    x, bias = torch.randn(60, 8).bfloat16(), torch.zeros(5).bfloat16()
    with kernels.use_backend("plain"), kernels.half_products("float32"), mode():
        found = kernels.linear(x, weight.flatten(1), bias)
    assert kept == [] and torch.equal(found, (x.float() @ weight.detach().float().flatten(1).t()).bfloat16())


def test_a_row_of_zeros_has_a_scale_in_eight_bits():
    weight = torch.randn(4, 6)
    weight[2] = 0
    product = Int8Weight(weight).linear(torch.randn(3, 6), None)
    assert product.isfinite().all() and not product[:, 2].any()


def test_the_layout_suits_size_rows_and_dtype():
    small, large = torch.zeros(512, 16), torch.zeros(4096, 512)
    cpu_packs = why_not_packed(torch.float32) is None
    assert type(prepare(small, torch.float32, 8)) is TransposedWeight
    assert type(prepare(large, torch.float32, 8)) is (PackedWeight if cpu_packs else DenseWeight)
    # One row reads the weight once in any layout, and many rows pack it once by themselves.
    assert type(prepare(large, torch.float32, 1)) is DenseWeight
    assert type(prepare(large, torch.float32, 1000)) is DenseWeight
    assert type(prepare(large.t(), torch.float32, 8)) is DenseWeight
    assert type(prepare(small, torch.float64, 8)) is DenseWeight
    assert type(prepare(small, torch.float32, 8, int8=True)) is Int8Weight


def test_without_onednn_the_weight_is_taken_as_it_is(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert "oneDNN" in why_not_packed(torch.float32)
    assert "oneDNN" in kernels.why_not()["packed"]
    assert type(prepare(torch.zeros(4096, 512), torch.float32, 8)) is DenseWeight


CHANGES = {
    "optimizer": lambda weight: torch.optim.SGD([weight], lr=1.0).step(),
    "in place": lambda weight: weight.add_(1),
    "one number in place": lambda weight: weight[3, 4].fill_(7),
    "past the counter": lambda weight: weight.data.copy_(weight.data + 1),
    "another storage": lambda weight: setattr(weight, "data", weight.data + 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_copy_is_made_anew_when_its_weight_changes(change):
    weight = torch.nn.Parameter(torch.randn(64, 10))
    x = torch.randn(3, 10)
    first = prepare_cached(weight, torch.float32, 3)
    assert prepare_cached(weight, torch.float32, 3) is first
    weight.grad = torch.ones_like(weight)
    with torch.no_grad():
        change(weight)
        found = prepare_cached(weight, torch.float32, 3).linear(x, None)
        torch.testing.assert_close(found, x @ weight.t(), rtol=0, atol=10 * REORDERED_FLOAT32)


def test_copies_go_with_their_weight_and_are_counted():
    weight = torch.nn.Parameter(torch.randn(64, 10))
    prepare_cached(weight, torch.float32, 3)
    assert kernels.packed_bytes() == 64 * 10 * 4
    prepare_cached(weight, torch.float32, 3, int8=True)
    assert kernels.packed_bytes() == 64 * 10 * 5
    kernels.clear_packed()
    assert kernels.packed_bytes() == 0
    prepare_cached(weight, torch.float32, 3)
    del weight
    gc.collect()
    assert kernels.packed_bytes() == 0


def test_an_inference_tensor_can_be_prepared():
    with torch.inference_mode():
        weight = torch.randn(64, 10)
        x = torch.randn(2, 10)
        for _ in range(2):
            assert torch.equal(prepare_cached(weight, torch.float32, 2).linear(x, None), x @ weight.t().contiguous())


@torch.no_grad()
def run(model, ids):
    return model(ids).last_hidden_state


def make_model_and_ids() -> tuple[ElmoModel, torch.Tensor]:
    model = ElmoModel(make_tiny_config()).eval()
    # More sentences than the compiled steps multiply by weights as they lie, which takes no copy.
    ids = torch.full((10, 3, 50), 261)
    ids[..., 0], ids[..., 1], ids[..., 2] = 259, torch.randint(1, 257, (10, 3)), 260
    return model, ids


def test_models_keep_no_copy_of_their_own():
    model, ids = make_model_and_ids()
    names, size = set(model.state_dict()), len(pickle.dumps(model))
    wanted = run(model, ids)
    assert kernels.packed_bytes() > 0
    assert set(model.state_dict()) == names
    assert abs(len(pickle.dumps(model)) - size) < 100
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    for again in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(buffer, weights_only=False),
        model.share_memory(),
    ):
        assert torch.equal(run(again, ids), wanted)


def test_models_follow_every_change_of_their_weights():
    model, ids = make_model_and_ids()
    other = ElmoModel(make_tiny_config()).eval()
    wanted, start = run(other, ids), run(model, ids)
    model.load_state_dict(other.state_dict())
    torch.testing.assert_close(run(model, ids), wanted, rtol=0, atol=REORDERED_FLOAT32)
    in_double = run(model.double(), ids)
    assert in_double.dtype == torch.float64
    torch.testing.assert_close(in_double.float(), wanted, rtol=0, atol=REORDERED_FLOAT32)
    torch.testing.assert_close(run(model.float(), ids), wanted, rtol=0, atol=REORDERED_FLOAT32)
    model.train()
    model.freeze_bilm(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model(ids).last_hidden_state.sum().backward()
    optimizer.step()
    model.eval()
    with kernels.use_backend("readable"):
        wanted = run(model, ids)
    assert (wanted - start).abs().max() > REORDERED_FLOAT32
    torch.testing.assert_close(run(model, ids), wanted, rtol=0, atol=REORDERED_FLOAT32)
