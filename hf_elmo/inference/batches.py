"""Sentences of any number, computed in batches of like lengths and given back one by one in their order."""

from __future__ import annotations

import itertools
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
    """What `compute` makes of each item, in their order.

    Args:
        items: Read a thousand at a time.
        length: How many words an item has.
        compute: Called with items of like lengths; gives something for each.
        max_words_per_batch: Words computed at once, padding included; one longer item is computed by itself.
    """
    items = iter(items)
    while buffer := list(itertools.islice(items, _READ_AHEAD)):
        lengths = list(map(length, buffer))
        order = sorted(range(len(buffer)), key=lengths.__getitem__, reverse=True)
        results: dict[int, Result] = {}
        while order:
            # The first is the longest.
            count = max(1, max_words_per_batch // max(1, lengths[order[0]]))
            batch, order = order[:count], order[count:]
            results.update(zip(batch, compute([buffer[place] for place in batch]), strict=True))
        yield from (results[place] for place in range(len(buffer)))
