"""A tokenizer's rules for JavaScript: its own pattern over an alphabet of kinds of characters.

JavaScript's expressions lack Unicode's word boundaries and possessive repeats, and know another version of Unicode than
Python does. So each class of characters in the pattern (`\\p{WB=Extend}`, `[^\\s]`, a letter in any case) is asked of
`regex` over all code points, and code points that are in the same classes are one kind, written as one character of a
private alphabet. A text becomes its kinds, and the pattern, translated, cuts it where Python cuts it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import regex

from ..model.configuration_elmo import BOS_TOKEN, DICTIONARY_MARKS, EOS_TOKEN
from ..model.tokenization_elmo import (
    _ASCII_MARKS,
    _PATTERNS,
    _UNSEEN,
    _ZERO_WIDTH_SPACE,
    DictionaryCharacters,
    ElmoCharTokenizer,
)

_FIRST_KIND = 0xE000
# What `\X` is (UAX 29), of the `regex` at hand: in late releases a linker joins a consonant to whatever it follows.
_HANGUL = r"\p{GCB=L}*(?:\p{GCB=V}+|\p{GCB=LV}\p{GCB=V}*|\p{GCB=LVT})\p{GCB=T}*|\p{GCB=L}+|\p{GCB=T}+"
_PICTURE = r"\p{ExtPict}(?:\p{GCB=Extend}*\p{GCB=ZWJ}\p{ExtPict})*"
_SHOWN = r"[^\p{GCB=Control}\p{GCB=CR}\p{GCB=LF}\p{GCB=Prepend}]"
_MARKS = r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*"
_UNSEEN_LINKS = r"[\p{InCB=Extend}\p{InCB=Linker}]*"
_LINKS_ANY = regex.fullmatch(r"\X", "\u1bab\u0939") is not None
_BEFORE_LINK = "" if _LINKS_ANY else rf"\p{{InCB=Consonant}}{_UNSEEN_LINKS}"
_IS_LINKED = rf"(?<={_BEFORE_LINK}\p{{InCB=Linker}}{_UNSEEN_LINKS})"
_LINKED = rf"(?:{_MARKS}{_IS_LINKED}\p{{InCB=Consonant}})*{_MARKS}"
_CLUSTER = (
    rf"(?:\r\n|(?=[\p{{GCB=Extend}}\p{{GCB=ZWJ}}]){_LINKED}"
    rf"|\p{{GCB=Prepend}}*(?:{_HANGUL}|\p{{GCB=RI}}\p{{GCB=RI}}|{_PICTURE}|{_SHOWN}){_LINKED}"
    rf"|\p{{GCB=Prepend}}+{_LINKED}|[\s\S])"
)
# A class in brackets, one without, an escaped character, a group's opening, a repeat, and all else.
_PARTS = regex.compile(
    r"(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<end>\\Z)|(?P<property>\\[pP]\{[^}]*\}|\\[sS])"
    r"|(?P<literal>\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|\\.|[^()\[\]{}?*+|\\^$])"
    r"|(?P<group>\((?:\?(?:i:|:|<?[=!]))?)|(?P<close>\))|(?P<repeat>(?:[*+?]|\{\d+(?:,\d*)?\})(?P<how>[+?]?))|(?P<or>\|)"
)


class _Translation:
    """A pattern of `regex` in JavaScript's words: its text with `{n}` for the class of that number, and the classes."""

    def __init__(self, pattern: str):
        self.classes: list[str] = []
        self._num_groups = 0
        self.text, _ = self._read(list(_PARTS.finditer(pattern.replace(r"\X", _CLUSTER))), 0, False)

    def _class(self, source: str) -> str:
        if source not in self.classes:
            self.classes.append(source)
        return f"<{self.classes.index(source)}>"

    def _read(self, parts: list[Any], at: int, any_case: bool) -> tuple[str, int]:
        """The translation of what stands from part `at` to the end of its group, and where that is."""
        pieces: list[str] = []
        while at < len(parts):
            part = parts[at]
            if part["close"]:
                return "".join(pieces), at
            if part["group"]:
                opening = part["group"]
                inner, at = self._read(parts, at + 1, any_case or opening == "(?i:")
                pieces.append(f"{'(?:' if opening == '(?i:' else opening}{inner})")
            elif part["repeat"] and part["how"] == "+":
                # What was taken is not given back: a group that was looked at, then read again.
                self._num_groups += 1
                name = f"g{self._num_groups}"
                pieces[-1] = f"(?:(?=(?<{name}>{pieces[-1]}{part['repeat'][:-1]}))\\k<{name}>)"
            elif part["set"] or part["property"] or part["literal"]:
                pieces.append(self._class(f"(?i:{part[0]})" if any_case else part[0]))
            else:
                pieces.append("$" if part["end"] else part[0])
            at += 1
        return "".join(pieces), at


@cache
def _borders(source: str) -> np.ndarray:
    """Where a class begins and ends, in turn, among all code points."""
    if len(source) == 1 and source != ".":
        return np.array([ord(source), ord(source) + 1])
    spans = [match.span() for match in regex.finditer(f"(?:{source})+", _all_code_points(), regex.V1)]
    return np.array(spans, dtype=np.int64).ravel()


@cache
def _all_code_points() -> str:
    return "".join(map(chr, range(0x110000)))


def tokenizer_rules(tokenizer: ElmoCharTokenizer) -> dict[str, Any]:
    """All that tokenizer.js asks of a tokenizer, for JSON: the pattern, the kinds by code point, the scheme's ids."""
    translation = _Translation(_PATTERNS[tokenizer.pre_tokenizer].pattern)
    borders = [_borders(source) for source in translation.classes]
    starts = np.unique(np.concatenate([[0], *borders]))
    # Which classes the code points from each start on are in; those in the same ones are one kind.
    members = np.stack([np.searchsorted(each, starts, side="right") % 2 for each in borders])
    kinds, kind_of = np.unique(members, axis=1, return_inverse=True)
    texts = ["[" + "".join(chr(_FIRST_KIND + kind) for kind in np.flatnonzero(row)) + "]" for row in kinds]
    scheme = tokenizer._scheme
    characters = scheme.characters if isinstance(scheme, DictionaryCharacters) else None
    return {
        "pattern": regex.sub(r"<(\d+)>", lambda number: texts[int(number[1])], translation.text),
        "starts": np.diff(starts, prepend=0).tolist(),
        "kinds": kind_of.ravel().tolist(),
        "lower": tokenizer.do_lower_case,
        "normalization": tokenizer.normalization,
        "unseen": f"[{_UNSEEN}]" if tokenizer.drop_invisible else None,
        "space": _ZERO_WIDTH_SPACE,
        "marks": {chr(each): mark for each, mark in _ASCII_MARKS.items()} if tokenizer.ascii_marks else {},
        "width": tokenizer.max_characters_per_word,
        "begin": scheme.begin_word,
        "end": scheme.end_word,
        "padding": scheme.padding,
        "special": {BOS_TOKEN: scheme.special[BOS_TOKEN], EOS_TOKEN: scheme.special[EOS_TOKEN]},
        "characters": characters,
        "unknown": characters.index(DICTIONARY_MARKS[-1]) + 1 if characters else None,
    }
