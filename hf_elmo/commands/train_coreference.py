"""Train, evaluate and apply coreference resolution on ELMo: which spans of a document name the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tasks.coreference_arguments import CoreferenceArguments, CoreferenceDataArguments
from .train_task import run_task

_EPILOG = """
example:
  hf-elmo train coreference --model_name_or_path CHECKPOINT --train_file train.conll --validation_file dev.conll \\
      --test_file test.conll --load_best_model_at_end --output_dir coreference

A batch is a document. All of transformers' training flags work too; --help_all lists them.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_task([CoreferenceArguments, CoreferenceDataArguments], _prepare, argv, prog, __doc__, _EPILOG)


def _prepare(*arguments: Any) -> Any:
    from ..tasks.coreference import prepare_task

    return prepare_task(*arguments)
