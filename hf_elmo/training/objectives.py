"""What pre-training minimises: the full word softmax over both directions of a window of lanes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.lanes import NO_TARGET, LaneWindow
from ..layers_elmo import ElmoState
from ..modeling_elmo import ElmoForPreTraining


@dataclass
class LaneLoss:
    """Sums over one window, so that figures over many windows can be put together exactly.

    Args:
        forward_sum, backward_sum: Sum of -log p over the targets of each direction, in nats.
        num_targets: Targets of each direction.
        state: LSTM states at the end of the window.
    """

    forward_sum: Tensor
    backward_sum: Tensor
    num_targets: int
    state: ElmoState

    @property
    def mean(self) -> Tensor:
        """The mean of both directions' mean losses, in nats a word: what is minimised."""
        return (self.forward_sum + self.backward_sum) / (2 * max(self.num_targets, 1))


class FullSoftmaxObjective(nn.Module):
    """Both directions' cross entropy by the full softmax over the vocabulary (Peters et al. 2018, sec. 3.1).

    Args:
        model: The model to train; its biLM sees the two streams of the lanes, its softmax is shared by both.
        chunk_size: Most targets whose logits are held at a time when no gradients are wanted: memory is bounded by
            chunk_size x vocabulary.
    """

    def __init__(self, model: ElmoForPreTraining, chunk_size: int = 2048):
        super().__init__()
        self.model = model
        self.chunk_size = chunk_size

    def forward(self, window: LaneWindow, state: ElmoState | None = None) -> LaneLoss:
        """Run one window from `state` and sum its losses."""
        elmo = self.model.elmo
        vectors = elmo.token_encoder(window.rows)
        # The backward direction scans from the last word to the first, and its lane is in reading order: turn it round.
        forward_vectors, backward_vectors = vectors[window.forward_words], vectors[window.backward_words].flip(1)
        outputs, state = elmo.bilm(forward_vectors, backward_vectors, state=state)
        forward_output, backward_output = outputs[-1]
        return LaneLoss(
            forward_sum=self._sum_cross_entropy(forward_output, window.forward_targets),
            backward_sum=self._sum_cross_entropy(backward_output.flip(1), window.backward_targets),
            num_targets=window.num_targets,
            state=state,
        )

    def _sum_cross_entropy(self, hidden: Tensor, targets: Tensor) -> Tensor:
        has_target = targets != NO_TARGET
        hidden, targets = hidden[has_target], targets[has_target]
        chunk = max(len(targets), 1) if torch.is_grad_enabled() else self.chunk_size
        softmax = self.model.word_softmax
        return sum(
            (
                F.cross_entropy(softmax(part).float(), labels, reduction="sum")
                for part, labels in zip(hidden.split(chunk), targets.split(chunk), strict=True)
            ),
            start=hidden.new_zeros((), dtype=torch.float32),
        )
