"""Documents with clusters of mentions, in and out: the columns of CoNLL-2012 (Pradhan et al. 2012)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...given.bounded_files import quoted
from ...text.columns import CONLL2012_ESCAPES
from .text_lines import text_lines

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
        line: Where it begins in its file, counted from 1.
    """

    name: str
    part: int
    sentences: list[list[str]]
    clusters: list[list[Mention]] = field(default_factory=list)
    speakers: list[str] | None = None
    line: int | None = None

    @property
    def words(self) -> list[str]:
        """All words of the part."""
        return [word for sentence in self.sentences for word in sentence]


@dataclass
class Documents:
    """One part of a corpus of documents.

    Args:
        source: What errors call it: the argument that named it and its value.
        documents: In the order of the file.
    """

    source: str
    documents: list[Document]

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, place: int) -> Document:
        return self.documents[place]

    def text(self, place: int) -> str:
        """The words of a document."""
        return " ".join(self.documents[place].words)

    def pick(self, places: Sequence[int]) -> Documents:
        """The documents at these places."""
        return Documents(self.source, [self.documents[place] for place in places])


def read_documents(path: str | os.PathLike, keep_singletons: bool = True, name: str = "file") -> Documents:
    """Read documents with clusters in the columns of CoNLL-2012.

    A part stands between `#begin document (NAME); part N` and `#end document`, a word on each line, a blank line
    between sentences. The last column has the mentions that begin and end at a word, `(3|(7)|3)`; mentions may be
    nested, cross each other, or be marked twice. Clusters that share a mention are joined.

    Args:
        path: The file, UTF-8; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        keep_singletons: Whether clusters of one mention are kept; LitBank marks them, OntoNotes has none.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    source = f"{name} {str(path)!r}"
    documents: list[Document] = []
    builder: _Builder | None = None
    for number, line in text_lines(path, name):
        place = f"{source}, line {number}"
        if line.startswith("#begin"):
            if builder is not None:
                raise ValueError(f"{place} begins a document inside of another; wanted {_END} before it.")
            builder = _Builder(place, line, number)
        elif line.startswith(_END):
            if builder is None:
                raise ValueError(f"{place} ends a document that none has begun; wanted a line #begin document before.")
            documents.append(builder.finish(place, keep_singletons))
            builder = None
        elif builder is not None:
            builder.add(place, line)
        elif line.strip() and not line.startswith("#"):
            raise ValueError(
                f"{place} stands outside of a document: {line[:60]!r}; wanted a line such as "
                "#begin document (name); part 0 before the words."
            )
    if builder is not None:
        raise ValueError(
            f"{source} ends inside of the document that begins in line {builder.document.line}; get it whole."
        )
    if not documents:
        raise ValueError(f"{source} holds no documents: no line of it begins with #begin document. Give another file.")
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


class _Builder:
    """A document that is being read."""

    def __init__(self, place: str, line: str, number: int):
        found = _BEGIN.fullmatch(line)
        if found is None:
            raise ValueError(f"{place} is {line[:80]!r}; wanted #begin document (name); part 0.")
        self.document = Document(found["name"], int(found["part"] or 0), [], line=number)
        self._speakers: list[str] = []
        self._num_words = 0
        self._is_in_sentence = False
        # Where the mentions of each cluster that are still open began: the word, and its place in the file.
        self._open: dict[str, list[tuple[int, str]]] = {}
        self._mentions: dict[str, set[Mention]] = {}

    def add(self, place: str, line: str) -> None:
        """Take in a line."""
        fields = line.rstrip("\n").split("\t") if "\t" in line else line.split()
        if not line.strip():
            self._is_in_sentence = False
            return
        if len(fields) < _FEWEST:
            raise ValueError(
                f"{place} has {len(fields)} columns; wanted at least {_FEWEST}: document, part, number, word, and the "
                "mentions in the last one. Repair the line."
            )
        if not self._is_in_sentence:
            self.document.sentences.append([])
            self._is_in_sentence = True
        word = fields[_WORD]
        self.document.sentences[-1].append(CONLL2012_ESCAPES.get(word, word))
        speaker = fields[_SPEAKER] if len(fields) > _SPEAKER + 1 else ""
        self._speakers.append("" if speaker in _NOTHING else speaker)
        self._read_mentions(place, fields[-1].strip())
        self._num_words += 1

    def _read_mentions(self, place: str, marks: str) -> None:
        if marks in _NOTHING:
            return
        for mark in marks.split("|"):
            found = _MENTION.fullmatch(mark)
            if found is None or not (found[1] or found[3]):
                raise ValueError(
                    f"{place} has {quoted(marks)} in its last column; wanted mentions such as (3, 3) or (3) with | "
                    "between them, or -."
                )
            opens, cluster, closes = found.groups()
            if opens:
                self._open.setdefault(cluster, []).append((self._num_words, place))
            if closes:
                if not self._open.get(cluster):
                    raise ValueError(
                        f"{place} ends a mention of cluster {cluster} that none has begun; repair the line."
                    )
                start, _ = self._open[cluster].pop()
                self._mentions.setdefault(cluster, set()).add(Mention(start, self._num_words + 1))

    def finish(self, place: str, keep_singletons: bool) -> Document:
        """The document, at the line that ends it."""
        for cluster, opened in self._open.items():
            if opened:
                raise ValueError(
                    f"{opened[-1][1]} begins a mention of cluster {cluster} that never ends; repair the line."
                )
        if not self._num_words:
            raise ValueError(f"{place} ends a document without words; leave it out.")
        merged = _join_overlapping(self._mentions.values())
        self.document.clusters = [cluster for cluster in merged if keep_singletons or len(cluster) > 1]
        self.document.speakers = self._speakers if any(self._speakers) else None
        return self.document


def _join_overlapping(clusters: Iterable[set[Mention]]) -> list[list[Mention]]:
    """Clusters without a mention in common, each sorted, in the order of their first mentions."""
    joined: list[set[Mention]] = []
    for cluster in clusters:
        apart = [other for other in joined if not other & cluster]
        joined = [*apart, cluster.union(*(other for other in joined if other & cluster))]
    return sorted(sorted(cluster) for cluster in joined)
