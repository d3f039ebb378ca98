"""Where sentences end in running text, by a simple rule."""

from __future__ import annotations

from collections.abc import Iterator

import regex

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
