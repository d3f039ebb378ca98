"""What each weight is to an optimizer: a matrix that maps vectors, a table that is looked up, or neither."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from ..model.modeling_elmo import ElmoForPreTraining, ElmoProjectedLSTM

# i, f, g, o stand on top of one another in one matrix, and each maps vectors of its own.
_NUM_GATES = 4


def matrices_of(model: ElmoForPreTraining) -> dict[Tensor, int]:
    """The matrices between the layers, each with the number of maps that stand on top of one another in it.

    They are those of the biLM, of the highway layers and of the projection to word vectors. Convolutions, tables of
    embeddings and the softmax, whose rows are words, are none of them.
    """
    token_encoder = model.elmo.token_encoder
    matrices: dict[Tensor, int] = {}
    for module in model.elmo.bilm.modules():
        if isinstance(module, ElmoProjectedLSTM):
            matrices |= {module.weight_ih: _NUM_GATES, module.weight_hh: _NUM_GATES}
            if module.weight_hr is not None:
                matrices[module.weight_hr] = 1
    for layer in (*token_encoder.highways.modules(), token_encoder.projection):
        if isinstance(layer, nn.Linear):
            matrices[layer.weight] = 1
    return matrices


def split_groups(
    groups: Iterable[Mapping[str, Any]], model: ElmoForPreTraining, matrix_rate: float | None = None
) -> list[dict[str, Any]]:
    """Groups of parameters, split by what an optimizer does with them.

    Biases and tables of embeddings (those of characters and of words) do not decay; where matrices have a rate of
    their own, each of their groups says in "num_maps" how many maps a matrix holds. Groups in which all parameters are
    alike stay as they are.

    Args:
        groups: With their "params", "lr" and "weight_decay".
        model: Whose parameters they are.
        matrix_rate: What a group's "lr" is multiplied by for its `matrices_of`; None treats them as the rest.
    """
    matrices = {} if matrix_rate is None else matrices_of(model)
    tables = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
    found = []
    for group in groups:
        parts: dict[tuple[int, float], list[nn.Parameter]] = {}
        for parameter in group["params"]:
            decays = parameter.ndim > 1 and parameter not in tables
            kind = matrices.get(parameter, 0), group["weight_decay"] if decays else 0.0
            parts.setdefault(kind, []).append(parameter)
        for (num_maps, weight_decay), parameters in parts.items():
            part = {**group, "params": parameters, "weight_decay": weight_decay}
            if num_maps:
                part |= {"lr": group["lr"] * matrix_rate, "num_maps": num_maps}
            found.append(part)
    return found
