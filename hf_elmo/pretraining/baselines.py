"""Unigram and interpolated bigram perplexities, on the same split and targets as the biLM's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from ..text.vocabulary import BOS_TOKEN, EOS_TOKEN, WordVocabulary

# Tried for the bigram's interpolation; the best on the held-out text itself is taken, in the baseline's favour.
CONCENTRATIONS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000)
# Read into arrays together, a few MB of them.
_SENTENCES_AT_A_TIME = 4096


def count_baselines(
    train_sentences: Iterable[Sequence[str]],
    held_out_sentences: Iterable[Sequence[str]],
    vocabulary: WordVocabulary,
) -> dict[str, float]:
    """Count the training text and score the held-out text (MacKay and Peto 1995 for the interpolation).

    Only the bigrams that the held-out text asks for are counted: memory is bounded by the held-out text and the
    vocabulary, however long the training text.

    Returns: Held-out perplexities: "unigram" of p(w) = (c(w) + 1) / (N + V), the same in both directions;
        "bigram_forward" of p(w | v) = (c(v w) + k p(w)) / (c(v) + k), v being the word before, "bigram_backward" with v
        the word after, and "bigram", their mean. "unknown_rate" is the fraction of held-out words that the vocabulary
        lacks.
    Raises: ValueError when there is no held-out word to score.
    """
    size = len(vocabulary)
    read = [_pairs(ids, starts, size) for ids, starts in _read(held_out_sentences, vocabulary)]
    if not read:
        raise ValueError("held_out_sentences is empty; perplexity needs text to be scored on.")
    asked, times = np.unique(np.concatenate(read), return_counts=True)
    words, found = np.zeros(size, dtype=np.int64), np.zeros(len(asked), dtype=np.int64)
    for ids, starts in _read(train_sentences, vocabulary):
        words += np.bincount(ids, minlength=size)
        # What a direction starts from never stands as a target in it, and is as frequent as the other special token.
        words[vocabulary.bos_id] -= len(starts)
        pairs = _pairs(ids, starts, size)
        places = np.searchsorted(asked, pairs).clip(max=len(asked) - 1)
        found += np.bincount(places[asked[places] == pairs], minlength=len(asked))
    contexts = words.copy()
    contexts[vocabulary.bos_id] = words[vocabulary.eos_id]
    unigram = (contexts + 1) / (words.sum() + size - 1)

    def perplexity(word: np.ndarray, context: np.ndarray, k: float) -> float:
        """Of one entry of each pair given the other one; k -> infinity leaves the unigram."""
        likelihood = (found + k * unigram[word]) / (contexts[context] + k)
        return math.exp(-(times * np.log(likelihood)).sum() / times.sum())

    first, second = np.divmod(asked, size)
    forward = min(perplexity(second, first, k) for k in CONCENTRATIONS)
    backward = min(perplexity(first, second, k) for k in CONCENTRATIONS)
    held_out_words = np.bincount(second, times, minlength=size)
    num_words = held_out_words.sum() - held_out_words[vocabulary.eos_id]
    return {
        "unigram": perplexity(second, first, 1e15),
        "bigram_forward": forward,
        "bigram_backward": backward,
        "bigram": (forward + backward) / 2,
        "unknown_rate": float(held_out_words[vocabulary.unk_id] / max(num_words, 1)),
    }


def _read(sentences: Iterable[Sequence[str]], vocabulary: WordVocabulary) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Many sentences at a time: the ids of their words, special tokens at both ends, and where each sentence starts."""
    remaining = iter(sentences)
    while taken := list(islice(remaining, _SENTENCES_AT_A_TIME)):
        get, unknown = vocabulary.ids.get, vocabulary.unk_id
        ids = [get(word, unknown) for words in taken for word in (BOS_TOKEN, *words, EOS_TOKEN)]
        lengths = [len(words) + 2 for words in taken]
        yield np.array(ids, dtype=np.int64), np.cumsum([0, *lengths[:-1]])


def _pairs(ids: np.ndarray, starts: np.ndarray, size: int) -> np.ndarray:
    """A number for each two neighbours of a sentence: the first one's id times the size, and the second one's."""
    pairs = ids[:-1] * size + ids[1:]
    # Where a sentence starts, the entry before it is no neighbour.
    return np.delete(pairs, starts[1:] - 1)
