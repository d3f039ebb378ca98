"""Tables in Markdown, for cards and reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    """A table in Markdown, without a line end behind it.

    A bar in a cell is escaped and a line end becomes a space, so that any text may stand there.

    Args:
        head: Titles of the columns.
        rows: As many cells each.
        names: How many of the first columns are names, which stand at the left; figures stand at the right.
    Raises: ValueError where a row has more or fewer cells than the head.
    """
    lines = [head, ["---" if column < names else "---:" for column in range(len(head))], *rows]
    if uneven := [line for line in lines if len(line) != len(head)]:
        raise ValueError(f"a row has {len(uneven[0])} cells, {list(uneven[0])}; expected {len(head)}, as in {head}.")
    cells = ([" ".join(text.replace("|", "\\|").splitlines()) for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
