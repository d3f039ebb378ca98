"""What the first lines and the names of a text's files tell before it is read: whether it can be what a run wants."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, takewhile
from typing import Any

import regex

_NUM_LINES = 1000
_MARKS, _CLOSING = r"[\p{Terminal_Punctuation}…]", r"[\"'\p{Pf}\p{Pe}]"
_MARK_ALONE = regex.compile(rf"{_MARKS}+\Z")
_MARK_AT_WORD = regex.compile(rf"[\p{{L}}\p{{M}}\p{{N}}]{_CLOSING}*{_MARKS}+{_CLOSING}*\Z")
# Tokenised text has fewer than one in a hundred (Mr., U.S.), raw text of any language one in ten.
_UNCUT_FRACTION = 0.03
# Sentences have some hundred characters, paragraphs a thousand.
_LONG_LINE = 2000
_EXAMPLES = 3


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
        examples = ", ".join(map(repr, dict.fromkeys(uncut[:_EXAMPLES])))
        remedy = "pass --pre_tokenizer unicode" if can_choose else "cut it as the checkpoint's text was cut"
        yield (
            f"{name} looks like raw text: {fraction:.0%} of its first {len(words):,} words end in a punctuation mark "
            f"({examples}), and each such word counts as another one than the bare word; {remedy}, or give text whose "
            "words are set apart by spaces."
        )
    average = (sum(map(len, words)) + len(words)) // max(len(first), 1)
    if average > _LONG_LINE:
        yield (
            f"{name} has lines of {average:,} characters on average, but each line is taken for a sentence; put one "
            "sentence on each line."
        )


def files_in_both(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The files of the second list that stand in the first one too, under the same name or as a copy."""
    sizes = {file: os.path.getsize(file) for file in (*first, *second)}
    return [
        file
        for file in second
        if any(sizes[file] == sizes[other] and filecmp.cmp(file, other, shallow=False) for other in first)
    ]
