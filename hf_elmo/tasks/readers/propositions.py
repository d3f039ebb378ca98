"""Predicates and their arguments, in and out: the brackets of CoNLL-2005 and CoNLL-2012 beside a sentence's words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...given.bounded_files import quoted
from ...model.modeling_elmo_tasks import OUTSIDE, read_spans
from .text_lines import text_lines

_BRACKETS = re.compile(r"(?:\((?P<role>[^\s()*]+))?\*(?P<end>\))?")
# OntoNotes has named entities of one word without the star.
_WHOLE = re.compile(r"\([^\s()*]+\)")
_NO_PREDICATE = ("-", "_")
# CoNLL-2012: word, lemma of a predicate, its sense, and where the brackets begin; mentions stand behind them.
_BEGIN_2012 = "#begin document"
_WORD_2012, _LEMMA_2012, _SENSE_2012, _FIRST_2012, _BEHIND_2012 = 3, 6, 7, 11, 1


@dataclass(frozen=True)
class Predicate:
    """A word of a sentence that has arguments.

    Args:
        place: The number of the word, from 0.
        name: What the file says of it: its lemma, or its sense.
        tags: By IOB2, for each word of the sentence, its own `B-V` among them.
    """

    place: int
    name: str
    tags: list[str]


@dataclass(frozen=True)
class Proposition:
    """A sentence with its predicates.

    Args:
        words: Its words.
        predicates: In the order of their columns.
        before, behind: The cells of each word's line before and behind the brackets, so that it can be written again.
        line: Where it begins in its file, from 1.
    """

    words: list[str]
    predicates: list[Predicate]
    before: list[list[str]]
    behind: list[list[str]]
    line: int


@dataclass
class Propositions:
    """One part of a corpus of sentences with predicates.

    Args:
        source: What errors call it: the argument that named it and its value.
        sentences: In the order of the file.
        known_roles: Roles that the corpus has beside those of these sentences.
    """

    source: str
    sentences: list[Proposition]
    known_roles: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, place: int) -> Proposition:
        return self.sentences[place]

    @property
    def num_predicates(self) -> int:
        """Of all sentences together."""
        return sum(len(sentence.predicates) for sentence in self.sentences)

    @property
    def roles(self) -> list[str]:
        """All roles, sorted."""
        tags = {tag for sentence in self.sentences for predicate in sentence.predicates for tag in predicate.tags}
        return sorted({tag[2:] for tag in tags if tag != OUTSIDE} | {*self.known_roles})

    def label_places(self) -> dict[str, str]:
        """Each tag that occurs, and where its sentence begins that has it first, for errors."""
        first: dict[str, str] = {}
        for sentence in self.sentences:
            for tag in sorted({tag for predicate in sentence.predicates for tag in predicate.tags} - first.keys()):
                first[tag] = f"{self.source}, line {sentence.line}"
        return first

    def text(self, place: int) -> str:
        """The words of a sentence."""
        return " ".join(self.sentences[place].words)

    def pick(self, places: Sequence[int]) -> Propositions:
        """The sentences at these places; roles that only others have stay known."""
        return Propositions(self.source, [self.sentences[place] for place in places], tuple(self.roles))


def read_propositions(path: str | os.PathLike, name: str = "file") -> Propositions:
    """Read predicates and arguments from columns, a word on each line and a blank line between sentences.

    A file with `#begin document` lines is read as CoNLL-2012: the word is the fourth column, brackets begin with the
    twelfth and end before the last. In all others, CoNLL-2005 with its words and PropBank's releases, the word is the
    first column and brackets are the last ones, one for each word that has no `-` in the column before them.

    Args:
        path: The file, UTF-8; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    source = f"{name} {str(path)!r}"
    sentences: list[Proposition] = []
    rows: list[tuple[int, list[str]]] = []
    is_2012 = False
    for number, line in text_lines(path, name):
        is_2012 = is_2012 or line.startswith(_BEGIN_2012)
        is_comment = is_2012 and line.startswith("#")
        if line.strip() and not is_comment:
            rows.append((number, [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()))
        elif rows:
            sentences.append(_read_sentence(source, rows, is_2012))
            rows = []
    if rows:
        sentences.append(_read_sentence(source, rows, is_2012))
    if not sentences:
        raise ValueError(f"{source} holds no words; give a file with sentences, or leave it out.")
    return Propositions(source, sentences)


def proposition_lines(sentence: Proposition, tags: Sequence[Sequence[str]] | None = None) -> Iterator[str]:
    """A sentence as it stood in its file, with its own arguments or others.

    Args:
        sentence: As it was read.
        tags: For each of its predicates the tags of the words, by IOB2; None for its own.
    """
    chosen = [predicate.tags for predicate in sentence.predicates] if tags is None else tags
    columns = [write_brackets(row) for row in chosen]
    for place, (before, behind) in enumerate(zip(sentence.before, sentence.behind, strict=True)):
        yield "\t".join([*before, *(column[place] for column in columns), *behind])
    yield ""


def write_brackets(tags: Sequence[str]) -> list[str]:
    """Tags by IOB2 as brackets, `(ARG1*`, `*`, `*)` and `(V*)`."""
    cells = ["*"] * len(tags)
    for role, start, stop in read_spans(tags, "IOB2"):
        cells[start] = f"({role}{cells[start]}"
        cells[stop - 1] += ")"
    return cells


def read_brackets(source: str, rows: list[tuple[int, list[str]]], column: int) -> list[str]:
    """The tags, by IOB2, that the brackets of a column mean.

    Args:
        source: What errors call the file.
        rows: The lines of a sentence: their numbers and cells.
        column: Which column.
    Raises: ValueError naming the line of what is no bracket, or none that may stand there.
    """
    tags: list[str] = []
    role: str | None = None
    for number, cells in rows:
        cell = cells[column]
        found = _BRACKETS.fullmatch(f"{cell[:-1]}*)" if _WHOLE.fullmatch(cell) else cell)
        is_wrong = found is None or (found["role"] if role else found["end"] and not found["role"])
        if found is None or is_wrong:
            raise ValueError(
                f"{source}, line {number} has {quoted(cells[column])} in column {column}"
                + (f", inside of {quoted(role)}" if role else "")
                + "; wanted brackets such as (ARG0*, * and *), one inside of none."
            )
        begun = found["role"]
        role = role or begun
        tags.append(OUTSIDE if role is None else f"{'B' if begun else 'I'}-{role}")
        if found["end"]:
            role = None
    if role is not None:
        raise ValueError(
            f"{source}, line {rows[-1][0]}: the sentence ends inside of {quoted(role)} in column {column}."
        )
    return tags


def _read_sentence(source: str, rows: list[tuple[int, list[str]]], is_2012: bool) -> Proposition:
    first, fields = rows[0]
    width = len(fields)
    for number, cells in rows:
        if len(cells) != width:
            raise ValueError(
                f"{source}, line {number} has {len(cells)} columns, but line {first}, where its sentence begins, has "
                f"{width}; wanted as many in each."
            )
    start = _FIRST_2012 if is_2012 else _first_of_brackets(source, rows)
    stop = width - _BEHIND_2012 * is_2012
    if is_2012 and width <= _FIRST_2012:
        raise ValueError(
            f"{source}, line {first} has {width} columns; wanted {_FIRST_2012 + 1} or more, as CoNLL-2012 has."
        )
    columns = [read_brackets(source, rows, column) for column in range(start, stop)]
    column = _SENSE_2012 if is_2012 else start - 1
    names = [(place, cells[column]) for place, (_, cells) in enumerate(rows) if cells[column] not in _NO_PREDICATE]
    if is_2012:
        # Lemmas and senses are given to more words than those with arguments, which have a V.
        names = [_verb_of(source, rows, tags) for tags in columns]
    return Proposition(
        words=[cells[_WORD_2012 if is_2012 else 0] for _, cells in rows],
        predicates=[Predicate(place, name, tags) for (place, name), tags in zip(names, columns, strict=True)],
        before=[cells[:start] for _, cells in rows],
        behind=[cells[stop:] for _, cells in rows],
        line=first,
    )


def _first_of_brackets(source: str, rows: list[tuple[int, list[str]]]) -> int:
    """The column of the first brackets: behind one that names as many predicates as there are columns of brackets."""
    first, fields = rows[0]
    width = len(fields)
    found = width
    while found and all(_BRACKETS.fullmatch(cells[found - 1]) for _, cells in rows):
        found -= 1
    num_predicates = sum(cells[found - 1] not in _NO_PREDICATE for _, cells in rows) if found > 1 else -1
    if num_predicates != width - found:
        what = f"{num_predicates} predicates" if found > 1 else "no words before the brackets"
        raise ValueError(
            f"{source}, the sentence of line {first} has {what} and {width - found} columns of brackets; wanted the "
            "word first, then any columns, the predicates (- for other words), and brackets for each predicate. Put "
            "words and arguments that lie in two files beside each other (paste)."
        )
    return found


def _verb_of(source: str, rows: list[tuple[int, list[str]]], tags: Sequence[str]) -> tuple[int, str]:
    """The word that is the predicate of a column of CoNLL-2012, and its name."""
    if "B-V" not in tags:
        raise ValueError(
            f"{source}, the sentence of line {rows[0][0]} has a column of brackets without (V*); wanted the predicate."
        )
    place = tags.index("B-V")
    cells = rows[place][1]
    named = [cells[column] for column in (_LEMMA_2012, _SENSE_2012) if cells[column] not in _NO_PREDICATE]
    return place, ".".join(named)
