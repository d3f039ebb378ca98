"""The spans of a document: their scores as mentions, the choice of the best, their vectors, and scores of their pairs.

Letters in shapes: N words of a document, W words of the widest span, D vector of a word, E what the biLSTM gives for
it, F features, K spans that are kept, A antecedents of each, R rows of a block of pairs, S vector of a span, H hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from .dropout_elmo import ElmoDropout
from .head_settings_elmo import CoreferenceHead
from .offloading_elmo import read_weights
from .sequence_encoders_elmo import masked_softmax
from .span_pairs_elmo import weigh_pairs_in_blocks

# The distances at which a new bin begins (Lee et al. 2017).
_DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)
# Pairs of spans whose vectors are in memory at once: the products of vectors of 1,500 numbers then take 100 MB.
_PAIRS_AT_A_TIME = 2**14


class Spans(NamedTuple):
    """Spans of a document that are kept, in the order of the text.

    Args:
        starts: First words, (K,).
        ends: Last words, (K,).
        vectors: (K, S).
        scores: As mentions, (K,).
    """

    starts: Tensor
    ends: Tensor
    vectors: Tensor
    scores: Tensor


class ElmoScorer(nn.Module):
    """Two dense ReLU layers with dropout, and a number on top.

    What the first layer reads is several vectors side by side. The product of its weights with a vector that many
    inputs share is computed once, by `weights_of_parts`, and added up.

    Args:
        part_sizes: The sizes of these vectors.
        hidden_size: Size H of both layers.
        dropout: Dropout on what they give.
    """

    def __init__(self, part_sizes: Sequence[int], hidden_size: int, dropout: float):
        super().__init__()
        self.part_sizes = list(part_sizes)
        self.first = nn.Linear(sum(part_sizes), hidden_size)
        self.second = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, 1)
        self.dropout = ElmoDropout(dropout)

    def weights_of_parts(self) -> Sequence[Tensor]:
        """The first layer's weights for each of the vectors, (H, its size)."""
        (weight,) = read_weights(self.first, "weight")
        return weight.split(self.part_sizes, dim=1)

    def forward(self, products: Tensor) -> Tensor:
        """Scores, (...), from the sum of all these weights' products with their vectors, (..., H)."""
        (bias,) = read_weights(self.first, "bias")
        hidden = self.dropout(torch.relu(products + bias))
        return self.output(self.dropout(torch.relu(self.second(hidden)))).squeeze(-1)


class ElmoSpans(nn.Module):
    """All spans of up to W words within a sentence as mentions, and the best of them (Lee et al. 2017, sec. 3).

    The vector of a span is [biLSTM at its first word; at its last word; its width; its words, weighted by attention].

    Args:
        word_size: Size D of the vector of a word.
        encoded_size: Size E of what the biLSTM gives for it.
        head: The settings of the head.

    Attributes:
        output_size: Size S of the vector of a span.
    """

    def __init__(self, word_size: int, encoded_size: int, head: CoreferenceHead):
        super().__init__()
        self.max_width = head.max_span_width
        self.spans_per_word = head.spans_per_word
        self.allow_crossing = head.allow_crossing
        self.widths = nn.Embedding(head.max_span_width, head.feature_size)
        self.attention = nn.Linear(encoded_size, 1)
        parts = [encoded_size, encoded_size, head.feature_size, word_size]
        self.scorer = ElmoScorer(parts, head.hidden_size, head.hidden_dropout)
        self.dropout = ElmoDropout(head.hidden_dropout)
        self.output_size = sum(parts)

    def forward(self, encoded: Tensor, words: Tensor, sentences: Tensor) -> tuple[Spans, Tensor, Tensor]:
        """Score all spans of a document as mentions, and keep the best.

        Args:
            encoded: What the biLSTM gives for the words, (N, E).
            words: The vectors of the words, (N, D).
            sentences: The number of the sentence of each word, (N,), rising.
        Returns: Those that are kept; the scores of all, (N, W), of the span from word n over w + 1 words at [n, w]; and
            where there is such a span, (N, W).
        """
        count, reach = len(words), torch.arange(self.max_width, device=words.device)
        ends = torch.arange(count, device=words.device).unsqueeze(1) + reach
        is_inside = ends < count
        ends = ends.clamp(max=count - 1)
        exists = is_inside & (sentences[ends] == sentences.unsqueeze(1))
        # Of the words from n on a span of w + 1 words has the first so many.
        is_read = (reach <= reach.unsqueeze(1)) & exists.unsqueeze(1)
        shares = masked_softmax(self.attention(encoded).squeeze(-1)[ends].unsqueeze(1), is_read)
        widths = self.dropout(self.widths(reach))
        of_start, of_end, of_width, of_words = self.scorer.weights_of_parts()
        products = F.linear(encoded, of_start).unsqueeze(1) + F.linear(encoded, of_end)[ends]
        # As weighting the words first, but with H numbers for each.
        products = products + F.linear(widths, of_width) + shares @ F.linear(words, of_words)[ends]
        scores = self.scorer(products)
        starts, places = choose_spans(scores.detach(), exists, self.spans_per_word, self.allow_crossing)
        attended = (shares[starts, places].unsqueeze(1) @ words[ends[starts]]).squeeze(1)
        last = ends[starts, places]
        vectors = torch.cat([encoded[starts], encoded[last], widths[places], attended], dim=-1)
        return Spans(starts, last, vectors, scores[starts, places]), scores, exists


