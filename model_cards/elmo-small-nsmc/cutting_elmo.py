"""Raw text cut into words, and where in the text each of them stands."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import regex

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
