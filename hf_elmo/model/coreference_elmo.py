"""The coreference model: which spans of a document name the same.

Letters in shapes: B sentences, T words of a sentence with its markers, C characters per word, N words of the document,
K spans that are kept, A antecedents of each, M mentions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig
from .dropout_elmo import ElmoDropout
from .embeddings_elmo import ElmoTaskModel
from .head_settings_elmo import CoreferenceHead
from .inputs_elmo import takes_usual_arguments
from .spans_elmo import ElmoAntecedents, ElmoSpans, Spans
from .task_encoders_elmo import ElmoTaskLSTM


@dataclass
class ElmoCoreferenceOutput(ModelOutput):
    """What `ElmoForCoreferenceResolution` returns of a document.

    Args:
        loss: See `ElmoForCoreferenceResolution`.
        clusters: In evaluation mode, the mentions as rows of first word, the word behind the last one, and the number
            of the cluster, (1, M, 3); `read_clusters` makes lists of them.
        spans: First words of the spans that are kept, and the words behind their last ones, (K, 2).
        mention_scores: Of these spans as mentions, (K,).
        antecedents: Of each of these spans, as numbers of spans, the nearest first, (K, A); -1 where there is none.
        antecedent_scores: Of having no antecedent, always 0, and of each of them, (K, 1 + A).
        hidden_states: The biLM's layers where they are asked for; see `ElmoModelOutput`.
    """

    loss: Tensor | None = None
    clusters: Tensor | None = None
    spans: Tensor | None = None
    mention_scores: Tensor | None = None
    antecedents: Tensor | None = None
    antecedent_scores: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class ElmoForCoreferenceResolution(ElmoTaskModel):
    """Spans, those of them that are mentions, and an antecedent for each (Lee et al. 2017; Peters et al. 2018, A.6).

    A batch is one document, a row one of its sentences. Words are counted over the whole document from 0, without the
    sentence markers.

    Each span that is kept takes the antecedent of the best score, or none where all scores are below zero; spans that
    are linked so make a cluster. A span that is linked to nothing is a singleton where its score as a mention is above
    zero, if the head's settings keep singletons.

    The loss is summed over a document: for each kept span minus the logarithm of the probability of all its right
    antecedents, or of having none where none of those compared is right; and, times the head's `mention_loss`, the
    binary cross entropy of the scores of all spans as mentions.
    """

    # There is no Auto class for clusters: AutoModel takes this one where a checkpoint is its.
    _auto_class = "AutoModel"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig):
        head = config.require_head(CoreferenceHead)
        super().__init__(config, head)
        self.read_across_sentences = head.read_across_sentences
        self.mention_loss = head.mention_loss
        self.keep_singletons = head.keep_singletons
        self.lstm = ElmoTaskLSTM(self.input_size, head.lstm_size, 1, 0.0)
        self.hidden_dropout = ElmoDropout(head.hidden_dropout)
        self.spans = ElmoSpans(self.input_size, 2 * head.lstm_size, head)
        self.antecedents = ElmoAntecedents(self.spans.output_size, head)
        self.post_init()
        self._apply_freezing()

    @can_return_tuple
    @takes_usual_arguments
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        speaker_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        *,
        packed_layers: Tensor | None = None,
    ) -> ElmoCoreferenceOutput:
        """Find the clusters of a document.

        Args:
            input_ids: Character ids of its sentences, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            labels: The right mentions as rows of first word, the word behind the last one, and a number for their
                cluster, from 0, (M, 3) or (1, M, 3); rows of negative numbers are padding. Mentions that are no span
                (wider, or over several sentences) are left out of the loss.
            speaker_ids: A number for who says each word, (B, T), 0 where that is not known; read only with the head's
                `use_speakers`.
            output_hidden_states: Whether to return the biLM's layers.
            packed_layers: The biLM's layers where they were computed before; see `ElmoModel`.
        Raises: ValueError or TypeError naming the argument, what it was and what is wanted.
        """
        read = self.embed(input_ids, attention_mask, None, output_hidden_states, packed_layers=packed_layers)
        vectors, mask = cast("Tensor", read.last_hidden_state), cast("Tensor", read.mask)
        is_word = mask & ~self.is_marker(input_ids, mask)
        if not bool(is_word.any()):
            raise ValueError("input_ids holds no word but sentence markers; leave empty documents out.")
        if speaker_ids is not None and speaker_ids.shape != mask.shape:
            raise ValueError(
                f"speaker_ids has the shape {tuple(speaker_ids.shape)}; input_ids of shape {tuple(input_ids.shape)} "
                f"want {tuple(mask.shape)}, one number per word."
            )
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
            if self.training and self.config.mix_l2 and self.uses_elmo:
                loss = loss + self.penalty()
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
        """The clusters that the best antecedents make, (1, M, 3), in the order of the text."""
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
    """Mentions by cluster, each as its first word and the word behind its last one.

    Args:
        rows: As `clusters` and `labels` of the model, without its first axis; rows of negative numbers are left out.
    """
    clusters: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        start, stop, cluster = map(int, row)
        if start >= 0:
            clusters.setdefault(cluster, []).append((start, stop))
    return list(clusters.values())


def _check_mentions(labels: Tensor, num_words: int) -> Tensor:
    """The mentions without padding, (M, 3).

    Raises: TypeError or ValueError where they are no mentions of a document of so many words.
    """
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
        found = getattr(labels, "dtype", type(labels).__name__)
        raise TypeError(f"labels is {found}; wanted an integer tensor (torch.long) of mentions.")
    if labels.shape[-1] != 3 or labels.ndim not in (2, 3) or (labels.ndim == 3 and len(labels) != 1):
        raise ValueError(
            f"labels has the shape {tuple(labels.shape)}; wanted (mentions, 3), rows of first word, the word behind "
            "the last one, and the number of the cluster, of one document."
        )
    mentions = labels.view(-1, 3)
    mentions = mentions[(mentions >= 0).all(dim=1)]
    wrong = mentions[(mentions[:, 0] >= mentions[:, 1]) | (mentions[:, 1] > num_words)]
    if len(wrong):
        raise ValueError(
            f"labels has a mention from word {int(wrong[0, 0])} up to word {int(wrong[0, 1])}, not included; the "
            f"document has {num_words} words, counted from 0 without sentence markers."
        )
    return mentions


def _cluster_of_each_span(mentions: Tensor, exists: Tensor) -> Tensor:
    """The number of the cluster of each span that is a mention, -1 for all others, (N, W)."""
    clusters = torch.full(exists.shape, -1, dtype=torch.long, device=exists.device)
    starts, stops, numbers = mentions.to(exists.device).unbind(1)
    is_narrow = stops - starts <= exists.shape[1]
    clusters[starts[is_narrow], (stops - starts)[is_narrow] - 1] = numbers[is_narrow].long()
    return clusters.masked_fill(~exists, -1)


def _loss_of_antecedents(spans: Spans, antecedents: Tensor, scores: Tensor, clusters: Tensor) -> Tensor:
    """Minus the sum of the log-probabilities of all right antecedents, those of no antecedent where none is right."""
    own = clusters[spans.starts, spans.ends - spans.starts]
    others = own[antecedents.clamp(min=0)]
    is_right = (antecedents >= 0) & (others == own.unsqueeze(1)) & (own >= 0).unsqueeze(1)
    is_right = torch.cat([~is_right.any(dim=1, keepdim=True), is_right], dim=1)
    # In float32 whatever the model's precision; there is always a right one.
    scores = scores.float()
    right = torch.logsumexp(scores.masked_fill(~is_right, -torch.inf), dim=1)
    return (torch.logsumexp(scores, dim=1) - right).sum()
