"""Readers of a question and its context: Clark and Gardner's with self-attention, and bidirectional attention flow.

Letters in shapes: B pairs, V words of a context, W words of a question, D vector of a word, H size of one direction of
a recurrence, M size of a second mix (0 without one).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .dropout_elmo import ElmoDropout
from .head_settings_elmo import QuestionAnsweringHead
from .sequence_encoders_elmo import ElmoDense, ElmoVariationalDropout, masked_softmax
from .task_encoders_elmo import ElmoTaskGRU, ElmoTaskLSTM
from .token_encoder_elmo import ElmoHighway


class TextVectors(NamedTuple):
    """The words of one text of each pair.

    Args:
        vectors: What the reader's first layer reads, (B, V, D).
        mask: True for real words, (B, V).
        mix: The mix that is joined to the lowest recurrence's output, (B, V, M); None without one.
    """

    vectors: Tensor
    mask: Tensor
    mix: Tensor | None = None


class ElmoTrilinear(nn.Linear):
    """The score of two words h and q: w1 . h + w2 . q + w3 . (h * q) (Seo et al. 2016, sec. 2).

    It has no bias, which the softmax over such scores would take out again.
    """

    def __init__(self, size: int):
        super().__init__(3 * size, 1, bias=False)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:  # type: ignore[override]
        """Scores of all words of two texts, (B, V, D) and (B, W, D) to (B, V, W)."""
        of_first, of_second, of_both = self.weight.view(3, -1)
        one_by_one = (first @ of_first).unsqueeze(2) + (second @ of_second).unsqueeze(1)
        return one_by_one + (first * of_both) @ second.transpose(1, 2)


class ElmoBidirectionalAttention(nn.Module):
    """What a context finds in its question, and which of its words the question finds, beside the context.

    For h, a word of the context, [h; c; h * c; h * q~], (B, V, 4D): c is the softmax of its scores over the question,
    and q~, alike for all words, the softmax of their best scores over the context (Seo et al. 2016, sec. 2).
    """

    def __init__(self, size: int):
        super().__init__()
        self.scores = ElmoTrilinear(size)

    def forward(self, context: Tensor, context_mask: Tensor, question: Tensor, question_mask: Tensor) -> Tensor:
        """From (B, V, D) and (B, W, D) to (B, V, 4D)."""
        scores = self.scores(context, question)
        found = masked_softmax(scores, question_mask.unsqueeze(1)) @ question
        lowest = torch.finfo(scores.dtype).min
        best = scores.masked_fill(~question_mask.unsqueeze(1), lowest).amax(dim=2)
        # To a question without words all are alike; padding is not one of them.
        best = best.masked_fill(~question_mask.any(dim=1, keepdim=True), 0.0)
        summary = masked_softmax(best, context_mask).unsqueeze(1) @ context
        return torch.cat([context, found, context * found, context * summary], dim=-1)


class ElmoSelfAttention(nn.Module):
    """What the words of a context find in its other words, or in none of them (Clark and Gardner 2017, sec. 2.2).

    For a word x, [a; x; a * x], (B, V, 3D): a is the softmax over the others and a learned score that stands for no
    word.
    """

    def __init__(self, size: int):
        super().__init__()
        self.scores = ElmoTrilinear(size)
        self.score_of_none = nn.Parameter(torch.empty(1))

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """From (B, V, D) to (B, V, 3D)."""
        scores = self.scores(vectors, vectors)
        is_itself = torch.eye(vectors.shape[1], dtype=torch.bool, device=vectors.device)
        scores = scores.masked_fill(~mask.unsqueeze(1) | is_itself, torch.finfo(scores.dtype).min)
        none = self.score_of_none.expand(*scores.shape[:2], 1)
        weights = torch.softmax(torch.cat([scores, none], dim=-1), dim=-1)[..., :-1]
        found = weights @ vectors
        return torch.cat([found, vectors, found * vectors], dim=-1)


class ElmoReader(nn.Module):
    """What the readers have in common.

    Args:
        input_size: Size D of the vector of a word.
        mix_size: Size M of the mix that is joined to the lowest recurrence's output; 0 without one.
        head: The settings of the head.
    """

    def forward(self, question: TextVectors, context: TextVectors) -> tuple[Tensor, Tensor]:
        """Score each word of the contexts as the first and as the last one of the answer, (B, V) and (B, V).

        A text may have no words; what stands where its mask is False is of no account.
        """
        raise NotImplementedError


class ElmoSelfAttentionReader(ElmoReader):
    """One biGRU for both texts, attention both ways, a residual layer of self-attention, and a biGRU for each end.

    As Clark and Gardner 2017, sec. 2.2, whose dropout leaves out the same features of all words before and behind the
    recurrences; the biGRU of the answer's end reads what that of its start gives.
    """

    def __init__(self, input_size: int, mix_size: int, head: QuestionAnsweringHead):
        super().__init__()
        size: int = head.hidden_size  # type: ignore[assignment]
        self.dropout = ElmoVariationalDropout(head.hidden_dropout)
        self.encoder = ElmoTaskGRU(input_size, size)
        self.attention = ElmoBidirectionalAttention(2 * size + mix_size)
        self.merge = ElmoDense(4 * (2 * size + mix_size), 2 * size, "relu")
        self.inner_encoder = ElmoTaskGRU(2 * size, size)
        self.self_attention = ElmoSelfAttention(2 * size)
        self.inner_merge = ElmoDense(3 * 2 * size, 2 * size, "relu")
        self.start_encoder = ElmoTaskGRU(2 * size, size)
        self.start_scores = ElmoDense(2 * size, 1)
        self.end_encoder = ElmoTaskGRU(4 * size, size)
        self.end_scores = ElmoDense(2 * size, 1)

    def forward(self, question: TextVectors, context: TextVectors) -> tuple[Tensor, Tensor]:
        asked, read = self._encode(question), self._encode(context)
        merged = self.merge(self.attention(read, context.mask, asked, question.mask))
        inner = self.dropout(self.inner_encoder(self.dropout(merged), context.mask))
        merged = self.dropout(merged + self.inner_merge(self.self_attention(inner, context.mask)))
        start = self.start_encoder(merged, context.mask)
        end = self.end_encoder(torch.cat([merged, start], dim=-1), context.mask)
        return self.start_scores(start).squeeze(-1), self.end_scores(end).squeeze(-1)

    def _encode(self, text: TextVectors) -> Tensor:
        encoded = self.dropout(self.encoder(self.dropout(text.vectors), text.mask))
        return encoded if text.mix is None else torch.cat([encoded, text.mix], dim=-1)


class ElmoAttentionFlowReader(ElmoReader):
    """BiDAF as AllenNLP has it: highway layers, one biLSTM for both texts, attention both ways, a biLSTM of two layers.

    With G what the attention gives and M what that biLSTM makes of it, the start is scored on [G; M]. One more biLSTM
    reads [G; M; s~; M * s~], where s~ is the sum of M's words by their probabilities as starts; its output scores the
    end, beside G (Seo et al. 2016, sec. 2).
    """

    def __init__(self, input_size: int, mix_size: int, head: QuestionAnsweringHead):
        super().__init__()
        size: int = head.hidden_size  # type: ignore[assignment]
        attended = 4 * (2 * size + mix_size)
        self.dropout = ElmoDropout(head.hidden_dropout)
        self.highways = nn.ModuleList(ElmoHighway(input_size) for _ in range(head.highway_layers or 0))
        self.encoder = ElmoTaskLSTM(input_size, size)
        self.attention = ElmoBidirectionalAttention(2 * size + mix_size)
        self.modeling = ElmoTaskLSTM(attended, size, head.modeling_layers, head.hidden_dropout)
        self.start_scores = ElmoDense(attended + 2 * size, 1)
        self.end_encoder = ElmoTaskLSTM(attended + 3 * 2 * size, size)
        self.end_scores = ElmoDense(attended + 2 * size, 1)

    def forward(self, question: TextVectors, context: TextVectors) -> tuple[Tensor, Tensor]:
        asked, read = self._encode(question), self._encode(context)
        attended = self.dropout(self.attention(read, context.mask, asked, question.mask))
        modeled = self.dropout(self.modeling(attended, context.mask))
        start = self.start_scores(torch.cat([attended, modeled], dim=-1)).squeeze(-1)
        weights = masked_softmax(start, context.mask)
        expected = (weights.unsqueeze(1) @ modeled).expand_as(modeled)
        inputs = torch.cat([attended, modeled, expected, modeled * expected], dim=-1)
        ends = self.dropout(self.end_encoder(inputs, context.mask))
        return start, self.end_scores(torch.cat([attended, ends], dim=-1)).squeeze(-1)

    def _encode(self, text: TextVectors) -> Tensor:
        vectors = text.vectors.flatten(0, 1)
        for highway in self.highways:
            vectors = highway(vectors)
        encoded = self.dropout(self.encoder(vectors.view_as(text.vectors), text.mask))
        return encoded if text.mix is None else torch.cat([encoded, text.mix], dim=-1)


READERS: dict[str, type[ElmoReader]] = {"self_attention": ElmoSelfAttentionReader, "bidaf": ElmoAttentionFlowReader}
