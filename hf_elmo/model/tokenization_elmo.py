"""From text to the character ids of words: characters, pre-tokenizers, encodings and the tokenizer."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, product
from typing import Any, Literal, cast

import numpy as np
import regex
from transformers import AddedToken, BatchEncoding, PreTrainedTokenizer
from transformers.tokenization_utils_base import CharSpan, TokenSpan, TruncationStrategy
from transformers.utils import PaddingStrategy, to_py_obj

from .configuration_elmo import (
    BOS_TOKEN,
    DICTIONARY_MARKS,
    EOS_TOKEN,
    MAX_CHARACTERS_PER_WORD,
    NO_WORD,
    PAD_TOKEN,
    UNK_TOKEN,
    WORD_LIST_FILE,
    ByteCharacters,
    read_words,
    write_words,
)


class DictionaryCharacters(ByteCharacters):
    """The scheme of ELMoForManyLangs (Che et al. 2018): a word is its code points, with ids from a dictionary.

    A word is `<eow>`, its characters, `<bow>`, then `<pad>` up to the width: that program swaps the marks of begin and
    end, and its models have learned it so. A character that the dictionary lacks is `<oov>`. The words `<bos>` and
    `<eos>` are the special tokens, words of one character; here `<S>` and `</S>` are other names of them.

    Args:
        characters: The entries by id, from 1 on: code points, and the six marks.
    """

    def __init__(self, characters: Sequence[str]):
        self.characters = tuple(characters)
        self._ids = {character: index for index, character in enumerate(self.characters, start=1)}
        if missing := [mark for mark in DICTIONARY_MARKS if mark not in self._ids]:
            raise ValueError(f"characters lacks the mark {missing[0]!r}; it must hold {', '.join(DICTIONARY_MARKS)}.")
        if twice := [each for index, each in enumerate(self.characters, start=1) if self._ids[each] != index]:
            raise ValueError(f"characters holds {twice[0]!r} twice; each entry has one id.")
        begin, end, self.end_word, self.begin_word, self.padding, self._unknown = (
            self._ids[each] for each in DICTIONARY_MARKS
        )
        self.special = {BOS_TOKEN: begin, EOS_TOKEN: end}

    def normalize(self, word: str, width: int) -> str:
        """A word as a vocabulary has it: cut to what is read of it, special tokens by their names here."""
        word = {"<bos>": BOS_TOKEN, "<eos>": EOS_TOKEN}.get(word, word)
        return word if word in self.special else word[: width - 2]

    def encode(self, word: str, width: int) -> list[int]:
        return super().encode(self.normalize(word, width), width)

    def vocabulary(self) -> dict[str, int]:
        """The names of the ids; those of the special tokens are `<S>` and `</S>`."""
        names = {character: index for character, index in self._ids.items() if index not in self.special.values()}
        return {PAD_TOKEN: NO_WORD, **names, **self.special}

    def _characters(self, word: str, count: int) -> list[int]:
        return [self._ids.get(character, self._unknown) for character in word[:count]]

    def _text(self, char_ids: Sequence[int]) -> str:
        return "".join(self.characters[character - 1] for character in char_ids if character <= len(self.characters))


PRE_TOKENIZERS = ("whitespace", "punctuation", "unicode", "penn")

# White space is that of str.split(), with which corpora are read; \s alone lacks four control characters of it.
_SPACE = r"\s\x1c-\x1f"

# The word boundaries of UAX 29. A letter, digit or mark carries what is joined to it without being seen (WB4).
_JOINED = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"
_HEBREW = rf"\p{{WB=Hebrew_Letter}}{_JOINED}"
_LETTERS = rf"(?:\p{{WB=ALetter}}{_JOINED}|{_HEBREW}(?:'{_JOINED}|\"{_JOINED}(?={_HEBREW}))?+)++"
_DIGITS = rf"(?:\p{{WB=Numeric}}{_JOINED})++"
# Not the colon, which the standard allows inside a word for Swedish: "he said:yes" would be two words.
_INSIDE_LETTERS = rf"[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}--:]{_JOINED}"
_INSIDE_DIGITS = rf"[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_JOINED}"
_RUN = (
    rf"(?:(?:{_LETTERS}(?:{_INSIDE_LETTERS}{_LETTERS})*+|{_DIGITS}(?:{_INSIDE_DIGITS}{_DIGITS})*+)++"
    rf"|(?:\p{{WB=Katakana}}{_JOINED})++)"
)
_UNDERSCORE = rf"(?:\p{{WB=ExtendNumLet}}{_JOINED})"
_WORD = rf"(?:{_UNDERSCORE}*+{_RUN}(?:{_UNDERSCORE}++{_RUN})*+{_UNDERSCORE}*+|{_UNDERSCORE}++)"
# What the standard cuts and nobody wants cut: addresses (without the marks behind them), and U.S. with its last dot.
_ADDRESS = (
    r"(?i:https?://|ftp://|www\.)(?:[^\s()<>\"“”«»]|\([^\s()<>]*\))*"
    r"(?:[\p{L}\p{M}\p{N}/\#=&%~_+$@\-]|\([^\s()<>]*\))"
)
# The bound is that of the standard for mail; it also bounds the work in a text without any space.
_MAIL = r"[\p{L}\p{N}_][\p{L}\p{N}_.+%\-]{0,63}+@[\p{L}\p{N}\-]++(?:\.[\p{L}\p{N}\-]++)+"
_INITIALS = r"(?:\p{L}\p{M}*+\.){2,}+(?![\p{L}\p{M}\p{N}_])"
# All else is cut between the characters that a reader sees: emoji with all that is joined to them, flags, kana, signs.
_SEEN_CHARACTER = rf"(?=[^{_SPACE}])\X{_JOINED}"
UNICODE_RULES = (_ADDRESS, _MAIL, _INITIALS, _WORD, _SEEN_CHARACTER)
# Most of all text, found three times faster: plain letters before what ends every word, and ASCII's own marks.
UNICODE_SHORT_CUTS = (
    r"[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0410-\u044f\u3131-\u3163\u3165-\u318e\uac00-\ud7a3]++"
    r"(?![^\s,!?;)~.]|\.[^\s.])",
    r"[!-/:-@\[-\^`{-~](?=[\x00-\x7f]|\Z)",
)

# English as the Penn Treebank cuts it, web text too: n't, 's, 'll and their like are words, so are can and not.
_PART = r"[\p{L}\p{M}\p{N}]"
_APOSTROPHE = "['\u2019]"
_NO_PART_BEHIND, _NO_PART_BEFORE = rf"(?!{_PART})", rf"(?<!{_PART})"
_NEGATION = rf"(?i:n{_APOSTROPHE}t){_NO_PART_BEHIND}"
_BEFORE_NEGATION = rf"\p{{L}}+(?:[-'\u2019]\p{{L}}+)*?(?={_NEGATION})"
_CLITIC = rf"{_APOSTROPHE}(?i:s|re|ve|ll|d|m)(?!-?{_PART})"
_CONTRACTED = "|".join(
    rf"{first}(?={second}{_NO_PART_BEHIND})|(?<={_NO_PART_BEFORE}{first}){second}{_NO_PART_BEHIND}"
    for first, second in (("can", "not"), ("gon", "na"), ("got", "ta"), ("wan", "na"))
)
_BEFORE_CLITIC = rf"{_PART}+(?:[-'\u2019.&]{_PART}+)*?(?={_CLITIC})"
# Titles and other short forms whose dot is theirs wherever they stand; an initial's is where a name follows.
_SHORT_FORM = (
    rf"{_NO_PART_BEFORE}(?:(?i:mrs?|ms|dr|st|jr|sr)|Messrs|Mlle|Mme|Drs|Prof|Rev|Hon|Capt|Col|Gen|Lieut|Lt|Maj|Sergt|"
    r"Sgt|Gov|Sen|Rep|Esq|Co|Corp|Inc|Ltd|Bros|Mt|Ft|Nos?|[Vv]ols?|pp|etc|vs|cf|viz|"
    rf"Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.{_NO_PART_BEHIND}"
)
_INITIAL = r"(?<![\p{L}.])(?!I)\p{Lu}\.(?=\s*+[^\s\p{P}])(?!\p{L}\P{P})"
_COMPOUND = rf"{_PART}++(?:[-'\u2019._&]{_PART}++|(?<=\p{{N}})[,:/](?=\p{{N}}){_PART}++)*+"
_SAME_MARKS = "|".join(rf"{regex.escape(mark)}{{2,}}+" for mark in "-.!?*=#$~+_")
PENN_RULES = (
    *(_ADDRESS, _MAIL, f"(?i:{_CONTRACTED})", _BEFORE_NEGATION, _NEGATION, _CLITIC, _SHORT_FORM, _INITIALS),
    *(_BEFORE_CLITIC, _INITIAL, _COMPOUND, _SAME_MARKS, _SEEN_CHARACTER),
)
PENN_SHORT_CUT = r"(?!(?i:cannot|gonna|gotta|wanna)[\s,;!?])[A-Za-z]++(?=[\s,;!?])"

_PATTERNS = {
    "whitespace": regex.compile(rf"[^{_SPACE}]+"),
    # Combining marks belong to the letter before them: without \p{M} most words of Hindi or Thai would fall apart.
    "punctuation": regex.compile(rf"[\p{{L}}\p{{M}}\p{{N}}_]+|[^{_SPACE}\p{{L}}\p{{M}}\p{{N}}_]"),
    "unicode": regex.compile("|".join(UNICODE_SHORT_CUTS + UNICODE_RULES), regex.V1),
    "penn": regex.compile("|".join((PENN_SHORT_CUT, *PENN_RULES)), regex.V1),
}
# Text that a language model is given may name the special tokens: "<S>It rained." is one of them and three words.
_SPECIAL = f"{BOS_TOKEN}|{EOS_TOKEN}|{UNK_TOKEN}"


@cache
def _pattern_with_special_tokens(pre_tokenizer: str) -> regex.Pattern:
    others = _PATTERNS[pre_tokenizer].pattern if pre_tokenizer != "whitespace" else rf"(?:(?!{_SPECIAL})[^{_SPACE}])+"
    return regex.compile(f"{_SPECIAL}|{others}", regex.V1)


# What nobody sees: soft hyphens, marks of the direction of writing, word joiners and their like, byte order marks. Not
# the joiner of emoji and the non-joiner of Persian words (U+200D, U+200C), which change what is seen.
_UNSEEN = "\u00ad\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
_ZERO_WIDTH_SPACE = "\u200b"
# What editors and typesetters put for the marks of a keyboard.
_ASCII_MARKS = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "--", "\u2026": "..."}
)
_unseen = regex.compile(f"[{_UNSEEN}]")
_clusters = regex.compile(r"\X")


@dataclass(frozen=True)
class TextCutter:
    """How a tokenizer cuts raw text into words, and how it reads each; the fields are its arguments."""

    pre_tokenizer: str = "whitespace"
    normalization: Literal["NFC"] | None = None
    drop_invisible: bool = False
    ascii_marks: bool = False
    finds_special_tokens: bool = False

    @property
    def changes_words(self) -> bool:
        """Whether a word may be read otherwise than it is written."""
        return self.normalization is not None or self.drop_invisible or self.ascii_marks

    def pre_tokenize(self, text: str) -> list[str]:
        """The words of a text, normalized."""
        text = self._clean(text)
        if self.pre_tokenizer == "whitespace" and not self.finds_special_tokens:
            return text.split()
        return self._pattern.findall(text)

    def normalize_word(self, word: str) -> str:
        """A word that was given as such: it is normalized but never cut."""
        return self._clean(word.replace(_ZERO_WIDTH_SPACE, "") if self.drop_invisible else word)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each of the words in the text as it was given."""
        clean = self._clean(text)
        matches = self._pattern.finditer(clean)
        if clean == text:
            return [match.span() for match in matches]
        origins = list(self._origins(text))
        return [(origins[match.start()][0], origins[match.end() - 1][1]) for match in matches]

    @property
    def _pattern(self) -> regex.Pattern:
        find = _pattern_with_special_tokens if self.finds_special_tokens else _PATTERNS.__getitem__
        return find(self.pre_tokenizer)

    def _clean(self, text: str) -> str:
        if text.isascii():
            return text
        if self.drop_invisible:
            text = _unseen.sub("", text.replace(_ZERO_WIDTH_SPACE, " "))
        if self.normalization is not None:
            text = unicodedata.normalize(self.normalization, text)
        return text.translate(_ASCII_MARKS) if self.ascii_marks else text

    def _origins(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end in the text of what each character of the cleaned text came from."""
        seen = [index for index in range(len(text)) if not (self.drop_invisible and _unseen.match(text[index]))]
        # No composition reaches beyond a cluster of letter and marks, so that each can be composed on its own.
        for cluster in _clusters.finditer("".join(text[index] for index in seen)):
            start, end = cluster.span()
            composed = unicodedata.normalize(self.normalization, cluster[0]) if self.normalization else cluster[0]
            whole = None if composed == cluster[0] else (seen[start], seen[end - 1] + 1)
            for index, character in enumerate(composed, start):
                count = len(character.translate(_ASCII_MARKS)) if self.ascii_marks else 1
                yield from [whole or (seen[index], seen[index] + 1)] * count


@dataclass
class Sentence:
    """The words of one sentence, and the text that they were cut from and by what; None if they came as a list."""

    words: list[str]
    text: str | None = None
    cutter: TextCutter | None = None

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        """Start and end of each word: in the text, or of a list of words in the word itself."""
        if self.text is None or self.cutter is None:
            return [(0, len(word)) for word in self.words]
        return self.cutter.spans(self.text)


@dataclass(frozen=True)
class Frame:
    """The special tokens before and after the words of each sentence, and whether the last word comes first."""

    begin: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    reverse: bool = False

    @property
    def num_special(self) -> int:
        return len(self.begin) + len(self.end)

    def of_window(self, values: Any, window: range) -> Any:
        """The values of a sentence's words that stand in a window, in the order of the tokens."""
        values = values[window.start : window.stop]
        return values[::-1] if self.reverse else values


@dataclass
class WordEncoding:
    """One encoded sentence or pair: which word and which characters of the text each token stands for.

    Has what `BatchEncoding` asks of a `tokenizers.Encoding`. The answers are worked out when they are first asked for:
    most calls need the character ids alone.

    Args:
        parts: Each sentence and which of its words are encoded; two of them for a pair.
        frame: What stands around the words of each, and their order.
        padding_before: Tokens of zeros before all of them.
        padding_after: Tokens of zeros after all of them.
    """

    parts: tuple[tuple[Sentence, range], ...]
    frame: Frame
    padding_before: int = 0
    padding_after: int = 0

    def __post_init__(self) -> None:
        self.num_tokens = sum(len(window) + self.frame.num_special for _, window in self.parts)
        self.n_sequences = len(self.parts)

    def __len__(self) -> int:
        return self.padding_before + self.num_tokens + self.padding_after

    def pad(self, width: int, side: str) -> None:
        """Put padding on one side, so that there are `width` tokens; more than that stay as they are."""
        amount = max(0, width - self.num_tokens)
        self.padding_before, self.padding_after = (amount, 0) if side == "left" else (0, amount)

    def words(self) -> list[str]:
        """The words and special tokens, without padding."""
        words: list[str] = []
        for sentence, window in self.parts:
            words += [*self.frame.begin, *self.frame.of_window(sentence.words, window), *self.frame.end]
        return words

    def padded(self, values: list[Any], filler: Any) -> list[Any]:
        """A value for each token, with a filler for the padding."""
        return [filler] * self.padding_before + values + [filler] * self.padding_after

    def _per_word(self, values: Iterable[Iterable[Any]], filler: Any) -> list[Any]:
        """The values of each part's words as one of each token; special tokens and padding get the filler."""
        begin, end = ([filler] * len(each) for each in (self.frame.begin, self.frame.end))
        return self.padded([value for part in values for value in (*begin, *part, *end)], filler)

    @cached_property
    def tokens(self) -> list[str]:
        return self.padded(self.words(), "")

    @cached_property
    def word_ids(self) -> list[int | None]:
        return self._per_word((window[::-1] if self.frame.reverse else window for _, window in self.parts), None)

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        return self._per_word((self.frame.of_window(each.offsets, window) for each, window in self.parts), (0, 0))

    @cached_property
    def sequence_ids(self) -> list[int | None]:
        return self._per_word(([index] * len(window) for index, (_, window) in enumerate(self.parts)), None)

    @property
    def type_ids(self) -> list[int]:
        """Which sentence each token is of, special ones too; 0 for padding."""
        counts = [len(window) + self.frame.num_special for _, window in self.parts]
        return self.padded([index for index, count in enumerate(counts) for _ in range(count)], 0)

    @property
    def attention_mask(self) -> list[int]:
        return self.padded([1] * self.num_tokens, 0)

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
        for token, word in enumerate(zip(self.sequence_ids, self.word_ids, strict=True)):
            if word == (sequence_index, word_index):
                return TokenSpan(token, token + 1)
        return None

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


class CharIdCache(dict[str | None, bytes]):
    """The character ids of the words seen so far, 64 bits each, as the bytes of an array; None stands for no word.

    Args:
        width: Characters C of a word.
        scheme: What a word's characters are.
    """

    # Of all words together: 100,000 words of 50, some 40 MB.
    max_characters = 5_000_000

    def __init__(self, width: int, scheme: ByteCharacters):
        self.width = width
        self.scheme = scheme

    def __reduce__(self) -> tuple[type[CharIdCache], tuple[int, ByteCharacters]]:
        # What it holds can be made again, and datasets takes the pickle of a tokenizer for its fingerprint.
        return type(self), (self.width, self.scheme)

    def look_up(self, words: Sequence[str | None]) -> np.ndarray:
        """The character ids of words, (len(words), C)."""
        # In a bytearray, whose array can be written to.
        char_ids = np.frombuffer(bytearray().join(map(self.__getitem__, words)), dtype=np.int64)
        if len(self) * self.width > self.max_characters:
            self.clear()
        return char_ids.reshape(-1, self.width)

    def __missing__(self, word: str | None) -> bytes:
        characters = [] if word is None else self.scheme.encode(word, self.width)
        filler = NO_WORD if word is None else self.scheme.padding
        char_ids = np.array(characters + [filler] * (self.width - len(characters)), dtype=np.int64).tobytes()
        # Text without spaces has words of millions of letters.
        if word is None or len(word) <= self.width:
            self[word] = char_ids
        return char_ids


# A text to be cut into words, or the words themselves.
Text = str | list[str]


def batch_inputs(text: Any, text_pair: Any, is_split_into_words: bool) -> tuple[list[tuple[Text, ...]], bool]:
    """The sentences or pairs of a tokenizer's call, and whether they were a batch.

    Pairs come as two arguments or, in a batch, as lists of two: `[("a", "b"), ("c", "d")]`.
    """
    side = (list, tuple) if is_split_into_words else str
    if text_pair is None and not isinstance(text, str) and len(text):
        text = list(text)
        pairs = [each for each in text if isinstance(each, (list, tuple)) and len(each) == 2]
        if len(pairs) == len(text) and all(isinstance(part, side) for part in chain.from_iterable(pairs)):
            text, text_pair = map(list, zip(*pairs, strict=True))
    texts, is_batch = _as_batch("text", text, is_split_into_words)
    if text_pair is None:
        return [(sentence,) for sentence in texts], is_batch
    others, pair_is_batch = _as_batch("text_pair", text_pair, is_split_into_words)
    if is_batch != pair_is_batch or len(texts) != len(others):
        raise ValueError(f"text_pair holds {len(others)} sentences, but text {len(texts)}; give one for each of them.")
    return list(zip(texts, others, strict=True)), is_batch


def _as_batch(name: str, text: Any, is_split_into_words: bool) -> tuple[list[Text], bool]:
    """The sentences of one argument, and whether it was a batch."""
    text = list(text) if _is_list(text) else text
    is_batch = isinstance(text, list) and (not is_split_into_words or bool(text and not isinstance(text[0], str)))
    sentences = text if is_batch else [text]
    for sentence in sentences:
        is_right = _is_list_of_words(sentence) if is_split_into_words else isinstance(sentence, str)
        if not is_right:
            wanted = "lists of words, which are strings" if is_split_into_words else "strings"
            raise TypeError(
                f"{name} holds {repr(sentence)[:80]}; expected {wanted}. Lists of words need is_split_into_words=True, "
                "and nothing else does."
            )
    return [list(sentence) for sentence in sentences] if is_split_into_words else sentences, is_batch


def _is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, Mapping))


