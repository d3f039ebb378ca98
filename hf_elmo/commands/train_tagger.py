"""Train, evaluate and apply a token classifier on ELMo: named entities, parts of speech, any label per word."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..checkpoints.secrets import check_command_line
from .command_line import quiet_libraries, readable_errors
from .flags import FlagParser, OneLineErrors

if TYPE_CHECKING:
    from ..tasks.tagging import TokenClassificationTask

_EPILOG = """
example:
  hf-elmo train-tagger --model_name_or_path CHECKPOINT --train_file train.conll --validation_file dev.conll \\
      --test_file test.conll --load_best_model_at_end --output_dir tagger

All of transformers' training flags work too; --help_all lists them.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    """Parse the flags, check everything that can be wrong, and run the task.

    transformers' own parser reads the flags, for it knows all of its TrainingArguments; --help shows ours and the most
    used ones without importing it.
    """
    argv = sys.argv[1:] if argv is None else argv
    with readable_errors():
        check_command_line(argv)
    if "-h" in argv or "--help" in argv:
        from ..tasks.arguments import DataArguments, ModelArguments, TrainingFlags

        FlagParser([ModelArguments, DataArguments, TrainingFlags], prog, __doc__, _EPILOG).parse(["--help"])
    with readable_errors():
        task = _prepare(argv, prog)
    task.run()


def _prepare(argv: Sequence[str], prog: str | None) -> TokenClassificationTask:
    from transformers import HfArgumentParser

    from ..tasks.arguments import DataArguments, ModelArguments
    from ..tasks.tagging import prepare_task
    from ..tasks.training_arguments import TaskTrainingArguments

    class AllFlags(OneLineErrors, HfArgumentParser):
        pass

    parser = AllFlags([ModelArguments, DataArguments, TaskTrainingArguments], prog=prog, usage=argparse.SUPPRESS)
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
    return prepare_task(*arguments)
