"""Inference by panels of weights: the readable scan's numbers, however many rows a step has and cores there are."""

import pytest
import torch
from scan_cases import make_weights
from test_scan import build_or_skip
from tolerances import REORDERED_FLOAT32

from hf_elmo import kernels
from hf_elmo.kernels import panels
from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights, run_projected_lstm, scan_projected_lstm

CLIPS = {"cell_clip": 0.5, "projection_clip": 0.3}


@pytest.fixture(autouse=True)
def _built():
    build_or_skip()


@pytest.fixture
def calls(monkeypatch):
    """Scans by panels so far."""
    found, run_steps = [], panels.run_steps
    monkeypatch.setattr(panels, "run_steps", lambda *arguments: found.append(1) or run_steps(*arguments))
    return found


def make_batch(batch_size, length, projection_size, cell_size, dtype=torch.float32):
    weights = make_weights(projection_size, cell_size, scale=projection_size**-0.5, dtype=dtype)
    mask = torch.rand(batch_size, length) < 0.7
    mask[1:, 0] = True
    mask[0] = False
    state = torch.rand(batch_size, projection_size) * 0.2, torch.rand(batch_size, cell_size) * 0.3
    return torch.randn(batch_size, length, projection_size).to(dtype), mask, weights, tuple(s.to(dtype) for s in state)


def run(*arguments, **settings):
    with torch.no_grad(), kernels.use_backend("compiled"):
        outputs, state = run_projected_lstm(*arguments, **settings)
    return [outputs, *state]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(7, 9, 16, 16), (34, 5, 32, 48), (70, 3, 80, 32)], ids=str)
def test_panels_give_the_readable_scans_numbers(calls, sizes, reverse):
    inputs, mask, weights, state = make_batch(*sizes)
    for clips in (CLIPS, {"cell_clip": None, "projection_clip": None}):
        found = run(inputs, mask, weights, state, reverse=reverse, **clips)
        exact = ProjectedLSTMWeights(*(weight.double() for weight in weights))
        outputs, last = scan_projected_lstm(
            inputs.double(), mask, exact, tuple(part.double() for part in state), reverse=reverse, **clips
        )
        for one, other in zip(found, [outputs, *last], strict=True):
            torch.testing.assert_close(one.double(), other, rtol=0, atol=2 * REORDERED_FLOAT32)
    assert len(calls) == 2


def test_widened_halves_run_by_panels(calls):
    inputs, mask, weights, state = make_batch(20, 4, 32, 48, torch.bfloat16)
    with kernels.half_products("float32"):
        found = run(inputs, mask, weights, state, **CLIPS)
    wide = ProjectedLSTMWeights(*(weight.float() for weight in weights))
    wanted = run(inputs.float(), mask, wide, tuple(part.float() for part in state), **CLIPS)
    assert len(calls) == 2
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other.to(torch.bfloat16))


def test_any_number_of_cores_gives_the_same_bits(calls):
    arguments, found, threads = make_batch(40, 6, 64, 96), [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(run(*arguments, **CLIPS))
    finally:
        torch.set_num_threads(threads)
    for one, two, three in zip(*found, strict=True):
        assert torch.equal(one, two) and torch.equal(one, three)


def test_a_changed_weight_is_seen(calls):
    inputs, mask, weights, state = make_batch(8, 3, 16, 32)
    for weight in (weights.input, weights.recurrent, weights.projection):
        before = run(inputs, mask, weights, state, **CLIPS)
        weight.data.mul_(1.5)
        assert not torch.equal(run(inputs, mask, weights, state, **CLIPS)[0], before[0])


def test_gates_are_exact_to_a_few_units_in_the_last_place_and_keep_what_is_no_number(calls):
    # Cells of tanh(g) alone, outputs of sigmoid(o) tanh(tanh(g)) alone.
    values = torch.cat([torch.linspace(-20, 20, 4001), torch.tensor([0.0, 1e-3, 90.0, -90.0, 1e30, -1e30])])
    values = values[: len(values) // 16 * 16].view(-1, 16)
    size = 16
    zeros = torch.zeros(4 * size, size)
    places = torch.eye(size)
    inputs = torch.cat([values.new_zeros(1, size), values])
    inputs[0, 0] = float("nan")
    weight = torch.cat([zeros[:size], zeros[:size], places, places])
    bias = torch.cat([torch.full((size,), 60.0), torch.full((size,), -60.0), torch.zeros(2 * size)])
    weights = ProjectedLSTMWeights(weight, zeros, bias, places)
    outputs, _, cell = run(inputs[:, None], None, weights, None, cell_clip=None, projection_clip=None)
    exact = values.double()
    bound = 4 * torch.finfo(torch.float32).eps
    torch.testing.assert_close(cell[1:].double(), exact.tanh(), rtol=0, atol=bound)
    torch.testing.assert_close(outputs[1:, 0].double(), exact.sigmoid() * exact.tanh().tanh(), rtol=0, atol=bound)
    assert outputs[0, 0, 0].isnan() and cell[0, 0].isnan()
    assert len(calls) == 1


@pytest.mark.parametrize(("rows", "projection_size"), [(5, 32), (20, 31)])
def test_few_rows_and_broken_panels_take_other_ways(calls, rows, projection_size):
    run(*make_batch(rows, 3, projection_size, 32), **CLIPS)
    assert not calls
