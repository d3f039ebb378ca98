"""The loss of a window of lanes in both directions, by a full, a sampled or an adaptive softmax.

Letters in shapes: B lanes, T words, N targets of one direction, P projection, V words of the softmax.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..model.modeling_elmo import ElmoForPreTraining, ElmoState
from .lanes import NO_TARGET, LaneWindow
from .losses import (
    adaptive_cross_entropy,
    full_cross_entropy,
    sampled_cross_entropy,
    summed_adaptive_cross_entropy,
    summed_cross_entropy,
)
from .sampling import NegativeSample

Negatives = tuple[NegativeSample, NegativeSample]

# Targets and words whose logits of a full softmax are held at a time where no gradients are wanted: what caches hold.
_TARGETS, _WORDS = 1024, 1024
# Most logits of a cluster of an adaptive softmax that are held at a time there: 64 MiB of float32.
_MAX_LOGITS = 2**24


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
        """The mean of both directions' mean losses, in nats per word: what is minimized."""
        return (self.forward_sum + self.backward_sum) / (2 * max(self.num_targets, 1))


class Direction(NamedTuple):
    """What one direction has to predict, (N,), by a linear or an adaptive softmax, and from what vectors, (N, P)."""

    softmax: Any
    hidden: Tensor
    targets: Tensor


class LaneObjective(nn.Module):
    """The biLM over windows of lanes, and the loss of its words by the model's softmax or a sample of it.

    The gradient of a sampled softmax's weights is dense by default, V x P numbers of which few are not zero; at 800,000
    words of 512 that is 1.6 GB. With `sparse_gradients` it holds the looked-up rows alone. That is for
    torch.optim.Adagrad (AdamW refuses it, weight decay too), for `optim.clip_gradient_norm` in place of torch's, and
    for one process.

    Args:
        model: The model to train; its biLM sees the two streams of the lanes.
        sparse_gradients: Whether the gradient of a sampled softmax's weights is a sparse tensor.
    """

    def __init__(self, model: ElmoForPreTraining, sparse_gradients: bool = False):
        super().__init__()
        self.model = model
        self.sparse_gradients = sparse_gradients

    def forward(
        self, window: LaneWindow, state: ElmoState | None = None, negatives: Negatives | None = None
    ) -> LaneLoss:
        """Run one window and sum its losses.

        Args:
            window: Of B lanes.
            state: LSTM states before it; None starts from zeros.
            negatives: Of each direction, shared by its lanes and words (`sampling.LogUniformSampler`), for the sampled
                loss; None for that of the whole softmax.
        """
        directions, state = self._run_bilm(window, state)
        if negatives is not None:
            forward_sum, backward_sum = self._sum_sampled(directions, negatives)
        elif self.model.config.softmax_type == "adaptive":
            forward_sum, backward_sum = map(_sum_adaptive, directions)
        else:
            forward_sum, backward_sum = map(_sum_full, directions)
        return LaneLoss(forward_sum, backward_sum, len(directions[0].targets), state)

    def _run_bilm(self, window: LaneWindow, state: ElmoState | None) -> tuple[tuple[Direction, Direction], ElmoState]:
        vectors = self.model.elmo.token_encoder(window.rows)
        # Looked up as embeddings: index_put's backward is not deterministic on CPU, F.embedding's is.
        forward_vectors = F.embedding(window.forward_words, vectors)
        # The backward direction scans from the last word to the first, and its lane is in reading order: turn it round.
        backward_vectors = F.embedding(window.backward_words, vectors).flip(1)
        outputs, state = self.model.elmo.bilm(forward_vectors, backward_vectors, state=state)
        forward_output, backward_output = outputs[-1]
        directions = []
        for softmax, hidden, targets in zip(
            self.model.word_softmaxes,
            (forward_output, backward_output.flip(1)),
            (window.forward_targets, window.backward_targets),
            strict=True,
        ):
            has_target = targets != NO_TARGET
            directions.append(Direction(softmax, hidden[has_target], targets[has_target]))
        return (directions[0], directions[1]), state

    def _sum_sampled(self, directions: tuple[Direction, Direction], negatives: Negatives) -> tuple[Tensor, Tensor]:
        samples = [sample.to(direction.targets.device) for direction, sample in zip(directions, negatives, strict=True)]
        (forward, _, forward_targets), (backward, _, backward_targets) = directions
        ids = [forward_targets, samples[0].ids, backward_targets, samples[1].ids]
        if forward is backward:
            # One look-up, so that backward makes one gradient of the weights' size and not four.
            rows = self._look_up(forward, ids)
        else:
            rows = self._look_up(forward, ids[:2]) + self._look_up(backward, ids[2:])
        forward_sum, backward_sum = (
            sampled_cross_entropy(hidden, targets, rows[place], sample, rows[place + 1]).sum()
            for (_, hidden, targets), sample, place in zip(directions, samples, (0, 2), strict=True)
        )
        return forward_sum, backward_sum

    def _look_up(self, softmax: nn.Linear, ids: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Weights (M, P) and biases (M,) of each list of M words."""
        lengths = [len(part) for part in ids]
        joined = torch.cat(ids)
        weights = F.embedding(joined, softmax.weight, sparse=self.sparse_gradients).split(lengths)
        biases = F.embedding(joined, softmax.bias[:, None]).squeeze(1).split(lengths)
        return list(zip(weights, biases, strict=True))


def _sum_full(direction: Direction) -> Tensor:
    softmax, hidden, targets = direction
    if torch.is_grad_enabled():
        return summed_cross_entropy(softmax.weight, softmax.bias, hidden, targets)
    return full_cross_entropy(softmax, hidden, targets, _TARGETS, _WORDS).sum()


def _sum_adaptive(direction: Direction) -> Tensor:
    softmax, hidden, targets = direction
    if torch.is_grad_enabled() or not len(targets):
        return summed_adaptive_cross_entropy(softmax, hidden, targets)
    widths = [end - start for start, end in itertools.pairwise(softmax.cutoffs)]
    number = max(1, _MAX_LOGITS // max(softmax.head_size, *widths))
    parts = zip(hidden.split(number), targets.split(number), strict=True)
    return torch.stack([adaptive_cross_entropy(softmax, *part).sum() for part in parts]).sum()


def propose_cutoffs(vocab_size: int) -> list[int]:
    """Cutoffs of an adaptive softmax where none are given: 7.5 % and 20 % of the words.

    Those are the fractions that Baevski and Auli (2019, sec. 4) took for the 800,000 words of the Billion Word
    benchmark.
    """
    first = max(1, round(0.075 * vocab_size))
    return [first, max(first + 1, round(0.2 * vocab_size))]
