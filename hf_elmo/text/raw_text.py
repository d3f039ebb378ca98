"""Rules of thumb for raw text: whether a text looks like it, and where its sentences end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, takewhile
from typing import Any

import regex

_NUM_LINES = 1000
_MARKS, _CLOSING = r"[\p{Terminal_Punctuation}…]", r"[\"'\p{Pf}\p{Pe}]"
_MARK_ALONE = regex.compile(rf"{_MARKS}+\Z")
_MARK_AT_WORD = regex.compile(rf"[\p{{L}}\p{{M}}\p{{N}}]{_CLOSING}*{_MARKS}+{_CLOSING}*\Z")
# Tokenized text has fewer than one in a hundred (Mr., U.S.), raw text of any language one in ten.
_UNCUT_FRACTION = 0.03
# Sentences have some hundred characters, paragraphs a thousand.
_LONG_LINE = 2000
_ABBREVIATIONS = "|".join(
    "Mr Mrs Ms Mme Mlle Dr Prof Rev Hon St Ste Sr Jr Gen Col Capt Lt Sgt Maj Gov Sen Rep Pres Messrs vs etc".split()
    + "No Nos Vol pp Fig cf Inc Ltd Co Corp Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec".split()
)
_NO_END = rf"(?<=\b(?:{_ABBREVIATIONS}|[^\P{{Uppercase}}I]))\.(?![.!?…\"'”’»)\]])"  # noqa: RUF001
# Marks that end a sentence, with the quotes and brackets that close behind them; no space follows those of Chinese. The
# first of a row of marks begins it: from each of thousands the search would be anew.
_END = regex.compile(
    rf"(?:(?!{_NO_END})(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s)|(?<![。！？])[。！？]++[」』”’）]*+)"  # noqa: RUF001
    r"(?![\"'“‘«(\[「『\-–— \t\r\n]*+\p{Lowercase})"  # noqa: RUF001
)


def look_at(lines: Iterable[Any], name: str, pre_tokenizer: str, can_choose: bool = True) -> Iterator[str]:
    """A warning for each thing that a user should know before a text is used.

    Args:
        lines: The text, of which the first lines are looked at, up to the first list of words.
        name: What to call the text, the argument that names it.
        pre_tokenizer: How the run will cut it.
        can_choose: Whether the run can cut it otherwise; one that continues from a checkpoint cannot.
    """
    texts = takewhile(lambda line: isinstance(line, str), lines)
    first = list(islice(filter(None, map(str.split, texts)), _NUM_LINES))
    words = list(chain.from_iterable(first))
    uncut = [word for word in words if _MARK_AT_WORD.search(word)]
    fraction, num_marks = len(uncut) / max(len(words), 1), sum(map(bool, map(_MARK_ALONE.match, words)))
    if pre_tokenizer == "whitespace" and fraction > _UNCUT_FRACTION and len(uncut) > num_marks:
        remedy = "pass --pre_tokenizer unicode" if can_choose else "cut it as the checkpoint's text was cut"
        yield (
            f"{name} looks like raw text: {fraction:.0%} of its first {len(words):,} words end in a punctuation mark "
            f"({uncut[0]!r}), and each such word counts as another one than the bare word; {remedy}, or give text "
            "whose words are set apart by spaces."
        )
    average = (sum(map(len, words)) + len(words)) // max(len(first), 1)
    if average > _LONG_LINE:
        yield (
            f"{name} has lines of {average:,} characters on average, but each line is taken for a sentence; put one "
            "sentence on each line."
        )


def cut_sentences(paragraph: str) -> Iterator[tuple[int, int]]:
    """The sentences of a paragraph, as their first character and the one behind their last, without space around them.

    A sentence ends at `.`, `!`, `?` or `…` before white space, where the next word does not begin in lower case, and at
    `。`, `！` and `？` anywhere. An initial (`J.`) and some English abbreviations (`Mr.`) end none.
    """
    start = 0
    for stop in (*(mark.end() for mark in _END.finditer(paragraph)), len(paragraph)):
        part = paragraph[start:stop]
        if part.strip():
            yield start + len(part) - len(part.lstrip()), start + len(part.rstrip())
        start = stop