def _is_list_of_words(value: Any) -> bool:
    # Nearly always of one type; to look at each word costs more.
    return _is_list(value) and (set(map(type, value)) <= {str} or all(isinstance(word, str) for word in value))


def kept_lengths(lengths: list[int], max_length: int, num_special: int, strategy: TruncationStrategy) -> list[int]:
    """How many words of a sentence, or of each of a pair, are kept of `lengths` beside so many special tokens."""
    limit = max_length - num_special
    if limit <= 0:
        raise ValueError(f"max_length is {max_length}; {num_special} special tokens leave no room.")
    excess = sum(lengths) - limit
    if excess <= 0:
        return lengths
    if strategy == TruncationStrategy.LONGEST_FIRST:
        if len(lengths) == 1:
            return [limit]
        # An odd word is the longer one's.
        shorter = min(*lengths, limit // 2)
        return [shorter, limit - shorter] if lengths[0] <= lengths[1] else [limit - shorter, shorter]
    index = int(strategy == TruncationStrategy.ONLY_SECOND)
    if index >= len(lengths) or lengths[index] <= excess:
        # Pipelines look for "too short", and go on without truncation.
        raise ValueError(
            f"truncation is {strategy.value!r}, but that sentence is too short to take {excess} words from it; raise "
            f"max_length (it is {max_length}) or cut both with truncation=True."
        )
    return [length - excess if number == index else length for number, length in enumerate(lengths)]


def windows_of(count: int, limit: int, side: str, stride: int | None) -> list[range]:
    """Which `limit` of a sentence's words are kept where `side` is cut off; with a stride every window of so many."""
    if count <= limit:
        return [range(count)]
    if stride is not None and not 0 <= stride < limit:
        raise ValueError(f"stride is {stride}; it must be >= 0 and < {limit}, the words of a window.")
    starts = [0] if stride is None else range(0, count - stride, limit - stride)
    cuts = [(start, min(start + limit, count)) for start in starts]
    return [range(count - stop, count - start) if side == "left" else range(start, stop) for start, stop in cuts]


def rows_of_windows(windows: list[list[range]]) -> list[tuple[range, ...]]:
    """Each window of a sentence, or those of the first sentence of a pair, each beside each of the second.

    In the order of BERT's fast tokenizers: first what is there without overflow, then the further windows of the first
    sentence, then those of the second.
    """
    if len(windows) == 1:
        return list(zip(*windows, strict=True))
    firsts, seconds = windows
    return [*product(firsts[:1], seconds[:1]), *product(firsts[1:], seconds), *product(firsts[:1], seconds[1:])]


class ElmoCharTokenizer(PreTrainedTokenizer):
    """Turns sentences into the character ids of their words, for the ELMo models.

    `input_ids` is one level deeper than with other tokenizers: (sentences, words, characters). Everything else is one
    entry per word. The special tokens `<S>` and `</S>` are added around each sentence as BERT's are. There is no
    vocabulary of words and no unknown word: every string has its characters (see `ByteCharacters`).

    A pair, `tokenizer("a b", "c")`, is `<S> a b </S> <S> c </S>` in one row of the batch; its `token_type_ids` say
    which words are of the second sentence, and `ElmoModel` reads each sentence on its own. What is cut of pairs that
    are too long, and which windows overflow, is as with BERT's fast tokenizer.

    Words that another program has cut, a morphological analyzer of Korean for example or a segmenter of Thai, go in as
    lists: `tokenizer([["나", "는", "학교", "에"]], is_split_into_words=True)`; nothing cuts them further.

    Args:
        pre_tokenizer: How raw text is cut into words.
            "whitespace": at white space alone, for text whose words another program has set apart.
            "punctuation": runs of letters, digits and their combining marks; every other character stands alone.
            "unicode", for raw text: the word boundaries of Unicode (UAX 29), but addresses, "U.S." and what is seen as
            one emoji are a word. Han, hiragana and Thai are cut between characters.
            "penn", for raw English text: the tokens of the Penn Treebank ("do n't", "Alice 's", "well-known", "Mr.").
            Text that is tokenized so stays as it is.
        max_characters_per_word: Character ids C of a word, padded; longer words are cut to C - 2 bytes.
        do_lower_case: Whether words are lower-cased before their characters are read.
        normalization: "NFC" to compose letters and their accents; None reads the text as it is.
        drop_invisible: Whether soft hyphens, byte order marks, marks of direction and their like are left out, and a
            zero width space, which Thai and Khmer put between words, ends a word. What joins emoji and what parts the
            letters of a Persian word is kept.
        ascii_marks: Whether typographic quotes, dashes and ellipses are read as the marks of a keyboard, as they stand
            in most tokenized English.
        characters: The characters that words are made of where they are code points and not bytes, in the order of
            their ids from 1 on; see `DictionaryCharacters`, which models of ELMoForManyLangs are read with.

    All are saved with the tokenizer. Offsets point into the text as it was given, whatever is composed or left out.
    """

    _auto_class = "AutoTokenizer"
    # token_type_ids are made of pairs; of single sentences where they are asked for.
    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]

    def __init__(
        self,
        pre_tokenizer: str = "whitespace",
        max_characters_per_word: int = 50,
        do_lower_case: bool = False,
        normalization: Literal["NFC"] | None = None,
        drop_invisible: bool = False,
        ascii_marks: bool = False,
        characters: Sequence[str] | None = None,
        bos_token: str = BOS_TOKEN,
        eos_token: str = EOS_TOKEN,
        pad_token: str = PAD_TOKEN,
        **kwargs: Any,
    ):
        if pre_tokenizer not in PRE_TOKENIZERS:
            raise ValueError(f"pre_tokenizer is {pre_tokenizer!r}; it must be one of {sorted(PRE_TOKENIZERS)}.")
        if normalization not in (None, "NFC"):
            raise ValueError(f"normalization is {normalization!r}; it must be 'NFC', or None for the text as it is.")
        if not 3 <= max_characters_per_word <= MAX_CHARACTERS_PER_WORD:
            raise ValueError(
                f"max_characters_per_word is {max_characters_per_word}; it must be from 3 (two are the begin and the "
                f"end of a word) to {MAX_CHARACTERS_PER_WORD}, more than any word has bytes."
            )
        for name in ("is_local", "local_files_only"):
            # How its files were found; transformers would save that with it.
            kwargs.pop(name, None)
        # Before super().__init__, which asks for the vocabulary.
        self.characters = None if characters is None else tuple(characters)
        self._scheme = ByteCharacters() if self.characters is None else DictionaryCharacters(self.characters)
        self._cache = CharIdCache(max_characters_per_word, self._scheme)
        self._ids_of_names = self._make_vocabulary()
        self.pre_tokenizer = pre_tokenizer
        self.max_characters_per_word = max_characters_per_word
        self.do_lower_case = do_lower_case
        self.normalization = normalization
        self.drop_invisible = drop_invisible
        self.ascii_marks = ascii_marks
        if characters is not None:
            kwargs["characters"] = list(characters)
        super().__init__(
            pre_tokenizer=pre_tokenizer,
            max_characters_per_word=max_characters_per_word,
            do_lower_case=do_lower_case,
            normalization=normalization,
            drop_invisible=drop_invisible,
            ascii_marks=ascii_marks,
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            **kwargs,
        )

    @property
    def is_fast(self) -> bool:
        """True: encodings carry offsets and word ids, which is what transformers means by fast."""
        return True

    def _make_vocabulary(self) -> dict[str, int]:
        return self._scheme.vocabulary()

    @property
    def vocab_size(self) -> int:
        """Number of ids, that of the padding included."""
        return len(self._ids_of_names)

    def get_vocab(self) -> dict[str, int]:
        """The names of the ids."""
        return dict(self._ids_of_names)

    @property
    def pad_token_id(self) -> int:
        """0: zeros are no word."""
        return NO_WORD

    @property
    def bos_token_id(self) -> int:
        """The character id that `<S>` is made of."""
        return self._scheme.special[BOS_TOKEN]

    @property
    def eos_token_id(self) -> int:
        """The character id that `</S>` is made of."""
        return self._scheme.special[EOS_TOKEN]

    @property
    def all_special_ids(self) -> list[int]:
        # Not that of `<UNK>`: a reader of generated text should see where a word is missing.
        return list(dict.fromkeys((self.bos_token_id, self.eos_token_id, self.pad_token_id)))

    def _add_tokens(self, new_tokens: list[str] | list[AddedToken], special_tokens: bool = False) -> int:
        known = self.get_vocab()
        if unknown := [str(token) for token in new_tokens or [] if str(token) not in known]:
            raise ValueError(
                f"new_tokens holds {unknown[:3]}; {type(self).__name__} has no vocabulary to add to, and needs none: "
                "every string already has its characters."
            )
        return super()._add_tokens(new_tokens, special_tokens=special_tokens)

    def frame(self, add_special_tokens: bool) -> Frame:
        """What stands around the words of a sentence."""
        return Frame((BOS_TOKEN,), (EOS_TOKEN,)) if add_special_tokens else Frame()

    @property
    def cutter(self) -> TextCutter:
        """What cuts raw text into words, by the settings of the moment, which may be changed and are saved."""
        return TextCutter(self.pre_tokenizer, self.normalization, self.drop_invisible, self.ascii_marks)

    def tokenize(self, text: str, **kwargs: Any) -> list[str]:
        """Cut a text into its words, lower-cased and normalized where the tokenizer reads them so."""
        return cast("list[str]", self._lower_cased(self.cutter.pre_tokenize(text)))

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """The C character ids of a word, or those of each of a list of words; of words of a softmax the id of each."""
        ids = self._ids_of([tokens] if isinstance(tokens, str) else list(tokens))
        return ids[0] if isinstance(tokens, str) else ids

    def _ids_of(self, words: Sequence[str]) -> list[Any]:
        return self.encode_words(words).tolist()

    def convert_ids_to_tokens(
        self, ids: int | Sequence[int] | Sequence[Sequence[int]], skip_special_tokens: bool = False
    ) -> str | list[str]:
        """The word of C character ids, or the words of a list of such (without padding); of one id, its name."""
        values: Any = to_py_obj(ids)
        if isinstance(values, int):
            return {index: name for name, index in self.get_vocab().items()}[values]
        if values and isinstance(values[0], int):
            return self._scheme.decode(values)
        words = [word for word in values if any(word)]
        return [
            self._scheme.decode(word) for word in words if not (skip_special_tokens and self._scheme.is_special(word))
        ]

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str | list[str]:
        """Turn character ids back into words, joined by spaces; a batch of sentences gives a list of strings.

        Args:
            token_ids: (T, C) or (B, T, C) character ids, as lists, arrays or a tensor.
            skip_special_tokens: Whether to leave out `<S>` and `</S>`. Padding is always left out.
        """
        token_ids = to_py_obj(token_ids)
        if _is_batch(token_ids):
            return super().decode(token_ids, skip_special_tokens, **kwargs)
        return self._decode(token_ids, skip_special_tokens, **kwargs)

    def build_inputs_with_special_tokens(self, token_ids_0: list[Any], token_ids_1: list[Any] | None = None) -> Any:
        """The words of a sentence, or of both of a pair, each with its special tokens around them."""
        begin, end = (self._ids_of(each) for each in (self.frame(True).begin, self.frame(True).end))
        return [ids for part in (token_ids_0, token_ids_1) if part is not None for ids in (*begin, *part, *end)]

    def get_special_tokens_mask(
        self, token_ids_0: list[Any], token_ids_1: list[Any] | None = None, already_has_special_tokens: bool = False
    ) -> list[int]:
        """1 for special tokens and padding, 0 for words."""
        if already_has_special_tokens:
            return [int(self._is_special(ids)) for ids in to_py_obj(token_ids_0)]
        parts = [[0] * len(part) for part in (token_ids_0, token_ids_1) if part is not None]
        begin, end = ([1] * len(each) for each in (self.frame(True).begin, self.frame(True).end))
        return [mark for part in parts for mark in (*begin, *part, *end)]

    def _is_special(self, ids: Any) -> bool:
        return self._scheme.is_special(ids) or not any(ids)

    def encode_words(self, words: Sequence[str | None]) -> np.ndarray:
        """The character ids of words as one array, (len(words), C); None gives zeros, "no word here"."""
        return self._cache.look_up(self.normalize_words(words))

    def normalize_words(self, words: Sequence[str | None]) -> Sequence[str | None]:
        """Words as their characters are read and as a vocabulary has them: lower-cased and normalized where set so."""
        cutter, scheme, width = self.cutter, self._scheme, self.max_characters_per_word
        if cutter.changes_words:
            words = [None if word is None else cutter.normalize_word(word) for word in words]
        words = self._lower_cased(words)
        if self.characters is not None:
            words = [None if word is None else scheme.normalize(word, width) for word in words]
        return words

    def _lower_cased(self, words: Sequence[str | None]) -> Sequence[str | None]:
        if not self.do_lower_case:
            return words
        return [word if word in (None, BOS_TOKEN, EOS_TOKEN) else word.lower() for word in words]

    def _encode_plus(
        self,
        text: Any,
        text_pair: Any = None,
        add_special_tokens: bool = True,
        padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD,
        truncation_strategy: TruncationStrategy = TruncationStrategy.DO_NOT_TRUNCATE,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        **kwargs: Any,
    ) -> BatchEncoding:
        side = padding_side or self.padding_side
        if side not in ("left", "right"):
            raise ValueError(f"padding_side is {side!r}; it must be 'left' or 'right'.")
        samples, is_batch = batch_inputs(text, text_pair, is_split_into_words)
        frame, cutter = self.frame(bool(add_special_tokens)), self.cutter
        # Of words in reverse order it is the other end of the sentence that is cut off.
        cut_side = {"left": "right", "right": "left"}[self.truncation_side] if frame.reverse else self.truncation_side
        used_stride = stride if return_overflowing_tokens else None
        encodings: list[WordEncoding] = []
        sample_of_window: list[int] = []
        for index, sample in enumerate(samples):
            sentences = [
                Sentence(cutter.pre_tokenize(part), part, cutter) if isinstance(part, str) else Sentence(part)
                for part in sample
            ]
            limits = lengths = [len(sentence.words) for sentence in sentences]
            if truncation_strategy != TruncationStrategy.DO_NOT_TRUNCATE and max_length is not None:
                limits = kept_lengths(lengths, max_length, frame.num_special * len(sample), truncation_strategy)
            windows = [windows_of(*each, cut_side, used_stride) for each in zip(lengths, limits, strict=True)]
            rows = rows_of_windows(windows)
            encodings += [WordEncoding(tuple(zip(sentences, row, strict=True)), frame) for row in rows]
            sample_of_window += [index] * len(rows)
        if padding_strategy != PaddingStrategy.DO_NOT_PAD:
            width = max_length if padding_strategy == PaddingStrategy.MAX_LENGTH else None
            if width is None:
                width = max(map(len, encodings), default=0)
            width += -width % (pad_to_multiple_of or 1)
            for encoding in encodings:
                encoding.pad(width, side)
        lengths = sorted({len(encoding) for encoding in encodings})
        if return_tensors is not None and len(lengths) > 1:
            raise ValueError(
                f"return_tensors={return_tensors!r} needs sentences of one length, these have {lengths[0]} to "
                f"{lengths[-1]} words and special tokens; add padding=True, and truncation=True beside max_length."
            )
        if return_token_type_ids is None:
            return_token_type_ids = any(encoding.n_sequences > 1 for encoding in encodings)
        data: dict[str, Any] = self._ids(encodings)
        if return_attention_mask is not False:
            data["attention_mask"] = [encoding.attention_mask for encoding in encodings]
        if return_token_type_ids:
            data["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        if return_special_tokens_mask:
            data["special_tokens_mask"] = [encoding.special_tokens_mask for encoding in encodings]
        if return_offsets_mapping:
            data["offset_mapping"] = [encoding.offsets for encoding in encodings]
        if return_length:
            data["length"] = [len(encoding) for encoding in encodings]
        if return_overflowing_tokens:
            data["overflow_to_sample_mapping"] = sample_of_window
        if return_tensors is None:
            data = {key: _without_arrays(values) for key, values in data.items()}
            if not (is_batch or return_overflowing_tokens):
                data = {key: values[0] for key, values in data.items()}
        elif str(getattr(return_tensors, "value", return_tensors)) == "pt":
            import torch

            # transformers would copy what is there.
            data = {key: torch.from_numpy(np.asarray(values, dtype=np.int64)) for key, values in data.items()}
        # They answer all that it asks of the encodings of the Rust tokenizers.
        answers: Any = encodings
        n_sequences = encodings[0].n_sequences if encodings else 1
        return BatchEncoding(data, encoding=answers, tensor_type=return_tensors, n_sequences=n_sequences)

    def _ids(self, encodings: list[WordEncoding]) -> dict[str, Any]:
        """The ids of each sentence's tokens, padding included; one array if all sentences are of one length."""
        words = [word for encoding in encodings for word in encoding.padded(encoding.words(), None)]
        char_ids, lengths = self.encode_words(words), list(map(len, encodings))
        if len(set(lengths)) > 1:
            return {"input_ids": np.split(char_ids, np.cumsum(lengths)[:-1])}
        return {"input_ids": char_ids.reshape(len(lengths), max(lengths, default=0), char_ids.shape[1])}

    def pad(self, encoded_inputs: Any, *args: Any, **kwargs: Any) -> BatchEncoding:
        """As transformers' own, for words of C character ids: one encoded sentence, a batch, or a list of features."""
        is_single = isinstance(encoded_inputs, Mapping) and not _is_batch(encoded_inputs.get("input_ids", [[]]))
        if is_single:
            encoded_inputs = {key: [values] for key, values in encoded_inputs.items()}
        padded = super().pad(encoded_inputs, *args, **kwargs)
        if isinstance(padded["input_ids"], list):
            padded["input_ids"] = _without_arrays(padded["input_ids"])
        return BatchEncoding({key: values[0] for key, values in padded.items()}) if is_single else padded

    def _pad(self, encoded_inputs: Any, *args: Any, **kwargs: Any) -> dict:
        # transformers pads the numbers of the words with a 0, which is the number of a word of zeros here.
        ids = encoded_inputs["input_ids"]
        words = np.array([[NO_WORD] * self.max_characters_per_word, *ids], dtype=np.int64)
        padded = super()._pad({**encoded_inputs, "input_ids": [*range(1, len(words))]}, *args, **kwargs)
        return {**padded, "input_ids": words[padded["input_ids"]]}


def _without_arrays(values: Iterable[Any]) -> list[Any]:
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]


