"""Train, evaluate and apply a reader that answers questions by pieces of a context on ELMo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tasks.question_answering_arguments import QuestionAnsweringArguments, QuestionDataArguments
from .train_task import run_task

_EPILOG = """
example:
  hf-elmo train question-answering --model_name_or_path CHECKPOINT --train_file train-v1.1.json \\
      --validation_file dev-v1.1.json --pre_tokenizer penn --load_best_model_at_end --output_dir reader

All of transformers' training flags work too; --help_all lists them.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_task([QuestionAnsweringArguments, QuestionDataArguments], _prepare, argv, prog, __doc__, _EPILOG)


def _prepare(*arguments: Any) -> Any:
    from ..tasks.question_answering import prepare_task

    return prepare_task(*arguments)
