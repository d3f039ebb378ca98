"""Schedules of the learning rate, by the names that transformers has for them."""

from __future__ import annotations

import torch
from torch.optim.lr_scheduler import LRScheduler
from transformers import get_scheduler

from .recipes import OptimizationArguments

# They wait for a figure of the run at each step.
_BY_FIGURES = ("reduce_lr_on_plateau", "greedy")


def build_schedule(settings: OptimizationArguments, optimizer: torch.optim.Optimizer, num_steps: int) -> LRScheduler:
    """The schedule of a run of so many steps.

    Raises: ValueError when transformers has no such schedule, or it has no such arguments.
    """
    name, options = settings.lr_scheduler_type, settings.schedule_options
    if name in _BY_FIGURES:
        raise ValueError(f"--lr_scheduler_type is {name!r}, which goes by figures of the run; take one by its steps.")
    if name == "warmup_stable_decay":
        options.setdefault("num_decay_steps", round(settings.decay_ratio * num_steps))
    try:
        return get_scheduler(
            name,
            optimizer,
            num_warmup_steps=round(settings.warmup_ratio * num_steps),
            num_training_steps=num_steps,
            scheduler_specific_kwargs=options or None,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"--lr_scheduler_type {name!r} with --lr_scheduler_kwargs {settings.lr_scheduler_kwargs!r} is none that "
            f"transformers has: {error}"
        ) from error


def check_schedule(settings: OptimizationArguments) -> None:
    """Check the name of the schedule and its arguments before anything is read.

    Raises: As `build_schedule`.
    """
    build_schedule(settings, torch.optim.SGD([torch.zeros(1)], lr=1.0), num_steps=100)


def move_schedule(scheduler: LRScheduler, place: float) -> None:
    """Set the learning rates to those of a place in the schedule, which may lie between two steps."""
    # It steps by one before it looks.
    scheduler.last_epoch = place - 1  # type: ignore[assignment]
    scheduler.step()
