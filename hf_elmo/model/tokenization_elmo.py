"""From text to rows of character ids: characters, pre-tokenizers, encodings and the tokenizer."""

from __future__ import annotations

import difflib
import functools
import inspect
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np
import regex
from transformers import AddedToken, BatchEncoding, PreTrainedTokenizer
from transformers.tokenization_utils_base import CharSpan, TokenSpan, TruncationStrategy
from transformers.utils import PaddingStrategy, is_torch_tensor, to_py_obj

from .configuration_elmo import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    BOS_TOKEN,
    DICTIONARY_MARKS,
    END_SENTENCE,
    END_WORD,
    EOS_TOKEN,
    MARKER_WORDS,
    MAX_CHARACTERS_PER_WORD,
    NO_WORD,
    NUM_CHARACTERS,
    PAD_CHARACTER,
    PAD_TOKEN,
    SENTENCE_MARKERS,
    decode_row,
)

_DICTIONARY_MARKERS = {"<bos>": BOS_TOKEN, "<eos>": EOS_TOKEN}


def encode_word(word: str, max_characters: int = 50) -> list[int]:
    """Turn a word into its row of character ids (Peters et al. 2018; the byte scheme of bilm-tf).

    A row is BEGIN_WORD, the word's UTF-8 bytes shifted by one, END_WORD, then PAD_CHARACTER up to the width. At most
    `max_characters - 2` bytes are kept; the cut falls between bytes, as in the released models, even inside a code
    point. Code points that UTF-8 cannot hold (lone surrogates) are left out. The words `<S>` and `</S>` are the
    sentence markers: a single character of their own between BEGIN_WORD and END_WORD.

    Args:
        word: Any string, the empty one included.
        max_characters: Width C of the row.
    Returns: C ids.
    """
    row = word_characters(word, max_characters)
    return row + [PAD_CHARACTER] * (max_characters - len(row))


def word_characters(word: str, max_characters: int) -> list[int]:
    """The row of a word (see `encode_word`) up to its END_WORD, without the padding after it."""
    marker = SENTENCE_MARKERS.get(word)
    if marker is not None:
        return [BEGIN_WORD, marker, END_WORD]
    kept = word.encode("utf-8", "ignore")[: max_characters - 2]
    return [BEGIN_WORD, *[byte + 1 for byte in kept], END_WORD]


def is_marker_row(row: list[int]) -> bool:
    """Whether a row of character ids is that of a sentence marker, `<S>` or `</S>`."""
    return len(row) > 2 and row[0] == BEGIN_WORD and row[1] in MARKER_WORDS and row[2] == END_WORD


@functools.cache
def character_vocabulary() -> Mapping[str, int]:
    """The names of the 262 character ids: printable ASCII as itself, other bytes as `<0xNN>`, and the special ones."""
    names = {PAD_TOKEN: NO_WORD}
    for byte in range(256):
        printable = 0x20 < byte < 0x7F
        names[chr(byte) if printable else f"<0x{byte:02X}>"] = byte + 1
    names.update(SENTENCE_MARKERS)
    names.update({"<W>": BEGIN_WORD, "</W>": END_WORD, "<CHARACTER_PAD>": PAD_CHARACTER})
    return MappingProxyType(names)


class ByteCharacters:
    """The byte scheme of bilm-tf, whose ids are those above."""

    size = NUM_CHARACTERS
    begin_sentence, end_sentence, padding = BEGIN_SENTENCE, END_SENTENCE, PAD_CHARACTER

    def word_as_read(self, word: str, width: int) -> str:
        """A word as a vocabulary has it, which is as it was given."""
        return word

    def word_characters(self, word: str, width: int) -> list[int]:
        """As the function of this name."""
        return word_characters(word, width)

    def decode_row(self, row: Sequence[int]) -> str:
        """As the function of this name."""
        return decode_row(list(row))

    def is_marker_row(self, row: Sequence[int]) -> bool:
        """As the function of this name."""
        return is_marker_row(list(row))

    def vocabulary(self) -> dict[str, int]:
        """As `character_vocabulary`, to be changed at will."""
        return dict(character_vocabulary())


