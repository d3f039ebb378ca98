"""Commands in processes of their own: lanes in one or two take the same steps, killed ones end with the same bits."""

import json
import os
import random
import signal
import time

import pytest
import torch
from fresh_process import environments_of_ranks, run_together, start
from run_cases import TINY, UNDRAWN, WORDS, assert_same_run, command, weights, write_corpus
from tolerances import REORDERED_FLOAT32

from hf_elmo.text.corpora import is_in_fraction

UNROLL_STEPS = 6
NUM_STEPS = 12


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path)


def run_to_the_end(corpus, output_dir, num_processes, **changes):
    words = command(corpus, output_dir, **changes)
    for done in run_together([words] * num_processes, environments_of_ranks(num_processes)):
        assert done.returncode == 0, done.stderr


# Lanes in one process and in two


@pytest.fixture
def write_text(tmp_path):
    def write(lengths):
        """A sentence of each length, which is a document of its own where documents are read."""
        choose = random.Random(0)
        lines = (" ".join(choose.choices(WORDS, k=length)) for length in lengths)
        (tmp_path / "train-0.txt").write_text("".join(f"{line}\n\n" for line in lines))
        (tmp_path / "heldout.txt").write_text("the cat sat on the mat\n\na dog ran\n\n" * 5)
        return tmp_path

    return write


def train(folder, num_processes, lanes, windows, reset_state, **changes):
    name = f"{num_processes}-{lanes}-{windows}-{len(changes)}"
    changes |= {"per_device_train_batch_size": lanes, "gradient_accumulation_steps": windows}
    changes |= {"config_overrides": TINY, "unroll_steps": UNROLL_STEPS, "reset_state": reset_state}
    # Its sums of squares start from 1, so that no step divides a rounding error by its own size.
    changes = {"max_steps": NUM_STEPS, "save_steps": None, "recipe": "paper", "objective": "full", **changes}
    run_to_the_end(folder, name, num_processes, **changes)
    return weights(folder / name), json.loads((folder / name / "results.json").read_text())


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
    start = train(folder, 1, 64, 1, "never", max_steps=1)
    assert_alike(one, train(folder, 2, 32, 1, "never"))
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


# What each process does

NOTING = """
import json, os
from hf_elmo.pretraining import corpus_stats, run
from hf_elmo.pretraining.lanes import LaneFiller
from hf_elmo.pretraining.objective import LogUniformSampler

def note(what):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps(what) + chr(10))

def noting(name, function):
    def call(*args, **kwargs):
        note([name, os.environ["RANK"]])
        return function(*args, **kwargs)
    return call

for name in ("look_at", "count_baselines"):
    setattr(corpus_stats, name, noting(name, getattr(corpus_stats, name)))
for name in ("read_corpus", "find_checkpoint"):
    setattr(run, name, noting(name, getattr(run, name)))
windows, draw = LaneFiller.windows, LogUniformSampler.draw

def noted_windows(filler, stream):
    # Evaluations deal their text to 32 lanes or more.
    if len(filler._lanes) < 32:
        note(["pass", filler.num_passes])
        stream = (note(["trained", words]) or words for words in stream)
    return windows(filler, stream)

def noted_draw(sampler):
    note(["drawn", draw(sampler).ids.tolist()])
    return draw(sampler)

LaneFiller.windows, LogUniformSampler.draw = noted_windows, noted_draw
"""


SAMPLED = {"objective": "sampled", "num_negative_samples": 8}


def run_noting(folder, **changes):
    """Two processes, what each of them did, and their ends."""
    environments = [{**ranks, "NOTES": str(folder / "notes")} for ranks in environments_of_ranks(2)]
    changes = {"validation_file": None, "skip_baselines": False, "max_steps": None, "save_steps": 0, **changes}
    words = command(folder, "out", NOTING + UNDRAWN, **changes)
    ends = run_together([words] * 2, environments)
    return ends, [json.loads(line) for line in (folder / "notes").read_text().splitlines()]


def test_the_main_process_alone_reads_ahead_and_nobody_trains_on_held_out_text(tmp_path):
    texts = [f"{word} {number} {other}" for number, word in enumerate(WORDS) for other in WORDS[:10]]
    for name in range(4):
        (tmp_path / f"train-{name}.txt").write_text("".join(f"{text}\n" for text in texts[name::4]))
    ends, notes = run_noting(
        tmp_path, validation_split_percentage=10, num_train_epochs=3.2, shuffle_buffer_size=8, **SAMPLED
    )
    assert [end.returncode for end in ends] == [0, 0], ends[0].stderr + ends[1].stderr
    assert [note for note in notes if note[0] not in ("trained", "pass", "drawn")] == [
        [name, "0"] for name in ("find_checkpoint", "read_corpus", "look_at", "count_baselines")
    ]
    assert ["pass", 3] in notes
    drawn = [tuple(words) for what, words in notes if what == "drawn"]
    assert len(set(drawn)) > 0.6 * len(drawn)  # each process draws its own negatives
    held_out = {text for text in texts if is_in_fraction(text, 0.1, "validation")}
    trained = {" ".join(words) for what, words in notes if what == "trained"}
    assert trained == set(texts) - held_out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    # Three words and the closing special token of each.
    assert results["perplexity"]["num_targets"] == results["perplexity_cold"]["num_targets"] == 4 * len(held_out)
    assert results["training_text"]["sentences"] == len(texts) - len(held_out)
    assert list(tmp_path.glob(".*")) == []


