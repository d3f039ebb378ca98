"""The gate lets right scans through and stops wrong ones."""

import pytest
import torch
from benchmark import gate
from benchmark.cases import Contestants, bilm_alone, training_step, words_to_vectors
from benchmark.cuda_cases import bilm_in_precisions, training_step_in_precisions
from benchmark.sentences import read_sentences

from hf_elmo import kernels
from hf_elmo.model.modeling_elmo import scan_projected_lstm

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def contestants():
    return Contestants("tiny", ["readable", "plain"])


class Wrong(torch.autograd.Function):
    """The identity forward; a gradient that is a little too large."""

    @staticmethod
    def forward(ctx, tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (1 + 1e-6)


def scan_with_wrong_outputs(inputs, mask, weights, state, **settings):
    outputs, states = scan_projected_lstm(inputs, mask, weights, state, **settings)
    return outputs + 1e-8, states


def scan_with_wrong_states(inputs, mask, weights, state, **settings):
    outputs, (hidden, cell) = scan_projected_lstm(inputs, mask, weights, state, **settings)
    return outputs, (hidden, cell * float("nan"))


def scan_with_wrong_gradients(inputs, mask, weights, state, **settings):
    weights = weights._replace(projection=Wrong.apply(weights.projection))
    return scan_projected_lstm(inputs, mask, weights, state, **settings)


def scan_without_clipping(inputs, mask, weights, state, *, cell_clip, projection_clip, reverse):
    return scan_projected_lstm(
        inputs, mask, weights, state, cell_clip=None, projection_clip=projection_clip, reverse=reverse
    )


def scan_without_masks(inputs, mask, weights, state, **settings):
    return scan_projected_lstm(inputs, None, weights, state, **settings)


def test_the_backends_pass():
    backends = [name for name in ("auto", "plain", "compiled") if name not in kernels.why_not()]
    deviations = gate.check_scans(backends, CPU)
    assert [(entry.name, entry.what) for entry in deviations] == [
        (name, what) for name in backends for what in ("outputs", "final states", "gradients")
    ]
    assert all(entry.maximum <= gate.FLOAT64_BOUND == entry.bound for entry in deviations)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (scan_with_wrong_outputs, "outputs"),
        (scan_with_wrong_states, "final states"),
        (scan_with_wrong_gradients, "gradients"),
        (scan_without_clipping, "outputs"),
        (scan_without_masks, "outputs"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_wrong_scan_is_stopped(monkeypatch, wrong, what):
    monkeypatch.setattr(gate, "run_projected_lstm", wrong)
    with pytest.raises(
        gate.GateError, match=rf"'plain' differs .* in {what} \(the scan, float64\); the bound is 1e-09"
    ):
        gate.check_scans(["plain"], CPU)


def test_both_clips_bite():
    reached = {"cell": False, "projection": False}
    for case in gate.scan_cases(CPU):
        results = gate.scan_results(scan_projected_lstm, case)
        reached["projection"] |= bool((results["outputs"][0].abs() == gate.PROJECTION_CLIP).any())
        reached["cell"] |= bool((results["final states"][1].abs() == gate.CELL_CLIP).any())
    assert all(reached.values())


def test_the_cases_pass(contestants):
    sentences = read_sentences()
    cases = [
        words_to_vectors(contestants, sentences, 3),
        bilm_alone(contestants, sentences, 3),
        bilm_alone(contestants, sentences, 1),
        training_step(contestants, lanes=2, length=4),
    ]
    deviations = gate.check_cases(cases)
    assert {(entry.what, entry.name) for entry in deviations} == {
        ("words to vectors", "plain"),
        ("words to vectors", "bf16"),
        ("words to vectors", "bf16 autocast"),
        ("biLM alone", "plain"),
        ("biLM alone", "nn.LSTM padded"),
        ("biLM alone", "nn.LSTM packed"),
        ("training step of the biLM", "plain"),
        ("training step of the biLM", "nn.LSTM padded"),
    }
    bounds = {entry.name: entry.bound for entry in deviations if entry.what == "words to vectors"}
    assert bounds == {"plain": 5e-6, "bf16": None, "bf16 autocast": None}
    assert all(0 < entry.maximum < 1 for entry in deviations if entry.bound is None)


def test_the_cases_of_a_gpu_pass_on_the_cpu(contestants):
    cases = [
        bilm_in_precisions(contestants, CPU, batch_size=2, length=4),
        training_step_in_precisions(contestants, CPU, lanes=2, length=4),
    ]
    names = [entry.name for entry in gate.check_cases(cases)]
    assert names == [f"{side} {kind}" for kind in ("fp32", "bf16", "fp16") for side in ("ours", "nn.LSTM")] * 2


def test_a_wrong_result_is_stopped(contestants):
    case = bilm_alone(contestants, read_sentences(), 2)
    case.functions["plain"] = lambda: case.functions["readable"]() + 1e-4
    with pytest.raises(gate.GateError, match=r"'plain' differs .* in biLM alone \(tiny, 2\); the bound is 5e-06"):
        gate.check_cases([case])
