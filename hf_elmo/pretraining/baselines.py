"""Unigram and interpolated bigram perplexities, on the same split and targets as the biLM's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..text.vocabulary import WordVocabulary

# Tried for the bigram's interpolation; the best on the held-out text itself is taken, in the baseline's favour.
CONCENTRATIONS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000)


@dataclass
class Baselines:
    """Held-out perplexities of count models.

    Args:
        unigram: Of p(w) = (c(w) + 1) / (N + V); the same in both directions.
        bigram_forward: Of p(w | v) = (c(v w) + k p(w)) / (c(v) + k), v being the word before.
        bigram_backward: The same with v the word after.
        bigram: Mean of the two.
        unknown_rate: Share of held-out words that the vocabulary lacks.
    """

    unigram: float
    bigram_forward: float
    bigram_backward: float
    bigram: float
    unknown_rate: float


def count_baselines(
    train_sentences: Iterable[Sequence[str]],
    held_out_sentences: Iterable[Sequence[str]],
    vocabulary: WordVocabulary,
) -> Baselines:
    """Count the training text and score the held-out text (MacKay and Peto 1995 for the interpolation).

    Only the bigrams that the held-out text asks for are counted: memory is bounded by the held-out text and the
    vocabulary, however long the training text.

    Raises: ValueError when there is no held-out word to score.
    """
    held_out = Counter(pair for words in held_out_sentences for pair in _bigrams(vocabulary.encode(words)))
    if not held_out:
        raise ValueError("held_out_sentences is empty; perplexity needs text to be scored on.")
    words: Counter[int] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for sentence in train_sentences:
        ids = vocabulary.encode(sentence)
        words.update(ids)
        words[vocabulary.eos_id] += 1
        pairs.update(pair for pair in _bigrams(ids) if pair in held_out)
    # The marker that a direction starts from never stands as a target in it, and is as frequent as the other one.
    num_sentences = words[vocabulary.eos_id]
    total, size = words.total(), len(vocabulary) - 1
    contexts = Counter(words)
    contexts[vocabulary.bos_id] = num_sentences

    def unigram(word: int) -> float:
        count = num_sentences if word == vocabulary.bos_id else words[word]
        return (count + 1) / (total + size)

    def perplexity(place: int, k: float) -> float:
        """Of the word at `place` of each pair given the other one; k -> infinity leaves the unigram."""
        log_likelihood = 0.0
        for pair, count in held_out.items():
            word, context = pair[place], pair[1 - place]
            likelihood = (pairs[pair] + k * unigram(word)) / (contexts[context] + k)
            log_likelihood += count * math.log(likelihood)
        return math.exp(-log_likelihood / held_out.total())

    forward = min(perplexity(1, k) for k in CONCENTRATIONS)
    backward = min(perplexity(0, k) for k in CONCENTRATIONS)
    held_out_words = Counter()
    for (_, word), count in held_out.items():
        held_out_words[word] += count
    num_words = held_out_words.total() - held_out_words[vocabulary.eos_id]
    return Baselines(
        unigram=perplexity(1, 1e15),
        bigram_forward=forward,
        bigram_backward=backward,
        bigram=(forward + backward) / 2,
        unknown_rate=held_out_words[vocabulary.unk_id] / max(num_words, 1),
    )


def _bigrams(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring ids of a sentence with its markers."""
    return zip((WordVocabulary.bos_id, *ids), (*ids, WordVocabulary.eos_id), strict=True)
