"""Coreference resolution over ELMo's mixes (Lee et al. 2017, 2018)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import CoreferenceHead, ElmoConfig
from .modeling_elmo import ElmoTaskModel
from .modeling_elmo_tasks import ElmoTaskLSTM, masked_softmax

# Vectors of a block: each has its own weights in memory, H times S of them.
_SPANS_AT_A_TIME = 16


def weigh_pairs(vectors: Tensor, weight: Tensor, width: int) -> Tensor:
    """W (g_i * g_j) for vectors g_i (K, S) and the A before each, the nearest first, with W (H, S), (K, A, H).

    As (W * g_i) g_j: each g_i makes weights of its own, and one product of those of some neighbors with all vectors
    before them has their pairs, without S numbers for each pair. Zero where there is none.
    """
    device = vectors.device.type
    if torch.is_autocast_enabled(device):
        vectors, weight = (tensor.to(torch.get_autocast_dtype(device)) for tensor in (vectors, weight))
    return cast("Tensor", _PairsInBlocks.apply(vectors, weight, width))


class _Block(NamedTuple):
    """Neighbors, and where their pairs are in the product of the vectors before them with their own weights."""

    rows: slice
    columns: slice
    places: Tensor  # rows of (C R, H), (R, A)
    is_pair: Tensor  # (R, A)


class _PairsInBlocks(torch.autograd.Function):
    """A product for each block, and two on the way back."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor, width: int) -> Tensor:
        found = vectors.new_zeros(len(vectors), width, len(weight))
        with torch.autocast(vectors.device.type, enabled=False):
            for block in _blocks(vectors, width):
                own = _weights_of(vectors[block.rows], weight)
                products = (vectors[block.columns] @ own.t()).view(-1, len(weight))
                found[block.rows][block.is_pair] = products[block.places[block.is_pair]]
        ctx.save_for_backward(vectors, weight)
        ctx.width = width
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_found: Tensor) -> tuple[Tensor, Tensor, None]:
        vectors, weight = ctx.saved_tensors
        grad_vectors, grad_weight = torch.zeros_like(vectors), torch.zeros_like(weight)
        with torch.autocast(vectors.device.type, enabled=False):
            for block in _blocks(vectors, ctx.width):
                rows, columns = vectors[block.rows], vectors[block.columns]
                own = _weights_of(rows, weight)
                grad_products = vectors.new_zeros(len(columns) * len(rows), len(weight))
                grad_products[block.places[block.is_pair]] = grad_found[block.rows][block.is_pair]
                grad_products = grad_products.view(len(columns), len(own))
                grad_vectors[block.columns].addmm_(grad_products, own)
                grad_own = (grad_products.t() @ columns).view(len(rows), *weight.shape)
                grad_vectors[block.rows] += (grad_own * weight).sum(dim=1)
                grad_weight += grad_own.mul_(rows.unsqueeze(1)).sum(dim=0)
        return grad_vectors, grad_weight, None


def _blocks(vectors: Tensor, width: int) -> Iterator[_Block]:
    for rows in torch.arange(len(vectors), device=vectors.device).split(_SPANS_AT_A_TIME):
        start, stop = int(rows[0]), int(rows[0]) + len(rows)
        first = max(0, start - width)
        others = _ones_before(rows, width)
        places = (others - first) * len(rows) + (rows - start).unsqueeze(1)
        yield _Block(slice(start, stop), slice(first, stop - 1), places, others >= 0)


def _weights_of(rows: Tensor, weight: Tensor) -> Tensor:
    """The weights that each vector makes for those before it, (R H, S)."""
    return (rows.unsqueeze(1) * weight).view(-1, weight.shape[1])


def _ones_before(numbers: Tensor, width: int) -> Tensor:
    """The numbers of the ones before each, the nearest first, (R, A); negative if there is none."""
    return numbers.unsqueeze(1) - 1 - torch.arange(width, device=numbers.device)


# The distances at which a new bin begins (Lee et al. 2017).
_DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)
# Pairs of spans whose vectors are in memory at once: the products of vectors of 1,500 numbers then take 100 MB.
_PAIRS_AT_A_TIME = 2**14


class Spans(NamedTuple):
    """The kept spans of a document, in the order of the text: first and last words, vectors, mention scores."""

    starts: Tensor  # (K,)
    ends: Tensor  # (K,)
    vectors: Tensor  # (K, S)
    scores: Tensor  # (K,)


