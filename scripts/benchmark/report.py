"""From the flags of a benchmark to its files: figures as JSON, one table in Markdown."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from hf_elmo.hub.provenance import describe_origin, describe_run, write_json
from hf_elmo.hub.scores import markdown_table

from . import timing

_FLOOR, _LOOP_MODEL = "floor", "forward + backward"
# What counts as slower when two checkouts are compared.
SLOWER = 0.9

_OF_TIMES = (
    "Medians of interleaved calls; words are real words and special tokens. The floor is what the matrix products take "
    "at the rate of one large float32 product in the same rounds, where no step of a direction and layer is faster "
    "than one reading of its recurrent weights; of whole models it has the token encoder's products over distinct "
    "words, of a training step three times the forward pass. The share of the pre-training loop is that of its forward "
    "and backward passes."
)
_OF_RATIOS = (
    "In each round a fresh process of either checkout; a ratio is the median of the rounds' ratios of median times, "
    "with the least and the greatest one behind it, and more than 1 where this commit is the faster one."
)


def main(
    script: str,
    parse_arguments: Callable[[Sequence[str]], argparse.Namespace],
    measure: Callable[[argparse.Namespace], list[timing.Cell]],
    name: str,
) -> None:
    """Run a benchmark: as what its user calls, or as one of the processes that measure."""
    argv = sys.argv[1:]
    arguments = parse_arguments(argv)
    timing.settle(arguments)
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    if arguments.worker:
        logging.disable_progress_bar()
        print(json.dumps(measure(arguments)))
        return
    # Before minutes in which somebody may commit.
    text = "CPython's own help texts" if arguments.text_file is None else Path(arguments.text_file).name
    results = {**describe_run(), "device": arguments.device, "text": text, "rounds": arguments.rounds}
    cells = timing.measure_checkouts(script, argv, arguments)
    results["timings"] = timing.summarize(cells[timing.THIS])
    if timing.OTHER in cells:
        name = "compared" if name == "benchmark" else f"{name}-compared"
        command = ["git", "-C", arguments.other_checkout, "describe", "--always", "--dirty", "--abbrev=12"]
        commit = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        results["other_commit"] = commit or Path(arguments.other_checkout).name
        results["other_timings"] = timing.summarize(cells[timing.OTHER])
        results["ratios"] = timing.compare(cells[timing.THIS], cells[timing.OTHER])
    directory = Path(arguments.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / f"{name}.json", results)
    report = render_report(results)
    (directory / f"{name}.md").write_text(report, encoding="utf-8")
    print(f"{report}\nwritten to {directory / name}.json and .md")


def render_report(results: Mapping[str, Any]) -> str:
    """The table of a run, as it is in the JSON file, and where it comes from; of two checkouts the ratios."""
    is_compared = "ratios" in results
    table = render_ratios(results) if is_compared else render_timings(results)
    origin = f"{describe_origin(results)}. Random weights; text from {results['text']}; {results['rounds']} rounds."
    return f"{table}\n\n```bash\n{results['command']}\n```\n\n{origin} {_OF_RATIOS if is_compared else _OF_TIMES}\n"


def render_timings(results: Mapping[str, Any]) -> str:
    """Median milliseconds, words per second and the share of the floor of every function."""
    cells = {}
    for case in results["timings"]:
        functions = case["functions"]
        least = functions.get(_FLOOR) or functions.get(_LOOP_MODEL)
        for name, timed in functions.items():
            text = f"{1000 * timed['median']:,.1f} ms, {timed['words_per_second']:,.0f}/s"
            share = f", {least['median'] / timed['median']:.2f}" if least and timed is not least else ""
            cells[(case["case"], name), _column(case)] = text + share
    return _pivot(["median time, words per second, share of the floor", "by"], cells)


def render_ratios(results: Mapping[str, Any]) -> str:
    """How many times as fast as the other commit this one is, and what is slower by more than a tenth."""
    cells, slower = {}, []
    for row in results["ratios"]:
        if row["function"] != _FLOOR:
            text = f"{row['ratio']:.2f} ({row['least']:.2f}-{row['most']:.2f})"
            cells[(row["case"], row["function"]), _column(row)] = text
            if row["ratio"] < SLOWER:
                place = f"{row['case']}, {row['function']}, {row['size']}, {row['batch_size']}"
                slower.append(f"{place}: {row['ratio']:.2f}")
    table = _pivot([f"times as fast as {results['other_commit']}", "by"], cells)
    return f"{table}\n\nSlower by more than a tenth: {'; '.join(slower) or 'nothing'}."


def render_words_per_second(results: Mapping[str, Any]) -> str:
    """The README's table: words per second from character ids to vectors."""
    cells = {
        ((name,), f"{_column(case)} at a time"): f"{case['functions'][name]['words_per_second']:,.0f}"
        for name in ("AllenNLP", "plain", "compiled", "bf16")
        for case in results["timings"]
        if case["case"] == "words to vectors" and name in case["functions"]
    }
    return _pivot(["words per second"], cells)


def _column(entry: Mapping[str, Any]) -> str:
    return f"{entry['size']}, {entry['batch_size']}"


def _pivot(head: Sequence[str], cells: Mapping[tuple[tuple[str, ...], str], str]) -> str:
    """A table with a row for each first key and a column for each second one, both in the order of appearance."""
    columns = list(dict.fromkeys(column for _, column in cells))
    rows = [
        [*row, *(cells.get((row, column), "-") for column in columns)] for row in dict.fromkeys(row for row, _ in cells)
    ]
    return markdown_table([*head, *columns], rows, names=len(head))
