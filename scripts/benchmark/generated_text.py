"""Text without end: words by a Zipf law with ever new ones among them, as a streamed corpus that is never a file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from datasets import IterableDataset

from hf_elmo.text.corpora import Corpus

from .sentences import LONGEST, SHORTEST

# What reports call it.
GENERATED_TEXT = "generated words by a Zipf law"
# Among the first 2,560 words some 725 are distinct and among 100,000 some 13,500, which is near what English text has.
EXPONENT = 1.25
# Frequent words are short ones.
_SPELLING = str.maketrans("0123456789", "etaoinshrd")
_BLOCK_SENTENCES = 4096


def generate_corpus(num_words: int, seed: int = 0) -> Corpus:
    """A stream of `generate_sentences`, a record each, the same in every pass."""
    # Streams without features are as those of text files: nothing is cast.
    records = IterableDataset.from_generator(_generate_records, gen_kwargs={"num_words": num_words, "seed": seed})
    return Corpus(records, "generated text")


def generate_sentences(num_words: int, seed: int = 0) -> Iterator[str]:
    """Sentences of 10 to 40 words, of white space between them, until there are at least `num_words` words.

    The word of rank k has a probability proportional to k ** -1.25; there is no last rank.

    Raises: ValueError when num_words is not positive.
    """
    if num_words < 1:
        raise ValueError(f"num_words is {num_words}; it must be an integer >= 1.")
    generator = np.random.default_rng(seed)
    remaining = num_words
    while remaining > 0:
        lengths = generator.integers(SHORTEST, LONGEST + 1, _BLOCK_SENTENCES)
        ends = lengths.cumsum()
        ranks = generator.zipf(EXPONENT, ends[-1])
        words = " ".join(map(str, ranks.tolist())).translate(_SPELLING).split()
        # The sentence that reaches the number is the last one.
        for end, length in zip(ends[: ends.searchsorted(remaining) + 1].tolist(), lengths.tolist(), strict=False):
            yield " ".join(words[end - length : end])
        remaining -= int(ends[-1])


def _generate_records(num_words: int, seed: int) -> Iterator[dict[str, str]]:
    for sentence in generate_sentences(num_words, seed):
        yield {"text": sentence}
