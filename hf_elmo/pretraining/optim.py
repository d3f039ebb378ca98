"""The optimizers of pre-training, their groups of parameters, schedules of the learning rate, and the gradient norm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import get_scheduler

from ..model.modeling_elmo import ElmoForPreTraining, ElmoProjectedLSTM
from .arguments import PretrainingArguments
from .muon import MuonWithAdamW

# Decay of AdamW's second moments: model_cards/speedrun.
_BETA2 = 0.99
# What Adagrad's sums of squares start from: bilm-tf's.
_INITIAL_ACCUMULATOR = 1.0
# i, f, g, o stand on top of one another in one matrix, and each maps vectors of its own.
_NUM_GATES = 4
# Fraction of the run in which warmup_stable_decay lowers the rate.
_DECAY_FRACTION = 0.2


def build_optimizer(model: ElmoForPreTraining, arguments: PretrainingArguments) -> torch.optim.Optimizer:
    """The optimizer of a run over the weights of its model that are trained."""
    groups = group_parameters(model, arguments.weight_decay)
    learning_rate = arguments.learning_rate
    if arguments.optim == "muon":
        return MuonWithAdamW(groups, learning_rate, _BETA2)
    for group in groups:
        group.pop("num_maps", None)
    if arguments.optim == "adagrad":
        return torch.optim.Adagrad(groups, learning_rate, initial_accumulator_value=_INITIAL_ACCUMULATOR)
    # One pass over each weight's numbers: on a CPU the others take four times as long.
    return torch.optim.AdamW(groups, learning_rate, betas=(0.9, _BETA2), fused=True)


def group_parameters(model: ElmoForPreTraining, weight_decay: float) -> list[dict[str, Any]]:
    """The trained parameters by what an optimizer does with them.

    Matrices between the layers have a group for each number of maps that stand on top of one another in one of them,
    its "num_maps": those of the biLM, the highway layers and the projection to word vectors. Convolutions, embeddings
    and the softmax, whose rows are words, are none of them. Biases and embeddings do not decay.
    """
    maps = _count_maps(model)
    embeddings = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
    kinds: dict[tuple[int, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            decays = parameter.ndim > 1 and parameter not in embeddings
            kind = maps.get(parameter, 0), weight_decay if decays else 0.0
            kinds.setdefault(kind, []).append(parameter)
    return [
        {"params": parameters, "weight_decay": decay, **({"num_maps": num_maps} if num_maps else {})}
        for (num_maps, decay), parameters in kinds.items()
    ]


def _count_maps(model: ElmoForPreTraining) -> dict[Tensor, int]:
    token_encoder = model.elmo.token_encoder
    maps: dict[Tensor, int] = {}
    for module in model.elmo.bilm.modules():
        if isinstance(module, ElmoProjectedLSTM):
            maps |= {module.weight_ih: _NUM_GATES, module.weight_hh: _NUM_GATES}
            if module.weight_hr is not None:
                maps[module.weight_hr] = 1
    layers = (*token_encoder.highways.modules(), token_encoder.projection)
    return maps | {layer.weight: 1 for layer in layers if isinstance(layer, nn.Linear)}


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