class ElmoSpanScorer(nn.Module):
    """Two dense ReLU layers of size H with dropout, and a number on top; the first reads vectors side by side.

    The product of its weights with a vector that many inputs share is computed once (`weights_of_parts`).
    """

    def __init__(self, part_sizes: Sequence[int], hidden_size: int, dropout: float):
        super().__init__()
        self.part_sizes = list(part_sizes)
        self.first = nn.Linear(sum(part_sizes), hidden_size)
        self.second = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, 1)
        self.dropout = nn.Dropout(dropout)

    def weights_of_parts(self) -> Sequence[Tensor]:
        return self.first.weight.split(self.part_sizes, dim=1)

    def forward(self, products: Tensor) -> Tensor:
        """Scores, (...), from the sum of the products of the parts, (..., H)."""
        hidden = self.dropout(torch.relu(products + self.first.bias))
        return self.output(self.dropout(torch.relu(self.second(hidden)))).squeeze(-1)


class ElmoSpans(nn.Module):
    """All spans of up to W words within a sentence as mentions, and the best of them (Lee et al. 2017, sec. 3).

    The vector of a span, of size S, is [biLSTM at its first word; at its last word; its width; its words, weighted by
    attention], from vectors of words of size D and their encodings of size E.
    """

    def __init__(self, word_size: int, encoded_size: int, head: CoreferenceHead):
        super().__init__()
        self.max_width = head.max_span_width
        self.spans_per_word = head.spans_per_word
        self.allow_crossing = head.allow_crossing
        self.widths = nn.Embedding(head.max_span_width, head.feature_size)
        self.attention = nn.Linear(encoded_size, 1)
        parts = [encoded_size, encoded_size, head.feature_size, word_size]
        self.scorer = ElmoSpanScorer(parts, head.hidden_size, head.hidden_dropout)
        self.dropout = nn.Dropout(head.hidden_dropout)
        self.output_size = sum(parts)

    def forward(self, encoded: Tensor, words: Tensor, sentences: Tensor) -> tuple[Spans, Tensor, Tensor]:
        """Score all spans as mentions, by encodings, (N, E), vectors, (N, D), and rising sentences of the words, (N,).

        Returns: Those that are kept; the scores of all, (N, W), of the span from word n over w + 1 words at [n, w]; and
            which of these spans there are, (N, W).
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
    """The scores of the spans before each kept span as its antecedent.

    s(i, j) = m(i) + m(j) + a([g_i; g_j; g_i * g_j; features]) with m the scores as mentions, g the vectors and, as
    features, how many kept spans lie between and whether one speaker says both. Pairs are scored a block at a time, and
    computed again on the way back, so that memory grows with the number of spans alone.
    """

    def __init__(self, span_size: int, head: CoreferenceHead):
        super().__init__()
        self.max_antecedents = head.max_antecedents
        self.distances = nn.Embedding(len(_DISTANCES), head.feature_size)
        # Speakers that are not known, two, and one.
        self.speakers = nn.Embedding(3, head.feature_size) if head.use_speakers else None
        features = head.feature_size * (2 if head.use_speakers else 1)
        self.scorer = ElmoSpanScorer([span_size, span_size, span_size, features], head.hidden_size, head.hidden_dropout)
        self.dropout = nn.Dropout(head.hidden_dropout)

    def forward(self, spans: Spans, speakers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Score the pairs of kept spans, with a number for the speaker of each, (K,), 0 for unknown.

        Returns: The antecedents of each span, the nearest first, as numbers of spans, -1 for none, (K, A); and their
            scores, (K, 1 + A), behind that of having no antecedent, 0; minus infinity for none.
        """
        numbers = torch.arange(len(spans.starts), device=spans.starts.device)
        width = min(self.max_antecedents, max(0, len(numbers) - 1))
        others = _ones_before(numbers, width)
        blocks = numbers.split(max(1, _PAIRS_AT_A_TIME // max(1, width)))
        of_own, of_other, of_product, of_features = self.scorer.weights_of_parts()
        own, other = F.linear(spans.vectors, of_own), F.linear(spans.vectors, of_other)
        of_pairs = weigh_pairs(spans.vectors, of_product, width).split(len(blocks[0]))
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
        """The scorer's numbers of some spans (R,) beside their antecedents (R, A), (R, A)."""
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
    """The spans of the best scores of `ElmoSpans`, at least one, that do not cross a better one unless they may.

    Returns: Their n and their w, (K,) each, in the order of the text.
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
    """The first spans (n * W + w), at most `count`, that cross none taken before."""
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


@dataclass
class ElmoCoreferenceOutput(ModelOutput):
    """Output of `ElmoForCoreferenceResolution`, for a document; hidden states are as in `ElmoModelOutput`.

    Args:
        clusters: In evaluation mode, mentions as rows of first word, the word behind the last one, and the number of
            the cluster, (1, M, 3); `read_clusters` makes lists of them.
        spans: First words of the kept spans, and the words behind their last ones, (K, 2).
        mention_scores: Of these spans, (K,).
        antecedents: Of these spans, as numbers of spans, the nearest first, (K, A); -1 for none.
        antecedent_scores: Of no antecedent, always 0, and of each of them, (K, 1 + A).
    """

    loss: Tensor | None = None
    clusters: Tensor | None = None
    spans: Tensor | None = None
    mention_scores: Tensor | None = None
    antecedents: Tensor | None = None
    antecedent_scores: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class ElmoForCoreferenceResolution(ElmoTaskModel):
    """Mentions among all spans, and an antecedent for each (Lee et al. 2017; Peters et al. 2018, A.6).

    A batch is one document, a row one of its sentences. Words are counted over the document from 0, without special
    tokens. Spans linked by their best antecedents make clusters; with the head's `keep_singletons`, so does a span
    alone whose score as a mention is above zero.

    The loss is summed over a document: for each kept span minus the logarithm of the probability of all its right
    antecedents, or of none if none compared is right; and, times the head's `mention_loss`, the binary cross entropy of
    the scores of all spans as mentions.
    """

    # There is no Auto class for clusters: AutoModel takes this one where a checkpoint is its.
    _auto_class = "AutoModel"  # type: ignore[assignment]
    head_class = CoreferenceHead

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        head = self.config.require_head(CoreferenceHead)
        self.read_across_sentences = head.read_across_sentences
        self.mention_loss = head.mention_loss
        self.keep_singletons = head.keep_singletons
        self.lstm = ElmoTaskLSTM(self.input_size, head.lstm_size)
        self.lstm.is_orthogonal = False
        self.hidden_dropout = nn.Dropout(head.hidden_dropout)
        self.spans = ElmoSpans(self.input_size, 2 * head.lstm_size, head)
        self.antecedents = ElmoAntecedents(self.spans.output_size, head)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        speaker_ids: Tensor | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> ElmoCoreferenceOutput:
        """Find the clusters of a document; arguments as `ElmoModel`'s without a state, and:

        Args:
            labels: The right mentions as rows of first word, the word behind the last one, and a number for their
                cluster, from 0, (M, 3) or (1, M, 3); negative rows are padding. Mentions that are no span of the model
                are left out.
            speaker_ids: A number for who says each word, (B, T), 0 for unknown; read with the head's `use_speakers`.
        """
        read = self.embed(input_ids, attention_mask, token_type_ids, packed_layers, **kwargs)
        vectors, is_word = read.last_hidden_state, self.without_special(input_ids, read.mask)
        if not bool(is_word.any()):
            raise ValueError("input_ids holds no word but special tokens; leave empty documents out.")
        words = vectors[is_word]
        if self.read_across_sentences:
            encoded = self.lstm(words.unsqueeze(0), torch.ones_like(is_word[is_word]).unsqueeze(0)).squeeze(0)
        else:
            encoded = self.lstm(vectors, is_word)[is_word]
        sentences = is_word.nonzero()[:, 0]
        spans, scores, exists = self.spans(self.hidden_dropout(encoded), words, sentences)
        speakers = None if speaker_ids is None else speaker_ids[is_word][spans.starts]
        antecedents, antecedent_scores = self.antecedents(spans, speakers)
        loss = None
        if labels is not None:
            clusters = _cluster_of_each_span(_check_mentions(labels, len(words)), exists)
            loss = _loss_of_antecedents(spans, antecedents, antecedent_scores, clusters)
            if self.mention_loss:
                is_mention = (clusters[exists] >= 0).float()
                of_mentions = F.binary_cross_entropy_with_logits(scores[exists].float(), is_mention, reduction="sum")
                loss = loss + self.mention_loss * of_mentions
            loss = self.add_penalty(loss)
        return ElmoCoreferenceOutput(
            loss=loss,
            clusters=None if self.training else self._link(spans, antecedents, antecedent_scores),
            spans=torch.stack([spans.starts, spans.ends + 1], dim=-1),
            mention_scores=spans.scores,
            antecedents=antecedents,
            antecedent_scores=antecedent_scores,
            hidden_states=read.hidden_states,
        )

    @torch.no_grad()
    def _link(self, spans: Spans, antecedents: Tensor, scores: Tensor) -> Tensor:
        """The clusters of the best antecedents, (1, M, 3), in the order of the text."""
        best = scores.argmax(dim=-1).tolist()
        compared = antecedents.tolist()
        heads: list[int] = []
        sizes = [0] * len(best)
        for number, choice in enumerate(best):
            # An antecedent stands before, and has found its cluster, which has the number of its first span.
            head = heads[compared[number][choice - 1]] if choice else number
            heads.append(head)
            sizes[head] += 1
        is_singleton = ((spans.scores > 0) & self.keep_singletons).tolist()
        rows = zip(spans.starts.tolist(), (spans.ends + 1).tolist(), heads, is_singleton, strict=True)
        numbers: dict[int, int] = {}
        found = [
            [start, stop, numbers.setdefault(head, len(numbers))]
            for start, stop, head, is_kept in rows
            if sizes[head] > 1 or is_kept
        ]
        return torch.tensor(found, dtype=torch.long, device=scores.device).view(1, -1, 3)


def read_clusters(rows: Iterable[Iterable[int]]) -> list[list[tuple[int, int]]]:
    """Mentions by cluster, (first word, the word behind the last), from rows as in `clusters` and `labels`."""
    clusters: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        start, stop, cluster = map(int, row)
        if start >= 0:
            clusters.setdefault(cluster, []).append((start, stop))
    return list(clusters.values())


def _check_mentions(labels: Tensor, num_words: int) -> Tensor:
    """The mentions without padding, (M, 3); ValueError unless they lie in the document."""
    if labels.ndim == 3 and len(labels) != 1:
        raise ValueError(
            f"labels has the shape {tuple(labels.shape)}; a batch is one document, whose mentions are rows."
        )
    mentions = labels.view(-1, 3)
    mentions = mentions[(mentions >= 0).all(dim=1)]
    wrong = mentions[(mentions[:, 0] >= mentions[:, 1]) | (mentions[:, 1] > num_words)]
    if len(wrong):
        raise ValueError(
            f"labels has a mention from word {int(wrong[0, 0])} up to word {int(wrong[0, 1])}, not included; the "
            f"document has {num_words} words, counted from 0 without special tokens."
        )
    return mentions


def _cluster_of_each_span(mentions: Tensor, exists: Tensor) -> Tensor:
    """The number of each span's cluster, -1 for no mention, (N, W)."""
    clusters = torch.full(exists.shape, -1, dtype=torch.long, device=exists.device)
    starts, stops, numbers = mentions.to(exists.device).unbind(1)
    is_narrow = stops - starts <= exists.shape[1]
    clusters[starts[is_narrow], (stops - starts)[is_narrow] - 1] = numbers[is_narrow].long()
    return clusters.masked_fill(~exists, -1)


def _loss_of_antecedents(spans: Spans, antecedents: Tensor, scores: Tensor, clusters: Tensor) -> Tensor:
    """Minus the sum of the log-probabilities of all right antecedents, or of none if none is right."""
    own = clusters[spans.starts, spans.ends - spans.starts]
    others = own[antecedents.clamp(min=0)]
    is_right = (antecedents >= 0) & (others == own.unsqueeze(1)) & (own >= 0).unsqueeze(1)
    is_right = torch.cat([~is_right.any(dim=1, keepdim=True), is_right], dim=1)
    # In float32 whatever the model's precision; there is always a right one.
    scores = scores.float()
    right = torch.logsumexp(scores.masked_fill(~is_right, -torch.inf), dim=1)
    return (torch.logsumexp(scores, dim=1) - right).sum()
