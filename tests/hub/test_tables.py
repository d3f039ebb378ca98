"""Markdown tables keep their columns whatever stands in a cell."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.hub.tables import markdown_table

CELLS = st.text(st.characters(exclude_characters="\\"))


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4))
def test_every_line_has_as_many_columns_as_the_head(rows):
    lines = markdown_table(["a", "b", "c"], rows).split("\n")
    assert len(lines) == len(rows) + 2
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 4 for line in lines)


def test_names_stand_left_and_figures_right():
    assert markdown_table(["", "x"], [["a", "1"]]) == "|  | x |\n| --- | ---: |\n| a | 1 |"
    assert markdown_table(["", "", "x"], [], names=2).endswith("| --- | --- | ---: |")
    with pytest.raises(ValueError, match=r"2 cells.*expected 1"):
        markdown_table(["a"], [["b", "c"]])
