"""Which labels a classifier has."""

from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.tasks.inputs import choose_labels
from hf_elmo.tasks.readers.texts import LabelledTexts


def with_labels(*labels):
    places = [f"line {number}" for number in range(len(labels))]
    return LabelledTexts("train_file 'a'", ["x"] * len(labels), list(labels), places)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_numbers_are_in_the_order_of_their_size(numbers):
    labels = choose_labels({"train": with_labels("none", *map(str, numbers))})
    assert labels == [*map(str, sorted(numbers)), "none"]