class DictionaryCharacters:
    """The scheme of ELMoForManyLangs (Che et al. 2018): a word is its code points, with ids from a dictionary.

    A row is `<eow>`, the word's characters, `<bow>`, then `<pad>` up to the width: that program swaps the marks of
    begin and end, and its models have learned it so. A character that the dictionary lacks is `<oov>`. The words
    `<bos>` and `<eos>` are the sentence markers, rows of one character; here `<S>` and `</S>` are other
    names of them.

    Args:
        characters: The entries by id, from 1 on: code points, and the six marks.
    Raises: ValueError naming a mark that is missing or an entry that stands twice; TypeError for no list of strings.
    """

    def __init__(self, characters: Sequence[str]):
        if isinstance(characters, str) or not all(isinstance(character, str) for character in characters):
            raise TypeError(f"characters is {repr(characters)[:80]}; wanted a list of strings.")
        self.characters = tuple(characters)
        self._ids = {character: index for index, character in enumerate(self.characters, start=1)}
        missing = [mark for mark in DICTIONARY_MARKS if mark not in self._ids]
        if missing:
            raise ValueError(f"characters lacks the mark {missing[0]!r}; it must hold {', '.join(DICTIONARY_MARKS)}.")
        if len(self._ids) < len(self.characters):
            twice = next(each for place, each in enumerate(self.characters, start=1) if self._ids[each] != place)
            raise ValueError(f"characters holds {twice!r} twice; each entry has one id.")
        begin, end, self._word_end, self._word_begin, self.padding, self._unknown = (
            self._ids[mark] for mark in DICTIONARY_MARKS
        )
        self.begin_sentence, self.end_sentence = begin, end
        self.size = len(self.characters) + 1
        self._marker_characters = {BOS_TOKEN: begin, EOS_TOKEN: end}
        self._marker_words = {begin: BOS_TOKEN, end: EOS_TOKEN}

    def word_as_read(self, word: str, width: int) -> str:
        """A word as a vocabulary has it: cut to what a row holds of it, and sentence markers by their names here."""
        return _DICTIONARY_MARKERS.get(word, word if word in self._marker_characters else word[: width - 2])

    def word_characters(self, word: str, width: int) -> list[int]:
        """The row of a word up to its padding."""
        word = self.word_as_read(word, width)
        marker = self._marker_characters.get(word)
        get, unknown = self._ids.get, self._unknown
        kept = [get(character, unknown) for character in word] if marker is None else [marker]
        return [self._word_begin, *kept, self._word_end]

    def decode_row(self, row: Sequence[int]) -> str:
        """The word of a row; `<oov>` stands for characters that the dictionary lacks."""
        kept = []
        for character in row[1:]:
            if character in (self._word_end, self.padding, NO_WORD):
                break
            kept.append(character)
        if len(kept) == 1 and kept[0] in self._marker_words:
            return self._marker_words[kept[0]]
        return "".join(self.characters[character - 1] for character in kept if character <= len(self.characters))

    def is_marker_row(self, row: Sequence[int]) -> bool:
        """Whether a row is that of a sentence marker."""
        return len(row) > 2 and row[0] == self._word_begin and row[1] in self._marker_words

    def vocabulary(self) -> dict[str, int]:
        """The names of the ids; those of the sentence markers are `<S>` and `</S>`."""
        names = {_DICTIONARY_MARKERS.get(character, character): index for character, index in self._ids.items()}
        return {PAD_TOKEN: NO_WORD, **names}


CharacterScheme = ByteCharacters | DictionaryCharacters


