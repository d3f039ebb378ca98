"""Processes that are killed or stopped by a signal, and resume: the very same weights, in one process and in two."""

import os
import random
import signal
import time

import pytest
from fresh_process import environments_of_ranks, run_together, start
from resuming_cases import assert_same_run, command, write_corpus


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path)


def run_to_the_end(corpus, output_dir, num_processes, **changes):
    words = command(corpus, output_dir, **changes)
    for done in run_together([words] * num_processes, environments_of_ranks(num_processes)):
        assert done.returncode == 0, done.stderr


def signal_at_a_random_moment(corpus, output_dir, num_processes, moment, numbers, **changes):
    """Start or resume, wait for the first sign of training and `moment` seconds more, and send each process its signal.

    Returns: The exit codes, and what was printed.
    """
    words = command(corpus, output_dir, resume_from_checkpoint="auto", **changes)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    output, said = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), "rw", strict=True))
    with output, open(os.devnull, "w") as nowhere:
        with said:
            ranks = environments_of_ranks(num_processes)
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


def kill_at_a_random_moment(corpus, output_dir, num_processes, moment, **changes):
    killed = [signal.SIGKILL] * num_processes
    signal_at_a_random_moment(corpus, output_dir, num_processes, moment, killed, **changes)


def test_a_signal_to_one_of_two_processes_stops_both_after_the_same_step(corpus):
    changes = {"max_steps": 80, "eval_steps": 500, "save_steps": 500}
    run_to_the_end(corpus, "whole", 2, **changes)
    codes, lines = signal_at_a_random_moment(corpus, "parts", 2, 0.2, [None, signal.SIGTERM], **changes)
    assert codes == [143, 143]
    said = [line for line in lines if line.startswith("stopped at step ")]
    (checkpoint,) = (corpus / "parts").glob("checkpoint-*")
    assert len(said) == 1 and f"{checkpoint.name}: " in said[0]
    assert "--resume_from_checkpoint auto" in said[0]
    run_to_the_end(corpus, "parts", 2, resume_from_checkpoint="auto", **changes)
    assert_same_run(corpus, "whole", "parts")


@pytest.mark.parametrize(
    ("num_processes", "kills"),
    [
        (1, 2),
        (2, 1),
        pytest.param(1, 10, marks=pytest.mark.slow),
        pytest.param(2, 10, marks=pytest.mark.slow),
    ],
)
def test_killed_runs_end_with_the_same_weights(corpus, num_processes, kills):
    changes = {"max_steps": 60 * kills, "shuffle_buffer_size": 10, "save_total_limit": 3}
    # Held-out text that is cut from the training text lies in a file beside the output while a run lasts.
    changes |= {"validation_file": None, "validation_split_percentage": 20.0}
    run_to_the_end(corpus, "whole", num_processes, **changes)
    choose = random.Random(kills + num_processes)
    for _ in range(kills):
        kill_at_a_random_moment(corpus, "parts", num_processes, choose.uniform(0, 0.8), **changes)
    run_to_the_end(corpus, "parts", num_processes, resume_from_checkpoint="auto", **changes)
    assert_same_run(corpus, "whole", "parts")
    assert list(corpus.glob(".*")) == [] and list((corpus / "parts").glob(".*")) == []
