"""The dropouts of a training run: where they differ from the config's one, which its checkpoints keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from ..model.modeling_elmo import ElmoForPreTraining, ElmoProjectedLSTM
from .recipes import OptimizationArguments


def set_dropouts(model: ElmoForPreTraining, settings: OptimizationArguments) -> None:
    """Set the model's dropouts to those of a run; the config stays as it is, and a dropout of 0 costs nothing."""
    bilm = model.elmo.bilm
    layers: Iterable[Any] = bilm.layers
    first, *others = [layer.dropout for layer in layers]
    _set(settings.input_dropout, first)
    _set(settings.layer_dropout, *others)
    _set(settings.output_dropout, bilm.output_dropout)
    for module in bilm.modules():
        if isinstance(module, ElmoProjectedLSTM):
            module.recurrent_dropout = settings.recurrent_dropout


def _set(share: float | None, *dropouts: nn.Dropout) -> None:
    for dropout in dropouts:
        dropout.p = dropout.p if share is None else share
