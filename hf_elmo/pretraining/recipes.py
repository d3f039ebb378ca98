"""Recipes of pre-training: what the original did, what we found to reach lower perplexities, and their optimizers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

OPTIMIZERS = ("adamw", "adagrad")


@dataclass(frozen=True)
class Recipe:
    """How a run is optimised where its arguments do not say otherwise.

    Args:
        per_device_train_batch_size: Lanes of each process.
        unroll_steps: Words of a window.
        objective, num_negative_samples: The softmax that is trained.
        optim: "adamw" or "adagrad".
        learning_rate, weight_decay, adam_beta2, adagrad_initial_accumulator: Of the optimizer.
        lr_scheduler_type, warmup_ratio: Of the learning rate.
        max_grad_norm: Bound on the norm of all gradients together.
        scales_loss_by_unroll: Whether the loss is multiplied by unroll_steps before it is differentiated, so that the
            bound meets the gradient of a window's sum of losses a lane rather than of their mean.
        dropout: Of the biLM, where neither a config file nor an override says otherwise.
        starts_from_frequencies: Whether the softmax's biases start from the words' log frequencies instead of zeros.
    """

    per_device_train_batch_size: int
    unroll_steps: int
    objective: str
    num_negative_samples: int
    optim: str
    learning_rate: float
    weight_decay: float
    adam_beta2: float
    adagrad_initial_accumulator: float
    lr_scheduler_type: str
    warmup_ratio: float
    max_grad_norm: float
    scales_loss_by_unroll: bool
    dropout: float
    starts_from_frequencies: bool


RECIPES = {
    # Peters et al. 2018, sec. 3.4, by bilm-tf's training code; it ran three processes of 128 lanes.
    "paper": Recipe(
        per_device_train_batch_size=128,
        unroll_steps=20,
        objective="sampled",
        num_negative_samples=8192,
        optim="adagrad",
        learning_rate=0.2,
        weight_decay=0.0,
        adam_beta2=0.999,
        adagrad_initial_accumulator=1.0,
        lr_scheduler_type="constant",
        warmup_ratio=0.0,
        max_grad_norm=10.0,
        scales_loss_by_unroll=True,
        dropout=0.1,
        starts_from_frequencies=False,
    ),
    "modern": Recipe(
        per_device_train_batch_size=32,
        unroll_steps=20,
        objective="full",
        num_negative_samples=8192,
        optim="adamw",
        learning_rate=6e-3,
        weight_decay=0.0,
        adam_beta2=0.99,
        adagrad_initial_accumulator=0.0,
        lr_scheduler_type="cosine",
        warmup_ratio=0.05,
        max_grad_norm=1.0,
        scales_loss_by_unroll=False,
        dropout=0.1,
        starts_from_frequencies=True,
    ),
}


def build_optimizer(
    name: str,
    groups: Iterable[dict[str, Any]],
    adam_beta2: float = 0.999,
    adagrad_initial_accumulator: float = 0.0,
) -> torch.optim.Optimizer:
    """The optimizer of a name.

    Args:
        name: One of OPTIMIZERS.
        groups: Parameters with their "lr" and "weight_decay".
        adam_beta2: Decay of AdamW's second moments.
        adagrad_initial_accumulator: What Adagrad's sums of squares start from.
    Raises: ValueError when the name is unknown.
    """
    if name == "adamw":
        # One pass over each weight's numbers: on a CPU the others take four times as long.
        return torch.optim.AdamW(groups, betas=(0.9, adam_beta2), fused=True)
    if name == "adagrad":
        return torch.optim.Adagrad(groups, initial_accumulator_value=adagrad_initial_accumulator)
    raise ValueError(f"optim is {name!r}; it must be one of {', '.join(OPTIMIZERS)}.")
