"""Recorded calls: when they record, what they keep, and the scan's numbers; on a GPU where there is one."""

import pytest
import torch
from scan_cases import assert_same, make_weights, results_and_gradients
from tolerances import BFLOAT16, FLOAT16, REORDERED_FLOAT64

from hf_elmo import kernels
from hf_elmo.kernels import cuda_graphs
from hf_elmo.kernels.cuda_graphs import RecordedCalls
from hf_elmo.kernels.scan import scan
from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights, run_projected_lstm, scan_projected_lstm

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


class Recorder:
    """Stands for the GPU's recording: repeats the call, on the recording's own memory."""

    def __init__(self):
        self.recorded = self.replayed = 0

    def __call__(self, run):
        self.recorded += 1

        def replay():
            self.replayed += 1
            return run()

        return replay


@pytest.fixture
def recorder(monkeypatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(cuda_graphs, "CALLS", RecordedCalls(recorder))
    return recorder


def test_a_shape_is_recorded_when_it_comes_again():
    recorder = Recorder()
    calls = RecordedCalls(recorder)

    def double(x, factor):
        x.mul_(factor)
        return (x,)

    for turn in range(4):
        (found,) = calls(double, (torch.full((3,), float(turn)),), (2,))
        assert found.tolist() == [2.0 * turn] * 3
    assert (recorder.recorded, recorder.replayed) == (1, 3)
    kept, again = (calls(double, (torch.full((3,), value),), (2,))[0] for value in (1.0, 5.0))
    assert kept.tolist() == [2.0] * 3 and again.tolist() == [10.0] * 3
    # Another setting, shape or dtype is another call.
    for tensor, factor in ((torch.ones(3), 3), (torch.ones(4), 2), (torch.ones(3, dtype=torch.float64), 2)):
        calls(double, (tensor,), (factor,))
    assert recorder.recorded == 1


def test_what_is_unused_for_longest_goes_first():
    recorder = Recorder()
    calls = RecordedCalls(recorder, max_recordings=2)
    for size in (1, 1, 2, 2, 1, 3, 3, 1, 2):
        calls(lambda x: (x,), (torch.ones(size),), ())
    # Each lambda is a function of its own: nothing repeats.
    assert recorder.recorded == 0

    def same(x):
        return (x,)

    for size in (1, 1, 2, 2, 1, 3, 3, 1):
        calls(same, (torch.ones(size),), ())
    assert recorder.recorded == 3
    calls(same, (torch.ones(2),), ())
    calls(same, (torch.ones(2),), ())
    assert recorder.recorded == 4


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("clip", [None, 0.3])
def test_recorded_scans_are_the_readable_one(recorder, masked, clip):
    mask = torch.tensor([[1] * 5, [1, 1, 0, 1, 0], [0, 1, 1, 0, 0]]).bool() if masked else None
    settings = {"cell_clip": clip, "projection_clip": clip, "reverse": True}

    def recorded(*arguments, **settings):
        return scan(*arguments, **settings, backend=cuda_graphs)

    for _ in range(4):
        inputs, weights = torch.randn(3, 5, 4, dtype=torch.float64), make_weights(4, 6)
        state = (torch.rand(3, 4, dtype=torch.float64) * 0.2, torch.rand(3, 6, dtype=torch.float64) * 0.2)
        wanted, wanted_gradients = results_and_gradients(scan_projected_lstm, inputs, mask, weights, state, **settings)
        found, gradients = results_and_gradients(recorded, inputs, mask, weights, state, **settings)
        assert_same(found, wanted)
        assert_same(gradients, wanted_gradients, 100 * REORDERED_FLOAT64)
        with torch.no_grad():
            outputs, new_state = recorded(inputs, mask, weights, state, **settings)
        assert_same([outputs, *new_state], wanted)
    assert recorder.recorded == 3 and recorder.replayed == 9


def test_without_a_gpu_it_is_refused():
    if torch.cuda.is_available():
        pytest.skip("a GPU is there")
    assert "cuda_graphs" in kernels.why_not()
    with pytest.raises(RuntimeError, match="'cuda_graphs'"):
        kernels.set_backend("cuda_graphs")


@needs_gpu
@pytest.mark.parametrize("backend", ["plain", "cuda_graphs"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1000 * REORDERED_FLOAT64), (torch.bfloat16, BFLOAT16), (torch.float16, FLOAT16)],
)
def test_on_a_gpu(backend, dtype, tolerance):
    mask = (torch.rand(7, 9) < 0.7).cuda()
    settings = {"cell_clip": 3.0, "projection_clip": 3.0, "reverse": False}

    def fast(*arguments, **settings):
        with kernels.use_backend(backend):
            return run_projected_lstm(*arguments, **settings)

    for _ in range(4):
        inputs = torch.randn(7, 9, 24, device="cuda", dtype=torch.float64)
        weights = ProjectedLSTMWeights(*(w.cuda() for w in make_weights(24, 40, scale=0.2)))
        wanted, wanted_gradients = results_and_gradients_on_gpu(scan_projected_lstm, inputs, mask, weights, settings)
        rounded = ProjectedLSTMWeights(*(w.to(dtype) for w in weights))
        found, gradients = results_and_gradients_on_gpu(fast, inputs.to(dtype), mask, rounded, settings)
        for one, other in zip((*found, *gradients), (*wanted, *wanted_gradients), strict=True):
            scale = max(1.0, float(other.abs().max()))
            torch.testing.assert_close(one.double(), other, rtol=0, atol=tolerance * scale)


def results_and_gradients_on_gpu(run, inputs, mask, weights, settings):
    leaves = [tensor.clone().requires_grad_() for tensor in (inputs, *weights)]
    outputs, state = run(leaves[0], mask, ProjectedLSTMWeights(*leaves[1:]), None, **settings)
    total = sum(result.double().cos().mean() for result in (outputs, *state))
    return [outputs, *state], torch.autograd.grad(total, leaves)
