"""How far a long pass over a text is: a bar on a terminal, and elsewhere a line every half minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")

SECONDS_BETWEEN_LINES = 30.0


def track(
    iterable: Iterable[Item],
    description: str,
    unit: str,
    total: int | None = None,
    shown: bool = True,
    size: Callable[[Item], int] = lambda item: 1,
) -> Iterator[Item]:
    """The items of an iterable, while stderr shows how many have gone by.

    Args:
        iterable: What is passed on, one by one.
        description: What is being done, "counting words" for example.
        unit: What is counted, in the plural: what an item is called, or what `size` counts.
        total: How many there are; None where it is not known.
        shown: False passes the items on in silence, as the other processes of a run do.
        size: How many units an item is, its words for example.
    """
    if not shown:
        yield from iterable
        return
    started = printed = time.monotonic()
    number, is_terminal = 0, sys.stderr.isatty()
    options = {"total": total, "dynamic_ncols": True, "leave": False, "unit_scale": True, "disable": not is_terminal}
    with tqdm(desc=description, unit=f" {unit}", **options) as bar:
        for item in iterable:
            yield item
            number += size(item)
            bar.update(size(item))
            if not is_terminal and (now := time.monotonic()) - printed >= SECONDS_BETWEEN_LINES:
                printed = now
                print(progress_line(description, unit, number, total, now - started), file=sys.stderr, flush=True)


def progress_line(description: str, unit: str, number: int, total: int | None, seconds: float) -> str:
    """What a file gets in place of a bar: how many items went by in how many seconds, and the time left if known."""
    share = "" if total is None else f" of {total:,}"
    line = f"{description}: {number:,}{share} {unit}, {number / max(seconds, 1e-9):,.0f} {unit}/s"
    if total is None:
        return f"{line}, {tqdm.format_interval(seconds)} so far"
    return f"{line}, {tqdm.format_interval(seconds * max(total - number, 0) / max(number, 1))} left"