PRE_TOKENIZERS = ("whitespace", "punctuation", "unicode", "penn")
NORMALIZATIONS = (None, "NFC")

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
    """How a tokenizer cuts raw text into words, and how it reads each.

    Args:
        pre_tokenizer: "whitespace", "punctuation", "unicode" or "penn"; see `ElmoCharTokenizer`.
        normalization: "NFC" to compose letters and their accents before the text is cut; None for the text as it is.
        drop_invisible: Whether soft hyphens, marks of direction and their like are left out; a zero width space,
            which Thai and Khmer put between words, then ends a word as a space does.
        ascii_marks: Whether typographic quotes, dashes and ellipses are read as the marks of a keyboard.
    """

    pre_tokenizer: str = "whitespace"
    normalization: Literal["NFC"] | None = None
    drop_invisible: bool = False
    ascii_marks: bool = False

    @property
    def changes_words(self) -> bool:
        """Whether a word may be read otherwise than it is written."""
        return self.normalization is not None or self.drop_invisible or self.ascii_marks

    def words(self, text: str) -> list[str]:
        """The words of a text, normalised."""
        text = self._clean(text)
        return text.split() if self.pre_tokenizer == "whitespace" else _PATTERNS[self.pre_tokenizer].findall(text)

    def word_as_read(self, word: str) -> str:
        """A word that was given as such: it is normalised but never cut."""
        if word.isascii() or not self.changes_words:
            return word
        if self.drop_invisible:
            word = word.replace(_ZERO_WIDTH_SPACE, "")
        return self._clean(word)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each of `words` in the text as it was given."""
        clean = self._clean(text)
        found = _PATTERNS[self.pre_tokenizer].finditer(clean)
        if clean == text:
            return [match.span() for match in found]
        starts, ends = zip(*self._origins(text), strict=True) if clean else ((), ())
        return [(starts[match.start()], ends[match.end() - 1]) for match in found]

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
        for character, origin in self._composed(text):
            yield from [origin] * (len(character.translate(_ASCII_MARKS)) if self.ascii_marks else 1)

    def _composed(self, text: str) -> Iterator[tuple[str, tuple[int, int]]]:
        """The characters that are seen, composed, each with start and end in the text of what it came from."""
        places = list(range(len(text)))
        if self.drop_invisible:
            places = [place for place in places if not _unseen.match(text[place])]
        if self.normalization is None:
            yield from ((text[place], (place, place + 1)) for place in places)
            return
        seen = "".join(text[place] for place in places)
        # No composition reaches beyond a cluster of letter and marks, so that each can be composed on its own.
        for cluster in _clusters.finditer(seen):
            composed = unicodedata.normalize(self.normalization, cluster[0])
            start, end = cluster.span()
            if composed == cluster[0]:
                yield from ((text[place], (place, place + 1)) for place in places[start:end])
            else:
                yield from ((character, (places[start], places[end - 1] + 1)) for character in composed)


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


class RowTable(dict[str | tuple[int, ...] | None, int]):
    """The places of the words seen so far among their rows.

    A word that is too long for a row is kept by what its row has of it: text without spaces has words of millions of
    letters.

    Args:
        width: Characters C of a row.
        scheme: What a word's characters are.
    """

    max_words = 100_000
    # Of all rows together; some 40 MB.
    max_characters = 5_000_000

    _rows: np.ndarray

    def __init__(self, width: int, scheme: CharacterScheme):
        self.width = width
        self.scheme = scheme
        self._lock = threading.Lock()  # threads of a server may share a tokenizer
        self._forget()

    def __reduce__(self) -> tuple[type[RowTable], tuple[int, CharacterScheme]]:
        # What it holds can be made again, and datasets takes the pickle of a tokenizer for its fingerprint.
        return type(self), (self.width, self.scheme)

    def look_up(self, words: Sequence[str | None]) -> tuple[np.ndarray, np.ndarray]:
        """All rows, (N, C), and the place of each word among them; None stands for no word, the row of zeros."""
        with self._lock:
            places = np.fromiter(map(self.__getitem__, words), dtype=np.intp, count=len(words))
            rows = self._rows
            if len(self) > min(self.max_words, self.max_characters // self.width):
                self._forget()
        # They can be read without the lock: what is learnt from now on goes to other places or to other arrays.
        return rows, places

    def __missing__(self, word: str | None) -> int:
        if word is None:
            return 0
        # Without its padding, which is there already.
        characters = self.scheme.word_characters(word, self.width)
        key = word if len(word) <= self.width else tuple(characters)
        known = self.get(key)
        if known is not None:
            return known
        place = len(self) + 1
        if place == len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, self.scheme.padding)])
        self._rows[place, : len(characters)] = characters
        self[key] = place
        return place

    def _forget(self) -> None:
        self.clear()
        self._rows = np.full((1024, self.width), self.scheme.padding, dtype=np.int64)
        self._rows[0] = NO_WORD


# A text to be cut into words, or the words themselves.
Text = str | list[str]


def as_samples(text: Any, text_pair: Any, is_split_into_words: bool) -> tuple[list[tuple[Text, ...]], bool]:
    """The sentences or pairs of a tokenizer's call, and whether they were a batch.

    Pairs come as two arguments or, in a batch, as lists of two: `[("a", "b"), ("c", "d")]`.

    Raises: TypeError or ValueError naming the argument, its place and what was found there.
    """
    if text_pair is None and not isinstance(text, str) and hasattr(text, "__len__"):
        text = list(text)
        if text and _is_pair(text[0], is_split_into_words):
            for position, pair in enumerate(text):
                if not _is_pair(pair, is_split_into_words):
                    raise TypeError(f"text[{position}] is no pair, as text[0] is one; give pairs alone, or none.")
            text, text_pair = map(list, zip(*text, strict=True))
    texts, is_batch = _as_batch("text", text, is_split_into_words)
    if text_pair is None:
        return [(sentence,) for sentence in texts], is_batch
    others, pair_is_batch = _as_batch("text_pair", text_pair, is_split_into_words)
    if is_batch != pair_is_batch:
        kinds = [f"a {'batch' if batch else 'single sentence'}" for batch in (is_batch, pair_is_batch)]
        raise TypeError(f"text_pair is {kinds[1]}, but text is {kinds[0]}; give both as one or the other.")
    if len(texts) != len(others):
        raise ValueError(
            f"text_pair holds {len(others)} sentences, but text holds {len(texts)}; give one for each of them."
        )
    return list(zip(texts, others, strict=True)), is_batch


def _is_pair(item: Any, is_split_into_words: bool) -> bool:
    side = (list, tuple) if is_split_into_words else str
    return isinstance(item, (list, tuple)) and len(item) == 2 and all(isinstance(part, side) for part in item)


def _as_batch(name: str, text: Any, is_split_into_words: bool) -> tuple[list[Text], bool]:
    """The sentences of one argument, and whether it was a batch."""
    if isinstance(text, str):
        if is_split_into_words:
            raise TypeError(
                f"{name} is a string but is_split_into_words=True; give a list of words, or leave the flag out."
            )
        return [text], False
    if not isinstance(text, (list, tuple)) and not hasattr(text, "__len__"):
        raise TypeError(f"{name} is a {type(text).__name__}; wanted a string or a list.")
    text = list(text)
    if not is_split_into_words:
        for position, sentence in enumerate(text):
            if not isinstance(sentence, str):
                raise TypeError(
                    f"{name}[{position}] is a {type(sentence).__name__}; wanted a string. For sentences that are lists "
                    "of words, pass is_split_into_words=True."
                )
        return text, True
    is_batch = bool(text) and not isinstance(text[0], str)
    sentences = text if is_batch else [text]
    for position, sentence in enumerate(sentences):
        if isinstance(sentence, str) or not hasattr(sentence, "__len__"):
            raise TypeError(
                f"{name}[{position}] is a {type(sentence).__name__}; wanted a list of words, as its mates are."
            )
        if set(map(type, sentence)) <= {str}:  # nearly always; the loop costs more
            continue
        for place, word in enumerate(sentence):
            if not isinstance(word, str):
                where = f"{name}[{position}][{place}]" if is_batch else f"{name}[{place}]"
                raise TypeError(f"{where} is a {type(word).__name__}; words are strings.")
    return [list(sentence) for sentence in sentences], is_batch


@dataclass(frozen=True)
class Truncation:
    """How long a row may be, and what becomes of the rest.

    Args:
        strategy: Which sentence of a pair is cut: the longer one first until both are of one length, only the first or
            only the second.
        max_length: Most rows, the markers included; None for no limit.
        side: Where words are cut off, "right" or "left".
        with_overflow: Whether what is cut off is encoded too, in windows of the same length.
        stride: Words that two such windows share.
    """

    strategy: TruncationStrategy
    max_length: int | None
    side: str
    with_overflow: bool
    stride: int

    def encode(self, sample: tuple[Sentence, ...], has_markers: bool) -> list[WordEncoding]:
        """Encode a sentence or a pair, cut where it is too long; with overflow, each window of it.

        Of a pair each window of the first sentence stands beside each of the second: first those that are there
        without overflow, then the further ones of the first sentence, then those of the second.

        Raises: ValueError naming max_length, truncation or stride where no word would be left.
        """
        if self.strategy == TruncationStrategy.DO_NOT_TRUNCATE or self.max_length is None:
            windows = tuple([Window(sentence, 0, len(sentence.words)) for sentence in sample])
            return [WordEncoding(windows, has_markers)]
        lengths = [len(sentence.words) for sentence in sample]
        limits = self._limits(lengths, self.max_length, markers=2 * has_markers * len(sample))
        firsts, *others = (self._cut(sentence, limit) for sentence, limit in zip(sample, limits, strict=True))
        if not others:
            return [WordEncoding((window,), has_markers) for window in firsts]
        seconds = others[0]
        pairs = [*product(firsts[:1], seconds[:1]), *product(firsts[1:], seconds), *product(firsts[:1], seconds[1:])]
        return [WordEncoding(pair, has_markers) for pair in pairs]

    def _limits(self, lengths: list[int], max_length: int, markers: int) -> list[int]:
        """How many words of each sentence are kept."""
        if max_length <= markers:
            raise ValueError(f"max_length is {max_length}; with {markers} sentence markers it must be > {markers}.")
        limit = max_length - markers
        excess = sum(lengths) - limit
        if excess <= 0:
            return lengths
        if self.strategy == TruncationStrategy.LONGEST_FIRST:
            return [limit] if len(lengths) == 1 else _even_limits(lengths, limit)
        index = int(self.strategy == TruncationStrategy.ONLY_SECOND)
        if index >= len(lengths):
            raise ValueError(
                f"truncation is {self.strategy.value!r}, but there is no second sentence to cut; give text_pair, or "
                "truncation=True."
            )
        if lengths[index] <= excess:
            # Pipelines look for "too short", and go on without truncation.
            raise ValueError(
                f"truncation is {self.strategy.value!r}, but that sentence of {lengths[index]} words is too short to "
                f"take {excess} from it; raise max_length (it is {max_length}) or cut both with truncation=True."
            )
        return [length - excess if place == index else length for place, length in enumerate(lengths)]

    def _cut(self, sentence: Sentence, limit: int) -> list[Window]:
        """The words of a sentence that are kept; with overflow every window of that many."""
        count = len(sentence.words)
        if count <= limit:
            return [Window(sentence, 0, count)]
        if self.with_overflow and not 0 <= self.stride < limit:
            raise ValueError(
                f"stride is {self.stride}; it must be >= 0 and less than the {limit} words that fit in a window."
            )
        starts = range(0, count - self.stride, limit - self.stride) if self.with_overflow else [0]
        cuts = [(start, min(start + limit, count)) for start in starts]
        if self.side == "left":
            cuts = [(count - stop, count - start) for start, stop in cuts]
        return [Window(sentence, start, stop) for start, stop in cuts]


def _even_limits(lengths: list[int], limit: int) -> list[int]:
    """What is left of the two sentences of a pair when the longer one is cut first; an odd word is the longer one's."""
    shorter = min(*lengths, limit // 2)
    longer = limit - shorter
    return [shorter, longer] if lengths[0] <= lengths[1] else [longer, shorter]


_FIXED_TOKENS = {"bos_token": BOS_TOKEN, "eos_token": EOS_TOKEN, "pad_token": PAD_TOKEN}


class ElmoCharTokenizer(PreTrainedTokenizer):
    """Turns sentences into rows of character ids, one row per word, for the ELMo models.

    `input_ids` is one level deeper than with other tokenizers: (sentences, words, characters). Everything else is one
    entry per word. The sentence markers `<S>` and `</S>` are added around each sentence as BERT's are. There is no
    vocabulary of words and no unknown word: every string has a row (see `encode_word`).

    A pair, `tokenizer("a b", "c")`, is `<S> a b </S> <S> c </S>` in one row of the batch; its `token_type_ids` say
    which words are of the second sentence, and `ElmoModel` reads each sentence on its own. What is cut of pairs that
    are too long, and which windows overflow, is as with BERT's fast tokenizer.

    Words that another program has cut, a morphological analyser of Korean for example or a segmenter of Thai, go in as
    lists: `tokenizer([["나", "는", "학교", "에"]], is_split_into_words=True)`; nothing cuts them further. In files for
    pre-training they stand with a space between them, for the pre-tokenizer "whitespace".

    Args:
        pre_tokenizer: How raw text is cut into words. Saved with the tokenizer, so that a checkpoint knows how its
            text was cut. Lists of words are never cut.
            "whitespace": at white space alone, for text whose words another program has set apart.
            "punctuation": runs of letters, digits and their combining marks; every other character stands alone, so
            that "don't", "U.S." and "3.14" fall into three and more.
            "unicode", for raw text: the word boundaries of Unicode (UAX 29). "don't", "3.14", "1,234" and "a_b" are a
            word each; so are web and mail addresses, "U.S." with its dots, an emoji with all that is joined to it and
            a flag. Every other mark is a word, a hyphen too. Han, hiragana and Thai, written without spaces, are cut
            between characters; runs of katakana and of hangul stay whole.
            "penn", for raw English text: the tokens of the Penn Treebank, in which most tagged and parsed English
            stands ("do n't", "Alice 's", "can not", "well-known", "Mr.", "--"). Text that is tokenised so stays as it
            is.
        max_characters_per_word: Width C of a row; longer words are cut to C - 2 bytes.
        do_lower_case: Whether words are lower-cased before their characters are read.
        normalization: "NFC" to compose letters and their accents; None reads the text as it is.
        drop_invisible: Whether soft hyphens, byte order marks, marks of direction and their like are left out, and a
            zero width space ends a word. What joins emoji and what parts the letters of a Persian word is kept.
        ascii_marks: Whether typographic quotes, dashes and ellipses are read as the marks of a keyboard, as they stand
            in most tokenised English.
        characters: The characters that a row is made of where they are code points and not bytes, in the order of their
            ids from 1 on; see `DictionaryCharacters`, which models of ELMoForManyLangs are read with.

    Offsets point into the text as it was given, whatever is composed or left out.

    Raises: ValueError or TypeError naming the argument, the value got and the value wanted.
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
        if normalization not in NORMALIZATIONS:
            raise ValueError(f"normalization is {normalization!r}; it must be 'NFC', or None for the text as it is.")
        is_width = isinstance(max_characters_per_word, int) and not isinstance(max_characters_per_word, bool)
        if not is_width or not 3 <= max_characters_per_word <= MAX_CHARACTERS_PER_WORD:
            raise ValueError(
                f"max_characters_per_word is {max_characters_per_word!r}; it must be an integer from 3 (two places go "
                f"to the begin- and end-of-word marks) to {MAX_CHARACTERS_PER_WORD}, more than any word has bytes."
            )
        for name in ("is_local", "local_files_only"):
            # How its files were found; transformers would save that with it.
            kwargs.pop(name, None)
        for name in kwargs:
            # transformers has many more settings, and keeps those of others; only slips of the pen are told.
            if meant := _meant(name, ElmoCharTokenizer.__init__):
                raise TypeError(f"{name!r} is no setting of ElmoCharTokenizer{meant}.")
        switches = {"do_lower_case": do_lower_case, "drop_invisible": drop_invisible, "ascii_marks": ascii_marks}
        for name, value in switches.items():
            if not isinstance(value, bool):
                raise TypeError(f"{name} is {value!r}; it must be True or False.")
        # Before all else, for the checks that setting anything makes.
        self._scheme: CharacterScheme = ByteCharacters() if characters is None else DictionaryCharacters(characters)
        if characters is not None:
            kwargs["characters"] = list(characters)
        self._check_special_tokens({"bos_token": bos_token, "eos_token": eos_token, "pad_token": pad_token, **kwargs})
        self.pre_tokenizer = pre_tokenizer
        self.normalization = normalization
        self.drop_invisible = drop_invisible
        self.ascii_marks = ascii_marks
        self.max_characters_per_word = max_characters_per_word
        self.do_lower_case = do_lower_case
        self._table = RowTable(max_characters_per_word, self._scheme)
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

    # What it knows

    @property
    def is_fast(self) -> bool:
        """True: encodings carry offsets and word ids, which is what transformers means by fast."""
        return True

    @property
    def vocab_size(self) -> int:
        """Number of character ids, the padding id 0 included."""
        return self._scheme.size

    @property
    def characters(self) -> tuple[str, ...] | None:
        """The characters of a row by their ids, from 1 on; None for bytes."""
        return self._scheme.characters if isinstance(self._scheme, DictionaryCharacters) else None

    def get_vocab(self) -> dict[str, int]:
        """The names of the character ids."""
        return self._scheme.vocabulary()

    @property
    def pad_token_id(self) -> int:
        """0: a row of zeros is no word."""
        return NO_WORD

    @property
    def bos_token_id(self) -> int:
        """The character id inside the row of `<S>`."""
        return self._scheme.begin_sentence

    @property
    def eos_token_id(self) -> int:
        """The character id inside the row of `</S>`."""
        return self._scheme.end_sentence

    @property
    def all_special_ids(self) -> list[int]:
        return [self._scheme.begin_sentence, self._scheme.end_sentence, NO_WORD]

    def __setattr__(self, key: str, value: Any) -> None:
        name = key.removesuffix("_id")
        if name in self.SPECIAL_TOKENS_ATTRIBUTES:
            key, value = name, value if name == key or value is None else self.convert_ids_to_tokens(value)
            self._check_special_tokens({name: value})
        super().__setattr__(key, value)

    def add_special_tokens(self, special_tokens_dict: dict[str, Any], replace_extra_special_tokens: bool = True) -> int:
        """Give names to tokens that exist already; others are refused before anything is changed.

        Raises: ValueError naming the token that is neither a marker nor a character.
        """
        self._check_special_tokens(special_tokens_dict or {})
        return super().add_special_tokens(special_tokens_dict, replace_extra_special_tokens)

    def _add_tokens(self, new_tokens: list[str] | list[AddedToken], special_tokens: bool = False) -> int:
        self._check_known("new_tokens", new_tokens or [])
        return super()._add_tokens(new_tokens, special_tokens=special_tokens)

    def _check_special_tokens(self, tokens: Mapping[str, Any]) -> None:
        """Check special tokens by name: those of the sentence are fixed, others must be among the characters."""
        for name, token in tokens.items():
            if name in _FIXED_TOKENS:
                if str(token) != _FIXED_TOKENS[name]:
                    raise ValueError(
                        f"{name} is {str(token)!r}; the character scheme fixes it to {_FIXED_TOKENS[name]!r}."
                    )
            elif name in ("extra_special_tokens", "additional_special_tokens"):
                self._check_known(name, token.values() if isinstance(token, Mapping) else token or [])
            elif name in self.SPECIAL_TOKENS_ATTRIBUTES and token is not None:
                self._check_known(name, [token])

    def _check_known(self, name: str, tokens: Iterable[str | AddedToken]) -> None:
        known = self._scheme.vocabulary()
        unknown = [str(token) for token in tokens if str(token) not in known]
        if unknown:
            raise ValueError(
                f"{name} holds {unknown[:3]}; ElmoCharTokenizer has no word vocabulary to add to, and needs none: "
                "every string already has its row of characters."
            )

    # Text to words, words to rows

    @property
    def _cutter(self) -> TextCutter:
        # Made anew each time: its settings may be changed, and are then saved.
        return TextCutter(self.pre_tokenizer, self.normalization, self.drop_invisible, self.ascii_marks)

    def tokenize(self, text: str, **kwargs: Any) -> list[str]:
        """Cut a text into its words, lower-cased and normalised where the tokenizer reads them so."""
        if not isinstance(text, str):
            raise TypeError(f"text is a {type(text).__name__}; tokenize takes a string.")
        return cast("list[str]", self._lower_cased(self._cutter.words(text)))

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> list[int] | list[list[int]]:
        """The row of a word, C ids, or the rows of a list of words."""
        if isinstance(tokens, str):
            return self.encode_words([tokens])[0].tolist()
        return self.encode_words(list(tokens)).tolist()

    def convert_ids_to_tokens(
        self, ids: int | Sequence[int] | Sequence[Sequence[int]], skip_special_tokens: bool = False
    ) -> str | list[str]:
        """The word of a row, or the words of a list of rows (without padding); of a single id, its character's name."""
        values: Any = to_py_obj(ids)
        if isinstance(values, int):
            if not 0 <= values < self.vocab_size:
                raise ValueError(f"ids is {values}; character ids are 0 to {self.vocab_size - 1}.")
            return next(name for name, index in self.get_vocab().items() if index == values)
        if values and isinstance(values[0], int):
            return self._scheme.decode_row(values)
        is_marker = self._scheme.is_marker_row
        return [
            self._scheme.decode_row(row) for row in values if any(row) and not (skip_special_tokens and is_marker(row))
        ]

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str | list[str]:
        """Turn rows back into their words, joined by spaces; a batch of sentences gives a list of strings.

        Args:
            token_ids: (T, C) or (B, T, C) character ids, as lists, arrays or a tensor.
            skip_special_tokens: Whether to leave out `<S>` and `</S>`. Padding is always left out.
        """
        token_ids = to_py_obj(token_ids)
        if _is_batch(token_ids):
            return [cast(str, self.decode(sentence, skip_special_tokens)) for sentence in token_ids]
        if token_ids and isinstance(token_ids[0], int):
            token_ids = [token_ids]
        words = self.convert_ids_to_tokens(token_ids, skip_special_tokens=skip_special_tokens)
        return self.convert_tokens_to_string(cast("list[str]", words))

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[list[int]], token_ids_1: list[list[int]] | None = None
    ) -> list[list[int]]:
        """Rows of a sentence, or of both of a pair, each with the rows of its markers around them."""
        begin, end = self.encode_words([BOS_TOKEN, EOS_TOKEN]).tolist()
        second = [] if token_ids_1 is None else [begin, *token_ids_1, end]
        return [begin, *token_ids_0, end, *second]

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[list[int]], token_ids_1: list[list[int]] | None = None
    ) -> list[int]:
        """0 for each row of a sentence and of its markers, 1 for those of the second sentence of a pair."""
        second = [] if token_ids_1 is None else [1] * (len(token_ids_1) + 2)
        return [0] * (len(token_ids_0) + 2) + second

    def get_special_tokens_mask(
        self,
        token_ids_0: list[list[int]],
        token_ids_1: list[list[int]] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """1 for markers and padding, 0 for words."""
        if already_has_special_tokens:
            return [int(self._scheme.is_marker_row(row) or not any(row)) for row in to_py_obj(token_ids_0)]
        second = [] if token_ids_1 is None else [1, *[0] * len(token_ids_1), 1]
        return [1, *[0] * len(token_ids_0), 1, *second]

    def encode_words(self, words: Sequence[str | None]) -> np.ndarray:
        """The rows of a list of words as one array, (len(words), C); None gives the row of zeros, "no word here"."""
        rows, places = self._table.look_up(self.words_as_read(words))
        return rows.take(places, axis=0)

    def words_as_read(self, words: Sequence[str | None]) -> Sequence[str | None]:
        """Words as their characters are read and as a vocabulary has them: lower-cased and normalised where set so."""
        cutter = self._cutter
        if cutter.changes_words:
            words = [None if word is None else cutter.word_as_read(word) for word in words]
        words = self._lower_cased(words)
        if isinstance(self._scheme, DictionaryCharacters):
            width, as_read = self.max_characters_per_word, self._scheme.word_as_read
            words = [None if word is None else as_read(word, width) for word in words]
        return words

    def _lower_cased(self, words: Sequence[str | None]) -> Sequence[str | None]:
        if not self.do_lower_case:
            return words
        return [word if word in (None, BOS_TOKEN, EOS_TOKEN) else word.lower() for word in words]

    # Encoding

    def _get_padding_truncation_strategies(
        self,
        padding: Any = False,
        truncation: Any = None,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        **kwargs: Any,
    ) -> Any:
        # transformers divides by it.
        if pad_to_multiple_of is not None and pad_to_multiple_of < 1:
            raise ValueError(f"pad_to_multiple_of is {pad_to_multiple_of}; it must be None or an integer >= 1.")
        return super()._get_padding_truncation_strategies(padding, truncation, max_length, pad_to_multiple_of, **kwargs)

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
        verbose: bool = True,
        split_special_tokens: bool | None = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        for name in kwargs:
            # Other versions of transformers pass more; only slips of the pen are told.
            if meant := _meant(name, PreTrainedTokenizer.__call__):
                raise TypeError(f"{name!r} is no argument of a tokenizer's call{meant}.")
        side = _checked_side(padding_side or self.padding_side)
        samples, is_batch = as_samples(text, text_pair, is_split_into_words)
        truncation = Truncation(
            truncation_strategy, max_length, self.truncation_side, return_overflowing_tokens, stride
        )
        encodings: list[WordEncoding] = []
        sample_of_row: list[int] = []
        for index, sample in enumerate(self._as_sentences(samples)):
            windows = truncation.encode(sample, bool(add_special_tokens))
            encodings += windows
            sample_of_row += [index] * len(windows)
        lengths = [encoding.num_rows for encoding in encodings]
        width = _padded_length(lengths, padding_strategy, max_length, pad_to_multiple_of)
        if width is not None:
            for encoding in encodings:
                encoding.pad(width, side)
        if return_tensors is not None and len(set(map(len, encodings))) > 1:
            raise ValueError(
                f"return_tensors={return_tensors!r} wants sentences of one length, but these have from {min(lengths)} "
                f"to {max(lengths)} words (markers included); add padding=True, and truncation=True beside max_length."
            )
        if return_tensors is not None and not encodings:
            raise ValueError("text is an empty batch: there is nothing to make tensors of. Leave empty batches out.")
        input_ids, attention_mask = self._rows_and_mask(encodings)
        data: dict[str, Any] = {"input_ids": input_ids}
        has_pairs = any(encoding.n_sequences > 1 for encoding in encodings)
        if return_token_type_ids or (return_token_type_ids is None and has_pairs):
            data["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        if return_attention_mask is not False:
            data["attention_mask"] = attention_mask
        if return_special_tokens_mask:
            data["special_tokens_mask"] = [encoding.special_tokens_mask for encoding in encodings]
        if return_offsets_mapping:
            data["offset_mapping"] = [encoding.offsets for encoding in encodings]
        if return_length:
            data["length"] = [len(encoding) for encoding in encodings]
        if return_overflowing_tokens:
            data["overflow_to_sample_mapping"] = sample_of_row
            is_batch = True
        if return_tensors is not None:
            # transformers' conversion walks nested lists one by one; an array is taken as it is.
            data = {key: np.asarray(value) for key, value in data.items()}
        else:
            data = {key: _as_lists(value) for key, value in data.items()}
            if not is_batch:
                data = {key: value[0] for key, value in data.items()}
        return _batch_encoding(data, encodings, return_tensors)

    def _as_sentences(self, samples: list[tuple[Text, ...]]) -> Iterator[tuple[Sentence, ...]]:
        cutter = self._cutter
        for sample in samples:
            sentences = [
                Sentence(cutter.words(text), text, cutter) if isinstance(text, str) else Sentence(text)
                for text in sample
            ]
            yield tuple(sentences)

    def _rows_and_mask(
        self, encodings: list[WordEncoding]
    ) -> tuple[np.ndarray | list[np.ndarray], np.ndarray | list[np.ndarray]]:
        """For each sentence its rows, (T, C), and a mask, (T,): 1 for words and markers, 0 for padding."""
        words = list(chain.from_iterable(encoding.row_words() for encoding in encodings))
        rows, places = self._table.look_up(self.words_as_read(words))
        counts = [(encoding.padding_before, encoding.num_rows, encoding.padding_after) for encoding in encodings]
        has_word = np.repeat(np.tile([False, True, False], len(counts)), np.array(counts, dtype=np.intp).ravel())
        # Rows of 400 bytes are most of the work: they are written once, the padding with them.
        padded_places = np.zeros(len(has_word), dtype=np.intp)
        padded_places[has_word] = places
        lengths = [len(encoding) for encoding in encodings]
        return _split(rows.take(padded_places, axis=0), lengths), _split(has_word.astype(np.int64), lengths)

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str | PaddingStrategy = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Pad one encoded sentence or a batch of them; as transformers' own, for rows.

        Args:
            encoded_inputs: An encoding, a dict of lists, or a list of dicts as a data collator gets them. Entries other
                than the tokenizer's own pass through unchanged.
            padding: True or "longest", "max_length", or False.
            max_length: Length in words for padding="max_length".
            pad_to_multiple_of: Lengths are rounded up to a multiple of this.
            padding_side: "left" or "right"; None takes the tokenizer's.
            return_attention_mask: False leaves the attention mask out.
            return_tensors: "pt", "np" or None for lists.
        """
        features = encoded_inputs
        if isinstance(features, (list, tuple)) and features and isinstance(features[0], Mapping):
            features = {key: [feature[key] for feature in features] for key in features[0]}
        if not isinstance(features, Mapping) or "input_ids" not in features:
            found = list(features) if isinstance(features, Mapping) else type(features).__name__
            raise ValueError(f"encoded_inputs holds {found}; wanted the tokenizer's output with 'input_ids' in it.")
        features = dict(features)
        ids = features["input_ids"]
        if return_tensors is None and len(ids):
            first = ids if is_torch_tensor(ids) or isinstance(ids, np.ndarray) else ids[0]
            return_tensors = "pt" if is_torch_tensor(first) else "np" if isinstance(first, np.ndarray) else None
        features = {key: to_py_obj(value) if key != "input_ids" else value for key, value in features.items()}
        is_batch = _is_batch(ids)
        if not is_batch:
            features = {key: [value] for key, value in features.items()}
        sentences = [self._as_rows(sentence) for sentence in features["input_ids"]]
        lengths = [len(sentence) for sentence in sentences]
        strategy, _, max_length, _ = self._get_padding_truncation_strategies(
            padding=padding, max_length=max_length, pad_to_multiple_of=pad_to_multiple_of, verbose=verbose
        )
        width = _padded_length(lengths, strategy, max_length, pad_to_multiple_of)
        side = _checked_side(padding_side or self.padding_side)
        if return_attention_mask is not False and "attention_mask" not in features:
            features["attention_mask"] = [[1] * length for length in lengths]
        if width is not None:
            sentences = [_pad_array(sentence, width, side) for sentence in sentences]
            for key, filler in (("attention_mask", 0), ("token_type_ids", 0), ("special_tokens_mask", 1)):
                if key in features:
                    features[key] = [_pad_list(list(values), filler, width, side) for values in features[key]]
        stacked = return_tensors is not None
        features["input_ids"] = _stack(sentences) if stacked else [sentence.tolist() for sentence in sentences]
        if return_attention_mask is False:
            features.pop("attention_mask", None)
        if not is_batch:
            features = {key: (np.asarray(value) if stacked else value)[0] for key, value in features.items()}
        return BatchEncoding(features, tensor_type=return_tensors)

    def _as_rows(self, sentence: Any) -> np.ndarray:
        """The rows of an encoded sentence, (T, C)."""
        rows, width = np.asarray(sentence, dtype=np.int64), self.max_characters_per_word
        if rows.size == 0:
            return rows.reshape(0, width)
        if rows.shape[1:] != (width,):
            raise ValueError(f"input_ids holds a sentence of the shape {rows.shape}; wanted (words, {width}).")
        return rows


def _meant(name: str, function: Callable) -> str:
    """What to say of the argument of a function that was probably meant; nothing where none is near."""
    known = inspect.signature(function).parameters.keys() - _FIXED_TOKENS.keys()
    if name in known:
        return ""
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return f"; {nearest[0]!r} is near to it" if nearest else ""


def _checked_side(side: str) -> str:
    if side not in ("left", "right"):
        raise ValueError(f"padding_side is {side!r}; it must be 'left' or 'right'.")
    return side


def _padded_length(
    lengths: list[int], strategy: PaddingStrategy, max_length: int | None, pad_to_multiple_of: int | None
) -> int | None:
    """The length in words that every sentence is padded to; None without padding."""
    if strategy == PaddingStrategy.DO_NOT_PAD or not lengths:
        return None
    width = max_length if strategy == PaddingStrategy.MAX_LENGTH and max_length is not None else max(lengths)
    if pad_to_multiple_of:
        width = -(-width // pad_to_multiple_of) * pad_to_multiple_of
    return width


def _pad_array(sentence: np.ndarray, width: int, side: str) -> np.ndarray:
    amount = max(0, width - len(sentence))
    return np.pad(sentence, ((amount, 0) if side == "left" else (0, amount), (0, 0)))


def _pad_list(values: list[int], filler: int, width: int, side: str) -> list[int]:
    padding = [filler] * (width - len(values))
    return padding + values if side == "left" else values + padding


def _stack(sentences: list[np.ndarray]) -> Any:
    lengths = sorted(set(map(len, sentences)))
    if len(lengths) > 1:
        raise ValueError(
            f"input_ids holds sentences of {lengths[0]} to {lengths[-1]} words; tensors want padding=True."
        )
    return np.stack(sentences) if sentences else []


def _split(values: np.ndarray, lengths: list[int]) -> np.ndarray | list[np.ndarray]:
    """Values of sentences end to end, cut apart: one array where all are of one length, otherwise a list of them."""
    if len(set(lengths)) > 1:
        return np.split(values, np.cumsum(lengths)[:-1])
    return values.reshape(len(lengths), max(lengths, default=0), *values.shape[1:])


def _as_lists(values: Iterable[Any]) -> list[Any]:
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]


def _is_batch(ids: Any) -> bool:
    """Whether ids are those of a batch of sentences, of which the first may be empty."""
    depth = _nesting(ids)
    return depth == 3 or (depth == 2 and len(ids) > 0 and len(ids[0]) == 0)


def _nesting(values: Any) -> int:
    """How deep a list, array or tensor of ids is nested; 3 for a batch of sentences of rows."""
    if hasattr(values, "ndim"):
        return values.ndim
    if isinstance(values, (list, tuple)):
        return 1 + max((_nesting(value) for value in values[:1]), default=0)
    return 0


def _batch_encoding(data: dict[str, Any], encodings: list[WordEncoding], return_tensors: str | None) -> BatchEncoding:
    """A BatchEncoding that also answers word_ids(), char_to_token() and their like."""
    if str(getattr(return_tensors, "value", return_tensors)) == "pt":
        import torch

        data = {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in data.items()}
    # They answer all that it asks of the encodings of the Rust tokenizers.
    answers: Any = encodings
    n_sequences = encodings[0].n_sequences if encodings else 1
    return BatchEncoding(data, encoding=answers, tensor_type=return_tensors, n_sequences=n_sequences)
