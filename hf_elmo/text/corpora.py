"""Text as a stream of records, from files of any form or from `datasets`: the one reader of all that reads text."""

from __future__ import annotations

import filecmp
import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TextIO

from datasets import DatasetDict, IterableDataset, load_dataset, load_from_disk
from datasets.distributed import split_dataset_by_node
from datasets.exceptions import DatasetsError
from pyarrow import ArrowException

from ..given import UNREADABLE, quoted, reason
from .columns import COLUMN_SUFFIXES, conll_sentences
from .files import check_characters, check_records, form_of, records, suffix_of, text_lines

# A line, to be cut into words, or words that are taken as they are.
Sentence = str | list[str]


def is_in_fraction(text: str, fraction: float, purpose: str) -> bool:
    """Whether a text belongs to a fraction of many, chosen by a hash of each: the same in any order, pass and process.

    A smaller fraction lies within a larger one for the same purpose, and does not depend on those for others.
    """
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=purpose.encode()).digest()
    return int.from_bytes(digest, "big") < fraction * 2**64


def count_words(sentence: Sentence) -> int:
    """Words of a list, or between the white space of a line."""
    return len(sentence.split() if isinstance(sentence, str) else sentence)


@dataclass
class Corpus:
    """A streamed text corpus: each pass reads it anew, and nothing but the record at hand is held in memory.

    Args:
        records: The stream; each record has a column "text": lines of text, None, or a list of words. From its second
            pass on `datasets` reads several files in another order, which follows from `set_epoch`, and `shuffle`.
        name: What errors call this corpus, the argument that named it for example.
        files: The files behind it, where it comes from files.
        held_out_fraction: Fraction of the texts that every pass leaves out. A hash of each decides, so that no order,
            pass or process ever reads a held-out text; copies of a text are held out together.
    """

    records: IterableDataset
    name: str
    files: tuple[str, ...] = ()
    held_out_fraction: float = 0.0

    def lines(self) -> Iterator[Sentence]:
        """One pass over the corpus: every line, those without words too, and every list of words.

        Raises: ValueError naming the file and the line or the record that cannot be read.
        """
        for text in self._texts():
            yield from [text] if isinstance(text, list) else text.split("\n")

    def sentences(self, tokenize: Callable[[str], list[str]], held_out_to: TextIO | None = None) -> Iterator[list[str]]:
        """One pass over the corpus: the words of each sentence that has any.

        Args:
            tokenize: Cuts a line into words.
            held_out_to: An open file for the texts that are held out, a record of JSON on each line; None drops them.
        """
        return chain.from_iterable(self.documents(tokenize, held_out_to))

    def documents(
        self, tokenize: Callable[[str], list[str]], held_out_to: TextIO | None = None
    ) -> Iterator[list[list[str]]]:
        """One pass over the corpus: the sentences of each record that has any; text has to be opened by_document."""
        for text in self._texts():
            if not self.held_out_fraction or not is_in_fraction(text, self.held_out_fraction, "validation"):
                sentences = [words for line in text.split("\n") if (words := tokenize(line))]
                if sentences:
                    yield sentences
            elif held_out_to is not None and text.strip():
                held_out_to.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")

    def _texts(self) -> Iterator[Any]:
        try:
            for record in self.records:
                yield "" if record["text"] is None else record["text"]
        except (ArrowException, DatasetsError, *UNREADABLE) as error:
            if type(error) is ValueError:
                raise
            raise ValueError(f"{self.name} holds text that cannot be read ({reason(error)}).") from error

    def shard(self, rank: int, num_ranks: int) -> Corpus:
        """The part of the corpus that one of several processes reads."""
        if num_ranks == 1:
            return self
        # Where parts are each n-th record, text with an empty line between all others would make one part empty.
        records = self.records.filter(lambda record: bool((record["text"] or "").strip()))
        return replace(self, records=split_dataset_by_node(records, rank=rank, world_size=num_ranks))


def corpus_from_files(
    patterns: Sequence[str],
    name: str = "train_file",
    text_column: str = "text",
    by_document: bool = False,
    takes_words: bool = False,
    word_column: int | None = None,
) -> Corpus:
    """Stream text files (one sentence per line), JSON, Parquet or CoNLL columns, each also compressed.

    Records, which are held out and sharded as a whole, are those of JSON and Parquet; of text files they
    are the lines, or with by_document the lines up to an empty one (without even a space) or to the end of the file.

    Args:
        patterns: Paths or globs. Suffixes say what files hold, and of unknown suffixes their first bytes.
        name: The argument that names them.
        text_column: Column of JSON and Parquet records that holds the text.
        by_document: Whether text files are read by documents; one is held in memory at a time.
        takes_words: Whether records may be lists of words too: lists in JSON and Parquet, and the sentences of files
            whose suffixes are of CoNLL columns (`columns.COLUMN_SUFFIXES`).
        word_column: Place of the words among CoNLL columns, from 0 or backwards from -1; all files are read as columns
            then. None for the format's own.
    Raises: FileNotFoundError for a pattern without a file; ValueError, here or when its turn comes, naming the file and
        the line or the record, for what cannot be read.
    """
    files = expand_patterns(patterns, name)
    return _stream(files, name, tuple(files), text_column, by_document, takes_words, word_column)


