"""One process of 64 lanes, two of 32 and accumulated windows take the same steps, to rounding."""

import json
import random

import pytest
import torch
from conftest import ROOT
from fresh_process import environments_of_ranks, run_together
from resuming_cases import UNDRAWN
from safetensors.torch import load_file
from tolerances import REORDERED_FLOAT32

TINY = '{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]], "dropout": 0.0}'
WORDS = "the a cat dog sat ran on to from mat park it was not very big small and back there".split()
UNROLL_STEPS = 6
NUM_STEPS = 12


@pytest.fixture
def write_text(tmp_path):
    def write(lengths):
        """A sentence of each length, which is a document of its own where documents are read."""
        choose = random.Random(0)
        lines = (" ".join(choose.choices(WORDS, k=length)) for length in lengths)
        (tmp_path / "train.txt").write_text("".join(f"{line}\n\n" for line in lines))
        (tmp_path / "heldout.txt").write_text("the cat sat on the mat\n\na dog ran\n\n" * 5)
        return tmp_path

    return write


def train(folder, num_processes, lanes, windows, reset_state, **changes):
    output_dir = changes.pop("output_dir", folder / f"{num_processes}-{lanes}-{windows}")
    flags = {
        "output_dir": output_dir,
        "train_file": folder / "train.txt",
        "validation_file": folder / "heldout.txt",
        "config_overrides": TINY,
        "per_device_train_batch_size": lanes,
        "gradient_accumulation_steps": windows,
        "unroll_steps": UNROLL_STEPS,
        "max_steps": NUM_STEPS,
        "logging_steps": 1,
        "reset_state": reset_state,
        # Its sums of squares start from 1, so that no step divides a rounding error by its own size.
        "recipe": "paper",
        "objective": "full",
        **changes,
    }
    words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
    environments = environments_of_ranks(num_processes)
    script = ["-c", UNDRAWN, ROOT / "scripts" / "run_pretraining.py", "--skip_baselines", *words]
    for done in run_together([script] * num_processes, environments):
        assert done.returncode == 0, done.stderr
    results = json.loads((output_dir / "results.json").read_text())
    return load_file(output_dir / "model.safetensors"), results


def assert_alike(one, other):
    (weights, results), (other_weights, other_results) = one, other
    for name, expected in weights.items():
        torch.testing.assert_close(other_weights[name], expected, rtol=0, atol=10 * REORDERED_FLOAT32, msg=name)
    losses = [[entry["loss"] for entry in result["history"]] for result in (results, other_results)]
    assert losses[1] == pytest.approx(losses[0], abs=2e-5)
    words = [[entry["words"] for entry in result["history"]] for result in (results, other_results)]
    assert words[0] == words[1]
    # Carried states follow the lanes, and other processes have other ones: each sentence alone is what compares.
    assert other_results["perplexity_cold"] == pytest.approx(results["perplexity_cold"], rel=1e-4)


def test_two_processes_of_32_lanes_are_one_of_64_with_carried_states(write_text):
    # With its markers a sentence fills a window, so that both deal the same sentences to a step.
    folder = write_text([UNROLL_STEPS - 2] * (64 * NUM_STEPS + 7))
    one = train(folder, 1, 64, 1, "never")
    start = train(folder, 1, 64, 1, "never", output_dir=folder / "1-64-1-start", max_steps=1)
    two = train(folder, 2, 32, 1, "never")
    assert_alike(one, two)
    moved = (one[0]["word_softmax.weight"] - start[0]["word_softmax.weight"]).abs().max()
    assert moved > 1000 * REORDERED_FLOAT32


def test_accumulated_windows_and_uneven_processes_are_one_large_window(write_text):
    # The windows of a step have unlike numbers of words, of which a mean of means would make another loss.
    choose = random.Random(3)
    folder = write_text([choose.randint(1, UNROLL_STEPS - 2) for _ in range(64 * NUM_STEPS + 7)])
    one = train(folder, 1, 64, 1, "document")
    assert_alike(one, train(folder, 1, 32, 2, "document"))
    assert_alike(one, train(folder, 2, 32, 1, "document"))
    assert_alike(one, train(folder, 2, 16, 2, "document"))
