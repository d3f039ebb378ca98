"""Train, evaluate and apply a labeller of semantic roles on ELMo: who did what to whom, by predicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tasks.semantic_roles_arguments import PropositionArguments, RoleArguments
from .train_task import run_task

_EPILOG = """
example:
  hf-elmo train semantic-roles --model_name_or_path CHECKPOINT --train_file train.tsv --validation_file dev.tsv \\
      --test_file test.tsv --find_predicates --load_best_model_at_end --output_dir roles

All of transformers' training flags work too; --help_all lists them.
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_task([RoleArguments, PropositionArguments], _prepare, argv, prog, __doc__, _EPILOG)


def _prepare(*arguments: Any) -> Any:
    from ..tasks.semantic_roles import prepare_task

    return prepare_task(*arguments)
