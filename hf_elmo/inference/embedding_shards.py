"""Vectors of a corpus in shards, Arrow or Parquet files: written by one process or several, resumed, and read again.

A directory holds `settings.json` and `shard-00000.arrow` and so on, a row per sentence. The columns of a row:
- `sentence_id`, the sentence's number in the corpus, from 0;
- `words`, (words,);
- `starts` and `ends`, (words,): the first character of each word in its line and the one behind its last;
- `vectors`, (words, D), or `vector`, (D,), where sentences are pooled; with layers "all", `layer_0`, `layer_1`, ... of
  the same shapes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from datasets import Dataset, concatenate_datasets
from pyarrow import parquet

from ..given.bounded_json import read_json
from ..hub.provenance import write_json
from ..hub.writing import check_output_directory, files_written_aside, open_to_readers
from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN
from ..text.corpora import Sentence, count_words
from .embedder import POOLINGS, ElmoEmbedder, pool_words
from .word_places import words_with_offsets

SETTINGS_FILE = "settings.json"
STORAGE_DTYPES = ("float32", "float16")
FORMATS = ("arrow", "parquet")
_KIND = "hf_elmo vectors"
_TEXT_DIGEST = b"text_sha256"
# Sentences whose vectors are written together, a record batch or row group.
_SENTENCES_AT_A_TIME = 256
# Where the checkpoint lay does not matter: what it holds is compared by its digest.
_NOT_COMPARED = ("checkpoint", "num_shards")
# What a word's row of characters depends on.
_TOKENIZER_FIELDS = (
    *("pre_tokenizer", "normalization", "drop_invisible", "ascii_marks", "do_lower_case"),
    *("max_characters_per_word", "characters"),
)


def read_settings(directory: str | os.PathLike) -> dict[str, Any]:
    """What the vectors of a directory are: the fields of `EmbeddingSettings`, and besides

    `checkpoint`, its name; `checkpoint_sha256`, of `digest_of_checkpoint`; `num_layers`, L + 1; `vector_size`, D;
    `columns`, the names of the columns of vectors; `num_shards`, None as long as shards are missing.

    Raises: FileNotFoundError or ValueError naming the file.
    """
    file = Path(directory) / SETTINGS_FILE
    if not file.is_file():
        raise FileNotFoundError(f"{str(directory)!r} has no {SETTINGS_FILE}; name a directory of `hf-elmo embed`.")
    settings = read_json(file, repr(str(file)))
    if not isinstance(settings, dict) or settings.get("kind") != _KIND:
        raise ValueError(f"{str(file)!r} is not of vectors that `hf-elmo embed` wrote; name another directory.")
    return settings


def load_embeddings(directory: str | os.PathLike) -> Dataset:
    """The vectors that `hf-elmo embed --output_dir` wrote, a row per sentence of the corpus in its order.

    Arrow shards are memory-mapped; of Parquet shards `datasets` makes a mapped copy in its cache. For blocks of many
    sentences without a Python object for each number take

        for table in load_embeddings(directory).with_format("arrow").iter(batch_size=512):
            vectors = vectors_of(table[column])  # (words of the block, D)

    Raises: FileNotFoundError or ValueError naming the directory where shards are missing or damaged.
    """
    settings = read_settings(directory)
    count, file_format = settings.get("num_shards"), str(settings.get("format"))
    shards = [shard_path(directory, number, file_format) for number in range(count or 0)]
    if not shards or not all(map(os.path.isfile, shards)):
        raise ValueError(f"{str(directory)!r} is not complete; run the `hf-elmo embed` that began it again to resume.")
    try:
        if file_format == "parquet":
            return Dataset.from_parquet(list(map(str, shards)))
        return concatenate_datasets([Dataset.from_file(str(shard)) for shard in shards])
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{str(directory)!r} has a damaged shard ({error}); embed the text again.") from error


def vectors_of(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """The vectors of a column of `load_embeddings` one after another, (words or sentences, D), float32."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    while pa.types.is_list(column.type):
        column = column.flatten()
    return (
        column.flatten()
        .to_numpy(zero_copy_only=False)
        .reshape(-1, column.type.list_size)
        .astype(np.float32, copy=False)
    )


def shard_path(directory: str | os.PathLike, number: int, file_format: str) -> Path:
    """The file of a shard."""
    return Path(directory) / f"shard-{number:05d}.{file_format}"


