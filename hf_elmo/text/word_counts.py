"""Counts of the words of a corpus of any size, exact and in bounded memory: what does not fit goes to disk."""

from __future__ import annotations

import heapq
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from .vocabulary import WordVocabulary

# Some 200 bytes each.
MAX_WORDS_IN_MEMORY = 2_000_000


class WordCounter:
    """Counts words with at most so many distinct ones in memory (an external merge sort).

    When there are more, all counts go to a file in the order of their words, and counting starts anew; `items` merges
    the files. They have no names: nothing of them is left behind, however the process ends.

    Args:
        directory: Where the files lie; None for the system's directory for such files, which may itself be in memory.
        max_words_in_memory: Most distinct words held, to within one sentence.
    """

    def __init__(self, directory: str | os.PathLike | None = None, max_words_in_memory: int = MAX_WORDS_IN_MEMORY):
        self.directory = None if directory is None else os.fspath(directory)
        self.max_words_in_memory = max_words_in_memory
        self.num_words = 0
        self.num_sentences = 0
        self._in_memory: Counter[str] = Counter()
        self._files: list[BinaryIO] = []

    def add(self, words: Sequence[str]) -> None:
        """Count the words of a sentence; none of them may hold a line break."""
        self._in_memory.update(words)
        self.num_words += len(words)
        self.num_sentences += 1
        if len(self._in_memory) > self.max_words_in_memory:
            file = tempfile.TemporaryFile(dir=self.directory)  # noqa: SIM115 (it lives as long as the counter)
            lines = (f"{count} {word}\n" for word, count in self._sorted())
            file.writelines(line.encode("utf-8", "surrogatepass") for line in lines)
            self._files.append(file)
            self._in_memory.clear()

    def items(self) -> Iterator[tuple[str, int]]:
        """Each distinct word once, in code point order if any went to disk, with how often it was seen."""
        if not self._files:
            yield from self._in_memory.items()
            return
        runs = [*map(_read, self._files), self._sorted()]
        for word, same in groupby(heapq.merge(*runs), key=itemgetter(0)):
            yield word, sum(count for _, count in same)

    def count_known(self, vocabulary: WordVocabulary) -> tuple[int, dict[str, int]]:
        """The number of distinct words, and how often each was seen that a vocabulary has."""
        num_distinct, known = 0, {}
        for word, count in self.items():
            num_distinct += 1
            if word in vocabulary:
                known[word] = count
        return num_distinct, known

    def _sorted(self) -> Iterator[tuple[str, int]]:
        # The words alone are sorted: pairs would take as much memory again as the counts.
        return ((word, self._in_memory[word]) for word in sorted(self._in_memory))


def _read(file: BinaryIO) -> Iterator[tuple[str, int]]:
    file.seek(0)
    for line in file:
        count, _, word = line[:-1].decode("utf-8", "surrogatepass").partition(" ")
        yield word, int(count)
