"""The words of the pre-training softmax, by falling frequency, and counts of the words of a corpus of any size."""

from __future__ import annotations

import heapq
import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from ..given import quoted
from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN, UNK_TOKEN, WORD_LIST_FILE, read_words, write_words

SPECIAL_WORDS = (BOS_TOKEN, EOS_TOKEN, UNK_TOKEN)
# A bound that suits text of any size.
MAX_VOCAB_SIZE = 800_000
VOCABULARY_FILE = WORD_LIST_FILE
# With a larger fraction of unknown words than this, perplexity says how well `<UNK>` is predicted and little else.
MANY_UNKNOWN = 0.2
VOCABULARY_FACTS_FILE = "vocabulary.json"


class WordVocabulary:
    """Words and their ids: `<S>` 0, `</S>` 1, `<UNK>` 2, then words by falling frequency, as bilm-tf's files have them.

    Args:
        words: All words in the order of their ids.
    Raises: ValueError when the special words are not the first three or a word stands twice.
    """

    bos_id, eos_id, unk_id = 0, 1, 2

    def __init__(self, words: Sequence[str]):
        if tuple(words[:3]) != SPECIAL_WORDS:
            raise ValueError(
                f"words starts with {quoted(list(words[:3]))}; the first three must be {list(SPECIAL_WORDS)}. Add "
                "those lines at the top of the vocabulary file."
            )
        self.words = list(words)
        self.ids = {word: index for index, word in enumerate(self.words)}
        if len(self.ids) != len(self.words):
            twice = Counter(self.words).most_common(1)[0][0]
            raise ValueError(f"words holds {quoted(twice)} twice; each word needs one id. Remove the second line.")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.ids

    def encode(self, words: Iterable[str]) -> list[int]:
        """The ids of words; `<UNK>`'s for those that the vocabulary lacks."""
        get, unknown = self.ids.get, self.unk_id
        return [get(word, unknown) for word in words]

    @classmethod
    def from_counts(
        cls, counts: Counter[str] | WordCounter, max_size: int = MAX_VOCAB_SIZE, min_count: int = 1
    ) -> WordVocabulary:
        """At most `max_size` words, the special ones and the most frequent others, of equal counts in code point order.

        Raises: ValueError when no word is seen `min_count` times.
        """
        often = ((-count, word) for word, count in counts.items() if count >= min_count and word not in SPECIAL_WORDS)
        # No more of them than are kept is held in memory.
        kept = heapq.nsmallest(max_size - len(SPECIAL_WORDS), often)
        if not kept:
            raise ValueError(
                f"counts holds no word seen at least {min_count} times; lower min_count or give more text."
            )
        return cls([*SPECIAL_WORDS, *(word for _, word in kept)])

    @classmethod
    def load(cls, path: str | os.PathLike) -> WordVocabulary:
        """Read a vocabulary file, one word per line; a directory is taken for a checkpoint that holds one.

        Raises: FileNotFoundError; ValueError naming the file when it is not UTF-8 or not a vocabulary.
        """
        path = Path(path)
        path = path / VOCABULARY_FILE if path.is_dir() else path
        try:
            return cls(read_words(path))
        except FileNotFoundError:
            raise FileNotFoundError(f"vocab_file {str(path)!r} does not exist; name a file of words.") from None
        except ValueError as error:
            raise ValueError(f"vocab_file {str(path)!r}: {error}") from error

    def save(self, directory: str | os.PathLike) -> Path:
        """Write the vocabulary into a checkpoint directory and return the file's path."""
        return write_words(directory, self.words)


class WordCounter:
    """Counts words with at most so many distinct ones in memory (an external merge sort).

    When there are more, all counts go to a file in the order of their words, and counting starts anew; `items` merges
    the files. They have no names: nothing of them is left behind, however the process ends.

    Args:
        directory: Where the files lie; None for the system's directory for such files, which may itself be in memory.
        max_words_in_memory: Most distinct words held, to within one sentence; a word takes some 200 bytes.
    """

    def __init__(self, directory: str | os.PathLike | None = None, max_words_in_memory: int = 2_000_000):
        self.directory = None if directory is None else os.fspath(directory)
        self.max_words_in_memory = max_words_in_memory
        self.num_words = self.num_sentences = 0
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


def log_uniform_probabilities(ids: Tensor, vocab_size: int, dtype: torch.dtype) -> Tensor:
    """log((k + 2) / (k + 1)) / log(V + 1) for each id k of V words, in the shape of `ids`: Zipf's law.

    By it bilm-tf draws the negatives of its sampled softmax (TensorFlow's log-uniform candidate sampler).
    """
    return torch.log1p(1 / (ids.to(dtype) + 1)) / math.log1p(vocab_size)
