"""One process of 64 lanes, two of 32 and accumulated windows take the same steps, to rounding."""

import json
import random

import pytest
import torch
from fresh_process import environments_of_ranks, run_together
from resuming_cases import UNDRAWN
from safetensors.torch import load_file
from tolerances import REORDERED_FLOAT32

from hf_elmo.text.corpora import is_in_fraction

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
        "reset_state": reset_state,
        # Its sums of squares start from 1, so that no step divides a rounding error by its own size.
        "recipe": "paper",
        "objective": "full",
        **changes,
    }
    words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
    environments = environments_of_ranks(num_processes)
    script = ["-c", UNDRAWN, "pretrain", "--skip_baselines", *words]
    for done in run_together([script] * num_processes, environments):
        assert done.returncode == 0, done.stderr
    results = json.loads((output_dir / "results.json").read_text())
    return load_file(output_dir / "model.safetensors"), results


NOTING = """
import json, os, runpy, sys
from hf_elmo.pretraining import corpus_stats, run
from hf_elmo.pretraining.lanes import LaneFiller

def note(what):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps(what) + chr(10))

def noting(name, function):
    def call(*args, **kwargs):
        note([name, os.environ["RANK"]])
        return function(*args, **kwargs)
    return call

for module, name in (
    (corpus_stats, "look_at"),
    (run, "read_corpus"),
    (corpus_stats, "count_baselines"),
    (run, "find_checkpoint"),
):
    setattr(module, name, noting(name, getattr(module, name)))
windows = LaneFiller.windows

def noted_windows(filler, stream):
    # Evaluations deal their text to 32 lanes or more.
    if len(filler._lanes) < 32:
        note(["pass", filler.num_passes])
        stream = (note(["trained", words]) or words for words in stream)
    return windows(filler, stream)

LaneFiller.windows = noted_windows
run.plot_run = lambda results, path: path.write_bytes(b"")
runpy.run_module("hf_elmo", run_name="__main__", alter_sys=True)
"""


def run_noting(folder, *words):
    """Two processes, what each of them did, and their ends."""
    environments = [{**ranks, "NOTES": str(folder / "notes")} for ranks in environments_of_ranks(2)]
    script = ["-c", NOTING, "pretrain", "--config_overrides", TINY, *words]
    ends = run_together([script] * 2, environments)
    notes = folder / "notes"
    return ends, [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


def test_the_main_process_alone_reads_ahead_and_nobody_trains_on_held_out_text(tmp_path):
    texts = [f"{word} {number} {other}" for number, word in enumerate(WORDS) for other in WORDS[:10]]
    for name in range(4):
        (tmp_path / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts[name::4]))
    flags = {"train_file": tmp_path / "*.txt", "output_dir": tmp_path / "out", "validation_split_percentage": 10}
    flags |= {"per_device_train_batch_size": 2, "num_train_epochs": 3.2, "shuffle_buffer_size": 8, "unroll_steps": 5}
    ends, notes = run_noting(tmp_path, *(str(word) for name, value in flags.items() for word in (f"--{name}", value)))
    assert [end.returncode for end in ends] == [0, 0], ends[0].stderr + ends[1].stderr
    assert [note for note in notes if note[0] not in ("trained", "pass")] == [
        [name, "0"] for name in ("find_checkpoint", "read_corpus", "look_at", "count_baselines")
    ]
    assert ["pass", 3] in notes
    held_out = {text for text in texts if is_in_fraction(text, 0.1, "validation")}
    trained = {" ".join(words) for what, words in notes if what == "trained"}
    assert trained == set(texts) - held_out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    # Three words and the closing special token of each.
    assert results["perplexity"]["num_targets"] == results["perplexity_cold"]["num_targets"] == 4 * len(held_out)
    assert results["training_text"]["sentences"] == len(texts) - len(held_out)
    assert list(tmp_path.glob(".*")) == []


def test_what_the_main_process_refuses_ends_all_processes(tmp_path):
    (tmp_path / "text.txt").write_text("one line alone\n")
    ends, _ = run_noting(tmp_path, "--train_file", tmp_path / "text.txt", "--output_dir", tmp_path / "out")
    for end in ends:
        assert (
            end.returncode == 2 and end.stderr.splitlines()[-1].startswith("error: ") and "Traceback" not in end.stderr
        )
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "notes"}


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
    # With its special tokens a sentence fills a window, so that both deal the same sentences to a step.
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
