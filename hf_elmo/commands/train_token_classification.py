"""Train, evaluate and apply a token classifier on ELMo: named entities, parts of speech, any label per word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tasks.tagging_arguments import TaggedDataArguments, TaggerArguments
from .train_task import run_task

_EPILOG = """
example:
  hf-elmo train token-classification --model_name_or_path CHECKPOINT --train_file train.conll \\
      --validation_file dev.conll --test_file test.conll --load_best_model_at_end --output_dir tagger

All of transformers' training flags work too; --help_all lists them.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_task([TaggerArguments, TaggedDataArguments], _prepare, argv, prog, __doc__, _EPILOG)


def _prepare(*arguments: Any) -> Any:
    from ..tasks.tagging import prepare_task

    return prepare_task(*arguments)