class ElmoAntecedents(nn.Module):
    """For each span that is kept, how well each of those before it would do as its antecedent.

    The score of a pair is s(i, j) = m(i) + m(j) + a([g_i; g_j; g_i * g_j; features]) with m the scores as mentions, g
    the vectors and, as features, how many kept spans lie between the two and whether one speaker says both.

    Pairs are scored a block at a time, and computed again on the way back, so that memory grows with the number of
    spans alone.

    Args:
        span_size: Size S of the vector of a span.
        head: The settings of the head.
    """

    def __init__(self, span_size: int, head: CoreferenceHead):
        super().__init__()
        self.max_antecedents = head.max_antecedents
        self.distances = nn.Embedding(len(_DISTANCES), head.feature_size)
        # Speakers that are not known, two, and one.
        self.speakers = nn.Embedding(3, head.feature_size) if head.use_speakers else None
        features = head.feature_size * (2 if head.use_speakers else 1)
        self.scorer = ElmoScorer([span_size, span_size, span_size, features], head.hidden_size, head.hidden_dropout)
        self.dropout = ElmoDropout(head.hidden_dropout)

    def forward(self, spans: Spans, speakers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Score the pairs of a document.

        Args:
            spans: Those that are kept.
            speakers: The number of the speaker of each, (K,), 0 where he is not known; None where none is.
        Returns: The antecedents of each span, the nearest first, as numbers of spans, -1 where there is none, (K, A);
            and their scores, (K, 1 + A), before them the one of having no antecedent, which is 0; minus infinity where
            there is none.
        """
        numbers = torch.arange(len(spans.starts), device=spans.starts.device)
        width = min(self.max_antecedents, max(0, len(numbers) - 1))
        others = numbers.unsqueeze(1) - 1 - numbers[:width]
        blocks = numbers.split(max(1, _PAIRS_AT_A_TIME // max(1, width)))
        of_own, of_other, of_product, of_features = self.scorer.weights_of_parts()
        own, other = F.linear(spans.vectors, of_own), F.linear(spans.vectors, of_other)
        of_pairs = weigh_pairs_in_blocks(spans.vectors, of_product, width).split(len(blocks[0]))
        speakers = torch.zeros_like(spans.starts) if speakers is None else speakers
        inputs = (own, other, of_features, speakers)
        is_computed_again = torch.is_grad_enabled() and len(blocks) > 1
        scored, end = [], 0
        for rows, products in zip(blocks, of_pairs, strict=True):
            # The first spans of a document have few before them.
            end += len(rows)
            block_inputs = (rows, others[rows, :end], products[:, :end], *inputs)
            if is_computed_again:
                block = checkpoint(self._score_block, *block_inputs, use_reentrant=False)
            else:
                block = self._score_block(*block_inputs)
            scored.append(F.pad(block, (0, width - block.shape[1])))
        scores = torch.cat(scored) + spans.scores.unsqueeze(1) + spans.scores[others.clamp(min=0)]
        scores = scores.masked_fill(others < 0, -torch.inf)
        return others.clamp(min=-1), F.pad(scores, (1, 0))

    def _score_block(
        self,
        rows: Tensor,
        others: Tensor,
        products: Tensor,
        own: Tensor,
        other: Tensor,
        of_features: Tensor,
        speakers: Tensor,
    ) -> Tensor:
        """What the scorer says of some spans (R,) beside their antecedents (R, A), as (R, A)."""
        places = others.clamp(min=0)
        edges = torch.tensor(_DISTANCES, device=rows.device)
        bins = torch.bucketize((rows.unsqueeze(1) - others), edges, right=True) - 1
        features = [self.distances(bins)]
        if self.speakers is not None:
            one, two = speakers[rows].unsqueeze(1), speakers[places]
            features.append(self.speakers(torch.where((one > 0) & (two > 0), 1 + (one == two).long(), 0)))
        products = products + own[rows].unsqueeze(1) + other[places]
        products = products + F.linear(self.dropout(torch.cat(features, dim=-1)), of_features)
        return self.scorer(products)


@torch.no_grad()
def choose_spans(
    scores: Tensor, exists: Tensor, spans_per_word: float, allow_crossing: bool = False
) -> tuple[Tensor, Tensor]:
    """The spans of the best scores, one at least.

    Args:
        scores: Of the span from word n over w + 1 words at [n, w], (N, W).
        exists: Where there is such a span, (N, W).
        spans_per_word: How many are kept for each word.
        allow_crossing: Whether one that crosses a better one can be kept.
    Returns: Their n and their w, (K,) each, in the order of the text: by first words, then by last ones.
    """
    num_words, max_width = scores.shape
    places = exists.flatten().nonzero().squeeze(1)
    order = places[scores.flatten()[places].argsort(descending=True, stable=True)]
    count = min(len(order), max(1, int(spans_per_word * num_words)))
    if allow_crossing:
        kept = order[:count]
    else:
        chosen = _without_crossing(order.tolist(), max_width, count)
        kept = torch.tensor(chosen, dtype=torch.long, device=scores.device)
    kept = kept.sort().values
    return kept // max_width, kept % max_width


def _without_crossing(order: Sequence[int], max_width: int, count: int) -> list[int]:
    """The first so many spans (n * W + w) that do not cross one that has been taken before."""
    # Of those taken: the last word of the widest that begins at a word, the first one of the widest that ends there.
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    taken: list[int] = []
    for place in order:
        start, width = divmod(place, max_width)
        end = start + width
        if any(last.get(word, end) > end for word in range(start + 1, end + 1)):
            continue
        if any(first.get(word, start) < start for word in range(start, end)):
            continue
        last[start], first[end] = max(end, last.get(start, end)), min(start, first.get(end, start))
        taken.append(place)
        if len(taken) == count:
            break
    return taken
