"""Groups of items: batches of like lengths, given back one by one in their order, and runs of neighbors."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_READ_AHEAD = 1024


def in_batches(
    items: Iterable[Item],
    length: Callable[[Item], int],
    compute: Callable[[Sequence[Item]], Sequence[Result]],
    max_words_per_batch: int,
) -> Iterator[Result]:
    """What `compute` makes of each item, in their order, called with items of like lengths.

    Items are read a thousand at a time; `length` counts their words, of which as many are computed at once.
    """
    items = iter(items)
    while buffer := list(itertools.islice(items, _READ_AHEAD)):
        results: dict[int, Result] = {}
        for batch in cut_batches(list(map(length, buffer)), max_words_per_batch):
            results.update(zip(batch, compute([buffer[index] for index in batch]), strict=True))
        yield from (results[index] for index in range(len(buffer)))


def cut_batches(lengths: Sequence[int], max_words: int, read_at_once: int = sys.maxsize) -> Iterator[list[int]]:
    """The indices of the items of each batch, the longest items first, at most `max_words` with padding or one item.

    Of an item at most `read_at_once` words count, where longer ones are read in parts.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    while order:
        count = max(1, max_words // max(1, min(lengths[order[0]], read_at_once)))
        yield order[:count]
        order = order[count:]


def runs(items: Iterable[Item], size: Callable[[Item], int], full: int) -> Iterator[list[Item]]:
    """Items that follow one another, together until their sizes sum up to `full`."""
    run: list[Item] = []
    total = 0
    for item in items:
        run.append(item)
        total += size(item)
        if total >= full:
            yield run
            run, total = [], 0
    if run:
        yield run
