"""Text corpora as streams of sentences, one per line, from files or from `datasets` names."""

from __future__ import annotations

import glob
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from datasets import DatasetDict, IterableDataset, concatenate_datasets, load_dataset
from datasets.distributed import split_dataset_by_node
from datasets.exceptions import DatasetsError
from pyarrow import ArrowException

from ..given.bounded_files import quoted
from ..given.reasons import UNREADABLE, reason
from .file_forms import PACKED_SUFFIXES, form_of
from .hash_split import is_in_fraction
from .json_records import check_columns, check_records, json_texts
from .packed_lines import UNPACKING_ERRORS, decoded_lines
from .parquet_tables import check_rows, check_tables
from .saved_datasets import is_saved_dataset, load_saved_dataset

# Endings of text, those first that hold nothing else as often as .json does.
_KNOWN = ((".txt",), (".jsonl", ".ndjson", ".parquet"), (".json",))
_ROWS_AT_A_TIME = 1000


@dataclass
class Corpus:
    """A streamed text corpus: each pass reads it anew, and nothing but the record at hand is held in memory.

    Args:
        records: The stream; each record has a column "text". A text of several lines holds several sentences.
        name: What errors call this corpus, the argument that named it for example.
        files: The files behind it, where it comes from files.
        has_documents: Whether each record is a document; a line of a text file is not.
        held_out_fraction: Fraction of the texts that every pass leaves out, see `holding_out`.
    """

    records: IterableDataset
    name: str
    files: tuple[str, ...] = ()
    has_documents: bool = True
    held_out_fraction: float = 0.0

    def sentences(self, tokenize: Callable[[str], list[str]], held_out_to: TextIO | None = None) -> Iterator[list[str]]:
        """One pass over the corpus: the words of each sentence that has any.

        Args:
            tokenize: Cuts a line into words.
            held_out_to: An open file for the texts that are held out, a record of JSON on each line; None drops them.
        Raises: ValueError naming the file and the line where a file is not UTF-8.
        """
        for text in self._texts(held_out_to):
            for line in text.split("\n"):
                words = tokenize(line)
                if words:
                    yield words

    def documents(self, tokenize: Callable[[str], list[str]]) -> Iterator[list[list[str]]]:
        """One pass over the corpus: the sentences of each document that has any.

        Raises: ValueError as `sentences`, and for text files that were opened line by line.
        """
        if not self.has_documents:
            raise ValueError(
                f"{self.name} was opened line by line, which leaves no documents; open it with by_document=True."
            )
        for text in self._texts():
            sentences = [words for line in text.split("\n") if (words := tokenize(line))]
            if sentences:
                yield sentences

    def _texts(self, held_out_to: TextIO | None = None) -> Iterator[str]:
        with _named_damage(self.name, self.files):
            for record in self.records:
                text = record["text"] or ""
                if not self.held_out_fraction or not is_in_fraction(text, self.held_out_fraction, "validation"):
                    yield text
                elif held_out_to is not None and _has_text(record):
                    held_out_to.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")

    def shard(self, rank: int, num_ranks: int) -> Corpus:
        """The part of the corpus that one of several processes reads."""
        if num_ranks == 1:
            return self
        # Where shares are each n-th record, text with an empty line between all others would make one share empty.
        records = self.records.filter(_has_text)
        return replace(self, records=split_dataset_by_node(records, rank=rank, world_size=num_ranks))

    def shuffled(self, seed: int, buffer_size: int) -> Corpus:
        """The records in another order in each pass: each is drawn from a buffer that the next ones fill up.

        Files and shards, too, change their order. It follows from the seed and the number of the pass alone, so that a
        resumed run has the same one, and all processes draw alike before they take their parts.

        Args:
            seed: Of the order.
            buffer_size: Records held in memory, the larger the better mixed.
        """
        return replace(self, records=self.records.shuffle(seed=seed, buffer_size=buffer_size))

    def for_pass(self, number: int) -> Corpus:
        """The corpus in the order of one pass, counted from 0, which follows from that number.

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
    patterns: Sequence[str], name: str = "train_file", text_column: str = "text", by_document: bool = False
) -> Corpus:
    """Stream text files (one sentence per line), JSON lines or Parquet, each also compressed.

    Records, which `Corpus.holding_out` and `Corpus.shard` keep whole, are those of JSON and Parquet; of text files they
    are the lines, or with by_document the lines up to an empty one (without even a space) or to the end of the file.

    Args:
        patterns: Paths or globs; a directory is refused with the glob to write. `.jsonl`, `.json` and `.parquet`, and
            files of other suffixes that hold the like, are read by column, everything else as text; `.gz`, `.bz2`,
            `.xz` and `.zst` are unpacked on the way.
        name: The argument's name, for errors.
        text_column: Column of JSON and Parquet records that holds the text.
        by_document: Whether text files are read by documents; one is held in memory at a time.
    Raises: FileNotFoundError for a pattern without a file; ValueError for an empty file, a directory, records without
        the column, and, here or when its turn comes, naming the file and the line or the record, for what is not
        UTF-8, no JSON or Parquet, no text or cut off.
    """
    files = expand_patterns(patterns, name)
    groups = _group_by_builder(files, name)
    streams = []
    for builder, group in groups:
        if builder == "json":
            check_columns(group, text_column, name)
            read = {"files": group, "column": text_column, "name": name}
            streams.append(IterableDataset.from_generator(json_texts, gen_kwargs=read))
            continue
        if builder == "parquet":
            check_tables(group, text_column, name)
        # `datasets` takes names for patterns, too.
        data_files = {"train": list(map(glob.escape, group))}
        if builder == "text":
            options: dict[str, Any] = {"sample_by": "paragraph"} if by_document else {}
        else:
            # Left out, it is the rows of the first group, of which there may be none.
            options = {"batch_size": _ROWS_AT_A_TIME}
        with _named_damage(name, group):
            stream = load_dataset(builder, data_files=data_files, split="train", streaming=True, **options)
        column = "text" if builder == "text" else text_column
        streams.append(_only_text(stream, column, name, ", ".join(map(os.path.basename, group)), group))
    records = concatenate_datasets(streams) if len(streams) > 1 else streams[0]
    has_documents = by_document or all(builder != "text" for builder, _ in groups)
    return Corpus(records, name, tuple(files), has_documents)


def corpus_from_held_out(file: str | os.PathLike, name: str) -> Corpus:
    """The texts that another corpus holds out, once its `sentences` has written them to the file."""
    read = {"files": [os.fspath(file)], "column": "text", "name": name}
    return Corpus(IterableDataset.from_generator(json_texts, gen_kwargs=read), name)


def corpus_from_dataset(
    dataset_name: str, config_name: str | None = None, split: str = "train", text_column: str = "text"
) -> Corpus:
    """Stream one split of any dataset that `datasets.load_dataset` knows by name or directory.

    Raises: ValueError when the split or the column is missing.
    """
    stream = stream_dataset(dataset_name, config_name, split)
    return Corpus(_only_text(stream, text_column, "dataset_name", dataset_name, ()), "dataset_name")


def stream_dataset(dataset_name: str, config_name: str | None = None, split: str = "train") -> IterableDataset:
    """The records of one split of a dataset: a name on the Hub, a directory of files or one of `save_to_disk`.

    Raises: ValueError when the split is missing.
    """
    check_records(dataset_name, "dataset_name")
    try:
        if is_saved_dataset(dataset_name):
            saved = load_saved_dataset(dataset_name)
            # A single split has no name.
            return (saved[split] if isinstance(saved, DatasetDict) else saved).to_iterable_dataset()
        return load_dataset(dataset_name, config_name, split=split, streaming=True)
    except (ArrowException, DatasetsError, OSError, *UNREADABLE) as error:
        said = reason(error)
        raise ValueError(f"dataset_name {dataset_name!r} cannot be read, or has no split {split!r}: {said}") from error


def _has_text(record: dict[str, str | None]) -> bool:
    return bool(record["text"] and not record["text"].isspace())


def expand_patterns(patterns: Sequence[str], name: str) -> list[str]:
    """The files that match the patterns, each pattern's in the order of their names; a file's own name comes first.

    Raises: FileNotFoundError for a pattern without a file, ValueError for an empty file or a directory.
    """
    files = []
    for pattern in patterns:
        if os.path.isdir(pattern):
            raise ValueError(_describe_directory(name, str(pattern)))
        # A name may hold what would be a pattern: a[1].txt.
        paths = [str(pattern)] if os.path.isfile(pattern) else glob.glob(str(pattern), recursive=True)
        matches = sorted(path for path in paths if os.path.isfile(path))
        if not matches:
            raise FileNotFoundError(f"{name} {str(pattern)!r} matches no file; check the path (quote globs).")
        files.extend(matches)
    for file in files:
        if os.path.getsize(file) == 0:
            raise ValueError(f"{name} {file!r} is an empty file; give one with text in it, or leave it out.")
    return list(dict.fromkeys(files))


def _describe_directory(name: str, directory: str) -> str:
    """What to write in place of a directory: a pattern for the files it holds the most of."""
    endings: Counter[str] = Counter()
    found = ((parent, file) for parent, _, files in os.walk(directory) for file in files)
    for parent, file in islice(found, 10_000):
        deep = os.path.join("**", "") if not os.path.samefile(parent, directory) else ""
        suffixes = Path(file).suffixes
        kept = suffixes[-2:] if suffixes and suffixes[-1] in PACKED_SUFFIXES else suffixes[-1:]
        endings[f"{deep}*{''.join(kept)}"] += 1
    if not endings:
        return f"{name} {directory!r} is a directory without files; give files of text, or a quoted glob of them."
    # Sooner files that are surely text than code or tables that lie there too.
    most = max(endings, key=lambda ending: (-_rank(ending), endings[ending]))
    glob_of_most = os.path.join(glob.escape(directory), most)
    return (
        f"{name} {directory!r} is a directory; give the files in it, for example as the quoted glob '{glob_of_most}'."
    )


def _rank(ending: str) -> int:
    """How unlikely it is that files of that ending, compressed or not, hold text: the lower the likelier."""
    bare = next((ending.removesuffix(packed) for packed in PACKED_SUFFIXES if ending.endswith(packed)), ending)
    return next((rank for rank, endings in enumerate(_KNOWN) if bare.endswith(endings)), len(_KNOWN))


def _group_by_builder(files: Sequence[str], name: str) -> list[tuple[str, list[str]]]:
    """Neighbouring files of one format together, in the order given."""
    groups: list[tuple[str, list[str]]] = []
    for file in files:
        builder = _builder_of(file, name)
        if groups and groups[-1][0] == builder:
            groups[-1][1].append(file)
        else:
            groups.append((builder, [file]))
    return groups


def _builder_of(file: str, name: str) -> str:
    form = form_of(file, name)
    return "text" if form == "unknown" else form


def _only_text(stream: IterableDataset, column: str, name: str, where: str, files: Sequence[str]) -> IterableDataset:
    """The stream with its text column alone, under the name "text"."""
    with _named_damage(name, files):
        first = next(iter(stream), None)
    if first is None:
        raise ValueError(f"{name} {where!r} holds no records; give one with text in it.")
    if column not in first:
        raise ValueError(
            f"{name} {where!r} has no column {column!r}; it has {sorted(first)}. Name the right one with --text_column."
        )
    column_where = f"{name} {where!r}: column {column!r}"
    _check_text(first[column], column_where)
    return stream.map(
        lambda record: {"text": _without_mark(_check_text(record[column], column_where))},
        remove_columns=[key for key in first if key != "text"],
    )


def _check_text(text: Any, where: str) -> str | None:
    if text is not None and not isinstance(text, str):
        raise ValueError(
            f"{where} holds {type(text).__name__} ({quoted(text)}), not text. Name a column of strings with "
            "--text_column."
        )
    return text


def _without_mark(text: str | None) -> str | None:
    """The text without the byte order mark that some programs put at the start of a file."""
    return text if text is None else text.removeprefix("\ufeff")


@contextmanager
def _named_damage(name: str, files: Sequence[str]) -> Iterator[None]:
    """Name the file, and the line where there are lines, when one of several files cannot be read to its end.

    Raises: ValueError in the place of what `datasets` and the unpackers raise.
    """
    try:
        yield
    except (DatasetsError, ArrowException, UnicodeDecodeError, *UNPACKING_ERRORS) as error:
        if getattr(error, "errno", None) is not None:
            raise
        for file in files:
            _read_through(file, name)
        # No file alone is to blame, or it is mended by now.
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"{name} holds text that cannot be read ({type(error).__name__}: {said}).") from error


def _read_through(file: str, name: str) -> None:
    builder = _builder_of(file, name)
    if builder == "parquet":
        check_rows(file, name)
    elif builder == "text":
        for _ in decoded_lines(file, name):
            pass


def lines_of(corpus: Corpus) -> Iterator[str]:
    """Every line of a corpus, also those without words."""
    for (line,) in corpus.sentences(lambda line: [line]):
        yield line
