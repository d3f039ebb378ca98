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
    """The items of an iterable, while stderr shows how many units have gone by.

    Args:
        iterable, description: What is passed on, one by one, and what is done with it, "counting words" for example.
        unit, total: What is counted, in the plural, and how many of it there are; None where that is not known.
        shown: False passes the items on in silence, as the other processes of a run do.
        size: How many units an item is, its words for example.
    """
    started = printed = time.monotonic()
    is_terminal, counted = sys.stderr.isatty(), {"total": total, "unit": f" {unit}"}
    options = {"unit_scale": True, "dynamic_ncols": True, "leave": False, "disable": not (shown and is_terminal)}
    number = 0
    with tqdm(desc=description, **counted, **options) as bar:
        for item in iterable:
            yield item
            number += size(item)
            bar.update(size(item))
            if shown and not is_terminal and (now := time.monotonic()) - printed >= SECONDS_BETWEEN_LINES:
                printed = now
                line = tqdm.format_meter(number, elapsed=now - started, ncols=0, prefix=description, **counted)
                print(line, file=sys.stderr, flush=True)
