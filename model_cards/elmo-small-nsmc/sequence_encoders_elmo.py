"""Encoders of whole texts and of pairs of them: pooling, the biattentive classifier's and ESIM's.

Letters in shapes: S sentences (of B pairs the first ones, then the second ones), W words, V words of another sentence,
D vector of a word, H size of one direction of a biLSTM, M size of a second mix (0 without one).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from .head_settings_elmo import SequenceClassificationHead
from .task_encoders_elmo import ElmoTaskLSTM

# Units of a maxout layer of which the largest is taken (Goodfellow et al. 2013); four as in AllenNLP's classifier.
_MAXOUT_UNITS = 4


class ElmoDense(nn.Linear):
    """A dense layer with its activation: "relu", "maxout" or none."""

    def __init__(self, input_size: int, output_size: int, activation: str | None = None):
        super().__init__(input_size, output_size * (_MAXOUT_UNITS if activation == "maxout" else 1))
        self.activation = activation

    def forward(self, vectors: Tensor) -> Tensor:
        """From (..., input_size) to (..., output_size)."""
        outputs = super().forward(vectors)
        if self.activation == "maxout":
            return outputs.unflatten(-1, (-1, _MAXOUT_UNITS)).amax(dim=-1)
        return torch.relu(outputs) if self.activation == "relu" else outputs


class ElmoVariationalDropout(nn.Dropout1d):
    """Dropout that leaves out the same features of all words of a row (Gal and Ghahramani 2016)."""

    def forward(self, vectors: Tensor) -> Tensor:
        """Drop features of words, (S, W, D)."""
        return super().forward(vectors.transpose(1, 2)).transpose(1, 2)


class ElmoTextEncoder(nn.Module):
    """What the encoders have in common.

    Args:
        input_size: Size D of the vector of a word.
        mix_size: Size M of the mix that is joined to the lowest biLSTM's output; 0 without one.
        head: The settings of the head.

    Attributes:
        reads_pairs: Whether the sentences are those of pairs.
        output_size: Size of the vector of a text or a pair.
    """

    reads_pairs: ClassVar[bool] = False
    output_size: int

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        """Encode texts, or pairs of them.

        Args:
            vectors: Of the words, (S, W, D).
            mask: True for real words, (S, W). A text may have none; what stands where it is False is of no account.
            mix: The mix that is joined to the lowest biLSTM's output, (S, W, M).
        Returns: A vector for each text, or for each pair, (S or S/2, output_size).
        """
        raise NotImplementedError


class ElmoPooledEncoder(ElmoTextEncoder):
    """The mean and the maximum of a text's words."""

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__()
        self.output_size = 2 * input_size

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        return torch.cat([masked_mean(vectors, mask), masked_max(vectors, mask)], dim=-1)


class ElmoPooledPairsEncoder(ElmoPooledEncoder):
    """The pooled vectors u and v of both texts of a pair as [u; v; |u - v|; u * v] (Conneau et al. 2017, sec. 3.1)."""

    reads_pairs = True

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__(input_size, mix_size, head)
        self.output_size *= 4

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        first, second = _of_pairs(super().forward(vectors, mask)).unbind(0)
        return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)


class ElmoBiattentiveEncoder(ElmoTextEncoder):
    """The encoder of the biattentive classification network, for one text (McCann et al. 2017, sec. 5).

    A dense ReLU layer, a biLSTM giving X, attention of X to itself, C = softmax(X X^T) X, a second biLSTM over
    [X; X - C; X * C] and four pools of its output: maximum, minimum, mean and one by learned weights.
    """

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__()
        size = head.hidden_size
        self.dense = ElmoDense(input_size, size, "relu")
        self.dropout = nn.Dropout(head.hidden_dropout)  # type: ignore[arg-type]
        self.lstm = ElmoTaskLSTM(size, size, 1, 0.0)
        self.integrator = ElmoTaskLSTM(3 * (2 * size + mix_size), size, 1, 0.0)
        self.pool_scores = ElmoDense(2 * size, 1)
        self.output_size = 8 * size

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        encoded = _join(self.lstm(self.dropout(self.dense(vectors)), mask), mix)
        attended = attend(encoded, encoded, mask)
        integrated = self.integrator(torch.cat([encoded, encoded - attended, encoded * attended], dim=-1), mask)
        weights = masked_softmax(self.pool_scores(integrated).squeeze(-1), mask)
        pools = [
            masked_max(integrated, mask),
            -masked_max(-integrated, mask),
            masked_mean(integrated, mask),
            (weights.unsqueeze(1) @ integrated).squeeze(1),
        ]
        return torch.cat(pools, dim=-1)


