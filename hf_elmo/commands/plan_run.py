"""Compute the memory, communication, steps and text of a run of pre-training, or print model_cards/scale anew."""

from __future__ import annotations

from collections.abc import Sequence

from ..pretraining.plan_arguments import PlanArguments
from .command_line import run_command


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(PlanArguments, print_plan, argv, prog, __doc__)


def print_plan(arguments: PlanArguments) -> None:
    """Print the tables of a plan, or the document."""
    from ..pretraining.plan_report import render_document, render_plan

    print(render_document() if arguments.document else render_plan(arguments), end="")
