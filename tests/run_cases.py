"""Runs of pre-training that take a moment, also as commands; interrupted ones, and what is the same in the end."""

import json
import random
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hf_elmo.pretraining.arguments import PretrainingArguments
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.train import LaneTrainer

TINY = '{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]], "dropout": 0.0}'
# Draws random numbers in each step.
TINY_WITH_DROPOUT = TINY.replace("0.0", "0.2")
LINES = ["The cat sat on the mat .", "A dog ran to the park .", "It sat ."]
WORDS = "the a cat dog sat ran on to from mat park it was not very big small and back there".split()
# The beginning of a command of `python`: it leaves the picture of its run empty, which takes longer than the steps.
UNDRAWN = """
import runpy, sys
import hf_elmo.pretraining.run
hf_elmo.pretraining.run.plot_run = lambda results, path: path.write_bytes(b"")
runpy.run_module("hf_elmo", run_name="__main__", alter_sys=True)
"""


def write_lines(folder: Path, lines: list[str] = LINES) -> Path:
    """A few sentences over and over."""
    path = folder / "text.txt"
    path.write_text("".join(f"{line}\n" for line in lines * 20))
    (folder / "heldout.txt").write_text("".join(f"{line}\n" for line in lines * 2))
    return path


def make_arguments(folder: Path, **changes) -> PretrainingArguments:
    """The arguments of a run over `write_lines` that writes the directory "out" beside them."""
    return PretrainingArguments(
        **{
            "output_dir": str(folder / "out"),
            "train_file": [str(folder / "text.txt")],
            "validation_file": [str(folder / "heldout.txt")],
            "config_overrides": TINY,
            "per_device_train_batch_size": 2,
            "unroll_steps": 5,
            "max_steps": 6,
            **changes,
        }
    )


def write_corpus(directory):
    """Three shards of uneven lengths with uneven sentences, so that no two processes are ever at one place."""
    choose = random.Random(1)
    for shard, num_sentences in enumerate((70, 40, 15)):
        lines = (" ".join(choose.choices(WORDS, k=choose.randint(1, 14))) for _ in range(num_sentences))
        (directory / f"train-{shard}.txt").write_text("".join(f"{line}\n" for line in lines))
    (directory / "heldout.txt").write_text("the cat sat on the mat\na dog ran\n" * 3)
    return directory


def flags(corpus, output_dir, **changes):
    return {
        "output_dir": str(corpus / output_dir),
        "train_file": [str(corpus / "train-*.txt")],
        "validation_file": [str(corpus / "heldout.txt")],
        "config_overrides": TINY_WITH_DROPOUT,
        "per_device_train_batch_size": 3,
        "unroll_steps": 5,
        "max_steps": 40,
        "eval_steps": 15,
        "save_steps": 7,
        "skip_baselines": True,
        **changes,
    }


def train(corpus, output_dir, report=lambda line: None, **changes):
    return run_pretraining(PretrainingArguments(**flags(corpus, output_dir, **changes)), report=report)


class Interruption(Exception):
    pass


def interrupt_at(monkeypatch, step, number=None):
    """Stop a run of this process in the middle of a step, behind its backward pass, or send it a signal once."""
    clip = LaneTrainer._clip_gradients

    def clip_or_stop(trainer):
        if trainer.step == step and number is None:
            raise Interruption
        if trainer.step == step and not trainer.signals.number:
            signal.raise_signal(number)
        return clip(trainer)

    monkeypatch.setattr(LaneTrainer, "_clip_gradients", clip_or_stop)


def train_in_part(corpus, output_dir, step, **changes):
    """A run that is interrupted in a step."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interruption):
        interrupt_at(patch, step)
        train(corpus, output_dir, **changes)


def command(corpus, output_dir, program=UNDRAWN, **changes):
    words = []
    for name, value in flags(corpus, output_dir, **changes).items():
        if isinstance(value, bool):
            words += [f"--{name}"] if value else []
        elif value is not None:
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return ["-c", program, "pretrain", *words]


def weights(directory):
    return load_file(directory / "model.safetensors")


def assert_same_weights(first, second):
    """The same bits in each weight of two directories."""
    first, second = weights(first), weights(second)
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


def assert_same_run(corpus, expected, found):
    """The same weights, and the same figures but for the times."""
    assert_same_weights(corpus / expected, corpus / found)
    results = [json.loads((corpus / name / "results.json").read_text()) for name in (expected, found)]
    for result in results:
        for entry in (*result["evaluations"], *result["history"]):
            del entry["seconds"]
            entry.pop("words_per_second", None)
    for key in ("perplexity", "perplexity_cold", "words_trained", "training_text", "evaluations", "history"):
        assert results[0][key] == results[1][key]
