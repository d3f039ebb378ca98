"""Negatives of the sampled softmax: a log-uniform sampler, the counts that it expects, and whether it fits the words.

Letters in shapes: S negatives of one draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..text.vocabulary import SPECIAL_WORDS, WordVocabulary, log_uniform_probabilities

# An order of the vocabulary that costs at most so many nats per word more than that by frequency is accepted.
_HARMLESS_NATS = 0.1


@dataclass(frozen=True)
class NegativeSample:
    """Distinct words that were drawn together.

    Args:
        ids: Word ids, rising, (S,).
        num_tries: Draws, repeats included, that it took to find S distinct words.
        vocab_size: Words drawn from.
    """

    ids: Tensor
    num_tries: int
    vocab_size: int

    def to(self, device: torch.device) -> NegativeSample:
        """The same sample on another device."""
        return replace(self, ids=self.ids.to(device, non_blocking=True))

    def log_expected_counts(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        """Log of the probability that each word is among the negatives after this many tries, in the shape of `ids`.

        That is log(1 - (1 - p)^tries), as TensorFlow computes it for unique candidates (range_sampler.cc).
        """
        probabilities = log_uniform_probabilities(ids, self.vocab_size, dtype)
        return (-torch.expm1(self.num_tries * torch.log1p(-probabilities))).log()


class LogUniformSampler:
    """Draws distinct words, each try giving word k with probability log((k + 2) / (k + 1)) / log(V + 1).

    That is near the frequencies of words sorted by falling frequency (Zipf's law). The semantics are those of
    TensorFlow's log_uniform_candidate_sampler with unique=True, by which bilm-tf trained the released models.

    Args:
        vocab_size: Words V to draw from.
        num_samples: Distinct words of each draw. The nearer to V, the more tries a draw takes.
        seed: Of the sampler's own random numbers; give each process its own.
    Raises: ValueError when there are not more words than samples.
    """

    def __init__(self, vocab_size: int, num_samples: int, seed: int = 0):
        if not 1 <= num_samples < vocab_size:
            raise ValueError(
                f"num_negative_samples is {num_samples}; it must be >= 1 and < the {vocab_size} words of the "
                "vocabulary. Lower it, or use the full softmax."
            )
        self.vocab_size = vocab_size
        self.num_samples = num_samples
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self) -> NegativeSample:
        """Draw until there are `num_samples` distinct words; on the CPU."""
        tries = self._draw_tries(2 * self.num_samples)
        while len(places := _first_places(tries, self.vocab_size)) < self.num_samples:
            tries = torch.cat([tries, self._draw_tries(len(tries))])
        places = places[: self.num_samples]
        return NegativeSample(tries[places].sort().values, int(places[-1]) + 1, self.vocab_size)

    def draw_pair(self) -> tuple[NegativeSample, NegativeSample]:
        """A draw for each direction."""
        return self.draw(), self.draw()

    def _draw_tries(self, number: int) -> Tensor:
        """Words with repeats, (number,), by the inverse of the distribution function."""
        uniform = torch.rand(number, dtype=torch.float64, generator=self.generator)
        # exp may round up to V + 1 where the uniform number is next to 1.
        return (uniform * math.log1p(self.vocab_size)).exp().long().sub(1).clamp(max=self.vocab_size - 1)


def _first_places(tries: Tensor, vocab_size: int) -> Tensor:
    """Where each distinct word stands for the first time, rising."""
    numbers = torch.arange(len(tries))
    first = torch.full((vocab_size,), len(tries)).scatter_reduce_(0, tries, numbers, "amin")
    return (first[tries] == numbers).nonzero().squeeze(1)


def check_sorted(vocabulary: WordVocabulary, counts: Mapping[str, int]) -> None:
    """Check that words stand by falling frequency, as the log-uniform sampler and the adaptive softmax take them to.

    The sampler costs log(id + 1) nats per word, but for a constant, to describe the text. An order passes when the mean
    of that over the counted words is nearer to the best order's than to the mean of all orders: ties and chance swaps
    among rare words hardly move it.

    Args:
        vocabulary: Words in the order of their ids.
        counts: How often each word was seen; special words are left out.
    Raises: ValueError naming the first word that stands before a more frequent one.
    """
    words = vocabulary.words[len(SPECIAL_WORDS) :]
    seen = torch.tensor([counts.get(word, 0) for word in words], dtype=torch.float64)
    if not seen.any():
        raise ValueError(
            "no word of the vocabulary occurs in the training text; check --vocab_file, and --do_lower_case and "
            "--pre_tokenizer with it."
        )
    nats = torch.arange(len(SPECIAL_WORDS), len(vocabulary), dtype=torch.float64).log1p()
    found, best = (float(each @ nats / seen.sum()) for each in (seen, seen.sort(descending=True).values))
    if found - best > max(_HARMLESS_NATS, (float(nats.mean()) - best) / 2):
        place = int((seen[1:] > seen[:-1]).nonzero()[0])
        raise ValueError(
            f"the vocabulary is not sorted by falling frequency: {words[place]!r} (seen {int(seen[place]):,} times) "
            f"stands before {words[place + 1]!r} ({int(seen[place + 1]):,} times). The log-uniform sampler and the "
            "adaptive softmax take early words for frequent ones: sort the vocabulary file by frequency, leave "
            "--vocab_file out to have one counted, or use --objective full."
        )
