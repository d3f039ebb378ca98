"""The compiled steps: the plain ones' numbers on few rows and many, in every dtype, on any number of threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from test_scan import build_or_skip
from tolerances import BFLOAT16, FLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64

from hf_elmo.kernels import compiled, plain
from hf_elmo.kernels.half import HALVES, packing_unavailable_reason
from hf_elmo.kernels.weights import DenseWeight, PackedWeight, in_place

CLIPS = plain.Clips(cell=0.5, projection=0.3)


def transposed(weight):
    return DenseWeight(weight, weight.t().contiguous())


@pytest.fixture(scope="module")
def built():
    build_or_skip()


def make_steps(dtype, sizes, projection_size=37, cell_size=150, layout=in_place):
    """The arguments of a backend's steps, with values in reach of the clips."""
    between = torch.promote_types(dtype, torch.float32)
    weights = [
        layout((torch.randn(shape) / shape[1] ** 0.5).to(dtype))
        for shape in [(4 * cell_size, projection_size), (projection_size, cell_size)]
    ]
    gates = torch.randn(sum(sizes), 4 * cell_size, dtype=between)
    bias = torch.randn(4 * cell_size, dtype=between)
    hidden = torch.randn(sizes[0], projection_size, dtype=between)
    cell = torch.randn(sizes[0], cell_size, dtype=between)
    return plain.Steps(gates, bias, *weights, hidden, cell, sizes, CLIPS)


def run(backend, steps):
    """The outputs and the last cells."""
    steps = steps._replace(gates=steps.gates.clone(), cell=steps.cell.clone())
    return backend.run_steps(steps), steps.cell


def assert_near(found, wanted, tolerance):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


@pytest.mark.parametrize("sizes", [[1, 1, 1], [3, 3, 1], [40, 33, 7, 4, 4, 1]], ids=str)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float64, REORDERED_FLOAT64),
        (torch.float32, 2 * REORDERED_FLOAT32),
        (torch.bfloat16, BFLOAT16),
        (torch.float16, FLOAT16),
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", [in_place, transposed, PackedWeight])
def test_steps_are_those_of_plain(built, layout, dtype, tolerance, sizes):
    if layout is PackedWeight and (dtype not in HALVES or packing_unavailable_reason(dtype)):
        pytest.skip("halves alone are packed, where oneDNN multiplies them")
    arguments = make_steps(dtype, sizes, layout=layout)
    assert_near(run(compiled, arguments), run(plain, arguments), tolerance)


@pytest.mark.parametrize("sizes", [[2, 1], [40, 33, 5]], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, BFLOAT16)], ids=str)
def test_traces_and_gradients_are_those_of_plain(built, dtype, tolerance, sizes):
    steps = make_steps(dtype, sizes)
    found, wanted = (
        backend.run_steps_keeping(steps._replace(gates=steps.gates.clone())) for backend in (compiled, plain)
    )
    assert_near(found, wanted, tolerance)
    transposes = [in_place(weight.prepared) for weight in (steps.recurrent, steps.projection)]
    gradients = [torch.randn_like(tensor) for tensor in (wanted.outputs, steps.hidden, steps.cell)]
    back = [
        backend.run_steps_backward(
            wanted, *transposes, steps.cell, tuple(g.clone() for g in gradients), steps.sizes, steps.clips
        )
        for backend in (compiled, plain)
    ]
    assert_near(*back, tolerance)


@pytest.mark.parametrize("is_contiguous", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 47, 48, 49])
@pytest.mark.parametrize("size", [37, 127, 128])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, REORDERED_FLOAT64)], ids=str)
def test_the_inputs_share_is_that_of_plain(built, dtype, tolerance, size, rows, is_contiguous):
    words, weight = torch.randn(rows, size, dtype=dtype), torch.randn(20, size, dtype=dtype)
    weight = weight if is_contiguous else weight.t().contiguous().t()
    wanted = plain.multiply_inputs(words.double(), weight.double(), dtype)
    assert_near(compiled.multiply_inputs(words, weight, dtype), wanted, tolerance)


def on_threads(count, function):
    """What a function gives on so many threads of PyTorch's."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return function()
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [2, 3, 5, 16])
@pytest.mark.parametrize("sizes", [[1] * 50, [5, 4, 4, 2, 1]], ids=["one-row", "few-rows"])
def test_few_rows_have_the_same_bits_on_any_number_of_threads(built, sizes, threads):
    arguments = make_steps(torch.float32, sizes, projection_size=128, cell_size=1024)
    one, many = (on_threads(count, lambda: run(compiled, arguments)) for count in (1, threads))
    assert_near(one, many, 0)


def test_several_callers_at_once_have_threads_of_their_own(built):
    arguments = make_steps(torch.float32, [1] * 50, projection_size=128, cell_size=512)
    wanted = run(compiled, arguments)
    with ThreadPoolExecutor(3) as callers:
        found = list(callers.map(lambda _: on_threads(2, lambda: run(compiled, arguments)), range(6)))
    for each in found:
        assert_near(each, wanted, 0)


@pytest.mark.parametrize("rows", [1, 40])
def test_what_is_not_a_number_stays_so_and_what_is_huge_is_not(built, rows):
    arguments = make_steps(torch.float32, [rows])
    gates = arguments.gates
    gates[0] = float("nan")
    gates[1:] = torch.where(gates[1:] > 0, float("inf"), float("-inf"))
    outputs, cell = run(compiled, arguments._replace(clips=plain.Clips(None, None)))
    assert outputs[0].isnan().all() and cell[0].isnan().all()
    wanted = run(plain, arguments._replace(clips=plain.Clips(None, None)))
    assert_near((outputs[1:], cell[1:]), (wanted[0][1:], wanted[1][1:]), REORDERED_FLOAT32)
