"""Counts of the words of a corpus of any size, exact and in bounded memory: what does not fit goes to disk."""

from __future__ import annotations

import heapq
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from .vocabulary import SPECIAL_WORDS, UNK_TOKEN, WordVocabulary, most_frequent

# Some 200 bytes each.
MAX_WORDS_IN_MEMORY = 2_000_000
# A bound that suits text of any size.
MAX_VOCAB_SIZE = 800_000
# Character ids of a word, its two special ones among them: the published models', and twice as many.
WIDTHS = (50, 100)


@dataclass(frozen=True)
class VocabularyCounts:
    """A vocabulary and what was counted for it.

    Args:
        vocabulary: The special words and the most frequent ones.
        word_counts: Of the words behind the special ones, in the order of their ids.
        num_words, num_sentences, num_distinct: The text: running words, sentences and distinct words.
        num_unknown: Running words that the vocabulary lacks.
        num_cut: Running words whose last letters a row of so many character ids does not hold, for each of `WIDTHS`.
    """

    vocabulary: WordVocabulary
    word_counts: list[int]
    num_words: int
    num_sentences: int
    num_distinct: int
    num_unknown: int
    num_cut: dict[int, int]

    def unknown_share_at(self, size: int) -> float:
        """Fraction of the running words that would be `<UNK>` if the vocabulary ended after `size` ids."""
        return (self.num_unknown + sum(self.word_counts[size - len(SPECIAL_WORDS) :])) / self.num_words

    @property
    def unknown_share(self) -> float:
        """Fraction of the running words that are `<UNK>`."""
        return self.unknown_share_at(len(self.vocabulary))


class WordCounter:
    """Counts words with at most so many distinct ones in memory (an external merge sort).

    When there are more, all counts go to a file in the order of their words, and counting starts anew; `counts` merges
    the files. They have no names: nothing of them is left behind, however the process ends.

    Args:
        max_words_in_memory: Most distinct words held, to within one sentence.
        directory: Where the files lie; None for the system's directory for such files, which may itself be in memory.
    """

    # Bounds the open files; more of them are merged into one.
    max_files = 64

    def __init__(self, max_words_in_memory: int = MAX_WORDS_IN_MEMORY, directory: str | os.PathLike | None = None):
        self.max_words_in_memory = max_words_in_memory
        self.directory = None if directory is None else os.fspath(directory)
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
            self._spill()

    def counts(self) -> Iterator[tuple[str, int]]:
        """Each distinct word once, in code point order if any went to disk, with how often it was seen."""
        if not self._files:
            return iter(self._in_memory.items())
        return _merge([*map(_read, self._files), self._sorted()])

    def _spill(self) -> None:
        if len(self._files) == self.max_files:
            merged = self._write(_merge(map(_read, self._files)))  # reads them while it writes: closed only then
            self.close()
            self._files = [merged]
        self._files.append(self._write(self._sorted()))
        self._in_memory.clear()

    def _sorted(self) -> Iterator[tuple[str, int]]:
        # The words alone are sorted: pairs would take as much memory again as the counts.
        return ((word, self._in_memory[word]) for word in sorted(self._in_memory))

    def _write(self, counts: Iterable[tuple[str, int]]) -> BinaryIO:
        file = tempfile.TemporaryFile(dir=self.directory)  # noqa: SIM115 (it lives as long as the counter)
        file.writelines(f"{count} {word}\n".encode("utf-8", "surrogatepass") for word, count in counts)
        return file

    def close(self) -> None:
        """Give the disk back before the counter itself goes."""
        for file in self._files:
            file.close()
        self._files = []


def _read(file: BinaryIO) -> Iterator[tuple[str, int]]:
    file.seek(0)
    for line in file:
        count, _, word = line[:-1].decode("utf-8", "surrogatepass").partition(" ")
        yield word, int(count)


def _merge(runs: Iterable[Iterator[tuple[str, int]]]) -> Iterator[tuple[str, int]]:
    for word, same in groupby(heapq.merge(*runs), key=itemgetter(0)):
        yield word, sum(count for _, count in same)


def choose_vocabulary(
    counter: WordCounter, max_size: int | None = MAX_VOCAB_SIZE, min_count: int = 1
) -> VocabularyCounts:
    """The vocabulary of `WordVocabulary.from_counts`, from counts that need not fit into memory.

    Raises: ValueError as `most_frequent`.
    """
    num_distinct = num_special = 0
    num_cut = dict.fromkeys(WIDTHS, 0)

    def watched() -> Iterator[tuple[str, int]]:
        nonlocal num_distinct, num_special
        for word, count in counter.counts():
            num_distinct += 1
            if word in SPECIAL_WORDS and word != UNK_TOKEN:
                num_special += count
            # Most words are too short for any character to matter.
            if 4 * len(word) > WIDTHS[0] - 2:
                num_bytes = len(word.encode("utf-8", errors="surrogatepass"))
                for width in WIDTHS:
                    num_cut[width] += count * (num_bytes > width - 2)
            yield word, count

    kept = most_frequent(watched(), max_size, min_count)
    word_counts = [count for _, count in kept]
    return VocabularyCounts(
        vocabulary=WordVocabulary([*SPECIAL_WORDS, *(word for word, _ in kept)]),
        word_counts=word_counts,
        num_words=counter.num_words,
        num_sentences=counter.num_sentences,
        num_distinct=num_distinct,
        num_unknown=counter.num_words - sum(word_counts) - num_special,
        num_cut=num_cut,
    )
