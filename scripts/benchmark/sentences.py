"""The sentences that the benchmark reads: from a text file, or from the help texts that ship with every CPython."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hf_elmo.text.python_topics import paragraphs

SHORTEST, LONGEST = 10, 40
# A single sentence is of ordinary length, so that batches of one compare with one another.
SINGLE_SENTENCE_WORDS = 27

_SENTENCE_ENDS = (".", "!", "?")


def read_sentences(text_file: str | os.PathLike | None = None, seed: int = 0) -> list[list[str]]:
    """Different sentences of 10 to 40 words, cut at white space, in a random but repeatable order.

    Args:
        text_file: Text with one or more sentences per line; None takes CPython's own help texts.
        seed: Of the order.
    Raises: ValueError where the text holds no such sentence; OSError where the file cannot be read.
    """
    lines = _help_text_lines() if text_file is None else Path(text_file).read_text(encoding="utf-8").splitlines()
    kept = dict.fromkeys(
        tuple(sentence) for line in lines for sentence in _cut(line) if SHORTEST <= len(sentence) <= LONGEST
    )
    if not kept:
        raise ValueError(
            f"--text_file {str(text_file)!r} holds no sentence of {SHORTEST} to {LONGEST} words; name a file of "
            "running text, or leave the flag out to use CPython's help texts."
        )
    sentences = [list(sentence) for sentence in kept]
    random.Random(seed).shuffle(sentences)
    return sentences


def pick_batch(sentences: list[list[str]], batch_size: int) -> list[list[str]]:
    """The first `batch_size` sentences; for a batch of one, the first whose length is nearest to 27 words.

    Raises: ValueError where there are fewer sentences.
    """
    if batch_size == 1:
        return [min(sentences, key=lambda sentence: abs(len(sentence) - SINGLE_SENTENCE_WORDS))]
    if batch_size > len(sentences):
        raise ValueError(
            f"--batch_sizes holds {batch_size}, but the text has {len(sentences)} sentences of {SHORTEST} to {LONGEST} "
            "words; take a smaller batch or a longer text."
        )
    return sentences[:batch_size]


def describe_batch(batch: list[list[str]]) -> dict[str, Any]:
    """Sizes that decide the cost of a batch; words without the two markers of each sentence."""
    return {
        "sentences": len(batch),
        "words": sum(map(len, batch)),
        "distinct_words": len({word for sentence in batch for word in sentence}),
        "longest_sentence": max(map(len, batch)),
    }


def _help_text_lines() -> Iterable[str]:
    return (sentence for paragraph in paragraphs() for sentence in paragraph)


def _cut(line: str) -> list[list[str]]:
    """The sentences of a line; its end is the end of a sentence too."""
    sentences: list[list[str]] = [[]]
    for word in line.split():
        sentences[-1].append(word)
        if word.endswith(_SENTENCE_ENDS):
            sentences.append([])
    return sentences
