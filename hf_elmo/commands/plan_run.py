"""The command that prints what a run of pre-training takes: one run's tables, or the document of model_cards/scale."""

from __future__ import annotations

from ..pretraining.plan_arguments import PlanArguments


def print_plan(arguments: PlanArguments) -> None:
    """Print the tables of a plan, or the document."""
    from ..pretraining.plan_report import render_document, render_plan

    print(render_document() if arguments.document else render_plan(arguments), end="")
