"""Where the time of a piece of work goes, operator by operator, by PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile

from hf_elmo.checkpoints.tables import markdown_table

from .cases import COMPILED, PLAIN, WORDS_TO_VECTORS, Case

CALLS = 5
ROWS = 12


def render_profiles(cases: list[Case]) -> str:
    """Markdown: the operators that take longest in words to vectors, by our exact backends.

    The steps of the compiled backend call oneDNN and BLAS inside, which is one operator here.
    """
    parts = []
    for case in cases:
        for name in (PLAIN, COMPILED):
            if case.name == WORDS_TO_VECTORS and name in case.functions:
                parts.append(f"## {case.title}, {name}\n\n{_render(_profile(case.functions[name]))}")
    return "\n\n".join(parts) + "\n"


def _profile(function: Callable[[], Any]) -> list[tuple[str, float, int]]:
    """The name, milliseconds and number of calls of each operator in one call of a function, the longest first."""
    function()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        for _ in range(CALLS):
            function()
    found = [(e.key, e.self_cpu_time_total / 1000 / CALLS, e.count // CALLS) for e in profiler.key_averages()]
    return sorted(found, key=lambda operator: -operator[1])


def _render(operators: list[tuple[str, float, int]]) -> str:
    total = sum(milliseconds for _, milliseconds, _ in operators)
    rows = [
        [f"`{name}`", f"{milliseconds:.2f}", f"{milliseconds / total:.0%}", f"{calls}"]
        for name, milliseconds, calls in operators[:ROWS]
    ]
    rest = operators[ROWS:]
    of_the_rest = sum(milliseconds for _, milliseconds, _ in rest)
    rows.append([f"{len(rest)} more", f"{of_the_rest:.2f}", f"{of_the_rest / total:.0%}", ""])
    return markdown_table(["operator", "ms", "share", "calls"], rows)
