"""The spelling of words that a vocabulary lacks: a distribution over strings, which shares out what `<UNK>` gets."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Sequence

import numpy as np

from ..given import MEBIBYTE, UNREADABLE, reason

SPELLING_FILE = "spelling.npz"
# Symbols are bytes and these two; seven of 9 bits would be a number of 63 bits.
_BEGIN, _END, _BITS = 256, 257, 9
_ORDER = 5
_NUM_NEXT = 257  # bytes and the end
_MOST_WORDS = 1_000_000
# Some hundred times what a large one takes.
_MOST_BYTES = 1024 * MEBIBYTE


class SpellingModel:
    """p(string) by n-grams of UTF-8 bytes with the end of a word, interpolated (Witten and Bell 1991).

    `<UNK>`'s probability times that of a word's spelling is the word's own: the sum over all strings stays one, for
    the words of the vocabulary, which `<UNK>` does not stand for, are taken out and the rest is made up to one.

    Args:
        keys, counts: The 5-grams, as numbers of five symbols of 9 bits, sorted, and how many words have each, (N,).
        in_vocabulary: The part of the probability that falls on words of the vocabulary.
    """

    def __init__(self, keys: np.ndarray, counts: np.ndarray, in_vocabulary: float = 0.0):
        self.keys, self.counts, self.in_vocabulary = keys, counts, in_vocabulary
        self._levels = [_Level(*_summed(keys & _mask(length), counts)) for length in range(1, _ORDER + 1)]

    @classmethod
    def fit(cls, words: Iterable[str], vocabulary: Iterable[str]) -> SpellingModel | None:
        """Learn from words outside of a vocabulary, each once, for it is new words that are to be spelled.

        Of more than fit into memory a part is learned from; None without any.
        """
        kept, step = list[str](), 1
        for number, word in enumerate(words):
            if number % step == 0:
                kept.append(word)
            if len(kept) > _MOST_WORDS:
                # Every second one from here on, and of those that were taken.
                kept, step = kept[::2], 2 * step
        if not kept:
            return None
        keys, _ = _ngrams(kept)
        model = cls(*_summed(keys, np.ones(len(keys), np.int64)))
        model.in_vocabulary = float(np.exp(model.log_probabilities(list(vocabulary))).sum())
        return model

    def log_probabilities(self, words: Sequence[str]) -> np.ndarray:
        """log p(spelling | not in the vocabulary) of words, in nats, (len(words),)."""
        keys, lengths = _ngrams(words)
        logs = np.log(self._probabilities(keys))
        sums = np.add.reduceat(logs, np.cumsum(lengths) - lengths) if len(words) else np.zeros(0)
        return sums - np.log1p(-self.in_vocabulary)

    def _probabilities(self, keys: np.ndarray) -> np.ndarray:
        """p(last symbol | those before it) of n-grams; bytes and the end alike, where nothing is known."""
        scores = np.full(len(keys), 1 / _NUM_NEXT)
        for length, level in enumerate(self._levels, start=1):
            scores = level.interpolate(keys & _mask(length), scores)
        return scores

    def save(self, directory: str | os.PathLike) -> None:
        """Write `SPELLING_FILE` into a checkpoint's directory."""
        arrays = {"keys": self.keys, "counts": self.counts, "in_vocabulary": np.array(self.in_vocabulary)}
        np.savez_compressed(os.path.join(directory, SPELLING_FILE), **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | os.PathLike) -> SpellingModel:
        """Read what `save` wrote. Raises: ValueError where it is something else."""
        try:
            with zipfile.ZipFile(path) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                    raise ValueError(f"it unpacks to more than {_MOST_BYTES >> 20} MiB")
            with np.load(path, allow_pickle=False) as file:
                keys, counts = file["keys"].astype(np.int64), file["counts"].astype(np.int64)
                return cls(keys, counts, float(file["in_vocabulary"]))
        except (*UNREADABLE, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} holds no spelling model ({reason(error)}); build the words anew.") from error


class _Level:
    """The n-grams of one length: how often each, and each context, was seen, and by how many symbols."""

    def __init__(self, keys: np.ndarray, counts: np.ndarray):
        self.keys, self.counts = keys, counts
        self.contexts, indices = np.unique(keys >> _BITS, return_inverse=True)
        self.totals = np.bincount(indices, weights=counts)
        self.kinds = np.bincount(indices)

    def interpolate(self, keys: np.ndarray, shorter: np.ndarray) -> np.ndarray:
        """p(symbol | context), with what shorter contexts say of it."""
        counts = _found(self.keys, self.counts, keys)
        totals, kinds = (_found(self.contexts, values, keys >> _BITS) for values in (self.totals, self.kinds))
        return np.where(totals > 0, (counts + kinds * shorter) / np.maximum(totals + kinds, 1), shorter)


def _mask(length: int) -> int:
    return (1 << _BITS * length) - 1


def _found(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The values of sorted keys; 0 where there is none."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)


def _summed(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    distinct, indices = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(indices, weights=counts).astype(np.int64)


def _ngrams(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The n-gram that ends at each byte, and at the end, of words, one after another; and their number by word."""
    spelled = [word.encode("utf-8", "surrogatepass") for word in words]
    lengths = np.fromiter(map(len, spelled), np.int64, len(spelled)) + 1
    symbols = np.frombuffer(b"\0".join([*spelled, b""]), np.uint8).astype(np.int64)
    ends = np.cumsum(lengths) - 1
    symbols[ends] = _END
    # How far each symbol is from the begin of its word.
    offsets = np.arange(len(symbols)) - np.repeat(ends - lengths + 1, lengths)
    keys = np.zeros(len(symbols), np.int64)
    for back in reversed(range(_ORDER)):
        earlier = np.roll(symbols, back)
        keys = keys << _BITS | np.where(offsets >= back, earlier, _BEGIN)
    return keys, lengths
