"""An exponential moving average of the weights, which is what a run evaluates and keeps where it makes one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class WeightAverage:
    """The average of a model's trained weights over its last steps, later ones counting more (Polyak averaging).

    Args:
        model: Whose weights are averaged.
        decay: Share of the average that stays at each step; 1 / (1 - decay) steps make up most of it. The first steps
            count less, so that little of the random start is left in it.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self._weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self._averages = [weight.detach().clone() for weight in self._weights.values()]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, which are counted from 1."""
        decay = min(self.decay, step / (step + 9))
        get_ema_multi_avg_fn(decay)(self._averages, list(self._weights.values()), step)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """In this block the model has the averages for its weights."""
        trained = self.trained_weights()
        self.put_in_place()
        try:
            yield
        finally:
            self._set(trained)

    @torch.no_grad()
    def put_in_place(self) -> None:
        """Give the model the averages for its weights, for good."""
        for weight, average in zip(self._weights.values(), self._averages, strict=True):
            weight.copy_(average)

    def trained_weights(self) -> dict[str, Tensor]:
        """The weights that the next step starts from, by their names, as they are now."""
        return {name: weight.detach().clone() for name, weight in self._weights.items()}

    def resume(self, trained: Mapping[str, Tensor]) -> None:
        """Go on where the model has the averages for its weights, and these are the ones that were trained."""
        self._averages = [weight.detach().clone() for weight in self._weights.values()]
        self._set(trained)

    @torch.no_grad()
    def _set(self, trained: Mapping[str, Tensor]) -> None:
        for name, weight in self._weights.items():
            weight.copy_(trained[name])
