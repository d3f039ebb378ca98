"""Files with a word on each line and a blank line between sentences: CoNLL-U, OntoNotes, and columns of any kind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, dropwhile, groupby, islice
from typing import Literal

from ..given import quoted
from .files import numbered_lines, text_lines

# Names of files that say that they are columns; what kind, their contents say.
COLUMN_SUFFIXES = (".conllu", ".conll", ".iob", ".iob2", ".bio")
CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
CONLL2012_COLUMNS = (
    *("document", "part", "number", "word", "pos", "parse", "lemma", "frameset", "sense", "speaker", "entities"),
)
BEGIN_2012 = "#begin document"
# OntoNotes escapes two marks, and only these.
CONLL2012_ESCAPES = {"/.": ".", "/?": "?"}
_DOCUMENT = "-DOCSTART-"
_COMMENT = re.compile(r"#+(?:\s|$)")
_COMMENT_IN_CELL = re.compile(r"#+ +\S")
_SPACES = re.compile("[ \t]+")
# "3-4" are the two words written as one, "8.1" a word that is not written at all: neither is a word of the sentence.
_RANGE_OR_EMPTY = re.compile(r"\d+[-.]\d+")
_SPAN_LABEL = re.compile(r"O|[BIESLUM]-.+", flags=re.DOTALL)
_LANGUAGE = re.compile(r"[a-z][a-z-]{1,11}:")
_FEWEST_INDEX_COLUMNS = 3
# Lines by which a layout is told.
_LOOKED_AT = 20_000

# The number of a line, from 1, and its cells.
Row = tuple[int, list[str]]


def split_cells(line: str) -> list[str]:
    """The cells of a line, between tabs where it has any."""
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


@dataclass(frozen=True)
class ColumnLayout:
    """How a file of columns is written."""

    format: Literal["conll", "conllu", "conll2012"]  # the last as OntoNotes is given, the first all others
    encoding: str  # "utf-8" or "iso-8859-1"
    has_tabs: bool = True  # whether tabs stand between columns, rather than any run of spaces or tabs
    names: tuple[str, ...] = ()  # of the columns; of "conll" the first line, if that is asked for
    header_line: int = 0  # the number of that line; 0 for none
    widths: frozenset[int] = frozenset()  # how many columns lines with words have
    last_cells: frozenset[str] = frozenset()  # what stands in the last one; of "conll" alone
    has_index: bool = False  # whether the first column counts the words of each sentence, as in GermEval 2014
    prefix: str = ""  # what stands before each word: the language, `en:`, as in WikiANN
    word: int = 0  # the column of words, from 0 or backwards from -1, unless a user names another
    label: int = -1  # the same of labels

    def cells(self, line: str) -> list[str]:
        """The cells of a line."""
        return line.split("\t") if self.has_tabs else _SPACES.split(line.strip(" \t"))

    def word_in(self, cell: str) -> str:
        """The word of a cell; "" for none."""
        # A word may be a space and nothing else, as in data cut into characters.
        word = cell.strip(" ") or cell
        word = word.removeprefix(self.prefix) or word
        return CONLL2012_ESCAPES.get(word, word) if self.format == "conll2012" else word

    def is_comment(self, line: str) -> bool:
        """Whether a line that a sentence may begin with is none of its words: `#` is a word, too."""
        if self.format != "conll" or self.has_index:
            return line.startswith("#")
        if len(self.cells(line)) not in self.widths:
            return bool(self.widths and _COMMENT.match(line))
        # With as many columns as words have: `# id 7f\tdomain=en`, and `## 00001\tthe sentence`.
        return "\t" in line and bool(_COMMENT_IN_CELL.match(line)) and line.rpartition("\t")[2] not in self.last_cells

    def note(self, source: str, word_column: int | str | None) -> str | None:
        """What a user should know of how a file is read, in a line; None where nothing is unusual."""
        parts = ["it is not UTF-8 and read as ISO-8859-1"] if self.encoding != "utf-8" else []
        if self.has_index and word_column is None:
            parts.append(f"the first column counts words, so column {self.word} is read for them")
        if self.prefix:
            parts.append(f"{self.prefix!r} is taken off each word")
        return f"{source}: {'; '.join(parts)}" if parts else None


def read_layout(path: str | os.PathLike, name: str, has_header: bool = False) -> ColumnLayout:
    """How a file of columns is written, by its beginning; with has_header the first line has the names of columns.

    Raises: ValueError naming the line that is not UTF-8 where the file does not look like ISO-8859-1 either, as which
        CoNLL-2002 is given.
    """
    start = b"".join(line for _, line in islice(numbered_lines(path, name), _LOOKED_AT))
    encoding = "iso-8859-1" if _looks_western(start) else "utf-8"
    lines = list(islice(text_lines(path, name, encoding), _LOOKED_AT))
    filled = [number for number, line in enumerate(lines) if not _is_between_sentences(line)]
    header = lines[filled[0]] if filled else ""
    first = next((lines[number] for number in filled[has_header:] if not lines[number].startswith("#")), header)
    if any(line.startswith(BEGIN_2012) for line in lines):
        return ColumnLayout("conll2012", encoding, "\t" in first, CONLL2012_COLUMNS, word=3, label=10)
    # Or the formats of 2006 and 2007, which have its first columns.
    if first.count("\t") == len(CONLLU_COLUMNS) - 1 and re.match(r"\d+(?:[-.]\d+)?\t", first):
        return ColumnLayout("conllu", encoding, True, CONLLU_COLUMNS, word=1, label=3)
    layout = ColumnLayout("conll", encoding, "\t" in (header if has_header else first))
    if has_header and filled:
        layout = replace(layout, names=tuple(layout.cells(header)), header_line=filled[0] + 1)
        del lines[: layout.header_line]
    blocks = [
        [layout.cells(line) for line in dropwhile(_COMMENT.match, block)]
        for is_between, block in groupby(lines, _is_between_sentences)
        if not is_between
    ]
    rows = list(chain.from_iterable(blocks))
    widths = frozenset(map(len, rows))
    ids = [[cells[0] for cells in block if not _RANGE_OR_EMPTY.fullmatch(cells[0])] for block in blocks]
    has_index = (
        min(widths, default=0) >= _FEWEST_INDEX_COLUMNS
        and max(map(len, blocks)) > 1
        and all(each == [str(number) for number in range(1, len(each) + 1)] for each in ids)
    )
    language = _LANGUAGE.match(rows[0][0]) if len(rows) > 1 and not has_index else None
    label = -1
    if has_index:
        # Behind a column of numbers the last one need not be the labels: GermEval 2014 has those of inner spans there.
        marks = [{place for place, cell in enumerate(cells) if place and _SPAN_LABEL.fullmatch(cell)} for cells in rows]
        label = min((place for place in set.intersection(*marks) if place > 1), default=-1)
    return replace(
        layout,
        widths=widths,
        last_cells=frozenset(cells[-1] for cells in rows),
        has_index=has_index,
        prefix=language[0] if language and all(cells[0].startswith(language[0]) for cells in rows) else "",
        word=int(has_index),
        label=label,
    )


def column_sentences(
    path: str | os.PathLike, layout: ColumnLayout, name: str, columns: Sequence[int]
) -> Iterator[list[Row]]:
    """The cells of each sentence of a file in some columns, a row for each word; comments and headers are left out.

    Raises: ValueError naming the file and the line that has no such columns, or nothing in one.
    """
    has_ids = layout.format == "conllu" or layout.has_index
    sentence: list[Row] = []
    width = 0
    for number, line in enumerate(chain(text_lines(path, name, layout.encoding), [""]), start=1):
        # Of CoNLL-U and OntoNotes comments may stand anywhere.
        is_comment = (layout.format != "conll" or not sentence) and layout.is_comment(line)
        if _is_between_sentences(line) or (is_comment and layout.format == "conll2012"):
            if sentence:
                yield sentence
            sentence = []
            continue
        cells = layout.cells(line)
        if is_comment or number == layout.header_line or (has_ids and _RANGE_OR_EMPTY.fullmatch(cells[0])):
            continue
        size = len(cells)
        width = width or size
        there = {column % size for column in columns if -size <= column < size and cells[column]}
        # Sentences of CoNLL-2012 have a column for each predicate; of CoNLL-U words alone are taken of shorter lines.
        wants_all = {"conll": min(columns) < 0, "conllu": len(columns) > 1, "conll2012": False}[layout.format]
        has_moved = wants_all and size != width
        if len(there) < len(columns) or has_moved:
            raise ValueError(
                f"{name} {str(path)!r}, line {number} is {quoted(cells)}, and the first line has {width} columns; "
                f"wanted text in the columns {' and '.join(map(str, columns))} (from 0, or backwards from -1 where all "
                "lines have as many). Repair the line (only words between tabs hold spaces), or set --word_column and "
                "--label_column."
            )
        sentence.append((number, [cells[column] for column in columns]))


def conll_sentences(path: str | os.PathLike, name: str, word_column: int | None = None) -> Iterator[list[str]]:
    """The words of each sentence of a file, those of `word_column` or of the format's own; raises ValueError, too."""
    layout = read_layout(path, name)
    for sentence in column_sentences(path, layout, name, [layout.word if word_column is None else word_column]):
        yield [layout.word_in(cell) for _, (cell,) in sentence]


def _is_between_sentences(line: str) -> bool:
    return not line.strip(" \t") or line.startswith(_DOCUMENT)


def _looks_western(content: bytes) -> bool:
    """Whether bytes can be ISO-8859-1: no controls among them, accents on few letters, and no line of UTF-8."""
    odd = [line for line in content.splitlines() if not line.isascii()]
    accents, letters = (len(re.findall(those, content)) for those in (rb"[\xa0-\xff]", rb"[A-\xff]"))
    is_utf8 = any("\ufffd" not in line.decode("utf-8", "replace") for line in odd)
    return bool(odd) and not is_utf8 and not re.search(rb"[\x80-\x9f]", content) and 4 * accents < letters
