"""The average is that of the steps' weights, and the weights that are trained never see it."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from run_cases import make_arguments, write_lines
from safetensors.torch import load_file
from tolerances import REORDERED_FLOAT32

from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.weight_average import WeightAverage


def make_model():
    model = torch.nn.Linear(1, 1, bias=False)
    model.fixed = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    return model


@given(decay=st.floats(0.01, 0.999), weights=st.lists(st.floats(-10, 10), min_size=1, max_size=30))
def test_it_is_the_average_by_hand(decay, weights):
    model = make_model()
    average, expected = WeightAverage(model, decay), model.weight.item()
    for step, weight in enumerate(weights, start=1):
        with torch.no_grad():
            model.weight.fill_(weight)
        average.update(step)
        share = min(decay, step / (step + 9))
        expected = share * expected + (1 - share) * weight
    trained = model.weight.item()
    with average.in_place():
        assert model.weight.item() == pytest.approx(expected, abs=100 * REORDERED_FLOAT32)
    assert model.weight.item() == trained and average.trained_weights().keys() == {"weight"}
    average.put_in_place()
    assert model.weight.item() == pytest.approx(expected, abs=100 * REORDERED_FLOAT32)


def test_what_is_kept_is_the_average_and_what_is_trained_is_not(tmp_path):
    write_lines(tmp_path)
    folders = {decay: tmp_path / str(decay) for decay in (0.0, 0.6)}
    for decay, folder in folders.items():
        run_pretraining(
            make_arguments(tmp_path, output_dir=str(folder), ema_decay=decay, save_steps=1, save_total_limit=0),
            report=lambda line: None,
        )
    results = {decay: json.loads((folder / "results.json").read_text()) for decay, folder in folders.items()}
    losses = {decay: [entry["loss"] for entry in result["history"]] for decay, result in results.items()}
    assert losses[0.0] == losses[0.6] and results[0.0]["perplexity"] != results[0.6]["perplexity"]
    assert results[0.6]["settings"]["ema_decay"] == 0.6
    # By hand from the checkpoints of the run that keeps each step's weights.
    steps = [load_file(folders[0.0] / f"checkpoint-{step}" / "model.safetensors") for step in range(1, 7)]
    stored = torch.load(folders[0.6] / "checkpoint-1" / "optimizer.pt", weights_only=True)["trained_weights"]
    assert stored and all(torch.equal(value, steps[0][name]) for name, value in stored.items())
    found = [load_file(folders[0.6] / f"checkpoint-{step}" / "model.safetensors") for step in range(1, 7)]
    for name, average in found[0].items():
        for step, (weights, now) in enumerate(zip(steps[1:], found[1:], strict=True), start=2):
            share = min(0.6, step / (step + 9))
            average = average.lerp(weights[name], 1 - share) if average.is_floating_point() else now[name]
            torch.testing.assert_close(now[name], average, rtol=0, atol=10 * REORDERED_FLOAT32)
    kept = load_file(folders[0.6] / "model.safetensors")
    last = found[results[0.6]["kept_step"] - 1]
    assert all(torch.equal(kept[name], value) for name, value in last.items())
