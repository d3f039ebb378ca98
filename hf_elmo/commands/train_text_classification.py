"""Train, evaluate and apply a classifier of texts, or of pairs of texts, on ELMo: one label for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tasks.text_classification_arguments import ClassifierArguments, LabelledDataArguments
from .train_task import run_task

_EPILOG = """
examples:
  hf-elmo train text-classification --model_name_or_path CHECKPOINT --train_file train.tsv --validation_file dev.tsv \\
      --test_file test.tsv --load_best_model_at_end --output_dir classifier
  hf-elmo train text-classification --model_name_or_path CHECKPOINT --train_file snli_1.0_train.jsonl \\
      --validation_file snli_1.0_dev.jsonl --test_file snli_1.0_test.jsonl --pre_tokenizer penn \\
      --load_best_model_at_end --output_dir pairs

A second column of texts makes them pairs. All of transformers' training flags work too; --help_all lists them.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_task([ClassifierArguments, LabelledDataArguments], _prepare, argv, prog, __doc__, _EPILOG)


def _prepare(*arguments: Any) -> Any:
    from ..tasks.text_classification import prepare_task

    return prepare_task(*arguments)
