"""The fused training scan: the reference one's results and gradients, and the same bits on any number of cores."""

import pytest
import torch
from scan_cases import make_weights
from test_scan import build_or_skip
from tolerances import FUSED_BFLOAT16, FUSED_FLOAT32
from torch.nn import functional as F

from hf_elmo import kernels
from hf_elmo.kernels import fused
from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights, run_projected_lstm, scan_projected_lstm

# Rows, words, projection and cell: whole and broken tiles, groups of panels and rows of the weights' gradients.
SIZES = [(32, 3, 32, 32), (33, 1, 32, 64), (50, 6, 64, 96), (100, 4, 96, 160)]


@pytest.fixture(autouse=True)
def _built(monkeypatch):
    """Few rows of float32 run fused too, though it does not pay."""
    build_or_skip()
    monkeypatch.setattr(fused, "_ROWS_OF_FLOATS", 1)


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def dtype(request):
    """Of the products' factors."""
    if request.param == torch.bfloat16 and not torch.ops.hf_elmo_kernels.has_amx_bf16():
        pytest.skip("this processor has no AMX")
    return request.param


def make_leaves(batch_size, length, projection_size, cell_size, masked):
    """Inputs, weights and state in float32, and a mask with holes, an odd row's end and a row without words."""
    leaves = [
        torch.randn(batch_size, length, projection_size),
        *make_weights(projection_size, cell_size, scale=projection_size**-0.5, dtype=torch.float32),
        torch.rand(batch_size, projection_size) * 0.2,
        torch.rand(batch_size, cell_size) * 0.3,
    ]
    mask = None
    if masked:
        mask = torch.rand(batch_size, length) < 0.7
        mask[0], mask[:32, 0] = False, True
    return leaves, mask


def results_and_gradients(scan, leaves, mask, clips, reverse):
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    outputs, state = scan(
        leaves[0], mask, ProjectedLSTMWeights(*leaves[1:5]), tuple(leaves[5:]), reverse=reverse, **clips
    )
    results = [outputs, *state]
    generator = torch.Generator().manual_seed(1)
    total = sum((result * torch.randn(result.shape, generator=generator)).sum() for result in results)
    return results, torch.autograd.grad(total, leaves)


def run_fused(*arguments):
    with kernels.use_backend("compiled"):
        found = results_and_gradients(run_projected_lstm, *arguments)
    assert "Fused" in str(_function_of(found[0][0]))
    return found


def _function_of(outputs):
    """What autograd has for the scan that gave `outputs`, perhaps behind a cast."""
    function = outputs.grad_fn
    return function.next_functions[0][0] if "ToCopy" in function.name() else function


def scan_with_rounded_factors(inputs, mask, weights, state, *, cell_clip, projection_clip, reverse):
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


def relative_error(found, wanted):
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(
    ("masked", "reverse", "clips"),
    [
        (False, True, {"cell_clip": 0.5, "projection_clip": 0.3}),
        (True, False, {"cell_clip": None, "projection_clip": None}),
    ],
    ids=["full", "masked"],
)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_fused_passes_are_those_of_the_reference_scan(dtype, sizes, clips, reverse, masked):
    leaves, mask = make_leaves(*sizes, masked)
    exact = [leaf.double() for leaf in leaves]
    if dtype == torch.float32:
        found = run_fused(leaves, mask, clips, reverse)
        wanted = results_and_gradients(scan_projected_lstm, exact, mask, clips, reverse)
        tolerance = FUSED_FLOAT32
    else:
        with torch.autocast("cpu", torch.bfloat16):
            found = run_fused(leaves, mask, clips, reverse)
        wanted = results_and_gradients(scan_with_rounded_factors, exact, mask, clips, reverse)
        tolerance = FUSED_BFLOAT16
    for one, other in zip([*found[0], *found[1]], [*wanted[0], *wanted[1]], strict=True):
        assert relative_error(one.detach(), other.detach()) < tolerance


def test_any_number_of_cores_gives_the_same_bits(dtype):
    leaves, mask = make_leaves(70, 5, 64, 96, masked=True)
    clips, found = {"cell_clip": 3.0, "projection_clip": 3.0}, []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3, 2):
            torch.set_num_threads(count)
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
                results, gradients = run_fused(leaves, mask, clips, False)
            found.append([*results, *gradients])
            # What a pass leaves in memory is nothing to the next.
            kernels.free_buffers()
    finally:
        torch.set_num_threads(threads)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert torch.equal(one, other)


def test_what_is_not_a_number_stays_in_its_row(dtype):
    leaves, _ = make_leaves(40, 4, 32, 64, masked=False)
    leaves[0][3, 1] = float("nan")
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        (outputs, *_), gradients = run_fused(leaves, None, {"cell_clip": 3.0, "projection_clip": 3.0}, False)
    is_nan = outputs.isnan().any(dim=-1)
    assert is_nan[3, 1:].all() and int(is_nan.sum()) == 3
    of_inputs = gradients[0].isnan().any(dim=-1).any(dim=-1)
    assert of_inputs[3] and int(of_inputs.sum()) == 1


@pytest.mark.parametrize("sizes", [(40, 3, 31, 64), (40, 3, 32, 50)], ids=str)
def test_sizes_that_fill_no_tiles_take_single_steps(sizes):
    leaves, _ = make_leaves(*sizes, masked=False)
    with kernels.use_backend("compiled"):
        outputs, _ = run_projected_lstm(leaves[0].requires_grad_(), None, ProjectedLSTMWeights(*leaves[1:5]))
    assert "Projected" in str(_function_of(outputs))


def test_few_rows_and_large_weights_take_single_steps(monkeypatch):
    monkeypatch.undo()
    threads = torch.get_num_threads()
    for rows, cells in ((64 * threads - 1, 64), (64 * threads, 32 * 1100)):
        leaves, _ = make_leaves(rows, 1, 32, cells, masked=False)
        with kernels.use_backend("compiled"):
            outputs, _ = run_projected_lstm(leaves[0].requires_grad_(), None, ProjectedLSTMWeights(*leaves[1:5]))
        assert "Projected" in str(_function_of(outputs))


def test_memory_for_the_next_step_is_that_of_a_size_and_the_newest_stays():
    def held_after(rows, length):
        leaves, _ = make_leaves(rows, length, 32, 128, masked=False)
        run_fused(leaves, None, {"cell_clip": 3.0, "projection_clip": 3.0}, False)
        return torch.ops.hf_elmo_kernels.trim_buffers(2**40)

    kernels.free_buffers()
    one_step = held_after(64, 30)
    assert one_step and held_after(64, 30) == one_step
    # Batches of fine-tuning have other numbers of words each time.
    many_steps = [held_after(64, length) for length in range(24, 30)][-1]
    assert many_steps <= 2 * one_step
    kernels.free_buffers()
    one_step = held_after(64, 10)
    both = held_after(64, 30)
    assert torch.ops.hf_elmo_kernels.trim_buffers(both - one_step) == both - one_step
    assert held_after(64, 30) == both - one_step
    kernels.free_buffers()
    assert torch.ops.hf_elmo_kernels.trim_buffers(2**40) == 0
