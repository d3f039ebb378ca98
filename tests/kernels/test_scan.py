"""The fast scans against the reference that defines them: outputs, states and gradients, whatever the batch."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import example, given
from scan_cases import (
    assert_same,
    make_batch,
    relative_error,
    results_and_gradients,
    sizes_and_settings,
    with_all_options,
)
from tolerances import BFLOAT16, FLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64

from hf_elmo import kernels
from hf_elmo.kernels import products
from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights, run_projected_lstm, scan_projected_lstm

CLIPS = {"cell_clip": 0.5, "projection_clip": 0.3}
# Relative, of norms; what rounding puts on the other side of a clip is in them.
TOLERANCES = {
    torch.float64: REORDERED_FLOAT64,
    torch.float32: REORDERED_FLOAT32,
    torch.bfloat16: 2 * BFLOAT16,
    torch.float16: 5 * FLOAT16,
}


def build_or_skip():
    """Build the compiled backend: seconds once, found in PyTorch's folder for extensions from then on."""
    try:
        kernels.build()
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=["plain", "compiled"])
def backend(request):
    """The name of each fast backend that runs on every processor."""
    if request.param == "compiled":
        build_or_skip()
    return request.param


def run_by(backend, *arguments, **settings):
    with kernels.use_backend(backend):
        return run_projected_lstm(*arguments, **settings)


def by_backend(backend):
    return lambda *arguments, **settings: run_by(backend, *arguments, **settings)


@with_all_options
@example(sizes=(3, 4, 7, 9), masked="hides all", stateful=True, settings={}, seed=0)
@given(**sizes_and_settings(5, 7, 19, 37))
def test_fast_scans_are_the_reference(backend, sizes, masked, stateful, settings, seed):
    torch.manual_seed(seed)
    vectors, mask, *rest = make_batch(*sizes, masked, stateful)
    batch = (vectors, torch.zeros_like(mask) if masked == "hides all" else mask, *rest)
    wanted, wanted_gradients = results_and_gradients(scan_projected_lstm, *batch, **settings)
    found, gradients = results_and_gradients(by_backend(backend), *batch, **settings)
    assert_same(found, wanted)
    assert_same(gradients, wanted_gradients, 100 * REORDERED_FLOAT64)
    with torch.no_grad():
        outputs, state = run_by(backend, *batch, **settings)
    assert_same([outputs, *state], wanted)


def cast(batch, dtype, is_contiguous=True):
    """A batch in another precision, its weights smaller the more inputs they have, and by columns where asked."""
    vectors, mask, weights, state = batch
    weights = [(weight / vectors.shape[-1] ** 0.5).to(dtype) for weight in weights]
    if not is_contiguous:
        weights = [weight.t().contiguous().t() if weight.ndim == 2 else weight for weight in weights]
    return vectors.to(dtype), mask, ProjectedLSTMWeights(*weights), tuple(part.to(dtype) for part in state)


def widened(batch):
    vectors, mask, weights, state = batch
    return vectors.double(), mask, type(weights)(*(w.double() for w in weights)), tuple(p.double() for p in state)


# Row counts and sizes around those where other products begin.
@pytest.mark.parametrize(
    "sizes", [(1, 6, 37, 150), (8, 4, 127, 40), (9, 4, 128, 40), (48, 2, 264, 1000), (49, 3, 256, 64)]
)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("way", ["native", "float32", "by columns"])
def test_every_precision_is_near_the_exact_numbers(backend, dtype, sizes, way, monkeypatch):
    """Products of halves as they are, or in float32 as on a processor without instructions for them."""
    if way == "float32":
        monkeypatch.setattr(products, "native_unavailable_reason", lambda dtype: "no instructions")
    batch = cast(make_batch(*sizes, masked=True, stateful=True), dtype, way != "by columns")
    wanted, wanted_gradients = results_and_gradients(scan_projected_lstm, *widened(batch), **CLIPS)
    found, gradients = results_and_gradients(by_backend(backend), *batch, **CLIPS)
    with torch.no_grad():
        outputs, state = run_by(backend, *batch, **CLIPS)
    assert {tensor.dtype for tensor in (outputs, *state, *found, *gradients)} == {dtype}
    for one, other in zip([outputs, *state, *found, *gradients], [*wanted, *wanted, *wanted_gradients], strict=True):
        assert relative_error(one.detach(), other.detach()) < TOLERANCES[dtype]


@pytest.mark.parametrize("rows", [3, 60])
def test_under_autocast_what_errors_would_build_up_in_stays_wide(backend, rows):
    batch = cast(make_batch(rows, 5, 38, 70, masked=True, stateful=True), torch.float32)
    wanted, wanted_gradients = results_and_gradients(scan_projected_lstm, *widened(batch), **CLIPS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, gradients = results_and_gradients(by_backend(backend), *batch, **CLIPS)
    assert [tensor.dtype for tensor in found] == [torch.bfloat16, torch.bfloat16, torch.float32]
    assert {gradient.dtype for gradient in gradients} == {torch.float32}
    for one, other in zip([*found, *gradients], [*wanted, *wanted_gradients], strict=True):
        assert relative_error(one.detach(), other.detach()) < 3 * BFLOAT16


def on_threads(count, function):
    """What a function gives on so many threads of PyTorch's."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return function()
    finally:
        torch.set_num_threads(before)


@torch.no_grad()
@pytest.mark.parametrize("sizes", [(1, 50, 128, 1024), (5, 5, 128, 1024)], ids=["one-row", "few-rows"])
def test_few_rows_have_the_same_bits_on_any_number_of_threads_and_for_callers_at_once(sizes):
    build_or_skip()
    batch = cast(make_batch(*sizes, masked=len(sizes) > 1, stateful=True), torch.float32)

    def run(threads):
        outputs, state = on_threads(threads, lambda: run_by("compiled", *batch, **CLIPS))
        return [outputs, *state]

    wanted = run(1)
    with torch.no_grad(), ThreadPoolExecutor(3) as callers:
        found = [*map(run, (2, 3, 5, 16)), *callers.map(torch.no_grad()(run), [2] * 6)]
    for each in found:
        assert_same(each, wanted, 0)


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 40])
def test_what_is_not_a_number_stays_so_and_what_is_huge_is_not(rows):
    build_or_skip()
    vectors, mask, weights, state = cast(make_batch(rows, 2, 37, 150, masked=False, stateful=True), torch.float32)
    vectors[0] = float("nan")
    vectors[1:] *= 1e30
    (outputs, (_, cell)), (wanted, _) = (run_by(name, vectors, mask, weights, state) for name in ("compiled", "plain"))
    assert outputs[0].isnan().all() and cell[0].isnan().all()
    torch.testing.assert_close(outputs[1:], wanted[1:], rtol=REORDERED_FLOAT32, atol=10 * REORDERED_FLOAT32)
