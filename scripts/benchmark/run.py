"""A benchmark from its arguments to its files: gate, timings, targets, table and JSON."""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hf_elmo import kernels
from hf_elmo.checkpoints.provenance import describe_run

from .cases import (
    AUTO,
    BACKENDS,
    COMPILED,
    MATRIX_PRODUCT,
    PLAIN,
    READABLE,
    READING,
    Case,
    Contestants,
    bilm_alone,
    make_tokenizer,
    training_step,
    words_to_vectors,
)
from .cuda_cases import bilm_in_precisions, training_step_in_precisions
from .floor import (
    count_bilm_operations,
    count_encoder_operations,
    count_matrix_product_operations,
    floor_seconds,
    reading_floor_seconds,
)
from .gate import Deviation, check_cases, check_scans
from .gate import to_json as deviations_to_json
from .profiles import render_profiles
from .report import render_origin, render_report, write_report
from .sentences import describe_batch, pick_batch, read_sentences
from .sizes import SIZES
from .targets import FLOOR, READING_FLOOR, WHOLE_FLOOR, Outcome, judge
from .targets import to_json as outcomes_to_json
from .timing import summarize, synchronizer, time_interleaved

RESULTS_FILE, REPORT_FILE, PROFILE_FILE = "benchmark.json", "benchmark.md", "profile.md"
HELP_TEXTS = "CPython's own help texts"
TOKENIZED_SENTENCES = 1024
HALF_PRODUCTS = ("auto", "native", "float32")


