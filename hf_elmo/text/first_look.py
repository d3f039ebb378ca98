"""What the first lines and the names of a text's files tell before it is read: whether it can be what a run wants."""

from __future__ import annotations

import filecmp
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

import regex

from .corpora import Corpus

_NUM_LINES = 1000
_MARKS, _CLOSING = r"[\p{Terminal_Punctuation}…]", r"[\"'\p{Pf}\p{Pe}]"
_MARK_ALONE = regex.compile(rf"{_MARKS}+\Z")
_MARK_AT_WORD = regex.compile(rf"[\p{{L}}\p{{M}}\p{{N}}]{_CLOSING}*{_MARKS}+{_CLOSING}*\Z")
# Tokenised text has fewer than one in a hundred (Mr., U.S.), raw text of any language one in ten.
_UNCUT_SHARE = 0.03
# Sentences have some hundred characters, paragraphs a thousand.
_LONG_LINE = 2000
_EXAMPLES = 3


@dataclass
class FirstLook:
    """What the first lines of a text hold.

    Args:
        num_lines: Lines with words that were looked at.
        is_whole: Whether there are no more.
        num_words: Their words, parted by white space.
        num_characters: Their characters.
        num_marks: Words that are punctuation marks.
        uncut: Words that end in one.
    """

    num_lines: int
    is_whole: bool
    num_words: int
    num_characters: int
    num_marks: int
    uncut: list[str]

    def warnings(self, name: str, pre_tokenizer: str, can_choose: bool = True) -> Iterator[str]:
        """A line for each thing that a user should know before the text is used.

        Args:
            name: What to call the text, the argument that names it.
            pre_tokenizer: How the run will cut it.
            can_choose: Whether the run can cut it otherwise; one that goes on from a checkpoint cannot.
        """
        marks = len(self.uncut) / max(self.num_words, 1)
        if pre_tokenizer == "whitespace" and marks > _UNCUT_SHARE and len(self.uncut) > self.num_marks:
            examples = ", ".join(map(repr, dict.fromkeys(self.uncut[:_EXAMPLES])))
            remedy = "pass --pre_tokenizer unicode" if can_choose else "cut it as the checkpoint's text was cut"
            yield (
                f"{name} looks like raw text: {marks:.0%} of its first {self.num_words:,} words end in a punctuation "
                f"mark ({examples}), and each such word counts as another one than the bare word; {remedy}, or give "
                "text whose words are set apart by spaces."
            )
        if self.num_lines and self.num_characters > _LONG_LINE * self.num_lines:
            found = (
                f"is one line of {self.num_characters:,} characters"
                if self.is_whole and self.num_lines == 1
                else f"has lines of {self.num_characters // self.num_lines:,} characters on average"
            )
            yield (
                f"{name} {found}, but each line is taken for a sentence, with markers around it; put one sentence on "
                "each line."
            )


def look_at(corpus: Corpus) -> FirstLook:
    """Look at the first lines of a corpus, up to the first list of words.

    Raises: ValueError as `Corpus.lines`.
    """
    lines = takewhile(lambda line: isinstance(line, str), corpus.lines())
    return look_at_lines(words for line in lines if (words := str(line).split()))


def look_at_lines(lines_with_words: Iterable[Sequence[str]]) -> FirstLook:
    """Look at the first lines of a text, each given as what stands between its white space."""
    lines = list(islice(lines_with_words, _NUM_LINES + 1))
    is_whole = len(lines) <= _NUM_LINES
    words = [word for line in lines[:_NUM_LINES] for word in line]
    return FirstLook(
        num_lines=min(len(lines), _NUM_LINES),
        is_whole=is_whole,
        num_words=len(words),
        num_characters=sum(map(len, words)) + len(words),
        num_marks=sum(map(bool, map(_MARK_ALONE.match, words))),
        uncut=[word for word in words if _MARK_AT_WORD.search(word)],
    )


def files_in_both(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The files of the second list that stand in the first one too, under the same name or as a copy."""
    by_size: dict[int, list[str]] = defaultdict(list)
    for file in first:
        by_size[os.path.getsize(file)].append(file)
    return [
        file
        for file in second
        if any(
            os.path.samefile(file, other) or filecmp.cmp(file, other, shallow=False)
            for other in by_size[os.path.getsize(file)]
        )
    ]
