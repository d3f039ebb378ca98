"""Pre-train an ELMo on text files or a dataset."""

from __future__ import annotations

from collections.abc import Sequence

from ..pretraining.arguments import RECIPES, PretrainingArguments
from .command_line import run_command

_EPILOG = "\n".join(
    f"defaults of --recipe {recipe}:\n"
    + "".join(f"  --{name} {value}\n" for name, value in values.items() if value is not None)
    for recipe, values in RECIPES.items()
)


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(PretrainingArguments, _run, argv, prog, __doc__, _EPILOG)


def _run(arguments: PretrainingArguments) -> None:
    from ..pretraining.run import run_pretraining

    run_pretraining(arguments)