def digest_of_checkpoint(embedder: ElmoEmbedder) -> str:
    """A digest of all that a checkpoint's vectors depend on: weights, config and tokenizer."""
    config = embedder.model.config.to_dict()
    for key in ("_name_or_path", "transformers_version", "architectures", "dtype"):
        config.pop(key, None)
    tokenizer = [getattr(embedder.tokenizer, name) for name in _TOKENIZER_FIELDS]
    digest = hashlib.sha256(json.dumps([config, tokenizer], sort_keys=True, default=str).encode())
    for name, tensor in sorted(embedder.model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class EmbeddingSettings:
    """What is written of each sentence, and how.

    Args:
        layers: As of `embed`: "mix", "all", "top", "average", "token" or a layer's number.
        pooling: "none" for a vector per word; "mean", "max" or "first-last" for one per sentence (`pool_words`).
        keep_markers: Whether `<S>` and `</S>` have vectors too, and are pooled.
        text_is_tokenized: Whether the words of a line stand between white space.
        storage_dtype: Precision of the numbers in the files.
        format: Of the files.
        max_words_per_shard: Words between white space, and two for each sentence, at which a shard is full.
    """

    layers: str | int = "mix"
    pooling: str = "none"
    keep_markers: bool = False
    text_is_tokenized: bool = False
    storage_dtype: Literal["float32", "float16"] = "float32"
    format: Literal["arrow", "parquet"] = "arrow"
    max_words_per_shard: int = 65536

    def check(self) -> None:
        """Raises: ValueError naming the argument, the value got and the value wanted."""
        for name, known in (("pooling", POOLINGS), ("storage_dtype", STORAGE_DTYPES), ("format", FORMATS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}.")
        if self.max_words_per_shard < 1:
            raise ValueError(f"max_words_per_shard is {self.max_words_per_shard}; it must be an integer >= 1.")

    def columns(self, num_layers: int) -> list[str]:
        """The names of the columns that hold vectors."""
        if self.layers == "all":
            return [f"layer_{number}" for number in range(num_layers)]
        return ["vectors" if self.pooling == "none" else "vector"]


class Shard(NamedTuple):
    """Sentences that follow one another, as they are read; `num_words` counts words between white space."""

    number: int
    first_sentence: int
    sentences: list[Sentence]
    num_words: int
    text_sha256: str


def cut_shards(sentences: Iterable[Sentence], max_words: int) -> Iterator[Shard]:
    """Cut a corpus into shards; the same text is cut alike in every run, by however many processes.

    Args:
        sentences: Lines, or lists of words.
        max_words: Words between white space, and two for each sentence, at which a shard ends.
    """
    rest, first = iter(sentences), 0
    for number in itertools.count():
        taken: list[Sentence] = []
        digest, num_words = hashlib.sha256(), 0
        for sentence in rest:
            taken.append(sentence)
            num_words += count_words(sentence)
            text = f"\n{sentence}" if isinstance(sentence, str) else "\n\n" + "\0".join(sentence)
            digest.update(text.encode("utf-8", "surrogatepass"))
            if num_words + 2 * len(taken) >= max_words:
                break
        if not taken:
            return
        yield Shard(number, first, taken, num_words, digest.hexdigest())
        first += len(taken)


class _Embedded(NamedTuple):
    """The words of a sentence that have vectors, where they stand in it, and the vectors."""

    words: list[str]
    offsets: list[tuple[int, int]]
    vectors: np.ndarray


class EmbeddingWriter:
    """Writes the vectors of a corpus into a directory, shard by shard.

    A shard appears under its name when it is complete, and holds a digest of its text: a run that was killed resumes
    when it is started again, and shards of another text are refused. On one machine, with as many threads, a shard has
    the same bytes whichever run or process writes it. The text and the vectors of one shard are held in memory.

        writer.prepare()
        for shard in writer.shards_left(sentences):
            writer.write(shard)
        writer.finish()

    Args:
        embedder: Gives the vectors; it encodes each distinct word of a buffer once, so that its max_words_per_buffer is
            best as large as a shard.
        output_dir: The directory.
        settings: What is written, and how.
        rank, num_ranks: Which of how many processes this is; each writes every `num_ranks`-th shard.
    Raises: ValueError naming what of the settings cannot be.
    """

    def __init__(
        self, embedder: ElmoEmbedder, output_dir: str, settings: EmbeddingSettings, rank: int = 0, num_ranks: int = 1
    ):
        settings.check()
        # Only to say what is wrong with the layers before anything is written.
        embedder.stream([], settings.layers)
        self.embedder, self.path, self.settings = embedder, Path(output_dir), settings
        self.rank, self.num_ranks, self.num_shards = rank, num_ranks, 0
        self.columns = settings.columns(embedder.num_layers)
        self._described = {
            "kind": _KIND,
            "checkpoint": embedder.name,
            "checkpoint_sha256": digest_of_checkpoint(embedder),
            "dtype": str(embedder.model.dtype).removeprefix("torch."),
            "vector_size": embedder.vector_size,
            "num_layers": embedder.num_layers,
            **asdict(settings),
            "columns": self.columns,
            "num_shards": None,
        }

    def prepare(self, overwrite: bool = False) -> None:
        """Make the directory, or check that it was begun with these settings; the first process goes first.

        Args:
            overwrite: Whether the vectors that are there are removed first.
        Raises: FileExistsError where it holds something else; ValueError naming the first setting that differs.
        """
        is_ours = (self.path / SETTINGS_FILE).exists()
        begun = read_settings(self.path) if is_ours else {}
        # What killed processes left; when the others come, the first one may be writing already.
        left = () if self.rank else (".shard-*",)
        for pattern in (*left, *(("shard-*", "clusters-*", SETTINGS_FILE) if is_ours and overwrite else ())):
            for file in self.path.glob(pattern):
                shutil.rmtree(file) if file.is_dir() else file.unlink()
        if is_ours and not overwrite:
            self._compare(begun)
        else:
            # Whoever writes into a directory of something else does not mean to replace that.
            if self.path.is_dir() and any(self.path.iterdir()):
                raise FileExistsError(
                    f"output_dir {str(self.path)!r} is not empty and has no vectors of `hf-elmo embed`; name another "
                    "one."
                )
            check_output_directory(self.path)
            self._write_settings(self._described)

    def shards_left(self, sentences: Iterable[Sentence]) -> Iterator[Shard]:
        """The shards of a corpus that this process has to write, for `write`.

        Args:
            sentences: The corpus, from its beginning.
        Raises: ValueError where a shard that is there has another text; what reading raises.
        """
        num_shards = read_settings(self.path).get("num_shards")
        for shard in cut_shards(sentences, self.settings.max_words_per_shard):
            file = self._file(shard.number)
            if num_shards is not None and shard.number >= num_shards:
                raise self._other_text(f"the whole of a text of {num_shards} shards, and this one has more")
            self.num_shards = shard.number + 1
            if not file.exists():
                if shard.number % self.num_ranks == self.rank:
                    yield shard
            elif _schema_of(file).metadata.get(_TEXT_DIGEST) != shard.text_sha256.encode():
                last = shard.first_sentence + len(shard.sentences) - 1
                raise self._other_text(f"{file.name} of other sentences than {shard.first_sentence} to {last} here")
        files = {self._file(number).name for number in range(self.num_shards)}
        more = sorted({file.name for file in self.path.glob(f"shard-*.{self.settings.format}")} - files)
        if more:
            raise self._other_text(f"{more[0]}, and this text has {self.num_shards} shards")

    def write(self, shard: Shard) -> tuple[Path, int]:
        """Embed a shard and write it under its name.

        Returns: The file, and how many words have been embedded, which a tokenizer may cut into more than white space.
        Raises: FloatingPointError where a number is too large for float16.
        """
        target, number, num_words = self._file(shard.number), shard.first_sentence, 0
        entries = self._embed(shard)
        with files_written_aside(target) as (aside,):
            writer: Any = None
            while group := list(itertools.islice(entries, _SENTENCES_AT_A_TIME)):
                batch = self._as_batch(group, number).replace_schema_metadata({_TEXT_DIGEST: shard.text_sha256})
                writer = writer or self._open(aside, batch.schema)
                writer.write_batch(batch)
                number += len(group)
                num_words += sum(len(entry.words) for entry in group)
            writer.close()
            open_to_readers(aside.parent)
        return target, num_words

    def finish(self) -> bool:
        """Whether all shards are there, whichever process wrote them, once `shards_left` has been read to its end."""
        is_complete = all(self._file(number).exists() for number in range(self.num_shards))
        if is_complete and read_settings(self.path).get("num_shards") is None:
            self._write_settings({**self._described, "num_shards": self.num_shards})
        return is_complete

    def _file(self, number: int) -> Path:
        return shard_path(self.path, number, self.settings.format)

    def _write_settings(self, settings: dict[str, Any]) -> None:
        with files_written_aside(self.path / SETTINGS_FILE) as (aside,):
            write_json(aside, settings)

    def _compare(self, begun: dict[str, Any]) -> None:
        for name in {**begun, **self._described}:
            was, now = begun.get(name), self._described.get(name)
            if was != now and name not in _NOT_COMPARED:
                raise ValueError(
                    f"output_dir {str(self.path)!r} was begun with {name} {was!r}, and now it is {now!r}; resume with "
                    "the same checkpoint and settings, name another directory, or pass --overwrite_output_dir to begin "
                    "anew."
                )

    def _other_text(self, what: str) -> ValueError:
        return ValueError(
            f"output_dir {str(self.path)!r} holds {what}; give the text that it was begun with, name another "
            "directory, or pass --overwrite_output_dir to begin anew."
        )

    def _embed(self, shard: Shard) -> Iterator[_Embedded]:
        # A stream for each shard: a word's last bits depend on the words that it is encoded with, and the bytes of a
        # shard must not depend on what this process has met before.
        cut = [self._cut(sentence) for sentence in shard.sentences]
        arrays = self.embedder.stream(
            (words for words, _ in cut), self.settings.layers, keep_markers=self.settings.keep_markers
        )
        for (words, offsets), array in zip(cut, arrays, strict=True):
            if self.settings.keep_markers:
                end = offsets[-1][1] if offsets else 0
                words, offsets = [BOS_TOKEN, *words, EOS_TOKEN], [(0, 0), *offsets, (end, end)]
            yield _Embedded(words, offsets, pool_words(array, self.settings.pooling))

    def _cut(self, sentence: Sentence) -> tuple[list[str], list[tuple[int, int]]]:
        if isinstance(sentence, str):
            return words_with_offsets(sentence, self.embedder.tokenizer, self.settings.text_is_tokenized)
        # Where they would stand between single spaces.
        ends = list(itertools.accumulate(len(word) + 1 for word in sentence))
        return sentence, [(end - 1 - len(word), end - 1) for word, end in zip(sentence, ends, strict=True)]

    def _open(self, file: Path, schema: pa.Schema) -> Any:
        if self.settings.format == "arrow":
            return pa.ipc.new_stream(str(file), schema)
        return parquet.ParquetWriter(file, schema, use_dictionary=False, write_statistics=["sentence_id"])

    def _as_batch(self, entries: list[_Embedded], first_sentence: int) -> pa.RecordBatch:
        lengths = [len(entry.words) for entry in entries]
        ends = pa.array(np.cumsum([0, *lengths]), pa.int32())
        offsets = np.array([place for entry in entries for place in entry.offsets], np.int32).reshape(-1, 2)

        def per_word(values: pa.Array) -> pa.Array:
            return pa.ListArray.from_arrays(ends, values)

        columns = {
            "sentence_id": pa.array(range(first_sentence, first_sentence + len(entries)), pa.int64()),
            "words": per_word(pa.array([word for entry in entries for word in entry.words], pa.string())),
            "starts": per_word(pa.array(offsets[:, 0])),
            "ends": per_word(pa.array(offsets[:, 1])),
        }
        is_pooled = self.settings.pooling != "none"
        for layer, name in enumerate(self.columns):
            arrays = [entry.vectors[layer] if self.settings.layers == "all" else entry.vectors for entry in entries]
            vectors = np.stack(arrays) if is_pooled else np.concatenate(arrays)
            with np.errstate(over="raise"):
                numbers = vectors.astype(self.settings.storage_dtype, copy=False)
            column = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), vectors.shape[1])
            columns[name] = column if is_pooled else per_word(column)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _schema_of(file: Path) -> pa.Schema:
    try:
        if file.suffix == ".parquet":
            return parquet.read_schema(file)
        with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
            return stream.schema
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{str(file)!r} is damaged ({error}); remove it, and it is written again.") from error
