"""The word vocabulary of the pre-training softmax: special words first, then words by falling frequency."""

from __future__ import annotations

import heapq
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..given import quoted
from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN, UNK_TOKEN, WORD_LIST_FILE, read_words, write_words

if TYPE_CHECKING:
    from .word_counts import WordCounter

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
        cls, counts: Counter[str] | WordCounter, max_size: int | None = None, min_count: int = 1
    ) -> WordVocabulary:
        """The special words and the most frequent others, those of equal counts in code point order.

        Args:
            counts: How often each word was seen.
            max_size: Most ids of the vocabulary, the three special ones included; None for no limit.
            min_count: Words seen less often are left out.
        Raises: ValueError when no word is seen often enough.
        """
        often = ((-count, word) for word, count in counts.items() if count >= min_count and word not in SPECIAL_WORDS)
        # No more of them than are kept is held in memory.
        kept = sorted(often) if max_size is None else heapq.nsmallest(max_size - len(SPECIAL_WORDS), often)
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
            raise FileNotFoundError(
                f"vocab_file {str(path)!r} does not exist; name a file with a word per line."
            ) from None
        except ValueError as error:
            raise ValueError(f"vocab_file {str(path)!r}: {error}") from error

    def save(self, directory: str | os.PathLike) -> Path:
        """Write the vocabulary into a checkpoint directory and return the file's path."""
        return write_words(directory, self.words)


def log_uniform_probabilities(ids: Tensor, vocab_size: int, dtype: torch.dtype) -> Tensor:
    """log((k + 2) / (k + 1)) / log(V + 1) for each id k of V words, in the shape of `ids`: Zipf's law.

    By it bilm-tf draws the negatives of its sampled softmax (TensorFlow's log-uniform candidate sampler).
    """
    return torch.log1p(1 / (ids.to(dtype) + 1)) / math.log1p(vocab_size)
