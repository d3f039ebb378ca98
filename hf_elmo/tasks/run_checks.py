"""What is checked of every task's arguments before any data is read, and what is told before training."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ..checkpoints.writing import check_keeps_inputs
from .arguments import ModelArguments
from .data_sources import FileArguments
from .run_directory import check_run_directory
from .training_arguments import TaskTrainingArguments
from .weights import check_model_source


def check_run(model_args: ModelArguments, data_args: FileArguments, training_args: TaskTrainingArguments) -> None:
    """Check where the model comes from and where the output goes.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    if not training_args.directory_asked:
        raise ValueError("output_dir is missing; pass --output_dir, for the model, its scores and its predictions.")
    check_run_directory(training_args)
    check_keeps_inputs(training_args.directory, [(f"{split}_file", file) for split, file in data_args.files.items()])
    check_model_source(model_args)
    if training_args.push_to_hub:
        raise ValueError(
            "push_to_hub is on, but output_dir stands only when everything is done; upload it then, with hf-elmo push."
        )


def check_files(data_args: FileArguments) -> None:
    """Check that there is a file; for tasks that read no dataset by its name.

    Raises: ValueError naming the flags.
    """
    if not data_args.files:
        raise ValueError("No data given; wanted --train_file, --validation_file or --test_file.")


def tell(training_args: TaskTrainingArguments, notes: Iterable[str | None], warnings: Iterable[str | None]) -> None:
    """Write notes and warnings on stderr, a line each, from the main process alone; None is left out."""
    if training_args.process_index == 0:
        for kind, lines in (("note", notes), ("warning", warnings)):
            for line in filter(None, lines):
                print(f"{kind}: {line}", file=sys.stderr)
