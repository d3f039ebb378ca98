"""Cross entropies of words given the biLM's vectors: full, sampled and adaptive.

They define what `fused_losses` computes faster and in less memory.

Letters in shapes: N targets, P projection, V words of the softmax, S negatives.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .sampling import NegativeSample


def full_cross_entropy(softmax: nn.Linear, hidden: Tensor, targets: Tensor) -> Tensor:
    """-log p of each target in nats, (N,), all N x V logits held at a time.

    Args:
        softmax: Weight (V, P) and bias (V,).
        hidden: Vectors that predict the targets, (N, P).
        targets: Word ids, (N,).
    """
    return F.cross_entropy(at_least_float32(softmax(hidden)), targets, reduction="none")


def sampled_cross_entropy(
    hidden: Tensor,
    targets: Tensor,
    target_rows: tuple[Tensor, Tensor],
    sample: NegativeSample,
    sample_rows: tuple[Tensor, Tensor],
    correct_targets: bool = True,
) -> Tensor:
    """-log p of each target among itself and the negatives, (N,) (Jean et al. 2015; tf.nn.sampled_softmax_loss).

    The log of a negative's expected count is taken off its logit, so that the sum over the negatives stands for the sum
    over all words. A negative that is the target itself is left out.

    Args:
        hidden: Vectors that predict the targets, (N, P).
        targets: Word ids, (N,).
        target_rows: Weights (N, P) and biases (N,) of the targets.
        sample: The negatives, shared by all targets.
        sample_rows: Weights (S, P) and biases (S,) of the negatives.
        correct_targets: Whether the target's expected count is taken off its logit too, as TensorFlow does. A loss so
            corrected has its optimum where the full softmax's has, yet lies below it, by up to minus the log of the
            target's expected count (about a nat on average for 8192 of 800,000 words). Without, loss and gradient are
            the full softmax's in expectation, but for the bias of a ratio, which falls with S.
    """
    weights, biases = target_rows
    target_logits = (at_least_float32(hidden) * weights).sum(1) + biases
    logits = at_least_float32(F.linear(hidden, *sample_rows))
    logits = logits - sample.log_expected_counts(sample.ids, logits.dtype)
    if correct_targets:
        target_logits = target_logits - sample.log_expected_counts(targets, target_logits.dtype)
    places, is_hit = find_hits(sample, targets)
    # Finite: where every term of a sum is left out, infinity would put nan into the backward pass.
    lowest = torch.finfo(logits.dtype).min
    logits = logits.scatter(1, places, logits.gather(1, places).masked_fill(is_hit, lowest))
    return torch.logaddexp(target_logits, logits.logsumexp(1)) - target_logits


def find_hits(sample: NegativeSample, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The place among the negatives where each target would stand, (N, 1), and whether it does, (N, 1)."""
    # The ids are distinct and rising: each target has one place at most.
    places = torch.searchsorted(sample.ids, targets).clamp(max=len(sample.ids) - 1).unsqueeze(1)
    return places, sample.ids[places] == targets.unsqueeze(1)


def adaptive_cross_entropy(softmax: nn.AdaptiveLogSoftmaxWithLoss, hidden: Tensor, targets: Tensor) -> Tensor:
    """-log p of each target in nats, (N,), by an adaptive softmax (Grave et al. 2017).

    The same as minus the module's own output, which stumbles over mixed precision and leaves clusters without targets
    out of the graph: their gradients would be missing, and distributed training wait for them.

    Args:
        softmax: The adaptive softmax over P inputs.
        hidden: Vectors that predict the targets, (N, P).
        targets: Word ids, (N,).
    """
    cluster, places = find_places(softmax, targets)
    log_likelihood = _gather_log_softmax(softmax.head(hidden), places)
    for index, (start, _) in enumerate(itertools.pairwise(softmax.cutoffs)):
        rows = (cluster == index + 1).nonzero().squeeze(1)
        within = _gather_log_softmax(softmax.tail[index](hidden[rows]), targets[rows] - start)
        log_likelihood = log_likelihood.index_add(0, rows, within)
    return -log_likelihood


def find_places(softmax: nn.AdaptiveLogSoftmaxWithLoss, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The cluster of each target, (N,), and the output of the head that stands for it or for its cluster, (N,)."""
    starts = targets.new_tensor(softmax.cutoffs[:-1])
    cluster = torch.bucketize(targets, starts, right=True)
    return cluster, torch.where(cluster == 0, targets, softmax.shortlist_size - 1 + cluster)


def _gather_log_softmax(logits: Tensor, places: Tensor) -> Tensor:
    return F.log_softmax(at_least_float32(logits), dim=1).gather(1, places.unsqueeze(1)).squeeze(1)


def at_least_float32(tensor: Tensor) -> Tensor:
    """The same numbers in float32, or in float64 where they are."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
