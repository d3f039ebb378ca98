"""Batches of like lengths and runs of neighbors: each item once, in its order, and none larger than allowed."""

from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.inference import batches
from hf_elmo.inference.batches import cut_batches, in_batches, runs


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20), st.integers(1, 40))
def test_each_item_once_in_its_order_within_the_limit(lengths, most, ahead):
    seen = []

    def compute(batch):
        seen.append(batch)
        return [(number, length) for number, length in batch]

    items = list(enumerate(lengths))
    read_ahead, batches._READ_AHEAD = batches._READ_AHEAD, ahead
    try:
        assert list(in_batches(iter(items), lambda item: item[1], compute, most)) == items
    finally:
        batches._READ_AHEAD = read_ahead
    for batch in seen:
        assert len(batch) == 1 or len(batch) * max(length for _, length in batch) <= most


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_runs_are_the_items_in_their_order_and_end_as_soon_as_they_are_full(sizes, full):
    found = list(runs(iter(sizes), lambda size: size, full))
    assert [size for run in found for size in run] == sizes and all(found)
    assert all(sum(run) >= full for run in found[:-1]) and all(sum(run[:-1]) < full for run in found)


def test_items_that_are_read_in_parts_share_a_batch():
    assert list(cut_batches([9, 1, 7], 8, read_at_once=4)) == [[0, 2], [1]]
    assert list(cut_batches([9, 1, 7], 8)) == [[0], [2], [1]]
