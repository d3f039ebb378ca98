"""Pre-train an ELMo on text files or a dataset."""

from __future__ import annotations

from collections.abc import Sequence

from ..pretraining.arguments import PretrainingArguments
from .command_line import run_command


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(PretrainingArguments, _run, argv, prog, __doc__)


def _run(arguments: PretrainingArguments) -> None:
    from ..pretraining.run import run_pretraining

    run_pretraining(arguments)
