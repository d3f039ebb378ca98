"""A table of word vectors that is looked up by the words' rows of character ids, which so stay the only input.

Letters in shapes: N words, C characters per word, V words of the table, D word vector.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from .characters_elmo import decode_row
from .tracing_elmo import is_traced

# All hashes of a table that has not been filled: the largest, so that they are sorted as those of a filled one are.
NOT_FILLED = 2**63 - 1

# Rows hashed at a time, which bounds the memory of the products: a table has many more words than a batch.
_ROWS_AT_A_TIME = 2**16


class ElmoWordTable(nn.Embedding):
    """Vectors of known words, found by 64-bit hashes of their rows, and one vector that all other words share.

    Row 0 of `weight`, (V + 1, D), is for the words that the table lacks; row i + 1 is for the word whose hash is
    `hashes[i]`. The hashes are sorted and are saved with the weights. A word that the table lacks is taken for one that
    it has where their hashes are equal; at a million words that is one word in 10^10.

    Args:
        num_words: Known words V.
        vector_size: Size D of a vector.
    """

    hashes: Tensor

    def __init__(self, num_words: int, vector_size: int):
        super().__init__(num_words + 1, vector_size)
        self.register_buffer("hashes", torch.full((num_words,), NOT_FILLED, dtype=torch.long))

    @torch.no_grad()
    def fill(self, rows: Tensor, vectors: Tensor | None = None, unknown: Tensor | None = None) -> None:
        """Say which words the table knows, and give them their vectors.

        Args:
            rows: Character ids of the words, (V, C), each word once.
            vectors: A vector for each of them, (V, D); None leaves all vectors as they were initialised.
            unknown: The vector of all other words, (D,); None leaves it as it is.
        Raises: ValueError naming the argument and both shapes when they disagree, or both words when two have one hash.
        """
        num_words, size = len(self.hashes), self.embedding_dim
        for name, value, wanted in (
            ("rows", rows, (num_words, rows.shape[-1])),
            ("vectors", vectors, (num_words, size)),
            ("unknown", unknown, (size,)),
        ):
            if value is not None and value.shape != wanted:
                raise ValueError(
                    f"{name} has the shape {tuple(value.shape)}; this table of {num_words} words and vectors of size "
                    f"{size} wants {wanted}. Set word_table_size and word_vector_size to what is filled in."
                )
        hashes, order = hash_rows(rows).sort()
        _check_distinct(rows, hashes, order)
        self.hashes.copy_(hashes)
        if vectors is not None:
            places = torch.empty_like(order)
            places[order] = torch.arange(1, num_words + 1, device=order.device)
            self.weight.index_copy_(0, places.to(self.weight.device), vectors.to(self.weight))
        if unknown is not None:
            self.weight[0] = unknown.to(self.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """Look up words, rows of character ids (N, C), and give their vectors, (N, D).

        Raises: ValueError where the table has not been filled (on a CPU; elsewhere a check would wait for the device).
        """
        if self.hashes.device.type == "cpu" and not is_traced() and int(self.hashes[0]) == NOT_FILLED:
            raise ValueError(
                "the word table is empty, so that every word would be unknown; fill it first (ElmoWordTable.fill), or "
                "load a checkpoint that holds one."
            )
        return super().forward(self.places(rows))

    def places(self, rows: Tensor) -> Tensor:
        """The row of `weight` of each word, (N,); 0 for words that the table lacks."""
        hashes = hash_rows(rows)
        nearest = torch.searchsorted(self.hashes, hashes).clamp(max=len(self.hashes) - 1)
        return torch.where(self.hashes[nearest] == hashes, nearest + 1, 0)


def hash_rows(rows: Tensor) -> Tensor:
    """A signed 64-bit number for each row of character ids, (N, C) to (N,).

    Multilinear hashing: the ids times odd numbers that stand for their positions, summed modulo 2^64. Two rows that
    differ at one position never have one hash. Checkpoints hold these numbers, so that they never change.
    """
    # The compiler looks into what is cached, and warns that it does.
    multipliers_of = _compute_multipliers if is_traced() else _multipliers
    multipliers = torch.tensor(multipliers_of(rows.shape[1]), device=rows.device)
    # A batch that is traced may come in any size, which cannot be cut into a known number of parts.
    parts = [rows] if is_traced() else rows.split(_ROWS_AT_A_TIME)
    return torch.cat([(part.long() * multipliers).sum(dim=1) for part in parts])


def _compute_multipliers(count: int) -> tuple[int, ...]:
    """Odd 64-bit numbers, as signed ones, by splitmix64 (Steele et al. 2014) from the state 0."""
    numbers = []
    for index in range(1, count + 1):
        mixed = index * 0x9E3779B97F4A7C15 % 2**64
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        odd = mixed ^ mixed >> 31 | 1
        numbers.append(odd - 2**64 if odd >= 2**63 else odd)
    return tuple(numbers)


_multipliers = functools.cache(_compute_multipliers)


def _check_distinct(rows: Tensor, hashes: Tensor, order: Tensor) -> None:
    """Refuse words that cannot be told apart; `hashes` are sorted, `order` says whose they are."""
    equal = (hashes[1:] == hashes[:-1]).nonzero()
    if not len(equal):
        return
    first, second = (rows[order[place]].tolist() for place in (int(equal[0]), int(equal[0]) + 1))
    if first == second:
        raise ValueError(f"rows holds the word {decode_row(first)!r} twice; give each word one row.")
    raise ValueError(
        f"rows holds the words {decode_row(first)!r} and {decode_row(second)!r}, which have the same hash; leave one "
        "of them out."
    )
