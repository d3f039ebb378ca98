"""The rows of the words that a tokenizer has seen, kept because making a row costs far more than looking it up."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from .characters_elmo import NO_WORD, CharacterScheme


class RowTable(dict[str | tuple[int, ...] | None, int]):
    """The places of the words seen so far among their rows.

    A word that is too long for a row is kept by what its row has of it: text without spaces has words of millions of
    letters.

    Args:
        width: Characters C of a row.
        scheme: What a word's characters are.
    """

    max_words = 100_000
    # Of all rows together; some 40 MB.
    max_characters = 5_000_000

    _rows: np.ndarray

    def __init__(self, width: int, scheme: CharacterScheme):
        self.width = width
        self.scheme = scheme
        self._lock = threading.Lock()  # threads of a server may share a tokenizer
        self._forget()

    def __reduce__(self) -> tuple[type[RowTable], tuple[int, CharacterScheme]]:
        # What it holds can be made again, and datasets takes the pickle of a tokenizer for its fingerprint.
        return type(self), (self.width, self.scheme)

    def look_up(self, words: Sequence[str | None]) -> tuple[np.ndarray, np.ndarray]:
        """All rows, (N, C), and the place of each word among them; None stands for no word, the row of zeros."""
        with self._lock:
            places = np.fromiter(map(self.__getitem__, words), dtype=np.intp, count=len(words))
            rows = self._rows
            if len(self) > min(self.max_words, self.max_characters // self.width):
                self._forget()
        # They can be read without the lock: what is learnt from now on goes to other places or to other arrays.
        return rows, places

    def __missing__(self, word: str | None) -> int:
        if word is None:
            return 0
        # Without its padding, which is there already.
        characters = self.scheme.word_characters(word, self.width)
        key = word if len(word) <= self.width else tuple(characters)
        known = self.get(key)
        if known is not None:
            return known
        place = len(self) + 1
        if place == len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, self.scheme.padding)])
        self._rows[place, : len(characters)] = characters
        self[key] = place
        return place

    def _forget(self) -> None:
        self.clear()
        self._rows = np.full((1024, self.width), self.scheme.padding, dtype=np.int64)
        self._rows[0] = NO_WORD
