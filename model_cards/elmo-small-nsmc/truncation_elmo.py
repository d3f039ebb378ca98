"""Sentences and pairs cut to a length in words, and the windows of what is cut off; as the Rust tokenizers do it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from transformers.tokenization_utils_base import TruncationStrategy

from .encodings_elmo import Sentence, Window, WordEncoding


@dataclass(frozen=True)
class Truncation:
    """How long a row may be, and what becomes of the rest.

    Args:
        strategy: Which sentence of a pair is cut: the longer one first until both are of one length, only the first or
            only the second.
        max_length: Most rows, the markers included; None for no limit.
        side: Where words are cut off, "right" or "left".
        with_overflow: Whether what is cut off is encoded too, in windows of the same length.
        stride: Words that two such windows share.
    """

    strategy: TruncationStrategy
    max_length: int | None
    side: str
    with_overflow: bool
    stride: int

    def encode(self, sample: tuple[Sentence, ...], has_markers: bool) -> list[WordEncoding]:
        """Encode a sentence or a pair, cut where it is too long; with overflow, each window of it.

        Of a pair each window of the first sentence stands beside each of the second: first those that are there
        without overflow, then the further ones of the first sentence, then those of the second.

        Raises: ValueError naming max_length, truncation or stride where no word would be left.
        """
        if self.strategy == TruncationStrategy.DO_NOT_TRUNCATE or self.max_length is None:
            windows = tuple([Window(sentence, 0, len(sentence.words)) for sentence in sample])
            return [WordEncoding(windows, has_markers)]
        lengths = [len(sentence.words) for sentence in sample]
        limits = self._limits(lengths, self.max_length, markers=2 * has_markers * len(sample))
        firsts, *others = (self._cut(sentence, limit) for sentence, limit in zip(sample, limits, strict=True))
        if not others:
            return [WordEncoding((window,), has_markers) for window in firsts]
        seconds = others[0]
        pairs = [*product(firsts[:1], seconds[:1]), *product(firsts[1:], seconds), *product(firsts[:1], seconds[1:])]
        return [WordEncoding(pair, has_markers) for pair in pairs]

    def _limits(self, lengths: list[int], max_length: int, markers: int) -> list[int]:
        """How many words of each sentence are kept."""
        if max_length <= markers:
            raise ValueError(f"max_length is {max_length}; with {markers} sentence markers it must be > {markers}.")
        limit = max_length - markers
        excess = sum(lengths) - limit
        if excess <= 0:
            return lengths
        if self.strategy == TruncationStrategy.LONGEST_FIRST:
            return [limit] if len(lengths) == 1 else _even_limits(lengths, limit)
        index = int(self.strategy == TruncationStrategy.ONLY_SECOND)
        if index >= len(lengths):
            raise ValueError(
                f"truncation is {self.strategy.value!r}, but there is no second sentence to cut; give text_pair, or "
                "truncation=True."
            )
        if lengths[index] <= excess:
            # Pipelines look for "too short", and go on without truncation.
            raise ValueError(
                f"truncation is {self.strategy.value!r}, but that sentence of {lengths[index]} words is too short to "
                f"take {excess} from it; raise max_length (it is {max_length}) or cut both with truncation=True."
            )
        return [length - excess if place == index else length for place, length in enumerate(lengths)]

    def _cut(self, sentence: Sentence, limit: int) -> list[Window]:
        """The words of a sentence that are kept; with overflow every window of that many."""
        count = len(sentence.words)
        if count <= limit:
            return [Window(sentence, 0, count)]
        if self.with_overflow and not 0 <= self.stride < limit:
            raise ValueError(
                f"stride is {self.stride}; it must be >= 0 and less than the {limit} words that fit in a window."
            )
        starts = range(0, count - self.stride, limit - self.stride) if self.with_overflow else [0]
        cuts = [(start, min(start + limit, count)) for start in starts]
        if self.side == "left":
            cuts = [(count - stop, count - start) for start, stop in cuts]
        return [Window(sentence, start, stop) for start, stop in cuts]


def _even_limits(lengths: list[int], limit: int) -> list[int]:
    """What is left of the two sentences of a pair when the longer one is cut first; an odd word is the longer one's."""
    shorter = min(*lengths, limit // 2)
    longer = limit - shorter
    return [shorter, longer] if lengths[0] <= lengths[1] else [longer, shorter]