def test_what_the_main_process_refuses_ends_all_processes(tmp_path):
    (tmp_path / "train-0.txt").write_text("one line alone\n")
    for end in run_noting(tmp_path)[0]:
        assert end.returncode == 2 and "Traceback" not in end.stderr
        assert end.stderr.splitlines()[-1].startswith("error: ")
    assert {path.name for path in tmp_path.iterdir()} == {"train-0.txt", "notes"}


# Kills and signals


def signal_at_a_random_moment(corpus, output_dir, moment, numbers, **changes):
    """Start or resume, wait for the first sign of training and `moment` seconds more, and send each process its signal.

    Returns: The exit codes, and what was printed.
    """
    words = command(corpus, output_dir, resume_from_checkpoint="auto", **changes)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    output, said = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), "rw", strict=True))
    with output, open(os.devnull, "w") as nowhere:
        with said:
            ranks = environments_of_ranks(len(numbers))
            processes = [start(words, said, nowhere, env=environment | rank) for rank in ranks]
        lines = []
        for line in output:
            lines.append(line)
            if line.startswith(("step ", "resuming from")):
                break
        time.sleep(moment)
        for process, number in zip(processes, numbers, strict=True):
            if number is not None:
                os.kill(process.pid, number)
        return [process.wait() for process in processes], lines + list(output)


# As the last that holds a process group, DDP's reducer waits for gloo's threads with the interpreter locked.
WATCHED = UNDRAWN.replace(
    "runpy.run_module",
    """
import gc, torch
from torch.nn.parallel import DistributedDataParallel
destroy = torch.distributed.destroy_process_group
def count_and_destroy(*group):
    print("left of DDP:", sum(isinstance(each, DistributedDataParallel) for each in gc.get_objects()))
    destroy(*group)
torch.distributed.destroy_process_group = count_and_destroy
runpy.run_module""",
)


def test_ddp_goes_before_its_process_group(corpus):
    _, script, *words = command(corpus, "out", max_steps=2)
    assert script == UNDRAWN
    for done in run_together([["-c", WATCHED, *words]] * 2, environments_of_ranks(2)):
        assert done.returncode == 0, done.stderr
        assert "left of DDP: 0" in done.stdout


def test_a_signal_to_one_of_two_processes_stops_both_after_the_same_step(corpus):
    changes = {"max_steps": 80, "eval_steps": 500, "save_steps": 500}
    run_to_the_end(corpus, "whole", 2, **changes)
    codes, lines = signal_at_a_random_moment(corpus, "parts", 0.2, [None, signal.SIGTERM], **changes)
    assert codes == [143, 143]
    said = [line for line in lines if line.startswith("stopped at step ")]
    (checkpoint,) = (corpus / "parts").glob("checkpoint-*")
    assert len(said) == 1 and f"{checkpoint.name}: " in said[0]
    assert "--resume_from_checkpoint auto" in said[0]
    run_to_the_end(corpus, "parts", 2, resume_from_checkpoint="auto", **changes)
    assert_same_run(corpus, "whole", "parts")


@pytest.mark.parametrize(
    ("num_processes", "kills"),
    [(1, 2), (2, 1), *(pytest.param(number, 10, marks=pytest.mark.slow) for number in (1, 2))],
)
def test_killed_runs_end_with_the_same_weights(corpus, num_processes, kills):
    changes = {"max_steps": 60 * kills, "shuffle_buffer_size": 10, "save_total_limit": 3}
    # Held-out text that is cut from the training text lies in a file beside the output while a run lasts.
    changes |= {"validation_file": None, "validation_split_percentage": 20.0}
    run_to_the_end(corpus, "whole", num_processes, **changes)
    choose = random.Random(kills + num_processes)
    for _ in range(kills):
        killed = [signal.SIGKILL] * num_processes
        signal_at_a_random_moment(corpus, "parts", choose.uniform(0, 0.8), killed, **changes)
    run_to_the_end(corpus, "parts", num_processes, resume_from_checkpoint="auto", **changes)
    assert_same_run(corpus, "whole", "parts")
    assert list(corpus.glob(".*")) == [] and list((corpus / "parts").glob(".*")) == []
