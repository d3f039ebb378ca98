"""Runs that are interrupted and gone on with: a text, the flags, and what has to be the same in the end."""

import json
import random

import torch
from safetensors.torch import load_file

from hf_elmo.pretraining.arguments import PretrainingArguments
from hf_elmo.pretraining.run import run_pretraining

TINY = '{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]], "dropout": 0.2}'
# The beginning of a command of `python`: it leaves the picture of its run empty, which takes longer than the steps.
UNDRAWN = """
import runpy, sys
import hf_elmo.pretraining.run
hf_elmo.pretraining.run.plot_run = lambda results, path: path.write_bytes(b"")
runpy.run_module("hf_elmo", run_name="__main__", alter_sys=True)
"""
WORDS = "the a cat dog sat ran on to from mat park it was not very big small and back there".split()


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
        "config_overrides": TINY,
        "per_device_train_batch_size": 3,
        "unroll_steps": 5,
        "max_steps": 40,
        "eval_steps": 15,
        "save_steps": 7,
        "skip_baselines": True,
        **changes,
    }


def train(corpus, output_dir, **changes):
    return run_pretraining(PretrainingArguments(**flags(corpus, output_dir, **changes)), report=lambda line: None)


def weights(directory):
    return load_file(directory / "model.safetensors")


def assert_same_run(corpus, expected, found):
    """The same bits in each weight, and the same figures but for the times."""
    first, second = weights(corpus / expected), weights(corpus / found)
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    results = [json.loads((corpus / name / "results.json").read_text()) for name in (expected, found)]
    for key in ("perplexity", "perplexity_cold", "words_trained", "training_text"):
        assert results[0][key] == results[1][key]
    for key in ("evaluations", "history"):
        figures = [
            [
                {name: value for name, value in entry.items() if name not in ("seconds", "words_per_second")}
                for entry in result[key]
            ]
            for result in results
        ]
        assert figures[0] == figures[1]


def command(corpus, output_dir, **changes):
    words = []
    for name, value in flags(corpus, output_dir, **changes).items():
        if isinstance(value, bool):
            words += [f"--{name}"] if value else []
        elif value is not None:
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return ["-c", UNDRAWN, "pretrain", *words]
