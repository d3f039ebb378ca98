"""Pre-train an ELMo, or train a model of a task on one."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ..pretraining.arguments import RECIPES, PretrainingArguments
from ..tasks import TASKS

EXAMPLES = "\n".join(
    f"defaults of --recipe {recipe}:\n"
    + "".join(f"  --{name} {value}\n" for name, value in values.items() if value is not None)
    for recipe, values in RECIPES.items()
)
_OF_TASKS = """
example:
  hf-elmo train TASK --model_name_or_path CHECKPOINT --train_file TRAIN --validation_file DEV --test_file TEST \\
      --load_best_model_at_end --output_dir OUTPUT

A recipe, a YAML file of such flags, may come first: hf-elmo train TASK recipe.yaml [--FLAG VALUE ...]
The flags of transformers' TrainingArguments work too.
"""


def pretrain(arguments: PretrainingArguments) -> None:
    """Pre-train an ELMo on text files or a dataset."""
    from ..pretraining.run import run_pretraining

    run_pretraining(arguments)


def train(name: str) -> tuple[Callable[..., Any], tuple[type, ...], str]:
    """What trains, evaluates and applies the model of a task; the classes of its flags, and what --help ends with."""
    from ..tasks.training import TaskTrainingArguments

    task: Any = TASKS[name].load()

    def run(*arguments: Any) -> None:
        task(*arguments).prepare().run()

    run.__doc__ = f"Train, evaluate and apply {TASKS[name].what}."
    shown = (f"{field.name}={json.dumps(field.default)}" for field in fields(task.head_class) if field.init)
    settings = " ".join(each for each in shown if not each.startswith("word_table_size"))
    lines = textwrap.fill(settings, 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    listed = f"\nsettings of --head (null: as published, or as it follows from the data):\n{lines}\n"
    return run, (task.model_arguments, task.data_arguments, TaskTrainingArguments), listed + _OF_TASKS
