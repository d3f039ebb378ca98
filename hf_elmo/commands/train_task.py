"""What the commands that train a task have in common: transformers' parser for their flags, and a quick --help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .command_line import quiet_libraries, readable_errors
from .flags import FlagParser, OneLineErrors


def run_task(
    classes: Sequence[type],
    prepare: Callable[..., Any],
    argv: Sequence[str] | None,
    prog: str | None,
    description: str | None,
    epilog: str,
) -> None:
    """Parse the flags, check everything that can be wrong, and run the task.

    transformers' own parser reads the flags, for it knows all of its TrainingArguments; --help shows ours and the most
    used ones without importing it.

    Args:
        classes: The dataclasses whose fields are the task's flags, those of training left out.
        prepare: Called with an instance of each of them and the training arguments; gives the task.
        argv, prog, description, epilog: As for `run_command`.
    """
    argv = sys.argv[1:] if argv is None else argv
    with readable_errors():
        if "-h" in argv or "--help" in argv:
            from ..tasks.arguments import TrainingFlags

            FlagParser([*classes, TrainingFlags], prog, description, epilog).parse(["--help"])
        prepare(*_parse(classes, argv, prog)).run()


def _parse(classes: Sequence[type], argv: Sequence[str], prog: str | None) -> list[Any]:
    from transformers import HfArgumentParser

    from ..tasks.training_arguments import TaskTrainingArguments

    class AllFlags(OneLineErrors, HfArgumentParser):
        pass

    every: list[Any] = [*classes, TaskTrainingArguments]
    parser = AllFlags(every, prog=prog, usage=argparse.SUPPRESS)
    if "--help_all" in argv:
        parser.print_help()
        sys.exit()
    *arguments, unknown = parser.parse_args_into_dataclasses(
        argv, return_remaining_strings=True, look_for_args_file=False
    )
    if unknown:
        parser.refuse(unknown)
    # Only now: transformers turns its progress bars off where it is quiet when the arguments are made.
    quiet_libraries()
    return arguments
