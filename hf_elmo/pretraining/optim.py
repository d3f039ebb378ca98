"""The optimizers of pre-training, Muon among them, their groups of parameters, schedules and the gradient norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import get_scheduler

from ..kernels import product_dtype
from ..model.modeling_elmo import ElmoForPreTraining, ElmoProjectedLSTM
from .arguments import PretrainingArguments

# Decay of AdamW's second moments: model_cards/speedrun.
_BETA2 = 0.99
# What Adagrad's sums of squares start from: bilm-tf's.
_INITIAL_ACCUMULATOR = 1.0
# i, f, g, o stand on top of one another in one matrix, and each maps vectors of its own.
_NUM_GATES = 4
# Fraction of the run in which warmup_stable_decay lowers the rate.
_DECAY_FRACTION = 0.2
# Of the quintic that drives singular values toward 1, steepest at zero (Jordan et al. 2024).
_LINEAR, _CUBIC, _QUINTIC = 3.4445, -4.7750, 2.0315
_NUM_ITERATIONS = 5
# The length of AdamW's steps in most trainings, as root mean square over the rate (Liu et al. 2025, sec. 2.2).
_STEP_LENGTH = 0.2
# Decay of the matrices' momentum, which is Nesterov's.
_MOMENTUM = 0.95


def build_optimizers(model: ElmoForPreTraining, arguments: PretrainingArguments) -> list[torch.optim.Optimizer]:
    """The optimizers of a run, which together step over the weights of its model that are trained."""
    groups, learning_rate = group_parameters(model, arguments.weight_decay), arguments.learning_rate
    if arguments.optim == "adagrad":
        return [torch.optim.Adagrad(groups, learning_rate, initial_accumulator_value=_INITIAL_ACCUMULATOR)]
    optimizers: list[torch.optim.Optimizer] = []
    if arguments.optim == "muon":
        optimizers.append(Muon([group for group in groups if "num_maps" in group], learning_rate))
        groups = [group for group in groups if "num_maps" not in group]
    # One pass over each weight's numbers: on a CPU the others take four times as long.
    return [*optimizers, torch.optim.AdamW(groups, learning_rate, betas=(0.9, _BETA2), fused=True)]


def group_parameters(model: ElmoForPreTraining, weight_decay: float) -> list[dict[str, Any]]:
    """The trained parameters by what an optimizer does with them.

    Matrices between the layers have a group for each number of maps that stand on top of one another in one of them,
    its "num_maps": those of the biLM, the highway layers and the projection to word vectors. They alone decay. Of the
    softmax and of embeddings a rare word's row would fade between its uses; convolutions and biases are small.
    """
    token_encoder = model.elmo.token_encoder
    maps: dict[Tensor | None, int] = {}
    for module in (*model.elmo.bilm.modules(), *token_encoder.highways.modules(), token_encoder.projection):
        if isinstance(module, ElmoProjectedLSTM):
            maps |= {module.weight_ih: _NUM_GATES, module.weight_hh: _NUM_GATES, module.weight_hr: 1}
        elif isinstance(module, nn.Linear):
            maps[module.weight] = 1
    kinds: dict[int, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            kinds.setdefault(maps.get(parameter, 0), []).append(parameter)
    rest = {"params": kinds.pop(0, []), "weight_decay": 0.0}
    decaying = [{"params": each, "weight_decay": weight_decay, "num_maps": count} for count, each in kinds.items()]
    return [rest, *decaying]


def build_schedule(arguments: PretrainingArguments, num_steps: int) -> Callable[[float], float]:
    """What the highest learning rate is multiplied by at each place of a schedule, from 0 to num_steps.

    Raises: ValueError when transformers has no such schedule, or only one that waits for a figure of the run.
    """
    name, optimizer = arguments.lr_scheduler_type, torch.optim.SGD([torch.zeros(1)], lr=1.0)
    try:
        scheduler: Any = get_scheduler(
            name,
            optimizer,
            num_warmup_steps=round(arguments.warmup_ratio * num_steps),
            num_training_steps=num_steps,
            scheduler_specific_kwargs=(
                {"num_decay_steps": round(_DECAY_FRACTION * num_steps)} if name == "warmup_stable_decay" else None
            ),
        )
        return scheduler.lr_lambdas[0]
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"--lr_scheduler_type {name!r} is none of transformers' that go by steps: {error}") from error


@torch.no_grad()
def clip_gradient_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients so that the norm of them together is at most `max_norm`; sparse ones become coalesced.

    As torch.nn.utils.clip_grad_norm_, which knows no sparse gradients.

    Returns: The norm before.
    """
    values = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            # Repeated rows add up before they are squared.
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        elif parameter.grad is not None:
            values.append(parameter.grad)
    norm = torch.nn.utils.get_total_norm(values)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(scale)
    return norm


class Muon(torch.optim.Optimizer):
    """Muon for matrices (Jordan et al. 2024).

    A step goes along a matrix's momentum with all of its directions made equally long. Gates on top of one
    another in one matrix are maps of their own. The steps are as long as AdamW's usually are, so that one rate suits
    both. It takes the steps of torch.optim.Muon(adjust_lr_fn="match_rms_adamw"), to rounding, in a third of the time:
    all maps of one shape go through each product together.

    Args:
        groups: Matrices, with the "num_maps" of each and their "weight_decay".
        learning_rate: Of all groups.
    """

    def __init__(self, groups: list[dict[str, Any]], learning_rate: float):
        super().__init__(groups, {"lr": learning_rate})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step; matrices without a gradient stay as they are."""
        # Each map with its momentum and its group, by the shape of its momentum laid down.
        maps: dict[torch.Size, list[tuple[Tensor, Tensor, dict[str, Any]]]] = {}
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(matrix)
                momentum = state["momentum_buffer"]
                momentum.lerp_(matrix.grad, 1 - _MOMENTUM)
                ahead = matrix.grad.lerp(momentum, _MOMENTUM)
                for part, direction in zip(*(each.chunk(group["num_maps"]) for each in (matrix, ahead)), strict=True):
                    direction = direction if len(direction) <= direction.shape[1] else direction.T
                    maps.setdefault(direction.shape, []).append((part, direction, group))
        for alike in maps.values():
            dtype = product_dtype(torch.bfloat16, alike[0][0].device.type)
            directions = orthogonalize(torch.stack([direction for _, direction, _ in alike]).to(dtype))
            for (part, _, group), direction in zip(alike, directions, strict=True):
                step_length = _STEP_LENGTH * math.sqrt(max(part.shape))
                part.mul_(1 - group["lr"] * group["weight_decay"])
                part.add_(direction if direction.shape == part.shape else direction.T, alpha=-group["lr"] * step_length)


def orthogonalize(matrices: Tensor) -> Tensor:
    """Matrices of the same singular vectors, their singular values all near to 1 (between 0.5 and 1.5).

    Args:
        matrices: N matrices, (N, R, C) with R <= C.
    Returns: (N, R, C), in the dtype of `matrices`, in which bfloat16 is enough.
    """
    found = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(_NUM_ITERATIONS):
        gram = found @ found.mT
        change = torch.baddbmm(gram, gram, gram, beta=_CUBIC, alpha=_QUINTIC)
        found = torch.baddbmm(found, change, found, beta=_LINEAR)
    return found
