"""Compute the memory, communication, steps and text of a run of pre-training: `python scripts/plan_run.py --help`."""

from hf_elmo.commands.command_line import run_command
from hf_elmo.commands.plan_run import PlanArguments, print_plan

if __name__ == "__main__":
    run_command(PlanArguments, print_plan)
