"""Timing that a busy machine does not mislead: functions take turns in a process, checkouts take turns in processes."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmark import models

LEAST_ROUNDS, MOST_ROUNDS = 5, 100
ROOT = Path(__file__).resolve().parents[2]
THIS, OTHER = "this", "other"

# What was timed of one thing: "case", "size", "batch_size", "words" and, by function, the "seconds" of each call.
Cell = dict[str, Any]


def time_interleaved(
    functions: Mapping[str, Callable[[], Any]], budget: float, synchronize: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """Call each function once a round, each round in another order, which is the same in every run.

    A function finds in the processor's caches what the one before it left there: always behind another one with the
    same weights, it would seem faster than it is.

    Args:
        functions: What to time, by name; each has been called before.
        budget: Seconds for all rounds, of which there are 5 at least and 100 at most.
        synchronize: Waits for the device to finish.
    Returns: The seconds of each function, one entry per round.
    """
    names = list(functions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    orders, began = random.Random(0), time.perf_counter()
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.perf_counter() - began > budget:
            break
        for name in orders.sample(names, len(names)):
            synchronize()
            start = time.perf_counter()
            functions[name]()
            synchronize()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that both benchmarks have."""
    parser.add_argument("--sizes", nargs="+", choices=models.SIZES, default=["small", "original"], help="of the models")
    parser.add_argument("--other_checkout", help="folder of another commit; its package takes turns with this one's")
    parser.add_argument("--rounds", type=int, help="processes of each checkout (default: 1, and 5 to compare two)")
    parser.add_argument("--seconds_per_case", type=float, help="in each process (default: 20, and 4 to compare two)")
    parser.add_argument("--text_file", help="text to cut sentences from (default: CPython's own help texts)")
    parser.add_argument("--allennlp", help="folder with allennlp/modules/elmo.py, the unzipped wheel")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="default: %(default)s")
    parser.add_argument("--threads", type=int, help="of PyTorch (default: as many as it takes)")
    parser.add_argument("--output_dir", default="output/benchmark", help="for the files (default: %(default)s)")
    # The measurement itself, in a process of its own.
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)


def settle(arguments: argparse.Namespace) -> None:
    """Check what names a folder, and fill in the defaults that depend on whether two checkouts are compared."""
    for flag, file in (("other_checkout", "hf_elmo/__init__.py"), ("allennlp", "allennlp/modules/elmo.py")):
        folder = getattr(arguments, flag)
        if folder is not None and not Path(folder, file).is_file():
            raise SystemExit(f"--{flag} {folder!r} holds no {file}; name the folder of the checkout or unzipped wheel.")
    compares = arguments.other_checkout is not None
    arguments.allennlp = None if compares else arguments.allennlp
    arguments.rounds = arguments.rounds or (5 if compares else 1)
    arguments.seconds_per_case = arguments.seconds_per_case or (4.0 if compares else 20.0)


def measure_checkouts(script: str, argv: Sequence[str], arguments: argparse.Namespace) -> dict[str, list[list[Cell]]]:
    """Run a script's measurement in fresh processes, this checkout and the other one in turn.

    Each process has its memory and its threads laid out anew, so that the median of several says what one cannot. The
    script is run again with `--worker` and either package in front of PYTHONPATH. Returns the cells of each round, by
    checkout.
    """
    checkouts = {THIS: ROOT}
    if arguments.other_checkout is not None:
        checkouts[OTHER] = Path(arguments.other_checkout).resolve()
    cells: dict[str, list[list[Cell]]] = {name: [] for name in checkouts}
    for number in range(arguments.rounds):
        for name in list(checkouts)[:: -1 if number % 2 else 1]:
            print(f"round {number + 1} of {arguments.rounds}, {name} checkout", file=sys.stderr, flush=True)
            environment = {**os.environ, "PYTHONPATH": str(checkouts[name])}
            command = [sys.executable, script, *argv, "--worker"]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                raise SystemExit(done.returncode)
            cells[name].append(json.loads(done.stdout.splitlines()[-1]))
    return cells


def summarize(rounds: Sequence[Sequence[Cell]]) -> list[Cell]:
    """All rounds together: of each function the median, fastest and slowest call, and words per second."""
    cells = []
    for same in zip(*rounds, strict=True):
        functions = {}
        for name in same[0]["seconds"]:
            seconds = [value for each in same for value in each["seconds"][name]]
            median = statistics.median(seconds)
            functions[name] = {
                "median": median,
                "fastest": min(seconds),
                "slowest": max(seconds),
                "calls": len(seconds),
                "words_per_second": same[0]["words"] / median,
            }
        cells.append({key: value for key, value in same[0].items() if key != "seconds"} | {"functions": functions})
    return cells


def compare(these: Sequence[Sequence[Cell]], others: Sequence[Sequence[Cell]]) -> list[dict[str, Any]]:
    """How many times as fast as the other checkout this one is: of each function the median of the rounds' ratios."""
    rows = []
    for same, other in zip(zip(*these, strict=True), zip(*others, strict=True), strict=True):
        for name in same[0]["seconds"]:
            ratios = [
                statistics.median(theirs["seconds"][name]) / statistics.median(ours["seconds"][name])
                for ours, theirs in zip(same, other, strict=True)
            ]
            place = {key: same[0][key] for key in ("case", "size", "batch_size")}
            ratio = statistics.median(ratios)
            rows.append({**place, "function": name, "ratio": ratio, "least": min(ratios), "most": max(ratios)})
    return rows
