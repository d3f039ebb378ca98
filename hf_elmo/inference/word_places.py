"""Where the words of a line stand in it: offsets of characters, and indices of the words between white space."""

from __future__ import annotations

import re
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
    spaced = [match.span() for match in re.finditer(r"\S+", line)]
    words = line.split() if is_tokenized else tokenizer.tokenize(line)
    offsets = spaced if is_tokenized else tokenizer.cutter.spans(line)
    starts = [start for start, _ in spaced]
    return PlacedWords(words, offsets, [bisect_right(starts, start) - 1 for start, _ in offsets])
