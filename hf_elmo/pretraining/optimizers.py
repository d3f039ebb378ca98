"""The optimizers of pre-training, by their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..model.modeling_elmo import ElmoForPreTraining
from .layer_rates import parameter_groups
from .muon import MuonWithAdamW
from .parameter_kinds import split_groups
from .recipes import OPTIMIZERS, OptimizationArguments


def optimizer_of(model: ElmoForPreTraining, settings: OptimizationArguments) -> torch.optim.Optimizer:
    """The optimizer of a run over those weights of its model that are trained.

    Raises: ValueError naming the argument, the value got and the value wanted.
    """
    groups = parameter_groups(
        model,
        settings.learning_rate,
        settings.layer_learning_rate_decay,
        settings.weight_decay,
        settings.learning_rates,
    )
    return build_optimizer(
        settings.optim,
        split_groups(groups, model, settings.matrix_rate),
        settings.adam_beta2,
        settings.adagrad_initial_accumulator,
    )


def build_optimizer(
    name: str,
    groups: Iterable[dict[str, Any]],
    adam_beta2: float = 0.999,
    adagrad_initial_accumulator: float = 0.0,
) -> torch.optim.Optimizer:
    """The optimizer of a name.

    Args:
        name: One of OPTIMIZERS.
        groups: Parameters with their "lr" and "weight_decay"; for "muon" matrices with their "num_maps", too.
        adam_beta2: Decay of AdamW's second moments.
        adagrad_initial_accumulator: What Adagrad's sums of squares start from.
    Raises: ValueError when the name is unknown.
    """
    if name == "adamw":
        # One pass over each weight's numbers: on a CPU the others take four times as long.
        return torch.optim.AdamW(groups, betas=(0.9, adam_beta2), fused=True)
    if name == "adagrad":
        return torch.optim.Adagrad(groups, initial_accumulator_value=adagrad_initial_accumulator)
    if name == "muon":
        return MuonWithAdamW(groups, adam_beta2)
    raise ValueError(f"optim is {name!r}; it must be one of {', '.join(OPTIMIZERS)}.")
