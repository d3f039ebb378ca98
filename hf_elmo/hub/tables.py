"""Tables in Markdown, for cards and reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    """A table in Markdown, without a line end behind it; any text may stand in a cell.

    The first `names` columns stand at the left, the figures behind them at the right.
    """
    lines = [head, ["---" if column < names else "---:" for column in range(len(head))], *rows]
    if uneven := [line for line in lines if len(line) != len(head)]:
        raise ValueError(f"a row has {len(uneven[0])} cells, {list(uneven[0])}; expected {len(head)}, as in {head}.")
    cells = ([" ".join(text.replace("|", "\\|").splitlines()) for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
