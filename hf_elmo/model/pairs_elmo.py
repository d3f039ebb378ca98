"""The sentences of pairs as rows of their own, which the biLM reads apart, and their words back in the pairs' rows.

Letters in shapes: B rows, each a pair, T words of a row, S sentences, W words of the longest of them, D vector.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .token_encoder_elmo import distinct_rows
from .tracing_elmo import is_traced
from .word_table_elmo import hash_rows


class ElmoSentences:
    """One sentence of each row of a batch, or several that share a row, as rows of their own.

    Wherever a word stands, before markers, behind padding or between words of another sentence, it keeps its place in
    the order of its own.

    Args:
        words: True for the words of a sentence of each row, (B, T), once for each sentence; no word is in two.

    Attributes:
        mask: True for the real words of the S sentences, (S, W): the first ones of all rows, then the second ones.
    """

    def __init__(self, *words: Tensor):
        self._count, self._rows = len(words), words[0].shape
        self.mask = torch.cat(words)
        # How long the sentences are is not known in a trace: they keep the places, and the length, of their rows.
        self._is_packed = not is_traced()
        if self._is_packed:
            lengths = self.mask.sum(dim=1, keepdim=True)
            self._in_rows = self.mask.flatten().nonzero().squeeze(1) % self._rows.numel()
            # The scan wants a word, be it a masked one.
            self.mask = torch.arange(max(1, int(lengths.max())), device=lengths.device) < lengths
            self._places = self.mask.flatten().nonzero().squeeze(1)

    def apart(self, vectors: Tensor) -> Tensor:
        """The vectors of the words of rows, (B, T, D), as those of their sentences, (S, W, D); zero where masked."""
        if not self._is_packed:
            return vectors.repeat(self._count, 1, 1)
        return _moved(vectors, self._in_rows, self.mask.shape, self._places)

    def together(self, outputs: Tensor) -> Tensor:
        """Outputs for the words of sentences, (S, W, D), as those of their rows, (B, T, D); zero for other words."""
        if not self._is_packed:
            # Not by chunk, which would have an export settle how many rows there are.
            return outputs.unflatten(0, (self._count, -1)).sum(dim=0)
        return _moved(outputs, self._places, self._rows, self._in_rows)

    def find_distinct(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Which sentences are alike, by 64-bit hashes of their words.

        Args:
            input_ids: Character ids of the words of rows, (B, T, C).
        Returns: The places of one sentence of each kind, (U,), and the kind of each sentence, (S,).
        """
        hashes = hash_rows(input_ids.flatten(0, 1)).view(*input_ids.shape[:2], 1)
        # In halves: who looks for rows that are alike compares 32 bits of a number.
        kinds, places = distinct_rows(self.apart(hashes).squeeze(-1).view(torch.int32))
        every = torch.arange(len(places), device=places.device)
        return places.new_empty(len(kinds)).scatter(0, places, every), places


def words_of_pairs(mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Which words are those of the first and of the second sentences of pairs, both (B, T).

    A row whose words are all of one type has an empty sentence beside it.

    Args:
        mask: True for the real words of the pairs, (B, T).
        token_type_ids: 0 for words of the first sentence and 1 for words of the second, (B, T).
    """
    is_second = token_type_ids.bool()
    return mask & ~is_second, mask & is_second


def _moved(vectors: Tensor, origins: Tensor, shape: torch.Size, places: Tensor) -> Tensor:
    """The vectors of some words at places of a batch of another shape; zeros elsewhere."""
    words = vectors.flatten(0, 1).index_select(0, origins)
    # By places and not by masks, which would be searched for true ones in each call and on its way back.
    moved = words.new_zeros(shape.numel(), words.shape[1]).index_copy(0, places, words)
    return moved.unflatten(0, shape)
