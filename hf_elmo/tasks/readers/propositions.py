"""Predicates and their arguments, in and out: the brackets of CoNLL-2005 and CoNLL-2012 beside a sentence's words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...given import quoted
from ...model.modeling_elmo_tasks import OUTSIDE, read_spans
from ...text.columns import BEGIN_2012, Row, split_cells
from ...text.files import text_lines
from . import Examples

_BRACKETS = re.compile(r"(?:\((?P<role>[^\s()*]+))?\*(?P<end>\))?")
# OntoNotes has named entities of one word without the star.
_WHOLE = re.compile(r"\([^\s()*]+\)")
_NO_PREDICATE = ("-", "_")
# Of CoNLL-2012 the columns of the word and of the first brackets; mentions stand behind those.
_WORD_2012, _FIRST_2012 = 3, 11


@dataclass(frozen=True)
class Predicate:
    """The number of a word, from 0, that has arguments, and the tags of its sentence, by IOB2; its own is `B-V`."""

    place: int
    tags: list[str]


@dataclass(frozen=True)
class Proposition:
    """A sentence with its predicates."""

    words: list[str]
    predicates: list[Predicate]  # in the order of their columns
    before: list[list[str]]  # the cells of each word's line before the brackets, so that it can be written again
    behind: list[list[str]]  # and those behind them
    line: int  # where it begins in its file, from 1


@dataclass
class Propositions(Examples):
    """One part of a corpus of sentences with predicates; labels are tags."""

    sentences: list[Proposition]

    @property
    def num_predicates(self) -> int:
        """Of all sentences together."""
        return sum(len(sentence.predicates) for sentence in self.sentences)

    @property
    def roles(self) -> list[str]:
        """All roles that the corpus has, sorted."""
        tags = {tag for tag, _ in self.labels_with_places()} | {*self.known_labels}
        return sorted({tag[2:] for tag in tags if tag != OUTSIDE})

    def text(self, index: int) -> str:
        return " ".join(self.sentences[index].words)

    def labels_with_places(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        for index, sentence in enumerate(self.sentences):
            for predicate in sentence.predicates:
                yield from ((tag, (index,)) for tag in predicate.tags)

    def place(self, *where: int) -> str:
        return f"{self.source}, line {self.sentences[where[0]].line}"


def read_propositions(path: str | os.PathLike, name: str = "file") -> Propositions:
    """Read predicates and arguments from columns, a word on each line and a blank line between sentences.

    A file with `#begin document` lines is read as CoNLL-2012: the word is the fourth column, brackets begin with the
    twelfth and end before the last. In all others, CoNLL-2005 with its words and PropBank's releases, the word is the
    first column and brackets are the last ones, one for each word that has no `-` in the column before them.

    Args:
        path: The file, UTF-8, compressed or not.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    source = f"{name} {str(path)!r}"
    sentences: list[Proposition] = []
    rows: list[Row] = []
    is_2012 = False
    for number, line in enumerate([*text_lines(path, name), ""], start=1):
        is_2012 = is_2012 or line.startswith(BEGIN_2012)
        if line.strip() and not (is_2012 and line.startswith("#")):
            rows.append((number, split_cells(line)))
        elif rows:
            sentences.append(_read_sentence(source, rows, is_2012))
            rows = []
    if not sentences:
        raise ValueError(f"{source} holds no words; give a file with sentences, or leave it out.")
    return Propositions(source, sentences)


def proposition_lines(sentence: Proposition, tags: Sequence[Sequence[str]]) -> Iterator[str]:
    """A sentence as it stood in its file, for each of its predicates with such tags of the words, by IOB2."""
    columns = map(write_brackets, tags)
    for before, *cells, behind in zip(sentence.before, *columns, sentence.behind, strict=True):
        yield "\t".join([*before, *cells, *behind])
    yield ""


def write_brackets(tags: Sequence[str]) -> list[str]:
    """Tags by IOB2 as brackets, `(ARG1*`, `*`, `*)` and `(V*)`."""
    cells = ["*"] * len(tags)
    for role, start, stop in read_spans(tags, "IOB2"):
        cells[start] = f"({role}{cells[start]}"
        cells[stop - 1] += ")"
    return cells


def read_brackets(source: str, cells: Iterable[tuple[int, str]]) -> list[str]:
    """The tags, by IOB2, that the brackets of a sentence's words mean, given with the numbers of their lines.

    Raises: ValueError naming the line of what is no bracket, or none that may stand there.
    """
    tags: list[str] = []
    role: str | None = None
    number = 0
    for number, cell in cells:
        found = _BRACKETS.fullmatch(f"{cell[:-1]}*)" if _WHOLE.fullmatch(cell) else cell)
        if found is None or (found["role"] if role else found["end"] and not found["role"]):
            raise ValueError(
                f"{source}, line {number} has {quoted(cell)} inside of {quoted(role)}; wanted brackets such as (ARG0*, "
                "* and *), one inside of none."
            )
        role = role or found["role"]
        tags.append(OUTSIDE if role is None else f"{'B' if found['role'] else 'I'}-{role}")
        if found["end"]:
            role = None
    if role is not None:
        raise ValueError(f"{source}, line {number}: the sentence ends inside of {quoted(role)}; close its bracket.")
    return tags


def _read_sentence(source: str, rows: Sequence[Row], is_2012: bool) -> Proposition:
    first, width = rows[0][0], len(rows[0][1])
    for number, cells in rows:
        if len(cells) != width or (is_2012 and width <= _FIRST_2012):
            raise ValueError(
                f"{source}, line {number} has {len(cells)} columns; wanted as many as in line {first}, of CoNLL-2012 "
                f"more than {_FIRST_2012}."
            )
    start, stop = (_FIRST_2012, width - 1) if is_2012 else (width, width)
    while not is_2012 and start and all(_BRACKETS.fullmatch(cells[start - 1]) for _, cells in rows):
        start -= 1
    tags = [read_brackets(source, ((number, cells[at]) for number, cells in rows)) for at in range(start, stop)]
    if is_2012:
        # Lemmas and senses are given to more words than those with arguments, which have a V.
        places = [each.index("B-V") for each in tags if "B-V" in each]
    else:
        places = [place for place, (_, cells) in enumerate(rows) if cells[start - 1] not in _NO_PREDICATE]
    if len(places) != len(tags) or start < 2:
        raise ValueError(
            f"{source}, the sentence of line {first} has {len(places)} predicates and {len(tags)} columns of brackets; "
            "wanted the word first, the predicates (- for other words) before the brackets, and brackets for each "
            "predicate, of CoNLL-2012 with (V*). Words in a file of their own have to be put beside them (paste)."
        )
    return Proposition(
        words=[cells[_WORD_2012 if is_2012 else 0] for _, cells in rows],
        predicates=[Predicate(place, each) for place, each in zip(places, tags, strict=True)],
        before=[cells[:start] for _, cells in rows],
        behind=[cells[stop:] for _, cells in rows],
        line=first,
    )