def _is_batch(ids: Any) -> bool:
    """Whether character ids are those of a batch of sentences, of which the first may be empty."""
    depth = _depth(ids)
    return depth == 3 or (depth == 2 and len(ids) > 0 and len(ids[0]) == 0)


def _depth(values: Any) -> int:
    if hasattr(values, "ndim"):
        return values.ndim
    return 1 + (_depth(values[0]) if values else 0) if isinstance(values, (list, tuple)) else 0


class ElmoWordTokenizer(ElmoCharTokenizer):
    """Turns sentences into the ids of their words in the softmax, for `ElmoForCausalLM`.

    Text is cut as the checkpoint's `ElmoCharTokenizer` cuts it, and `input_ids` has the usual shape (sentences, words).
    A word that the softmax lacks is `<UNK>`; with `return_character_ids` the model still reads it by its characters.
    `<S>`, `</S>` and `<UNK>` in a text are these tokens, and `</S>` is the padding too.

    `from_pretrained` reads any checkpoint with a word softmax; a directory that it was saved into gives it by
    `AutoTokenizer` too.

    Args:
        words_file: Of the words of the softmax, one per line; what `from_pretrained` finds in the checkpoint.
        direction: "backward" to give the words of each sentence from the last to the first, begun by `</S>` and ended
            by `<S>`, for a model of that direction. `decode` gives them in the order of reading.
        add_bos_token, add_eos_token: What stands around a sentence where special tokens are added; transformers saves
            neither.
        return_character_ids: Whether encodings hold `character_ids`, (sentences, words, characters), for the model;
            it can be changed at any time. They are padded in the call, not by `pad`.
        kwargs: As of `ElmoCharTokenizer`.
    """

    _auto_class = "AutoTokenizer"
    model_input_names = ["input_ids", "attention_mask"]
    vocab_files_names = {"words_file": WORD_LIST_FILE}

    def __init__(
        self,
        words_file: str | os.PathLike | None = None,
        direction: Literal["forward", "backward"] = "forward",
        add_bos_token: bool = True,
        add_eos_token: bool = False,
        return_character_ids: bool = False,
        **kwargs: Any,
    ):
        if words_file is None:
            raise ValueError(f"words_file is None; name a checkpoint that has a {WORD_LIST_FILE}, the softmax's words.")
        if direction not in ("forward", "backward"):
            raise ValueError(f"direction is {direction!r}; it must be 'forward' or 'backward'.")
        self.words = read_words(words_file)
        if missing := {BOS_TOKEN, EOS_TOKEN, UNK_TOKEN} - set(self.words):
            raise ValueError(f"words_file {str(words_file)!r} lacks {min(missing)}, which every softmax has.")
        self.direction, self.add_bos_token, self.add_eos_token = direction, add_bos_token, add_eos_token
        self.return_character_ids = return_character_ids
        # As an ElmoCharTokenizer saved them: ids of characters.
        kwargs.pop("added_tokens_decoder", None)
        begin, end = (BOS_TOKEN, EOS_TOKEN) if direction == "forward" else (EOS_TOKEN, BOS_TOKEN)
        special = {"bos_token": begin, "eos_token": end, "pad_token": EOS_TOKEN, "unk_token": UNK_TOKEN}
        super().__init__(
            words_file=words_file,
            direction=direction,
            return_character_ids=return_character_ids,
            **{**kwargs, **special},
        )

    @property
    def vocab_size(self) -> int:
        """Number of words of the softmax, the three special ones included."""
        return len(self.words)

    def _make_vocabulary(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        return (str(write_words(save_directory, self.words)),)

    @property
    def pad_token_id(self) -> int:
        return self._ids_of_names[str(self.pad_token)]

    @property
    def bos_token_id(self) -> int:
        return self._ids_of_names[str(self.bos_token)]

    @property
    def eos_token_id(self) -> int:
        return self._ids_of_names[str(self.eos_token)]

    @property
    def unk_token_id(self) -> int:
        return self._ids_of_names[UNK_TOKEN]

    @property
    def cutter(self) -> TextCutter:
        return replace(super().cutter, finds_special_tokens=True)

    def frame(self, add_special_tokens: bool) -> Frame:
        begin = (str(self.bos_token),) if add_special_tokens and self.add_bos_token else ()
        end = (str(self.eos_token),) if add_special_tokens and self.add_eos_token else ()
        return Frame(begin, end, reverse=self.direction == "backward")

    def tokenize(self, text: str, **kwargs: Any) -> list[str]:
        """Cut a text into its words, as they are read, in the order of the ids."""
        words = super().tokenize(text, **kwargs)
        return words[::-1] if self.direction == "backward" else words

    def _ids_of(self, words: Sequence[str]) -> list[int]:
        get, unknown = self._ids_of_names.get, self.unk_token_id
        return [get(cast(str, word), unknown) for word in self.normalize_words(words)]

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> str | list[str]:
        """The word of an id, or those of a list of ids."""
        ids = to_py_obj(ids)
        if isinstance(ids, int):
            return self.words[ids]
        return [self.words[index] for index in ids if not (skip_special_tokens and self._is_special(index))]

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str | list[str]:
        """Turn ids into words in the order of reading, joined by spaces; a batch gives a list of strings.

        What does not begin with the begin of a sentence goes on with a text: a space parts it from that.
        """
        token_ids = to_py_obj(token_ids)
        if isinstance(token_ids, int):
            token_ids = [token_ids]
        if token_ids and not isinstance(token_ids[0], int):
            return [cast(str, self.decode(each, skip_special_tokens)) for each in token_ids]
        words = cast("list[str]", self.convert_ids_to_tokens(token_ids, skip_special_tokens))
        if words and token_ids[0] != self.bos_token_id:
            words.insert(0, "")
        return " ".join(words[::-1] if self.direction == "backward" else words)

    def _is_special(self, ids: Any) -> bool:
        return ids in self.all_special_ids

    def _ids(self, encodings: list[WordEncoding]) -> dict[str, Any]:
        pad_id = self.pad_token_id
        rows = [encoding.padded(self._ids_of(encoding.words()), pad_id) for encoding in encodings]
        characters = {"character_ids": super()._ids(encodings)["input_ids"]} if self.return_character_ids else {}
        return {"input_ids": rows, **characters}

    # Ids are plain numbers here, which transformers pads by itself.
    pad = PreTrainedTokenizer.pad
    _pad = PreTrainedTokenizer._pad