def corpus_from_file(file: str | os.PathLike, name: str) -> Corpus:
    """Stream one file by its path: what another corpus holds out, which is not there yet, or - for standard input."""
    return _stream([os.fspath(file)], name)


def _stream(files: list[str], name: str, known: tuple[str, ...] = (), *how: Any) -> Corpus:
    # Lists are what `datasets` shards and shuffles by: the files alone are one.
    records = IterableDataset.from_generator(_read_files, gen_kwargs={"files": files, "name": name, "how": how})
    return Corpus(records, name, known)


def _read_files(files: Sequence[str], name: str, how: tuple) -> Iterator[dict[str, Any]]:
    return ({"text": text} for file in files for text in _texts_in(file, name, *how))


def _texts_in(
    file: str,
    name: str,
    column: str = "text",
    by_document: bool = False,
    takes_words: bool = False,
    word_column: int | None = None,
) -> Iterator[Any]:
    if word_column is not None or suffix_of(file) in COLUMN_SUFFIXES:
        if not takes_words:
            raise ValueError(f"{name} {file!r} has a word on each line; wanted text, a sentence per line.")
        return conll_sentences(file, name, word_column)
    if form_of(file, name) != "unknown":
        read = enumerate(records(file, name, column))
        return (_text_of(record, column, place, takes_words, not number) for number, (place, record) in read)
    lines = text_lines(file, name)
    if by_document:
        return ("\n".join(each) for has_text, each in groupby(lines, key=bool) if has_text)
    return lines


def _text_of(record: Mapping[str, Any], column: str, place: str, takes_words: bool, is_first: bool) -> Any:
    """A text, without the byte order mark that some programs put at its start, or a list of words, or None."""
    value = record.get(column)
    if isinstance(value, str):
        check_characters(value, place)
        return value.removeprefix("\ufeff")
    if is_first and column not in record:
        problem = f"has no column {column!r}, only {quoted(sorted(record))}"
    elif value is None or (takes_words and isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    else:
        wanted = "neither text nor a list of words" if takes_words else "not text"
        problem = f"holds {type(value).__name__} in the column {column!r} ({quoted(value)}), {wanted}"
    raise ValueError(f"{place} {problem}. Name another one with --text_column.")


def corpus_from_dataset(
    dataset_name: str,
    config_name: str | None = None,
    split: str = "train",
    text_column: str = "text",
    takes_words: bool = False,
) -> Corpus:
    """Stream one split of a dataset: a name on the Hub, a directory of files or one of `save_to_disk`.

    Raises: ValueError when the dataset or the split is missing, or, when its turn comes, the column.
    """
    name = f"dataset_name {dataset_name!r}"
    stream = load_named_dataset(dataset_name, config_name, split, streaming=True).map(
        lambda record, number: {"text": _text_of(record, text_column, name, takes_words, not number)},
        with_indices=True,
    )
    return Corpus(stream, name)


def load_named_dataset(
    dataset_name: str, config_name: str | None = None, split: str | None = None, streaming: bool = False
) -> Any:
    """A dataset, or one split of it: a name on the Hub, a directory that `load_dataset` reads or one of `save_to_disk`.

    What `save_to_disk` wrote is memory-mapped; it is read once, to see whether it is damaged.

    Raises: ValueError naming the dataset where it cannot be loaded.
    """
    check_records(dataset_name, "dataset_name")
    try:
        if not any((Path(dataset_name) / name).is_file() for name in ("dataset_dict.json", "state.json")):
            return load_dataset(dataset_name, config_name, split=split, streaming=streaming)
        saved = load_from_disk(dataset_name)
        # A single split has no name.
        splits = saved if isinstance(saved, DatasetDict) else DatasetDict({split or str(saved.split or "train"): saved})
        chosen = splits if split is None else splits[split]
        for each in [chosen] if split else splits.values():
            # Arrow believes a file's own word for where each text ends: a wrong one would end the process.
            each.data.validate(full=True)
        return chosen.to_iterable_dataset() if streaming else chosen
    except (ArrowException, DatasetsError, OSError, *UNREADABLE) as error:
        which = f"dataset_config_name {config_name!r}, split {split!r}"
        raise ValueError(
            f"dataset_name {dataset_name!r} ({which}) cannot be loaded: {reason(error.__cause__ or error)}. Check the "
            "name; offline, give a directory or a dataset that was loaded before."
        ) from error


def expand_patterns(patterns: Sequence[str], name: str) -> list[str]:
    """The files that match the patterns, each pattern's in the order of their names; a file's own name comes first.

    Raises: FileNotFoundError for a pattern without a file.
    """
    files = []
    for pattern in map(str, patterns):
        # A name may hold what would be a pattern: a[1].txt.
        paths = [pattern] if os.path.isfile(pattern) else glob.glob(pattern, recursive=True)
        matches = sorted(path for path in paths if os.path.isfile(path))
        if not matches:
            raise FileNotFoundError(
                f"{name} {pattern!r} matches no file; check the path (quote globs, 'DIRECTORY/*' is all its files)."
            )
        files.extend(matches)
    return list(dict.fromkeys(files))


def files_in_both(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The files of the second list that stand in the first one too, under the same name or as a copy."""
    return [file for file in second if any(filecmp.cmp(file, other, shallow=False) for other in first)]
