"""Train, evaluate and apply a model of a task on ELMo."""

from __future__ import annotations

from collections.abc import Sequence

from ..tasks.registry import TASKS
from .command_line import run_command

_EPILOG = """
A recipe, a YAML file of such flags, may come first: hf-elmo train TASK recipe.yaml [--FLAG VALUE ...]
The flags of transformers' TrainingArguments work too.
"""


def main(argv: Sequence[str] | None, prog: str) -> None:
    """Run `hf-elmo train TASK`; the task is the last word of `prog`."""
    from ..tasks.arguments import TaskTrainingArguments

    entry = TASKS[prog.split()[-1]]
    task = entry.load()
    run_command(
        (task.model_arguments, task.data_arguments, TaskTrainingArguments),
        lambda *arguments: task(*arguments).prepare().run(),
        argv,
        prog,
        f"Train, evaluate and apply {entry.what}.",
        task.examples + _EPILOG,
    )
