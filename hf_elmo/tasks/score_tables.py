"""Precision, recall and F1 of classes or of types of spans, as a table for the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def score_lines(title: str, rows: Sequence[tuple[str, Mapping[str, float]]], width: int) -> list[str]:
    """A title, the names of the scores, and a line of percents for each row.

    Args:
        title: The first line.
        rows: Names with their "precision", "recall", "f1" and "number".
        width: Of the column of names.
    """
    lines = [title, f"{'':{width}}  precision   recall       F1  support"]
    for name, row in rows:
        scores = "  ".join(f"{100 * row[score]:7.2f}" for score in ("precision", "recall", "f1"))
        lines.append(f"{name:{width}}  {scores:>27}  {row['number']:7}")
    return lines


def by_type(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The scores of each type of a metric's report on spans, whose other entries are of all of them."""
    return {name: row for name, row in report.items() if isinstance(row, dict)}


def span_score_lines(title: str, report: Mapping[str, Any]) -> list[str]:
    """The scores of a metric's report on spans, a line for each type and the last one for all."""
    types = by_type(report)
    overall = {score: report[f"overall_{score}"] for score in ("precision", "recall", "f1")}
    overall["number"] = sum(row["number"] for row in types.values())
    return score_lines(title, [*types.items(), ("all", overall)], max(map(len, [*types, "all"])))
