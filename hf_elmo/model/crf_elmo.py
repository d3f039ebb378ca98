"""A linear-chain conditional random field over the words of sentences: exact likelihood, marginals and best labels.

Letters in shapes: B sentences, T words, W words of the longest sentence, K labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .offloading_elmo import read_weights
from .tag_schemes_elmo import can_follow
from .tracing_elmo import is_traced
from .word_steps_elmo import scan_words

IGNORED = -100


class ElmoCRF(nn.Module):
    """Scores of labels side by side with those of each word (Lafferty et al. 2001; Peters et al. 2018, A.7).

    A sequence y of labels has the score sum_t e_t[y_t] + sum_t A[y_t, y_t+1] + start[y_1] + end[y_T], with e given by
    the model below. The likelihood is normalised over all sequences; only `decode` leaves out those that a scheme of
    spans does not allow. Words that are masked are as good as absent, wherever they stand.

    Args:
        labels: The names of the K labels, in the order of their ids.
        scheme: "IOB1", "IOB2" or "BIOES", whose rules `decode` keeps; None for labels without rules.
        has_ends: Whether the first and the last label of a sentence have scores of their own.

    Raises: ValueError naming the scheme, or a label that is none of it.
    """

    start: nn.Parameter | None
    end: nn.Parameter | None

    def __init__(self, labels: Sequence[str], scheme: str | None = None, has_ends: bool = True):
        super().__init__()
        self.num_labels = len(labels)
        self.transitions = nn.Parameter(torch.zeros(self.num_labels, self.num_labels))
        for name in ("start", "end"):
            self.register_parameter(name, nn.Parameter(torch.zeros(self.num_labels)) if has_ends else None)
        # Lists, not buffers: they follow from the names of the labels, and are no states.
        self._forbidden = None if scheme is None else forbidden_by(scheme, labels)

    def forward(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """The log-likelihood of the labels of each sentence, in nats, (B,); 0 for a sentence without words.

        Args:
            emissions: Scores of each word's labels, (B, T, K).
            labels: Label ids, (B, T); anything where masked.
            mask: True for words that have a label, (B, T).
        Raises: ValueError naming the argument whose shape or values do not fit.
        """
        words = self._words(emissions, mask)
        if labels.shape != mask.shape:
            raise ValueError(f"labels has the shape {tuple(labels.shape)}; the mask wants {tuple(mask.shape)}.")
        if labels.device.type == "cpu" and not is_traced():
            real = labels[mask]
            if real.numel() and not 0 <= int(real.min()) <= int(real.max()) < self.num_labels:
                raise ValueError(
                    f"labels holds values from {int(real.min())} to {int(real.max())} at words that the mask names; "
                    f"wanted 0 to {self.num_labels - 1}. Leave words without a label out of the mask."
                )
        labels = words.gather(labels).masked_fill(~words.mask, 0).long()
        return self._score(words, labels) - self._log_partition(words)

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The logarithm of the summed exponentials of all sequences' scores, (B,); arguments as `forward`'s."""
        return self._log_partition(self._words(emissions, mask))

    @torch.no_grad()
    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The probability of each label at each word, (B, T, K), zero where masked; arguments as `forward`'s."""
        words = self._words(emissions, mask)
        return words.scatter(self._expectations(words).labels, 0.0)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best sequence of labels that the scheme allows for each sentence (Viterbi 1967).

        Where it allows none, as for one word and labels that a scheme wants two words for, one that breaks as few
        rules as can be.

        Returns: Label ids, (B, T), -100 where masked; and the score of each sequence, (B,).
        """
        words = self._words(emissions, mask)
        labels = _best_path(words, self._all_scores(), self._forbidden)
        return words.scatter(labels.unsqueeze(-1), IGNORED).squeeze(-1), self._score(words, labels)

    def _words(self, emissions: Tensor, mask: Tensor) -> _Words:
        return _checked_words(emissions, mask, self.num_labels)

    def _all_scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """The scores of transitions, starts and ends, in float32 or wider: half precision cannot hold their sums."""
        # Decoding and marginals ask for them beside `forward`.
        names = ["transitions"] if self.start is None else ["transitions", "start", "end"]
        transitions, *ends = read_weights(self, *names)
        transitions = transitions.to(torch.promote_types(transitions.dtype, torch.float32))
        start, end = ends or [transitions.new_zeros(self.num_labels)] * 2
        return transitions, start.to(transitions), end.to(transitions)

    def _score(self, words: _Words, labels: Tensor) -> Tensor:
        """The score of labels, (B, W), of each sentence, (B,)."""
        transitions, start, end = self._all_scores()
        scores = words.emissions.gather(2, labels.unsqueeze(-1)).squeeze(-1)
        # By embedding, whose gradients are added up in one order, as those of an indexed tensor are not.
        pairs = labels[:, :-1] * self.num_labels + labels[:, 1:]
        steps = F.embedding(pairs, transitions.reshape(-1, 1)).squeeze(-1)
        total = torch.where(words.mask, scores, 0.0).sum(1) + torch.where(words.mask[:, 1:], steps, 0.0).sum(1)
        first, last = labels[:, 0], labels.gather(1, words.last.unsqueeze(1)).squeeze(1)
        edges = F.embedding(first, start.unsqueeze(-1)) + F.embedding(last, end.unsqueeze(-1))
        return torch.where(words.mask[:, 0], total + edges.squeeze(-1), 0.0)

    def _log_partition(self, words: _Words) -> Tensor:
        with torch.no_grad():
            expected = self._expectations(words)
        # The gradients of the log-partition are the expectations: they are given to it, instead of going back through
        # each step. The differences are zero.
        transitions, start, end = self._all_scores()
        first = expected.labels[:, 0]
        last = _take(expected.labels, words.last.unsqueeze(1)).squeeze(1)
        terms = (
            (expected.labels * (words.emissions - words.emissions.detach())).sum(dim=(1, 2)),
            (expected.pairs * (transitions - transitions.detach())).sum(dim=(1, 2)),
            first @ (start - start.detach()) + last @ (end - end.detach()),
        )
        return expected.log_partition + sum(terms)

    def _expectations(self, words: _Words) -> _Expectations:
        """What is expected of each sentence under the model, by sums from both of its ends at once."""
        transitions, start, end = self._all_scores()
        count = words.emissions.shape[1]
        # Backwards the last word is the first, and a step goes from the label behind to the one before.
        places = (words.last.unsqueeze(1) - torch.arange(count, device=words.last.device)).clamp(min=0)
        both = torch.stack([words.emissions, _take(words.emissions, places)], dim=2)
        arriving = torch.stack([transitions.t(), transitions])

        def arrive(before: tuple[Tensor], read: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor], Tensor]:
            (state,), (of_word, comes_next) = before, read
            found = torch.logsumexp(state.unsqueeze(2) + arriving, dim=3) + of_word
            state = torch.where(comes_next, found, state)
            return (state,), state

        first = torch.stack([start, end]) + both[:, 0]
        states, (state,) = scan_words(arrive, (first,), (both, words.comes_next().unsqueeze(2)))
        log_partition = torch.logsumexp(state[:, 0] + end, dim=-1)
        before, behind = states.unbind(dim=2)
        behind = _take(behind, places)
        # Both hold the word's own score.
        labels = torch.exp(before + behind - words.emissions - log_partition.view(-1, 1, 1))
        pairs = before[:, :-1].unsqueeze(3) + transitions + behind[:, 1:].unsqueeze(2)
        pairs = torch.exp(pairs - log_partition.view(-1, 1, 1, 1)) * words.mask[:, 1:, None, None]
        return _Expectations(
            torch.where(words.mask[:, 0], log_partition, 0.0),
            torch.where(words.mask.unsqueeze(-1), labels, 0.0),
            pairs.sum(dim=1),
        )


def forbidden_by(scheme: str, labels: Sequence[str]) -> list[list[bool]]:
    """Which label may not stand behind which other one, the end of a sentence before all of them, (1 + K, 1 + K).

    Raises: ValueError naming the scheme, or a label that is none of it.
    """
    marks = [None, *labels]
    return [[not can_follow(first, second, scheme) for second in marks] for first in marks]


@torch.no_grad()
def decode_by_rules(emissions: Tensor, mask: Tensor, forbidden: list[list[bool]]) -> Tensor:
    """The labels of each sentence whose scores are largest together, of those that rules allow (Viterbi 1967).

    Args:
        emissions: Scores of each word's labels, logarithms of their probabilities up to a constant, (B, T, K).
        mask: True for words that have a label, (B, T).
        forbidden: As `forbidden_by` gives it.
    Returns: Label ids, (B, T), -100 where masked.
    Raises: ValueError naming the argument whose shape does not fit.
    """
    num_labels = len(forbidden) - 1
    words = _checked_words(emissions, mask, num_labels)
    none = words.emissions.new_zeros(num_labels)
    labels = _best_path(words, (none.new_zeros(num_labels, num_labels), none, none), forbidden)
    return words.scatter(labels.unsqueeze(-1), IGNORED).squeeze(-1)


class _Words(NamedTuple):
    """The words of sentences without gaps, from the first place on."""

    emissions: Tensor  # zero behind the last word, (B, W, K)
    mask: Tensor  # True for words, (B, W)
    last: Tensor  # the place of the last word, 0 where there is none, (B,)
    order: Tensor  # where in the batch each stood, (B, W)
    length: int  # T

    def comes_next(self) -> Tensor:
        """True for words that another one stands before, (B, W, 1)."""
        is_first = torch.arange(self.mask.shape[1], device=self.mask.device) == 0
        return (self.mask & ~is_first).unsqueeze(-1)

    def gather(self, values: Tensor) -> Tensor:
        """Values of the batch, (B, T), as those of the words, (B, W)."""
        return values.gather(1, self.order)

    def scatter(self, values: Tensor, filler: float) -> Tensor:
        """Values of words, (B, W, ...), in their places in the batch, (B, T, ...); the filler elsewhere."""
        values = torch.where(self.mask.unsqueeze(-1), values, filler)
        full = values.new_full((values.shape[0], self.length, values.shape[2]), filler)
        return full.scatter(1, self.order.unsqueeze(-1).expand_as(values), values)


class _Expectations(NamedTuple):
    """What is expected of sentences: the gradients of their log-partition."""

    log_partition: Tensor  # (B,)
    labels: Tensor  # of each word, (B, W, K)
    pairs: Tensor  # of all words and the ones behind them, (B, K, K)


def _checked_words(emissions: Tensor, mask: Tensor, num_labels: int) -> _Words:
    if emissions.ndim != 3 or emissions.shape[-1] != num_labels:
        raise ValueError(
            f"emissions has the shape {tuple(emissions.shape)}; wanted (sentences, words, {num_labels}), a score per "
            "label of each word."
        )
    if mask.shape != emissions.shape[:2] or mask.dtype != torch.bool:
        raise ValueError(
            f"mask has the shape {tuple(mask.shape)} and the dtype {mask.dtype}; emissions of the shape "
            f"{tuple(emissions.shape)} want {tuple(emissions.shape[:2])} and torch.bool."
        )
    # Half precision cannot hold the sums.
    return _left_aligned(emissions.to(torch.promote_types(emissions.dtype, torch.float32)), mask)


def _best_path(
    words: _Words, scores_of_labels: tuple[Tensor, Tensor, Tensor], forbidden: list[list[bool]] | None
) -> Tensor:
    """The best labels, (B, W), by the words' scores and those of transitions (K, K), starts and ends (K,)."""
    scores = words.emissions
    transitions, start, end = scores_of_labels
    if forbidden is not None:
        # Forbidden ones cost more than any words can win.
        width = sum(spread.max() - spread.min() for spread in scores_of_labels)
        won = (scores.amax(dim=2) - scores.amin(dim=2)).sum(dim=1).max() + scores.shape[1] * width
        lowered = torch.tensor(forbidden, device=scores.device) * (1 + won)
        transitions, start, end = transitions - lowered[1:, 1:], start - lowered[0, 1:], end - lowered[1:, 0]
    # From the label that comes to those before it, which the maximum is taken over.
    arriving = transitions.t()

    # Where the best way comes from is asked for the labels on it only: to keep that of all of them on the way costs
    # more than twice the time with a hundred labels.
    def arrive(before: tuple[Tensor], read: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor], Tensor]:
        (best,), (of_word, comes_next) = before, read
        found = (best.unsqueeze(1) + arriving).amax(dim=2) + of_word
        # At the first word and behind the last one each label leads back to itself.
        return (torch.where(comes_next, found, best),), best

    def go_back(behind: tuple[Tensor], read: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor], Tensor]:
        (label,), (best, comes_next) = behind, read
        origin = (best + arriving.index_select(0, label)).argmax(dim=1)
        return (torch.where(comes_next.squeeze(1), origin, label),), label

    comes_next = words.comes_next()
    ways, (best,) = scan_words(arrive, (start + scores[:, 0],), (scores, comes_next))
    last = (best + end).argmax(dim=1)
    return scan_words(go_back, (last,), (ways, comes_next), reverse=True)[0]


def _left_aligned(emissions: Tensor, mask: Tensor) -> _Words:
    # Words first, each in its order. ONNX knows no stable sorting, by which this would be shorter.
    places = torch.arange(mask.shape[1], device=mask.device)
    order = torch.argsort(torch.where(mask, places, places + mask.shape[1]), dim=1)
    lengths = mask.sum(dim=1)
    # In a trace the longest sentence is not known.
    count = mask.shape[1] if is_traced() else max(1, int(lengths.max()))
    order = order[:, :count]
    is_word = torch.arange(count, device=mask.device) < lengths.unsqueeze(1)
    return _Words(
        torch.where(is_word.unsqueeze(-1), _take(emissions, order), 0.0),
        is_word,
        (lengths - 1).clamp(min=0),
        order,
        mask.shape[1],
    )


def _take(values: Tensor, places: Tensor) -> Tensor:
    """The vectors (B, P, K) of values (B, W, K) at places (B, P)."""
    # Not by take_along_dim, which torch.export takes for one of a fixed size.
    return values.gather(1, places.unsqueeze(-1).expand(-1, -1, values.shape[2]))