@dataclass
class BenchmarkSettings:
    """What to measure; the flags of scripts/benchmark.

    Args:
        sizes: Keys of `SIZES`.
        batch_sizes: Sentences of a batch; the training step always has 32 lanes of 20 words.
        rounds: Rounds of each case; None takes as many as fit into `seconds_per_case`, from 5 to 100.
        seconds_per_case: See `rounds`.
        backends: Ours to measure; None takes all that run here.
        allennlp: The folder that holds AllenNLP's files; None leaves it out.
        text_file: Where the sentences come from; None takes CPython's help texts.
        output_dir: Where benchmark.json and benchmark.md are written.
        device: "cpu" or "cuda"; on the latter other cases are run, in three precisions.
        threads: Of torch; None leaves them as they are.
        seed: Of the weights and the order of the sentences.
        half_products: How bf16 is multiplied: "native", "float32", or "auto" for what suits the processor.
        profile: Write profile.md too: where the time of words to vectors goes.
    """

    sizes: Sequence[str] = ("small", "original")
    batch_sizes: Sequence[int] = (32, 1)
    rounds: int | None = None
    seconds_per_case: float = 20.0
    backends: Sequence[str] | None = None
    allennlp: str | None = None
    text_file: str | None = None
    output_dir: str | os.PathLike = "output/benchmark"
    device: str = "cpu"
    threads: int | None = None
    seed: int = 0
    half_products: str = "auto"
    profile: bool = False

    def check(self) -> None:
        """Check what can be checked before anything is built.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        for name, values, valid in (
            ("sizes", self.sizes, tuple(SIZES)),
            ("backends", self.backends or (), BACKENDS),
            ("device", (self.device,), ("cpu", "cuda")),
            ("half_products", (self.half_products,), HALF_PRODUCTS),
        ):
            for value in values:
                if value not in valid:
                    raise ValueError(f"--{name} holds {value!r}; wanted one of {', '.join(valid)}.")
        for name, values in (
            ("batch_sizes", self.batch_sizes),
            ("rounds", () if self.rounds is None else (self.rounds,)),
            ("threads", () if self.threads is None else (self.threads,)),
        ):
            for value in values:
                if value < 1:
                    raise ValueError(f"--{name} is {value}; it must be an integer >= 1.")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("--device is 'cuda', but torch sees no GPU here; leave it out to measure on the CPU.")


def run_benchmark(settings: BenchmarkSettings) -> dict[str, Any]:
    """Check everything, then time everything, print the report and write it.

    Returns: What stands in benchmark.json.
    Raises: GateError where a backend or a peer computes something else, before anything is timed; ValueError or OSError
        for arguments that cannot be.
    """
    settings.check()
    _set_up_torch(settings)
    # Before minutes in which somebody may commit.
    run = describe_run()
    backends, not_run = choose_backends(settings.backends)
    sentences = read_sentences(settings.text_file, settings.seed)
    with warnings.catch_warnings(), kernels.half_products(settings.half_products):
        warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")
        cases = _build_cases(settings, backends, sentences)
        deviations = _check(cases, backends, torch.device(settings.device))
        timings, outcomes = _time(cases, settings)
        bf16_products = describe_bf16_products(settings)
    results = {
        **run,
        "device": settings.device,
        "text": HELP_TEXTS if settings.text_file is None else Path(settings.text_file).name,
        "batches": [describe_batch(pick_batch(sentences, batch_size)) for batch_size in settings.batch_sizes],
        "not_run": not_run,
        "bf16_products": bf16_products,
        "targets": outcomes_to_json(outcomes),
        "timings": timings,
        "tokenizer": time_tokenizer(sentences[:TOKENIZED_SENTENCES], settings.rounds),
        "deviations": deviations_to_json(deviations),
    }
    write_report(settings.output_dir, RESULTS_FILE, results, REPORT_FILE, render_report(results))
    if settings.profile:
        _say("profiling")
        content = f"{render_profiles(cases)}\n{render_origin(results)}\n"
        (Path(settings.output_dir) / PROFILE_FILE).write_text(content, encoding="utf-8")
    return results


def choose_backends(asked: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    """The backends to measure, the readable one first, and why the others do not run here.

    Raises: ValueError where one that was asked for by name cannot run.
    """
    reasons = {name: why for name, why in kernels.why_not().items() if name in BACKENDS}
    for name in asked or ():
        if name in reasons:
            raise ValueError(f"--backends holds {name!r}, which cannot run here: {reasons[name]}.")
    return [
        name for name in BACKENDS if name == READABLE or (name in asked if asked else name not in reasons)
    ], {} if asked else reasons


def describe_bf16_products(settings: BenchmarkSettings) -> dict[str, str | None]:
    """The dtype in which bf16 numbers are multiplied now, and why the processor does not do it itself."""
    dtype = kernels.product_dtype(torch.bfloat16, settings.device)
    reason = kernels.why_not().get("bfloat16") if settings.half_products == "auto" else "--half_products says so"
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "reason": None if dtype == torch.bfloat16 else reason,
    }


def time_tokenizer(sentences: list[list[str]], rounds: int | None) -> dict[str, Any]:
    """Seconds and words per second, on one core, of one padded call whose words have been seen before."""
    tokenizer, text = make_tokenizer(), [" ".join(sentence) for sentence in sentences]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = time_interleaved({"tokenizer": lambda: tokenizer(text, padding=True, return_tensors="pt")}, rounds, 5)
    finally:
        torch.set_num_threads(threads)
    words = sum(map(len, sentences))
    median = statistics.median(seconds["tokenizer"])
    return {"sentences": len(sentences), "words": words, "median": median, "words_per_second": words / median}


def _set_up_torch(settings: BenchmarkSettings) -> None:
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    if settings.device == "cuda":
        # cuDNN's LSTM would cut float32 to ten bits of mantissa, which is not what the rows say.
        torch.backends.cudnn.allow_tf32 = False


def _build_cases(settings: BenchmarkSettings, backends: list[str], sentences: list[list[str]]) -> list[Case]:
    device = torch.device(settings.device)
    cases = []
    for size in settings.sizes:
        contestants = Contestants(size, backends, settings.allennlp, settings.seed)
        if device.type == "cuda":
            cases += [bilm_in_precisions(contestants, device), training_step_in_precisions(contestants, device)]
            continue
        for batch_size in settings.batch_sizes:
            cases += [
                words_to_vectors(contestants, sentences, batch_size),
                bilm_alone(contestants, sentences, batch_size),
            ]
        cases.append(training_step(contestants))
    return cases


def _check(cases: list[Case], backends: list[str], device: torch.device) -> list[Deviation]:
    _say("comparing every backend with the readable scan")
    exact = [name for name in backends if name in (PLAIN, COMPILED)] if device.type == "cpu" else [AUTO]
    return check_scans(exact, device) + check_cases(cases)


def _time(cases: list[Case], settings: BenchmarkSettings) -> tuple[list[dict[str, Any]], list[Outcome]]:
    timings, outcomes = [], []
    synchronize = synchronizer(torch.device(settings.device))
    for case in cases:
        _say(f"timing {case.title}")
        seconds = time_interleaved(case.functions, settings.rounds, settings.seconds_per_case, synchronize)
        products, readings = seconds.pop(MATRIX_PRODUCT, None), seconds.pop(READING, None)
        config = SIZES[case.size]()
        operations = count_bilm_operations(config, case.words)
        if products is not None:
            seconds[FLOOR] = floor_seconds(products, operations)
        if readings is not None:
            seconds[READING_FLOOR] = reading_floor_seconds(products, readings, config, case.rows)
            # Both sentence markers are words of their own.
            of_encoder = floor_seconds(products, count_encoder_operations(config, case.batch["distinct_words"] + 2))
            seconds[WHOLE_FLOOR] = [sum(parts) for parts in zip(seconds[READING_FLOOR], of_encoder, strict=True)]
        timings.append(
            {
                "case": case.name,
                "size": case.size,
                "batch_size": case.batch_size,
                "batch": case.batch,
                "words": case.words,
                "rounds": len(seconds[READABLE]),
                "bilm_operations": operations,
                "gflops_of_a_large_product": None if products is None else _gflops(products),
                "functions": summarize(seconds, case.words),
            }
        )
        if settings.device == "cpu":
            outcomes.extend(judge(case.name, case.size, case.batch_size, seconds))
    return timings, outcomes


def _gflops(products: list[float]) -> float:
    return count_matrix_product_operations() / statistics.median(products) / 1e9


def _say(text: str) -> None:
    print(f"{text} ...", flush=True)
