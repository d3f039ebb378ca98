"""Arguments about checkpoints: sizes that have names, and where a run writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..given import flag

# The sizes that have names, each a class method of ElmoConfig and nothing else beside.
Preset = Literal["small", "medium", "original", "fast"]


@dataclass(frozen=True, kw_only=True)
class OutputArguments:
    """Where it is written."""

    output_dir: str = flag("Directory to write; nothing in it has its name before it is whole.")
    overwrite_output_dir: bool = flag(
        "Replace a full output directory; what it holds stays until something whole takes its place.", default=False
    )
