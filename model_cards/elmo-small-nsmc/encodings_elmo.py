"""One encoded row of a batch, a sentence or a pair, and what a BatchEncoding answers about its words and characters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from transformers.tokenization_utils_base import CharSpan, TokenSpan

from .characters_elmo import BOS_TOKEN, EOS_TOKEN
from .cutting_elmo import TextCutter


@dataclass
class Sentence:
    """The words of one sentence, and the text they were cut from and by what; None if they came as a list."""

    words: list[str]
    text: str | None = None
    cutter: TextCutter | None = None

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        """Start and end of each word: in the text, or of a list of words in the word itself."""
        if self.text is None or self.cutter is None:
            return [(0, len(word)) for word in self.words]
        return self.cutter.spans(self.text)


@dataclass(slots=True)
class Window:
    """The words of a sentence from `start` up to `stop`: all of them, where nothing was cut off."""

    sentence: Sentence
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def words(self) -> list[str]:
        return self.sentence.words[self.start : self.stop]

    @property
    def places(self) -> range:
        """Which words of the whole sentence they are."""
        return range(self.start, self.stop)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        return self.sentence.offsets[self.start : self.stop]


@dataclass
class WordEncoding:
    """One encoded sentence or pair: which word and which characters of the text each row stands for.

    Has what `BatchEncoding` asks of a `tokenizers.Encoding`. The answers are worked out when they are first asked for:
    most calls want the rows alone.

    Args:
        windows: What is encoded of each sentence; two of them for a pair.
        has_markers: Whether the rows of `<S>` and `</S>` stand around the words of each.
        padding_before: Rows of zeros before all of them.
        padding_after: Rows of zeros after all of them.

    Attributes:
        num_rows: How many rows hold a word or a marker.
    """

    windows: tuple[Window, ...]
    has_markers: bool
    padding_before: int = 0
    padding_after: int = 0

    def __post_init__(self) -> None:
        self.num_rows = 2 * self.has_markers * len(self.windows)
        for window in self.windows:
            self.num_rows += window.stop - window.start

    @property
    def n_sequences(self) -> int:
        return len(self.windows)

    def __len__(self) -> int:
        return self.padding_before + self.num_rows + self.padding_after

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordEncoding):
            return NotImplemented
        return (self.tokens, self._words, self.offsets) == (other.tokens, other._words, other.offsets)

    def pad(self, width: int, side: str) -> None:
        """Put padding on one side, so that there are `width` rows; more than that stay as they are."""
        amount = max(0, width - self.num_rows)
        self.padding_before, self.padding_after = (amount, 0) if side == "left" else (0, amount)

    def row_words(self) -> list[str]:
        """The words and markers that have rows, without padding."""
        rows: list[str] = []
        for window in self.windows:
            rows += [BOS_TOKEN, *window.words, EOS_TOKEN] if self.has_markers else window.words
        return rows

    def _padded(self, values: list[Any], filler: Any) -> list[Any]:
        return [filler] * self.padding_before + values + [filler] * self.padding_after

    def _per_word(self, values: Iterable[Iterable[Any]], filler: Any) -> list[Any]:
        """The values of each window's words as one of each row; markers and padding get the filler."""
        marker = [filler] * self.has_markers
        return self._padded([row for part in values for row in (*marker, *part, *marker)], filler)

    @cached_property
    def tokens(self) -> list[str]:
        return self._padded(self.row_words(), "")

    @cached_property
    def word_ids(self) -> list[int | None]:
        return self._per_word((window.places for window in self.windows), None)

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        return self._per_word((window.offsets for window in self.windows), (0, 0))

    @cached_property
    def sequence_ids(self) -> list[int | None]:
        return self._per_word(([index] * len(window) for index, window in enumerate(self.windows)), None)

    @property
    def type_ids(self) -> list[int]:
        """Which sentence each row is of, its markers too; 0 for padding."""
        types: list[int] = []
        for index, window in enumerate(self.windows):
            types += [index] * (len(window) + 2 * self.has_markers)
        return self._padded(types, 0)

    @property
    def special_tokens_mask(self) -> list[int]:
        return [int(word is None) for word in self.word_ids]

    @cached_property
    def _words(self) -> list[tuple[int | None, int | None]]:
        """Of each row its sentence and the word of that."""
        return list(zip(self.sequence_ids, self.word_ids, strict=True))

    def token_to_sequence(self, token_index: int) -> int | None:
        return self.sequence_ids[token_index]

    def token_to_word(self, token_index: int) -> int | None:
        return self.word_ids[token_index]

    def token_to_chars(self, token_index: int) -> CharSpan | None:
        return None if self.word_ids[token_index] is None else CharSpan(*self.offsets[token_index])

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> TokenSpan | None:
        word = (sequence_index, word_index)
        if word not in self._words:
            return None
        token = self._words.index(word)
        return TokenSpan(token, token + 1)

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> CharSpan | None:
        span = self.word_to_tokens(word_index, sequence_index)
        return None if span is None else self.token_to_chars(span.start)

    def char_to_token(self, char_index: int, sequence_index: int = 0) -> int | None:
        for token, (sequence, (start, end)) in enumerate(zip(self.sequence_ids, self.offsets, strict=True)):
            if sequence == sequence_index and start <= char_index < end:
                return token
        return None

    def char_to_word(self, char_index: int, sequence_index: int = 0) -> int | None:
        token = self.char_to_token(char_index, sequence_index)
        return None if token is None else self.word_ids[token]
