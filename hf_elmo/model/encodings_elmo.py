"""One encoded sentence, and what a BatchEncoding answers about its words and characters."""

from __future__ import annotations

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


@dataclass
class WordEncoding:
    """One encoded sentence: which word and which characters of the text each row stands for.

    Has what `BatchEncoding` asks of a `tokenizers.Encoding`. The answers are worked out when they are first asked for:
    most calls want the rows alone.

    Args:
        sentence: The whole sentence, also where only a window of it is encoded.
        start: The first word of the window.
        stop: The word after the last one of the window.
        has_markers: Whether the rows of `<S>` and `</S>` stand around the words.
        padding_before: Rows of zeros before all of them.
        padding_after: Rows of zeros after all of them.
    """

    sentence: Sentence
    start: int
    stop: int
    has_markers: bool
    padding_before: int = 0
    padding_after: int = 0

    n_sequences = 1

    @property
    def num_rows(self) -> int:
        """How many rows hold a word or a marker."""
        return self.stop - self.start + 2 * self.has_markers

    def __len__(self) -> int:
        return self.padding_before + self.num_rows + self.padding_after

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordEncoding):
            return NotImplemented
        return (self.tokens, self.word_ids, self.offsets) == (other.tokens, other.word_ids, other.offsets)

    def pad(self, width: int, side: str) -> None:
        """Put padding on one side, so that the sentence has `width` rows; a longer one stays as it is."""
        amount = max(0, width - self.num_rows)
        self.padding_before, self.padding_after = (amount, 0) if side == "left" else (0, amount)

    def row_words(self) -> list[str]:
        """The words and markers that have rows, without padding."""
        words = self.sentence.words[self.start : self.stop]
        return [BOS_TOKEN, *words, EOS_TOKEN] if self.has_markers else words

    def _padded(self, values: list[Any], filler: Any) -> list[Any]:
        return [filler] * self.padding_before + values + [filler] * self.padding_after

    @cached_property
    def tokens(self) -> list[str]:
        return self._padded(self.row_words(), "")

    @cached_property
    def word_ids(self) -> list[int | None]:
        marker = [None] * self.has_markers
        return self._padded([*marker, *range(self.start, self.stop), *marker], None)

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        marker = [(0, 0)] * self.has_markers
        return self._padded([*marker, *self.sentence.offsets[self.start : self.stop], *marker], (0, 0))

    @property
    def sequence_ids(self) -> list[int | None]:
        return [None if word is None else 0 for word in self.word_ids]

    @property
    def special_tokens_mask(self) -> list[int]:
        return [int(word is None) for word in self.word_ids]

    def token_to_sequence(self, token_index: int) -> int | None:
        return self.sequence_ids[token_index]

    def token_to_word(self, token_index: int) -> int | None:
        return self.word_ids[token_index]

    def token_to_chars(self, token_index: int) -> CharSpan | None:
        return None if self.word_ids[token_index] is None else CharSpan(*self.offsets[token_index])

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> TokenSpan | None:
        if word_index not in self.word_ids:
            return None
        token = self.word_ids.index(word_index)
        return TokenSpan(token, token + 1)

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> CharSpan | None:
        span = self.word_to_tokens(word_index)
        return None if span is None else self.token_to_chars(span.start)

    def char_to_token(self, char_index: int, sequence_index: int = 0) -> int | None:
        for token, (word, (start, end)) in enumerate(zip(self.word_ids, self.offsets, strict=True)):
            if word is not None and start <= char_index < end:
                return token
        return None

    def char_to_word(self, char_index: int, sequence_index: int = 0) -> int | None:
        token = self.char_to_token(char_index)
        return None if token is None else self.word_ids[token]


def cut_into_windows(
    sentence: Sentence, has_markers: bool, limit: int | None, stride: int, side: str, with_overflow: bool
) -> list[WordEncoding]:
    """The sentence cut to `limit` words; with overflow, every window of that many, `stride` words shared."""
    count = len(sentence.words)
    if limit is None or count <= limit:
        return [WordEncoding(sentence, 0, count, has_markers)]
    if with_overflow and not 0 <= stride < limit:
        raise ValueError(f"stride is {stride}; it must be >= 0 and less than the {limit} words that fit in a window.")
    starts = range(0, count - stride, limit - stride) if with_overflow else [0]
    cuts = [(start, min(start + limit, count)) for start in starts]
    if side == "left":
        cuts = [(count - stop, count - start) for start, stop in cuts]
    return [WordEncoding(sentence, start, stop, has_markers) for start, stop in cuts]
