"""Documents with clusters of mentions, in and out: the columns of CoNLL-2012 (Pradhan et al. 2012)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...given.bounded_files import quoted
from ...text.columns import CONLL2012_ESCAPES
from ...text.files import text_lines
from .examples import Examples

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
    """One part of a document: its sentences, and which of their mentions name the same.

    Args:
        name: As the file calls it.
        part: The number of the part; each has clusters of its own.
        sentences: The words of each sentence.
        clusters: Mentions in the order of the text, words being counted from 0 over the whole part; clusters in the
            order of their first mentions. No mention is in two of them.
        speakers: Who says each word, "" where the file says nothing; None where it has no such column.
    """

    name: str
    part: int
    sentences: list[list[str]]
    clusters: list[list[Mention]] = field(default_factory=list)
    speakers: list[str] | None = None

    @property
    def words(self) -> list[str]:
        """All words of the part."""
        return [word for sentence in self.sentences for word in sentence]


@dataclass
class Documents(Examples):
    """One part of a corpus of documents."""

    documents: list[Document]

    def __getitem__(self, index: int) -> Document:
        return self.documents[index]

    def text(self, index: int) -> str:
        return " ".join(self.documents[index].words)


def read_documents(path: str | os.PathLike, keep_singletons: bool = True, name: str = "file") -> Documents:
    """Read documents with clusters in the columns of CoNLL-2012.

    A part stands between `#begin document (NAME); part N` and `#end document`, a word on each line, a blank line
    between sentences. The last column has the mentions that begin and end at a word, `(3|(7)|3)`; mentions may be
    nested, cross each other, or be marked twice. Clusters that share a mention are joined.

    Args:
        path: The file, UTF-8, compressed or not.
        keep_singletons: Whether clusters of one mention are kept; LitBank marks them, OntoNotes has none.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    source = f"{name} {str(path)!r}"
    documents: list[Document] = []
    reading: _Reading | None = None
    for number, line in enumerate(text_lines(path, name), start=1):
        place = f"{source}, line {number}"
        if line.startswith("#begin") and reading is None:
            reading = _Reading(place, line)
        elif line.startswith(_END) and reading is not None:
            documents.append(reading.finish(place, keep_singletons))
            reading = None
        elif line.startswith(("#begin", _END)):
            raise ValueError(f"{place} is {quoted(line)}; wanted #begin document and {_END} in turns.")
        elif reading is not None:
            reading.add(place, line)
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"{place} stands before a line such as #begin document (name); part 0: {quoted(line)}.")
    if reading is not None or not documents:
        raise ValueError(f"{source} holds no documents, or the last one does not end with {_END}; get it whole.")
    return Documents(source, documents)


def document_lines(document: Document, clusters: Iterable[Sequence[Mention]] | None = None) -> Iterator[str]:
    """A document as the reference scorer reads it, line by line, with its own clusters or others.

    Of mentions of one cluster that cross each other the columns cannot say which end is whose; they are read as nested.
    """
    begins: dict[int, list[tuple[int, int]]] = {}
    ends: dict[int, list[tuple[int, int]]] = {}
    for number, cluster in enumerate(document.clusters if clusters is None else clusters):
        for start, stop in cluster:
            begins.setdefault(start, []).append((stop, number))
            ends.setdefault(stop - 1, []).append((start, number))
    yield f"#begin document ({document.name}); part {document.part:03}"
    place = 0
    for sentence in document.sentences:
        for number, word in enumerate(sentence):
            # The reader closes the mention of a cluster that it opened last, so that the longest one is opened first.
            opened = [
                f"({cluster})" if stop == place + 1 else f"({cluster}"
                for stop, cluster in sorted(begins.get(place, ()), reverse=True)
            ]
            closed = [f"{cluster})" for start, cluster in sorted(ends.get(place, ()), reverse=True) if start < place]
            marks = "|".join([*closed, *opened]) or "-"
            yield "\t".join([document.name, str(document.part), str(number), word, marks])
            place += 1
        yield ""
    yield _END


class _Reading:
    """A document of which some lines have been read."""

    def __init__(self, place: str, line: str):
        found = _BEGIN.fullmatch(line)
        if found is None:
            raise ValueError(f"{place} is {quoted(line)}; wanted #begin document (name); part 0.")
        self.document = Document(found["name"], int(found["part"] or 0), [])
        self._speakers: list[str] = []
        self._is_in_sentence = False
        # Of each cluster where its mentions that are still open began: the word, and its place in the file.
        self._open: dict[str, list[tuple[int, str]]] = {}
        self._mentions: dict[str, set[Mention]] = {}

    def add(self, place: str, line: str) -> None:
        if not line.strip():
            self._is_in_sentence = False
            return
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) < _FEWEST:
            raise ValueError(
                f"{place} has {len(cells)} columns; wanted document, part, number, word and, in the last one, mentions."
            )
        if not self._is_in_sentence:
            self.document.sentences.append([])
        self._is_in_sentence = True
        self.document.sentences[-1].append(CONLL2012_ESCAPES.get(cells[_WORD], cells[_WORD]))
        speaker = cells[_SPEAKER] if len(cells) > _SPEAKER + 1 else ""
        marks, word = cells[-1].strip(), len(self._speakers)
        self._speakers.append("" if speaker in _NOTHING else speaker)
        for mark in () if marks in _NOTHING else marks.split("|"):
            found = _MENTION.fullmatch(mark)
            if found is None or not (found[1] or found[3]):
                raise ValueError(
                    f"{place} has {quoted(marks)} in its last column; wanted mentions such as (3, 3) or (3) with | "
                    "between them, or -."
                )
            opens, cluster, closes = found.groups()
            if opens:
                self._open.setdefault(cluster, []).append((word, place))
            if closes:
                if not self._open.get(cluster):
                    raise ValueError(f"{place} ends a mention of cluster {cluster} that none has begun.")
                start, _ = self._open[cluster].pop()
                self._mentions.setdefault(cluster, set()).add(Mention(start, word + 1))

    def finish(self, place: str, keep_singletons: bool) -> Document:
        for cluster, opened in self._open.items():
            for _, its_place in opened:
                raise ValueError(f"{its_place} begins a mention of cluster {cluster} that never ends.")
        if not self._speakers:
            raise ValueError(f"{place} ends a document without words; leave it out.")
        joined: list[set[Mention]] = []
        for mentions in self._mentions.values():
            apart = [other for other in joined if not other & mentions]
            joined = [*apart, mentions.union(*(other for other in joined if other & mentions))]
        clusters = sorted(sorted(cluster) for cluster in joined)
        self.document.clusters = [cluster for cluster in clusters if keep_singletons or len(cluster) > 1]
        self.document.speakers = self._speakers if any(self._speakers) else None
        return self.document
