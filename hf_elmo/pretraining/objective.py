"""The loss of a window of lanes in both directions, by a full, a sampled or an adaptive softmax.

Letters in shapes: B lanes, T words, N targets of one direction, P projection, V words of the softmax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..model.modeling_elmo import ElmoForPreTraining, ElmoState
from .lanes import NO_TARGET, LaneWindow
from .losses import sampled_cross_entropy, summed_cross_entropy
from .sampling import NegativeSample


@dataclass
class LaneLoss:
    """Sums over one window, so that figures over many windows can be put together exactly.

    Args:
        sums: Sum of -log p over the targets of each direction, in nats, (2,).
        num_targets: Targets of each direction.
        state: LSTM states at the end of the window.
    """

    sums: Tensor
    num_targets: int
    state: ElmoState


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
        self,
        window: LaneWindow,
        state: ElmoState | None = None,
        negatives: tuple[NegativeSample, NegativeSample] | None = None,
    ) -> LaneLoss:
        """Run one window and sum its losses.

        Args:
            window: Of B lanes.
            state: LSTM states before it; None starts from zeros.
            negatives: Of each direction, shared by its lanes and words (`sampling.LogUniformSampler`), for the sampled
                loss; None for that of the whole softmax.
        """
        vectors = self.model.elmo.token_encoder(window.rows)
        # Looked up as embeddings: index_put's backward is not deterministic on CPU, F.embedding's is.
        forward_vectors, backward_vectors = (F.embedding(words, vectors) for words in window.words)
        # The backward direction scans from the last word to the first, and its lane is in reading order: turn it round.
        outputs, state = self.model.elmo.bilm(forward_vectors, backward_vectors.flip(1), state=state)
        forward_output, backward_output = outputs[-1]
        has_target = window.targets != NO_TARGET
        hidden = [forward_output[has_target[0]], backward_output.flip(1)[has_target[1]]]
        targets = [window.targets[0][has_target[0]], window.targets[1][has_target[1]]]
        softmaxes = self.model.word_softmaxes
        if negatives is None:
            sums = [summed_cross_entropy(*each) for each in zip(softmaxes, hidden, targets, strict=True)]
        else:
            samples = [sample.to(vectors.device) for sample in negatives]
            ids = [targets[0], samples[0].ids, targets[1], samples[1].ids]
            if softmaxes[0] is softmaxes[1]:
                # One look-up, so that backward makes one gradient of the weights' size and not four.
                rows = self._look_up(softmaxes[0], ids)
            else:
                rows = self._look_up(softmaxes[0], ids[:2]) + self._look_up(softmaxes[1], ids[2:])
            sums = [
                sampled_cross_entropy(*each).sum()
                for each in zip(hidden, targets, rows[::2], samples, rows[1::2], strict=True)
            ]
        return LaneLoss(torch.stack(sums), len(targets[0]), state)

    def _look_up(self, softmax: Any, ids: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Weights (M, P) and biases (M,) of each list of M words."""
        lengths = [len(part) for part in ids]
        joined = torch.cat(ids)
        weights = F.embedding(joined, softmax.weight, sparse=self.sparse_gradients).split(lengths)
        biases = F.embedding(joined, softmax.bias[:, None]).squeeze(1).split(lengths)
        return list(zip(weights, biases, strict=True))


def propose_cutoffs(vocab_size: int) -> list[int]:
    """Cutoffs of an adaptive softmax where none are given: 7.5 % and 20 % of the words.

    Those are the fractions that Baevski and Auli (2019, sec. 4) took for the 800,000 words of the Billion Word
    benchmark.
    """
    first = max(1, round(0.075 * vocab_size))
    return [first, max(first + 1, round(0.2 * vocab_size))]
