"""Tables in Markdown, for cards and reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1, align: str | None = None) -> str:
    """A table in Markdown, without a line end behind it.

    A bar in a cell is escaped and a line end becomes a space, so that any text may stand there.

    Args:
        head: Titles of the columns.
        rows: As many cells each.
        names: How many of the first columns are names, which stand at the left; figures stand at the right.
        align: `l` or `r` for each column, instead of `names`.
    Raises: ValueError where a row has more or fewer cells than the head.
    """
    marks = {"l": "---", "r": "---:"}
    align = align or ("l" * names).ljust(len(head), "r")
    lines = [head, [marks[letter] for letter in align[: len(head)]], *rows]
    for line in lines:
        if len(line) != len(head):
            raise ValueError(f"a row has {len(line)} cells, {list(line)}; expected {len(head)}, as in the head {head}.")
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").splitlines())
