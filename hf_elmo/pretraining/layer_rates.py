"""How fast each layer learns and when it joins: groups of parameters with rates of their own, frozen from below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from ..model.modeling_elmo import ElmoForPreTraining


def parameter_groups(
    model: ElmoForPreTraining,
    learning_rate: float,
    layer_decay: float = 1.0,
    weight_decay: float = 0.0,
    learning_rates: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """The trained parameters by layers, from the top down, for an optimizer.

    The names are "word_softmax", "layer_L" ... "layer_1" and "token_encoder". The rates are discriminative (Howard and
    Ruder 2018, sec. 3.1, who take a layer_decay of 1 / 2.6): lower layers hold what is more general and change less.

    Args:
        model: The model; parameters that want no gradients are left out.
        learning_rate: Of the uppermost group.
        layer_decay: What the rate of the group above is multiplied by.
        weight_decay: Of all groups.
        learning_rates: Rates of single groups, by name, in place of those; 0 fixes a group.
    Returns: For each group its "params", "lr", "weight_decay" and "name"; each parameter is in one of them.
    Raises: ValueError naming the argument, the value got and the value wanted.
    """
    if not 0 < layer_decay < math.inf:
        raise ValueError(f"--layer_learning_rate_decay is {layer_decay}; it must be a number > 0, and 1 for no decay.")
    layers = model.elmo.bilm.layers
    modules = {
        # One softmax for both directions is in the list once.
        "word_softmax": nn.ModuleList(dict.fromkeys(model.word_softmaxes)),
        **{f"layer_{number}": layers[number - 1] for number in range(len(layers), 0, -1)},
        "token_encoder": model.elmo.token_encoder,
    }
    learning_rates = dict(learning_rates or {})
    _check_learning_rates(learning_rates, list(modules))
    groups = []
    for depth, (name, module) in enumerate(modules.items()):
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        rate = learning_rates.get(name, learning_rate * layer_decay**depth)
        if parameters:
            groups.append({"params": parameters, "lr": rate, "weight_decay": weight_decay, "name": name})
    return groups


def _check_learning_rates(learning_rates: Mapping[str, Any], names: Sequence[str]) -> None:
    for name, rate in learning_rates.items():
        if name not in names:
            raise ValueError(f"--group_learning_rates names {name!r}; this model has the groups {', '.join(names)}.")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < math.inf:
            raise ValueError(f"--group_learning_rates has {rate!r} for {name!r}; it must be a number >= 0.")


def frozen_groups(step: int, unfreeze_steps: int, num_groups: int) -> range:
    """The places of the groups that rest, where groups join one after another from the top (ULMFiT, sec. 3.3).

    Nothing but the step decides, so that a resumed run goes on as it would have.

    Args:
        step: Optimizer steps done; 0 in the first one, in which the uppermost group is trained.
        unfreeze_steps: Steps after which one group more joins; 0 trains all from the start.
        num_groups: How many groups there are, in the order of `parameter_groups`.
    """
    num_trained = num_groups if not unfreeze_steps else min(num_groups, 1 + step // unfreeze_steps)
    return range(num_trained, num_groups)


def drop_frozen_gradients(groups: Sequence[Mapping[str, Any]], step: int, unfreeze_steps: int) -> None:
    """Take their gradients from the parameters that rest, after the backward pass and before clipping.

    Without a gradient an optimizer neither moves nor decays a parameter, nor gathers its moments. All parameters want
    gradients all the same, so that distributed training waits for the same ones in each step.

    Args:
        groups: The optimizer's `param_groups`, made by `parameter_groups`; several of one name rest together.
        step, unfreeze_steps: As of `frozen_groups`.
    """
    names = list(dict.fromkeys(group["name"] for group in groups))
    resting = {names[place] for place in frozen_groups(step, unfreeze_steps, len(names))}
    for group in groups:
        if group["name"] in resting:
            _drop_gradients(group["params"])


def _drop_gradients(parameters: Iterable[Tensor]) -> None:
    for parameter in parameters:
        parameter.grad = None
