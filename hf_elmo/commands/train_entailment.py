"""Train, evaluate and apply a classifier of pairs of texts on ELMo: entailment, or any one label for a pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tasks.classification_arguments import EntailmentArguments, EntailmentDataArguments
from .train_task import run_task

_EPILOG = """
example:
  hf-elmo train-entailment --model_name_or_path CHECKPOINT --train_file snli_1.0_train.jsonl \\
      --validation_file snli_1.0_dev.jsonl --test_file snli_1.0_test.jsonl --pre_tokenizer penn \\
      --load_best_model_at_end --output_dir entailment

All of transformers' training flags work too; --help_all lists them.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_task([EntailmentArguments, EntailmentDataArguments], _prepare, argv, prog, __doc__, _EPILOG)


def _prepare(*arguments: Any) -> Any:
    from ..tasks.entailment import prepare_task

    return prepare_task(*arguments)
