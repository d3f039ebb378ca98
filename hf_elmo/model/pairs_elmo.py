"""The sentences of pairs as rows of their own, which the biLM reads apart, and their words back in the pairs' rows.

Letters in shapes: B pairs, T words of a pair, W words of the longest sentence, D vector.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .token_encoder_elmo import distinct_rows
from .tracing_elmo import is_traced
from .word_table_elmo import hash_rows


class ElmoPairs:
    """The 2B sentences of a batch of pairs: the first ones of all pairs, then the second ones.

    A row whose words are all of one type has an empty sentence beside it. Wherever a word of a pair stands, before
    its markers, behind padding or between words of the other sentence, it keeps its place in the order of its own.

    Args:
        mask: True for the real words of the pairs, (B, T).
        token_type_ids: 0 for words of the first sentence and 1 for words of the second, (B, T).

    Attributes:
        mask: True for the real words of the sentences, (2B, W).
    """

    def __init__(self, mask: Tensor, token_type_ids: Tensor):
        is_second = token_type_ids.bool()
        # Which words of a pair's row are those of each sentence, (2B, T).
        self._words = torch.cat([mask & ~is_second, mask & is_second])
        # How long the sentences are is not known in a trace: they keep the places, and the length, of their pairs.
        self._is_packed = not is_traced()
        self.mask = self._words
        if self._is_packed:
            lengths = self._words.sum(dim=1, keepdim=True)
            # The scan wants a word, be it a masked one.
            places = torch.arange(max(1, int(lengths.max())), device=mask.device)
            self.mask = places < lengths

    def apart(self, vectors: Tensor) -> Tensor:
        """The vectors of the words of pairs, (B, T, D), as those of their sentences, (2B, W, D)."""
        twice = vectors.repeat(2, 1, 1)
        return _moved(twice, self._words, self.mask) if self._is_packed else twice

    def find_distinct(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Which sentences are alike, by 64-bit hashes of their words.

        Args:
            input_ids: Character ids of the words of pairs, (B, T, C).
        Returns: The places of one sentence of each kind, (U,), and the kind of each sentence, (2B,).
        """
        hashes = hash_rows(input_ids.flatten(0, 1)).view(*input_ids.shape[:2], 1)
        # In halves: who looks for rows that are alike compares 32 bits of a number.
        kinds, places = distinct_rows(self.apart(hashes).squeeze(-1).view(torch.int32))
        every = torch.arange(len(places), device=places.device)
        return places.new_empty(len(kinds)).scatter(0, places, every), places

    def together(self, outputs: Tensor) -> Tensor:
        """Outputs for the words of sentences, (2B, W, D), as those of their pairs, (B, T, D); zero where masked."""
        if self._is_packed:
            outputs = _moved(outputs, self.mask, self._words)
        # Not by chunk, which would have an export settle how many pairs there are.
        return outputs.unflatten(0, (2, -1)).sum(dim=0)


def _moved(vectors: Tensor, origins: Tensor, places: Tensor) -> Tensor:
    """The vectors at the true places of one mask put, in order, to those of another with as many; zeros elsewhere."""
    moved = vectors.new_zeros(*places.shape, vectors.shape[-1])
    # Not by masked_scatter, whose gradient goes number by number and took ten times as long.
    moved[places] = vectors[origins]
    return moved
