"""Gold labels that a model does not know: it cannot predict them, so they are scored as missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.nn import functional as F

from ..model.modeling_elmo import IGNORED_LABEL, ElmoTaskModel

_MOST_SHOWN = 10


class HasLabels(Protocol):
    """What a split holds, as far as its labels go."""

    def label_places(self) -> dict[str, str]:
        """Each label that occurs, and where it stands first, for errors."""


def find_unseen(splits: Mapping[str, HasLabels], labels: Sequence[str]) -> tuple[list[str], str | None]:
    """The gold labels that a model does not know, and a line that warns of them, None where there are none.

    Args:
        splits: The examples with their labels.
        labels: Those that the model knows.
    Raises: ValueError naming a split of which it knows no label.
    """
    places: dict[str, str] = {}
    for examples in splits.values():
        found = examples.label_places()
        unseen = {label: place for label, place in found.items() if label not in labels}
        if unseen and len(unseen) == len(found):
            label, place = next(iter(unseen.items()))
            raise ValueError(
                f"{place}: the label {label!r} is not known, and neither is another one of that data; known are "
                f"{list(labels[:20])}. Name the right column, or train on data with these labels."
            )
        places |= {label: place for label, place in unseen.items() if label not in places}
    if not places:
        return [], None
    shown = [f"{label!r} ({place})" for label, place in list(places.items())[:_MOST_SHOWN]]
    more = f" and {len(places) - _MOST_SHOWN} more" if len(places) > _MOST_SHOWN else ""
    return sorted(places), f"labels that the model does not know are scored as missed: {', '.join(shown)}{more}"


def leave_out_unseen(
    build: Callable[[], tuple[ElmoTaskModel, str]],
) -> Callable[[], tuple[ElmoTaskModel, str]]:
    """What builds a model that leaves gold labels out of its loss whose ids are none of its own.

    Ids from the number of its labels on stand for labels that it does not know; whoever scores its predictions sees
    them as they are.

    Args:
        build: Makes a model, and a line about it.
    """

    def build_model() -> tuple[ElmoTaskModel, str]:
        model, line = build()
        loss = _LossOfKnown()
        model.register_forward_pre_hook(loss.hide, with_kwargs=True)
        model.register_forward_hook(loss.correct)
        return model, line

    return build_model


class _LossOfKnown:
    """The loss of a batch over the labels that a model knows."""

    def __init__(self) -> None:
        # Of texts, the true labels of those whose labels are known; of words the model leaves out what it is told to.
        self._known: tuple[torch.Tensor, torch.Tensor] | None = None

    def hide(self, model: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Before the model: hide the labels that it does not know."""
        labels = kwargs.get("labels")
        self._known = None
        if labels is not None:
            unseen = labels >= model.num_labels
            if labels.ndim == 1 and unseen.any():
                self._known = ~unseen, labels
            kwargs = {**kwargs, "labels": labels.masked_fill(unseen, 0 if labels.ndim == 1 else IGNORED_LABEL)}
        return args, kwargs

    def correct(self, model: Any, args: Any, output: Any) -> Any:
        """Behind it: the loss of texts, which have no label that says that they have none."""
        if self._known is not None:
            known, labels = self._known
            losses = F.cross_entropy(output.logits[known].float(), labels[known], reduction="sum")
            output.loss = losses / known.sum().clamp(min=1)
        return output
