"""Interleaved timing: every function once a round, so that whatever slows a round slows all of them."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

LEAST_ROUNDS = 5
MOST_ROUNDS = 100

Seconds = dict[str, list[float]]


def time_interleaved(
    functions: Mapping[str, Callable[[], Any]],
    rounds: int | None = None,
    budget: float = 20.0,
    synchronize: Callable[[], None] = lambda: None,
) -> Seconds:
    """Call each function once to warm up and then once a round, each round in an order of its own, always the same.

    What a function finds in the processor's caches is what the one before it left there: with the same neighbours in
    each round, one that comes behind another with the same weights would seem faster than it is.

    Args:
        functions: What to time, by name.
        rounds: How many rounds; None takes as many as fit into the budget, from 5 to 100.
        budget: Seconds for the rounds where their number is not given.
        synchronize: Waits for the device to finish; called before each reading of the clock.
    Returns: The seconds of each function, one entry a round.
    """
    names = list(functions)
    for name in names:
        functions[name]()
    seconds: Seconds = {name: [] for name in names}
    orders = random.Random(0)
    done, began = 0, time.perf_counter()
    while done < (rounds or LEAST_ROUNDS) or (
        rounds is None and done < MOST_ROUNDS and time.perf_counter() - began < budget
    ):
        for name in orders.sample(names, len(names)):
            seconds[name].append(_time_once(functions[name], synchronize))
        done += 1
    return seconds


def synchronizer(device: torch.device) -> Callable[[], None]:
    """What waits for the device; nothing where calls return when their work is done."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


def median_ratio(peer: list[float], ours: list[float]) -> float:
    """How many times faster ours is: the median of the rounds' ratios, whose two halves ran side by side."""
    return statistics.median(theirs / own for theirs, own in zip(peer, ours, strict=True))


def fastest(seconds: Seconds, names: tuple[str, ...]) -> str | None:
    """Which of the names that were timed has the smallest median; None where none was."""
    timed = [name for name in names if name in seconds]
    return min(timed, key=lambda name: statistics.median(seconds[name]), default=None)


def summarize(seconds: Seconds, words: int) -> dict[str, dict[str, float]]:
    """Median, fastest and slowest round in seconds, and words per second at the median, of each function."""
    return {
        name: {
            "median": statistics.median(values),
            "fastest": min(values),
            "slowest": max(values),
            "words_per_second": words / statistics.median(values),
        }
        for name, values in seconds.items()
    }


def _time_once(function: Callable[[], Any], synchronize: Callable[[], None]) -> float:
    synchronize()
    start = time.perf_counter()
    function()
    synchronize()
    return time.perf_counter() - start
