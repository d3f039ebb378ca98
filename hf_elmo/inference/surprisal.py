"""Surprisals of a text's words as the user's file has them, from the left, the right and both sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .scoring import SentenceScores
from .word_places import PlacedWords

DIRECTIONS = ("forward", "backward", "both")


@dataclass(frozen=True)
class SpacedWord:
    """A word between white space, in bits.

    Args:
        word: As it stands in the file.
        forward, backward, both: The sum over its pieces of -log2 p by what is left of each, right of it, or both; of
            forward and backward that is the surprisal of the whole word.
        pieces: How many words of the model it is.
        unknown: How many of those the softmax lacks; they are scored as <UNK>.
    """

    word: str
    forward: float
    backward: float
    both: float
    pieces: int
    unknown: int


def sum_by_spaces(line: str, placed: PlacedWords, scores: SentenceScores) -> list[SpacedWord]:
    """The words of a line between white space, each with the sums over its pieces; those without a piece are left out.

    Args:
        line: The text as it came.
        placed: The words that it was cut into.
        scores: Theirs.
    """
    words, numbers = line.split(), np.array(placed.spaced_words, dtype=int)
    forward, backward, both = (
        np.bincount(numbers, values, len(words)) + 0.0
        for values in (scores.forward_surprisal, scores.backward_surprisal, scores.joint_surprisal)
    )
    pieces = np.bincount(numbers, minlength=len(words))
    unknown = np.bincount(numbers, scores.is_unknown, len(words))
    return [
        SpacedWord(word, float(left), float(right), float(sides), int(count), int(without))
        for word, left, right, sides, count, without in zip(
            words, forward, backward, both, pieces, unknown, strict=True
        )
        if count
    ]
