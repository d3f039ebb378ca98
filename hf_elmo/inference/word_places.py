"""Where the words of a line stand in it: which characters, and which of the words between white space."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from ..model.tokenization_elmo import ElmoCharTokenizer


@dataclass(frozen=True)
class PlacedWords:
    """The T words that a line of text was cut into.

    Args:
        words: As the model reads them, lower-cased for example.
        offsets: First character of each word in the line, and the character behind its last one.
        spaced_words: The number, from 0, of the word between white space that each of them belongs to.
    """

    words: list[str]
    offsets: list[tuple[int, int]]
    spaced_words: list[int]


def place_words(line: str, tokenizer: ElmoCharTokenizer, is_tokenized: bool = False) -> PlacedWords:
    """Cut a line and say where each word stands in it.

    Args:
        line: The text as it came, neither stripped nor normalised.
        tokenizer: Cuts it.
        is_tokenized: Whether words stand between white space instead.
    """
    between_spaces = _offsets_between_spaces(line)
    if is_tokenized:
        words, offsets = line.split(), between_spaces
    else:
        encoding = tokenizer(line, add_special_tokens=False, return_offsets_mapping=True)
        words, offsets = tokenizer.tokenize(line), [tuple(span) for span in encoding["offset_mapping"]]
    starts = [start for start, _ in between_spaces]
    return PlacedWords(words, offsets, [bisect_right(starts, start) - 1 for start, _ in offsets])


def _offsets_between_spaces(line: str) -> list[tuple[int, int]]:
    spans, end = [], 0
    for word in line.split():
        start = line.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return spans
