"""The fused training scan: the reference one's results and gradients, and the same bits on any number of cores."""

import pytest
import torch
from scan_cases import make_weights, relative_error, results_and_gradients
from test_scan import build_or_skip, by_backend, on_threads
from tolerances import FUSED_BFLOAT16, FUSED_FLOAT32
from torch.nn import functional as F

from hf_elmo import kernels
from hf_elmo.kernels import compiled
from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights, scan_projected_lstm

CLIPS = {"cell_clip": 0.5, "projection_clip": 0.3}
ROWS_OF_FLOATS = compiled._ROWS_OF_FLOATS


@pytest.fixture(autouse=True)
def runs(monkeypatch):
    """The passes that ran fused, which few rows of float32 do, too, though it does not pay."""
    build_or_skip()
    monkeypatch.setattr(compiled, "_ROWS_OF_FLOATS", 1)
    calls, run = [], compiled.run_fused
    monkeypatch.setattr(compiled, "run_fused", lambda *arguments: calls.append(arguments) or run(*arguments))
    return calls


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def dtype(request):
    """Of the products' factors."""
    if request.param == torch.bfloat16 and not torch.ops.hf_elmo_kernels.has_amx_bf16():
        pytest.skip("this processor has no AMX")
    with torch.autocast("cpu", torch.bfloat16, enabled=request.param == torch.bfloat16):
        yield request.param


def make_batch(batch_size, length, projection_size, cell_size, masked=False):
    """Inputs, weights and state in float32, and a mask with holes, an odd row's end and a row without words."""
    mask = None
    if masked:
        mask = torch.rand(batch_size, length) < 0.7
        mask[0], mask[:32, 0] = False, True
    weights = make_weights(projection_size, cell_size, scale=projection_size**-0.5, dtype=torch.float32)
    state = torch.rand(batch_size, projection_size) * 0.2, torch.rand(batch_size, cell_size) * 0.3
    return torch.randn(batch_size, length, projection_size), mask, weights, state


def run_compiled(batch, **settings):
    results, gradients = results_and_gradients(by_backend("compiled"), *batch, **settings)
    return [*results, *gradients]


def scan_with_rounded_factors(inputs, mask, weights, state, *, cell_clip=None, projection_clip=None, reverse=False):
    """The reference scan in float64 with factors of products rounded to bf16, as if rounding had the slope 1."""

    def product(x, weight):
        return F.linear(_rounded(x), _rounded(weight))

    input_gates, (hidden, cell) = product(inputs, weights.input) + weights.bias, state
    length = inputs.shape[1]
    outputs = [hidden] * length
    for step in reversed(range(length)) if reverse else range(length):
        i, f, g, o = (input_gates[:, step] + product(hidden, weights.recurrent)).chunk(4, dim=-1)
        new_cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        new_cell = new_cell if cell_clip is None else new_cell.clamp(-cell_clip, cell_clip)
        new_hidden = product(torch.sigmoid(o) * torch.tanh(new_cell), weights.projection)
        new_hidden = new_hidden if projection_clip is None else new_hidden.clamp(-projection_clip, projection_clip)
        is_word = torch.ones(len(inputs), 1, dtype=torch.bool) if mask is None else mask[:, step, None]
        outputs[step] = torch.where(is_word, new_hidden, 0.0)
        hidden, cell = torch.where(is_word, new_hidden, hidden), torch.where(is_word, new_cell, cell)
    return torch.stack(outputs, dim=1), (hidden, cell)


def _rounded(x):
    return x + (x.to(torch.bfloat16).to(x.dtype) - x).detach()


@pytest.mark.parametrize(
    ("masked", "settings"), [(False, {**CLIPS, "reverse": True}), (True, {})], ids=["full", "masked"]
)
# Rows, words, projection and cell: whole and broken tiles, groups of panels and rows of the weights' gradients.
@pytest.mark.parametrize("sizes", [(32, 3, 32, 32), (33, 1, 32, 64), (50, 6, 64, 96), (100, 4, 96, 160)], ids=str)
def test_fused_passes_are_those_of_the_reference_scan(dtype, sizes, settings, masked, runs):
    inputs, mask, weights, state = batch = make_batch(*sizes, masked)
    found = run_compiled(batch, **settings)
    assert runs
    weights, state = ProjectedLSTMWeights(*(w.double() for w in weights)), tuple(part.double() for part in state)
    scan = scan_projected_lstm if dtype == torch.float32 else scan_with_rounded_factors
    with torch.autocast("cpu", enabled=False):
        wanted, gradients = results_and_gradients(scan, inputs.double(), mask, weights, state, **settings)
    tolerance = FUSED_FLOAT32 if dtype == torch.float32 else FUSED_BFLOAT16
    for one, other in zip(found, [*wanted, *gradients], strict=True):
        assert relative_error(one.detach(), other.detach()) < tolerance


def test_any_number_of_cores_gives_the_same_bits(dtype, runs):
    batch, found = make_batch(70, 5, 64, 96, masked=True), []
    for count in (1, 2, 3, 2):
        found.append(on_threads(count, lambda: run_compiled(batch, **CLIPS)))
        # What a pass leaves in memory is nothing to the next.
        kernels.free_buffers()
    assert len(runs) == 4
    assert all(torch.equal(*pair) for others in found[1:] for pair in zip(found[0], others, strict=True))


def test_what_is_not_a_number_stays_in_its_row(dtype):
    inputs, *rest = make_batch(40, 4, 32, 64)
    inputs[3, 1] = float("nan")
    outputs, _, _, of_inputs, *_ = run_compiled((inputs, *rest), **CLIPS)
    is_nan = outputs.isnan().any(dim=-1)
    assert is_nan[3, 1:].all() and int(is_nan.sum()) == 3
    rows = of_inputs.isnan().any(dim=-1).any(dim=-1)
    assert rows[3] and int(rows.sum()) == 1


@pytest.mark.parametrize(
    ("rows_of_floats", "sizes"),
    [
        (1, (40, 3, 31, 64)),
        (1, (40, 3, 32, 50)),
        (ROWS_OF_FLOATS, (ROWS_OF_FLOATS * torch.get_num_threads() - 1, 1, 32, 64)),
        (1, (ROWS_OF_FLOATS * torch.get_num_threads(), 1, 32, 32 * 1100)),
    ],
    ids=["no panels", "no tiles", "few rows", "large weights"],
)
def test_what_fills_no_tiles_or_does_not_pay_takes_single_steps(rows_of_floats, sizes, runs, monkeypatch):
    monkeypatch.setattr(compiled, "_ROWS_OF_FLOATS", rows_of_floats)
    run_compiled(make_batch(*sizes))
    assert not runs


def test_memory_for_the_next_step_is_that_of_a_size_and_the_newest_stays():
    def held_after(length):
        run_compiled(make_batch(64, length, 32, 512), **CLIPS)
        return torch.ops.hf_elmo_kernels.trim_buffers(2**40)

    kernels.free_buffers()
    one_step = held_after(30)
    assert one_step and held_after(30) == one_step
    # Batches of fine-tuning have other numbers of words each time.
    assert max(held_after(length) for length in range(24, 30)) <= 3 * one_step
    kernels.free_buffers()
    one_step = held_after(10)
    both = held_after(30)
    assert torch.ops.hf_elmo_kernels.trim_buffers(both - one_step) == both - one_step
    assert held_after(30) == both - one_step
    kernels.free_buffers()
    assert torch.ops.hf_elmo_kernels.trim_buffers(2**40) == 0