class ElmoInferenceEncoder(ElmoTextEncoder):
    """ESIM, the enhanced sequential inference model, for pairs (Chen et al. 2017, sec. 3).

    One biLSTM reads both sentences, giving P and H; each word is aligned softly with the other sentence, p~ =
    softmax(p H^T) H; [p; p~; p - p~; p * p~] goes through a dense ReLU layer into a second biLSTM, whose output is
    pooled by mean and maximum for each sentence.
    """

    reads_pairs = True

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__()
        size = head.hidden_size
        self.lstm = ElmoTaskLSTM(input_size, size, 1, 0.0)
        self.dense = ElmoDense(4 * (2 * size + mix_size), size, "relu")
        self.dropout = ElmoVariationalDropout(head.hidden_dropout)  # type: ignore[arg-type]
        self.composition = ElmoTaskLSTM(size, size, 1, 0.0)
        self.output_size = 8 * size

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        encoded = _join(self.lstm(vectors, mask), mix)
        # Beside each sentence the other one of its pair.
        aligned = attend(encoded, _swapped(encoded), _swapped(mask))
        enhanced = self.dense(torch.cat([encoded, aligned, encoded - aligned, encoded * aligned], dim=-1))
        composed = self.composition(self.dropout(enhanced), mask)
        pooled = torch.cat([masked_mean(composed, mask), masked_max(composed, mask)], dim=-1)
        return torch.cat(_of_pairs(pooled).unbind(0), dim=-1)


TEXT_ENCODERS: dict[str, type[ElmoTextEncoder]] = {
    "pooled": ElmoPooledEncoder,
    "pooled_pairs": ElmoPooledPairsEncoder,
    "bcn": ElmoBiattentiveEncoder,
    "esim": ElmoInferenceEncoder,
}


def attend(queries: Tensor, vectors: Tensor, mask: Tensor) -> Tensor:
    """What each word finds in a sentence by the softmax of its dot products with the words there.

    Args:
        queries: The words that look, (S, W, D).
        vectors: The words that are looked at, (S, V, D).
        mask: True for those that are real, (S, V).
    Returns: Weighted sums of `vectors`, (S, W, D); zeros where a sentence has no word.
    """
    return masked_softmax(queries @ vectors.transpose(1, 2), mask.unsqueeze(1)) @ vectors


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax over the last axis where `mask` is True, zeros elsewhere, also where it is nowhere True."""
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return weights.masked_fill(~mask, 0.0)


def masked_mean(vectors: Tensor, mask: Tensor) -> Tensor:
    """The mean over the words, (S, W, D) with mask (S, W) to (S, D); zeros where there is none."""
    total = vectors.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def masked_max(vectors: Tensor, mask: Tensor) -> Tensor:
    """The maximum over the words, (S, W, D) with mask (S, W) to (S, D); zeros where there is none."""
    largest = vectors.masked_fill(~mask.unsqueeze(-1), torch.finfo(vectors.dtype).min).amax(dim=1)
    return largest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


def _join(vectors: Tensor, mix: Tensor | None) -> Tensor:
    return vectors if mix is None else torch.cat([vectors, mix], dim=-1)


def _of_pairs(sentences: Tensor) -> Tensor:
    """The first and the second sentences, (2B, ...) to (2, B, ...); an export leaves open how many there are."""
    return sentences.unflatten(0, (2, -1))


def _swapped(sentences: Tensor) -> Tensor:
    """The other sentence of its pair for each, (2B, ...)."""
    return _of_pairs(sentences).flip(0).flatten(0, 1)
