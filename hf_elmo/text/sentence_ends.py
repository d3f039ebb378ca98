"""Where sentences end in running text, by a simple rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Marks that end a sentence, with the quotes and brackets that close behind them; no space follows those of Chinese. The
# first of a row of marks begins it: from each of thousands the search would be anew.
_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[」』”’）]*")  # noqa: RUF001
_OPENING = re.compile("[\"'“‘«(\\[「『\\-–— \t\r\n]*")  # noqa: RUF001
_LAST_WORD = re.compile(r"(\w+)\.$")
# Characters before a mark that are looked at, more than any abbreviation has.
_LOOKED_AT = 20
_ABBREVIATIONS = frozenset(
    "Mr Mrs Ms Mme Mlle Dr Prof Rev Hon St Ste Sr Jr Gen Col Capt Lt Sgt Maj Gov Sen Rep Pres Messrs vs etc".split()
    + "No Nos Vol pp Fig cf Inc Ltd Co Corp Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec".split()
)


def cut_sentences(paragraph: str) -> Iterator[tuple[int, int]]:
    """The sentences of a paragraph, as their first character and the one behind their last, without space around them.

    A sentence ends at `.`, `!`, `?` or `…` before white space, where the next word does not begin in lower case, and at
    `。`, `！` and `？` anywhere. An initial (`J.`) and some English abbreviations (`Mr.`) end none.
    """
    start = 0
    for mark in _END.finditer(paragraph):
        if _ends(paragraph, mark):
            yield from _stripped(paragraph, start, mark.end())
            start = mark.end()
    yield from _stripped(paragraph, start, len(paragraph))


def _ends(paragraph: str, mark: re.Match[str]) -> bool:
    opened = _OPENING.match(paragraph, mark.end())
    if opened is not None and paragraph[opened.end() : opened.end() + 1].islower():
        return False
    last = _LAST_WORD.search(paragraph, max(0, mark.start() - _LOOKED_AT), mark.start() + 1)
    is_period = mark.group() == "."
    return not (
        is_period
        and last is not None
        and (last[1] in _ABBREVIATIONS or (len(last[1]) == 1 and last[1].isupper() and last[1] != "I"))
    )


def _stripped(paragraph: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    part = paragraph[start:stop]
    if part.strip():
        start += len(part) - len(part.lstrip())
        yield start, start + len(part.strip())
