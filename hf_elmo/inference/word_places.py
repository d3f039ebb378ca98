"""Where the words of a line stand in it: offsets of characters, and indices of the words between white space."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from ..model.tokenization_elmo import ElmoCharTokenizer


class PlacedWords(NamedTuple):
    """The words of a line of text."""

    words: list[str]  # as the model reads them, lower-cased for example
    offsets: list[tuple[int, int]]  # first character of each word in the line, and the one behind its last
    spaced_words: list[int]  # index, from 0, of the word between white space that each of them belongs to


def place_words(line: str, tokenizer: ElmoCharTokenizer, is_tokenized: bool = False) -> PlacedWords:
    """Cut a line, as it came, into words with their offsets; tokenized words stand between white space."""
    words, offsets = words_with_offsets(line, tokenizer, is_tokenized)
    starts = [start for start, _ in _offsets_between_spaces(line)]
    return PlacedWords(words, offsets, [bisect_right(starts, start) - 1 for start, _ in offsets])


def words_with_offsets(
    line: str, tokenizer: ElmoCharTokenizer, is_tokenized: bool = False
) -> tuple[list[str], list[tuple[int, int]]]:
    """The words of a line and their offsets, as `place_words`."""
    if is_tokenized:
        return line.split(), _offsets_between_spaces(line)
    return tokenizer.tokenize(line), tokenizer.cutter.spans(line)


def _offsets_between_spaces(line: str) -> list[tuple[int, int]]:
    spans, end = [], 0
    for word in line.split():
        start = line.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return spans
