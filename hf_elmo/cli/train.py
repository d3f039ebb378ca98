"""Train, evaluate and apply a model of a task on ELMo."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import Any

from ..tasks.registry import TASKS
from .command_line import quiet_libraries, readable_errors
from .flags import FlagParser, OneLineErrors

_EPILOG = "\nAll of transformers' training flags work too; --help_all lists them."


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    with readable_errors():
        if not argv or argv[0] in ("-h", "--help"):
            print(_list_tasks(), file=sys.stdout if argv else sys.stderr)
            sys.exit(0 if argv else 2)
        name, *rest = argv
        if name not in TASKS:
            near = difflib.get_close_matches(name, [*TASKS, "--help"], n=1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(TASKS)}."
            print(f"error: hf-elmo train has no task {name!r}; {meant}", file=sys.stderr)
            sys.exit(2)
        task = TASKS[name].load()
        description = f"Train, evaluate and apply {TASKS[name].what}."
        task(*_parse(task, rest, prog and f"{prog} {name}", description)).prepare().run()


def _list_tasks() -> str:
    width = max(map(len, TASKS))
    return "\n".join(
        [
            "usage: hf-elmo train TASK [--FLAG VALUE ...]",
            "",
            "Train, evaluate and apply a model of a task on ELMo.",
            "",
            "tasks:",
            *(f"  {name:<{width}}  {entry.what}" for name, entry in TASKS.items()),
            "",
            "`hf-elmo train TASK --help` lists the flags of a task.",
        ]
    )


def _parse(task: Any, argv: Sequence[str], prog: str | None, description: str) -> list[Any]:
    """The arguments of a task.

    transformers' own parser reads the flags, for it knows all of its TrainingArguments; --help shows ours and the most
    used ones.
    """
    from transformers import HfArgumentParser

    from ..tasks.arguments import TaskTrainingArguments, TrainingFlags

    class AllFlags(OneLineErrors, HfArgumentParser):
        pass

    classes: list[Any] = [task.model_arguments, task.data_arguments]
    if "-h" in argv or "--help" in argv:
        FlagParser([*classes, TrainingFlags], prog, description, task.examples + _EPILOG).parse(["--help"])
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
