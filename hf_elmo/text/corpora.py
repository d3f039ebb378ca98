"""Text as a stream of records, from files of any form or from `datasets`: the one reader of all that reads text."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TextIO

from datasets import Dataset, DatasetDict, IterableDataset, load_dataset, load_from_disk
from datasets.distributed import split_dataset_by_node
from datasets.exceptions import DatasetsError
from pyarrow import ArrowException

from ..given import UNREADABLE, quoted, reason
from .columns import ColumnLayout, column_format_of, conll_sentences, read_layout
from .files import check_characters, check_records, form_of, json_records, open_table, text_lines

# A line, to be cut into words, or words that are taken as they are.
Sentence = str | list[str]
_ROWS_AT_A_TIME = 1000
# Records that are looked at to see which columns there are.
_FIRST_RECORDS = 1000


def is_in_fraction(text: str, fraction: float, purpose: str) -> bool:
    """Whether a text belongs to a fraction of many, chosen by a hash of each: the same in any order, pass and process.

    Args:
        text: The text; equal texts belong together.
        fraction: From 0 to 1; a smaller one lies within a larger one.
        purpose: Key of the hash, so that fractions for different purposes do not depend on each other.
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
        records: The stream; each record has a column "text": lines of text, None, or a list of words.
        name: What errors call this corpus, the argument that named it for example.
        files: The files behind it, where it comes from files.
        held_out_fraction: Fraction of the texts that every pass leaves out, see `holding_out`.
        notes: What a user should know of how the files are read, a line each.
    """

    records: IterableDataset
    name: str
    files: tuple[str, ...] = ()
    held_out_fraction: float = 0.0
    notes: tuple[str, ...] = ()

    def lines(self) -> Iterator[Sentence]:
        """One pass over the corpus: every line, those without words too, and every list of words.

        Raises: ValueError naming the file and the line or the record that cannot be read.
        """
        for record in self._records():
            text = record["text"]
            yield from [text] if isinstance(text, list) else (text or "").split("\n")

    def sentences(self, tokenize: Callable[[str], list[str]], held_out_to: TextIO | None = None) -> Iterator[list[str]]:
        """One pass over the corpus: the words of each sentence that has any.

        Args:
            tokenize: Cuts a line into words.
            held_out_to: An open file for the texts that are held out, a record of JSON on each line; None drops them.
        """
        for text in self._texts(held_out_to):
            for line in text.split("\n"):
                words = tokenize(line)
                if words:
                    yield words

    def documents(self, tokenize: Callable[[str], list[str]]) -> Iterator[list[list[str]]]:
        """One pass over the corpus: the sentences of each record that has any; text has to be opened by_document."""
        for text in self._texts():
            sentences = [words for line in text.split("\n") if (words := tokenize(line))]
            if sentences:
                yield sentences

    def _texts(self, held_out_to: TextIO | None = None) -> Iterator[str]:
        for record in self._records():
            text = record["text"] or ""
            if not self.held_out_fraction or not is_in_fraction(text, self.held_out_fraction, "validation"):
                yield text
            elif held_out_to is not None and _has_text(record):
                held_out_to.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")

    def _records(self) -> Iterator[dict[str, Any]]:
        try:
            yield from self.records
        except (DatasetsError, ArrowException, UnicodeDecodeError) as error:
            raise ValueError(f"{self.name} holds text that cannot be read ({reason(error)}).") from error

    def shard(self, rank: int, num_ranks: int) -> Corpus:
        """The part of the corpus that one of several processes reads."""
        if num_ranks == 1:
            return self
        # Where parts are each n-th record, text with an empty line between all others would make one part empty.
        records = self.records.filter(_has_text)
        return replace(self, records=split_dataset_by_node(records, rank=rank, world_size=num_ranks))

    def shuffled(self, seed: int, buffer_size: int) -> Corpus:
        """The records in another order in each pass: each is drawn from a buffer that the next ones fill up.

        Files and shards, too, change their order, which follows from the seed and the number of the pass alone.
        """
        return replace(self, records=self.records.shuffle(seed=seed, buffer_size=buffer_size))

    def for_pass(self, number: int) -> Corpus:
        """The corpus in the order of one pass, counted from 0.

        From the second pass on `datasets` reads several files or shards in another order, even without `shuffled`.
        """
        self.records.set_epoch(number)
        return self

    def holding_out(self, fraction: float) -> Corpus:
        """The corpus without a fraction of its texts, those of its records, for evaluation.

        A hash of each text decides, so that no order, pass or process ever reads a held-out text; copies of a text are
        held out together.
        """
        return replace(self, held_out_fraction=fraction)


def corpus_from_files(
    patterns: Sequence[str],
    name: str = "train_file",
    text_column: str = "text",
    by_document: bool = False,
    takes_words: bool = False,
    word_column: int | None = None,
) -> Corpus:
    """Stream text files (one sentence per line), JSON, Parquet or CoNLL columns, each also compressed.

    Records, which `Corpus.holding_out` and `Corpus.shard` keep whole, are those of JSON and Parquet; of text files they
    are the lines, or with by_document the lines up to an empty one (without even a space) or to the end of the file.

    Args:
        patterns: Paths or globs. Suffixes say what files hold, and of unknown suffixes their first bytes.
        name: The argument's name, for errors.
        text_column: Column of JSON and Parquet records that holds the text.
        by_document: Whether text files are read by documents; one is held in memory at a time.
        takes_words: Whether records may be lists of words too: lists in JSON and Parquet, and the sentences of CoNLL
            columns, by their suffixes (`columns.COLUMN_FORMATS`) or their looks.
        word_column: Place of the words among CoNLL columns, from 0 or backwards from -1; all files are read as columns
            then. None for the format's own.
    Raises: FileNotFoundError for a pattern without a file; ValueError, here or when its turn comes, naming the file and
        the line or the record, for what cannot be read.
    """
    files = expand_patterns(patterns, name)
    layouts: dict[str, ColumnLayout] = {}
    for file in files if takes_words else ():
        column_format = column_format_of(file, name) or (None if word_column is None else "conll")
        if column_format is not None:
            layouts[file] = read_layout(file, name, column_format)
    for file in files:
        if file not in layouts:
            _check_column(file, text_column, name)
    # Lists are what `datasets` shards and shuffles by: the files alone are one.
    how = {"name": name, "column": text_column, "by_document": by_document, "takes_words": takes_words}
    read = {"files": files, "layouts": layouts, "word_column": word_column, **how}
    records = IterableDataset.from_generator(_read_files, gen_kwargs=read)
    if next(iter(records), None) is None:
        raise ValueError(f"{name} {', '.join(patterns)!r} holds no records; give files with text in them.")
    notes = [layout.note(f"{name} {file!r}", word_column) for file, layout in layouts.items()]
    return Corpus(records, name, tuple(files), notes=tuple(filter(None, notes)))


def _read_files(
    files: Sequence[str],
    name: str,
    column: str,
    by_document: bool = False,
    takes_words: bool = False,
    layouts: Mapping[str, ColumnLayout] | None = None,
    word_column: int | None = None,
) -> Iterator[dict[str, Any]]:
    for file in files:
        if layouts and file in layouts:
            values: Iterator[Any] = conll_sentences(file, layouts[file], word_column, name)
        elif form_of(file, name) == "unknown":
            values = text_lines(file, name)
            if by_document:
                values = ("\n".join(lines) for has_text, lines in groupby(values, key=bool) if has_text)
        else:
            values = _values_of(file, column, name, takes_words)
        for value in values:
            yield {"text": value}


def _values_of(file: str, column: str, name: str, takes_words: bool) -> Iterator[Any]:
    """What stands in a column of JSON or Parquet."""
    if form_of(file, name) == "json":
        for place, record in json_records(file, name):
            yield _checked(record.get(column), f"{place}: column {column!r}", takes_words)
        return
    number = 0
    with open_table(file, name) as table:
        for batch in table.iter_batches(_ROWS_AT_A_TIME, columns=[column]):
            for value in batch.column(0).to_pylist():
                yield _checked(value, f"{name} {file!r}, row {number}: column {column!r}", takes_words)
                number += 1


def _checked(value: Any, where: str, takes_words: bool) -> Any:
    """A text, without the byte order mark that some programs put at its start, or a list of words, or None."""
    if isinstance(value, str):
        check_characters(value, where)
        return value.removeprefix("\ufeff")
    if value is None or (takes_words and isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    wanted = "neither text nor a list of words" if takes_words else "not text"
    raise ValueError(
        f"{where} holds {type(value).__name__} ({quoted(value)}), {wanted}. Name another one with --text_column."
    )


def _check_column(file: str, column: str, name: str) -> None:
    """Check that a file of JSON or Parquet has a column."""
    form, columns = form_of(file, name), set()
    if form == "json":
        columns = set().union(*(record for _, record in islice(json_records(file, name), _FIRST_RECORDS)))
    elif form == "parquet":
        with open_table(file, name) as table:
            columns = set(table.schema_arrow.names)
    if columns and column not in columns:
        raise ValueError(
            f"{name} {file!r} has no column {column!r}; it has {sorted(columns)[:20]}. Name the right one with "
            "--text_column."
        )


def corpus_from_held_out(file: str | os.PathLike, name: str) -> Corpus:
    """The texts that another corpus holds out, once its `sentences` has written them to the file."""
    read = {"files": [os.fspath(file)], "column": "text", "name": name}
    return Corpus(IterableDataset.from_generator(_read_files, gen_kwargs=read), name)


def corpus_from_dataset(
    dataset_name: str,
    config_name: str | None = None,
    split: str = "train",
    text_column: str = "text",
    takes_words: bool = False,
) -> Corpus:
    """Stream one split of a dataset: a name on the Hub, a directory of files or one of `save_to_disk`.

    Raises: ValueError when the dataset, the split or the column is missing.
    """
    where = f"dataset_name {dataset_name!r}"
    check_records(dataset_name, "dataset_name")
    try:
        if is_saved_dataset(dataset_name):
            saved = load_saved_dataset(dataset_name)
            # A single split has no name.
            stream = (saved[split] if isinstance(saved, DatasetDict) else saved).to_iterable_dataset()
        else:
            stream = load_dataset(dataset_name, config_name, split=split, streaming=True)
        first = next(iter(stream), None)
    except (ArrowException, DatasetsError, OSError, *UNREADABLE) as error:
        raise ValueError(f"{where} cannot be read, or has no split {split!r}: {reason(error)}") from error
    if first is None:
        raise ValueError(f"{where} holds no records in its split {split!r}; name another one.")
    if text_column not in first:
        raise ValueError(f"{where} has no column {text_column!r}; it has {sorted(first)}. Name one with --text_column.")
    where = f"{where}: column {text_column!r}"
    _checked(first[text_column], where, takes_words)
    records = stream.map(
        lambda record: {"text": _checked(record[text_column], where, takes_words)},
        remove_columns=[key for key in first if key != "text"],
    )
    return Corpus(records, "dataset_name")


def is_saved_dataset(path: str | os.PathLike) -> bool:
    """Whether a directory holds all splits of a dataset, or one of them, as `save_to_disk` writes them."""
    return any((Path(path) / name).is_file() for name in ("dataset_dict.json", "state.json"))


def load_saved_dataset(path: str | os.PathLike) -> Dataset | DatasetDict:
    """All splits, or the one there is, memory-mapped; each is read once, to see whether it is damaged.

    Raises: What `datasets` and Arrow raise where it is damaged.
    """
    dataset = load_from_disk(path)
    for split in dataset.values() if isinstance(dataset, DatasetDict) else [dataset]:
        # Arrow believes a file's own word for where each text ends: a wrong one would end the process.
        split.data.validate(full=True)
    return dataset


def _has_text(record: dict[str, str | None]) -> bool:
    return bool(record["text"] and not record["text"].isspace())


def expand_patterns(patterns: Sequence[str], name: str) -> list[str]:
    """The files that match the patterns, each pattern's in the order of their names; a file's own name comes first.

    Raises: FileNotFoundError for a pattern without a file, ValueError for an empty file or a directory.
    """
    files = []
    for pattern in map(str, patterns):
        if os.path.isdir(pattern):
            every = os.path.join(glob.escape(pattern), "*")
            raise ValueError(
                f"{name} {pattern!r} is a directory; give its files, for example as the quoted glob '{every}'."
            )
        # A name may hold what would be a pattern: a[1].txt.
        paths = [pattern] if os.path.isfile(pattern) else glob.glob(pattern, recursive=True)
        matches = sorted(path for path in paths if os.path.isfile(path))
        if not matches:
            raise FileNotFoundError(f"{name} {pattern!r} matches no file; check the path (quote globs).")
        files.extend(matches)
    for file in files:
        if os.path.getsize(file) == 0:
            raise ValueError(f"{name} {file!r} is an empty file; give one with text in it, or leave it out.")
    return list(dict.fromkeys(files))
