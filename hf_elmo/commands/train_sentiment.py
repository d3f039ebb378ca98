"""Train, evaluate and apply a classifier of texts on ELMo: sentiment, or any one label for a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tasks.classification_arguments import SentimentArguments, SentimentDataArguments
from .train_task import run_task

_EPILOG = """
example:
  hf-elmo train-sentiment --model_name_or_path CHECKPOINT --train_file train.tsv --validation_file dev.tsv \\
      --test_file test.tsv --load_best_model_at_end --output_dir sentiment

All of transformers' training flags work too; --help_all lists them.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_task([SentimentArguments, SentimentDataArguments], _prepare, argv, prog, __doc__, _EPILOG)


def _prepare(*arguments: Any) -> Any:
    from ..tasks.sentiment import prepare_task

    return prepare_task(*arguments)
