"""Documents with clusters of mentions, in and out: the columns of CoNLL-2012 (Pradhan et al. 2012)."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from ...given import quoted
from ...text.columns import CONLL2012_ESCAPES, split_cells
from ...text.files import text_lines
from . import Examples

_BEGIN = re.compile(r"#begin document \((?P<name>.*)\)(?:; part (?P<part>\d{1,9}))?\s*")
_END = "#end document"
# Columns of a word: the document's name, the part, the word's number, the word; the last one has the mentions.
_WORD, _SPEAKER, _FEWEST = 3, 9, 5
_NOTHING = ("-", "_", "*", "")
_MENTION = re.compile(r"(\()?([^()|\s]{1,40})(\))?")


class Mention(NamedTuple):
    """Words of a document that name something, from the one at `start` up to the one at `stop`, not included."""

    start: int
    stop: int


@dataclass
class Document:
    """One part of a document: its sentences, and which of their mentions name the same; none is in two clusters."""

    name: str  # as the file calls the document
    part: int  # the number of the part; each has clusters of its own
    sentences: list[list[str]]  # their words
    # By their first mentions; mentions are in the order of the text, words being counted from 0 over the whole part.
    clusters: list[list[Mention]] = field(default_factory=list)
    speakers: list[str] | None = None  # who says each word, "" for nobody; None where the file has no such column

    @property
    def words(self) -> list[str]:
        """All words of the part."""
        return [word for sentence in self.sentences for word in sentence]


@dataclass
class Documents(Examples):
    """One part of a corpus of documents."""

    documents: list[Document]

    def text(self, index: int) -> str:
        return " ".join(self.documents[index].words)


def read_documents(path: str | os.PathLike, name: str = "file") -> Documents:
    """Read documents with clusters in the columns of CoNLL-2012.

    A part stands between `#begin document (NAME); part N` and `#end document`, a word on each line, a blank line
    between sentences. The last column has the mentions that begin and end at a word, `(3|(7)|3)`; mentions may be
    nested, cross each other, or be marked twice. Clusters that share a mention are joined.

    Args:
        path: The file, UTF-8, compressed or not.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    source = f"{name} {str(path)!r}"
    documents: list[Document] = []
    rows: list[tuple[str, list[str]]] | None = None
    for number, line in enumerate(text_lines(path, name), start=1):
        place = f"{source}, line {number}"
        begun = _BEGIN.fullmatch(line)
        if begun is not None and rows is None:
            documents.append(Document(begun["name"], int(begun["part"] or 0), []))
            rows = []
        elif line.startswith(_END) and rows:
            _fill(documents[-1], rows)
            rows = None
        elif line.startswith(("#begin", _END)) or (rows is None and line.strip() and not line.startswith("#")):
            raise ValueError(
                f"{place} is {quoted(line)}; wanted a line such as #begin document (name); part 0, words, and {_END}, "
                "in turns."
            )
        elif rows is not None and (rows or line.strip()):
            rows.append((place, split_cells(line)))
    if rows is not None or not documents:
        raise ValueError(f"{source} holds no documents, or the last one does not end with {_END}; get it whole.")
    return Documents(source, documents)


def _fill(document: Document, rows: Iterable[tuple[str, list[str]]]) -> None:
    """Put the sentences, speakers and clusters of its lines into a document."""
    speakers: list[str] = []
    # Of each cluster where its mentions that are still open began: the word, and its place in the file.
    opened: dict[str, list[tuple[int, str]]] = {}
    mentions: dict[str, set[Mention]] = {}
    for is_between, block in groupby(rows, lambda row: not any(row[1])):
        if is_between:
            continue
        document.sentences.append([])
        for place, cells in block:
            marks, number = cells[-1], len(speakers)
            parts = [] if marks in _NOTHING else [_MENTION.fullmatch(mark) for mark in marks.split("|")]
            if len(cells) < _FEWEST or not all(part and (part[1] or part[3]) for part in parts):
                raise ValueError(
                    f"{place} has {len(cells)} columns and {quoted(marks)} in the last one; wanted document, part, "
                    "number, word and, in the last one, mentions such as (3, 3) or (3) with | between them, or -."
                )
            document.sentences[-1].append(CONLL2012_ESCAPES.get(cells[_WORD], cells[_WORD]))
            speaker = cells[_SPEAKER] if len(cells) > _SPEAKER + 1 else ""
            speakers.append("" if speaker in _NOTHING else speaker)
            for opens, cluster, closes in (part.groups() for part in parts if part):
                if opens:
                    opened.setdefault(cluster, []).append((number, place))
                if closes:
                    if not opened.get(cluster):
                        raise ValueError(f"{place} ends a mention of cluster {cluster} that none has begun.")
                    mentions.setdefault(cluster, set()).add(Mention(opened[cluster].pop()[0], number + 1))
    for cluster, (_, place) in ((cluster, left[-1]) for cluster, left in opened.items() if left):
        raise ValueError(f"{place} begins a mention of cluster {cluster} that never ends.")
    joined: list[set[Mention]] = []
    for its in mentions.values():
        apart = [other for other in joined if not other & its]
        joined = [*apart, its.union(*(other for other in joined if other & its))]
    document.clusters = sorted(sorted(cluster) for cluster in joined)
    document.speakers = speakers if any(speakers) else None


def document_lines(document: Document, clusters: Iterable[Sequence[Mention]] | None = None) -> Iterator[str]:
    """A document as the reference scorer reads it, line by line, with its own clusters or others.

    Of mentions of one cluster that cross each other the columns cannot say which end is whose; they are read as nested.
    """
    begins, ends = defaultdict(list), defaultdict(list)
    for number, cluster in enumerate(document.clusters if clusters is None else clusters):
        for start, stop in cluster:
            begins[start].append((stop, number))
            ends[stop - 1].append((start, number))
    yield f"#begin document ({document.name}); part {document.part:03}"
    place = 0
    for sentence in document.sentences:
        for number, word in enumerate(sentence):
            # The reader closes the mention of a cluster that it opened last, so that the longest one is opened first.
            opened = [f"({cluster}{')' * (stop == place + 1)}" for stop, cluster in sorted(begins[place], reverse=True)]
            closed = [f"{cluster})" for start, cluster in sorted(ends[place], reverse=True) if start < place]
            marks = "|".join([*closed, *opened]) or "-"
            yield "\t".join([document.name, str(document.part), str(number), word, marks])
            place += 1
        yield ""
    yield _END
