"""Train, evaluate and apply a model of a task on ELMo."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..tasks import TASKS
from .command_line import run_command

_EPILOG = """
example:
  hf-elmo train TASK --model_name_or_path CHECKPOINT --train_file TRAIN --validation_file DEV --test_file TEST \\
      --load_best_model_at_end --output_dir OUTPUT

A recipe, a YAML file of such flags, may come first: hf-elmo train TASK recipe.yaml [--FLAG VALUE ...]
The flags of transformers' TrainingArguments work too.
"""


def main(argv: Sequence[str], prog: str) -> None:
    """Run `hf-elmo train TASK`; the task is the last word of `prog`."""
    from ..tasks.training import TaskTrainingArguments

    entry = TASKS[prog.split()[-1]]
    task = entry.load()
    run_command(
        (task.model_arguments, task.data_arguments, TaskTrainingArguments),
        lambda *arguments: task(*arguments).prepare().run(),
        argv,
        prog,
        f"Train, evaluate and apply {entry.what}.",
        _list_settings(task) + _EPILOG,
    )


def _list_settings(task: Any) -> str:
    """The settings of a task's head with their defaults."""
    shown = (f"{field.name}={json.dumps(field.default)}" for field in fields(task.head_class) if field.init)
    settings = " ".join(each for each in shown if not each.startswith("word_table_size"))
    lines = textwrap.fill(settings, 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return f"\nsettings of --head (null: as published, or as it follows from the data):\n{lines}\n"
