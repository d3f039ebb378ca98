"""A whole corpus to shards of vectors, by one process or several, and on from where a killed run stood."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from ..checkpoints.writing import files_written_aside, open_to_readers
from ..kernels import cache_words
from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN
from ..text.sentence_sources import Sentence, SentenceSource, count_words
from .embedder import ElmoEmbedder
from .embedding_directory import EmbeddingDirectory, ShardRecord, describe_checkpoint, shard_file
from .pooling import POOLINGS, pool_words
from .shard_files import COMPRESSIONS, ShardBatch, ShardFormat, check_compression, open_shard
from .stored_numbers import STORAGE_DTYPES, StorageDtype, StorageError, store_numbers
from .word_places import words_with_offsets

# Words whose vectors are written together.
_WORDS_AT_A_TIME = 8192
_CACHED_WORDS = 200_000


@dataclass(frozen=True)
class VectorSettings:
    """What is written of each sentence, and how.

    Args:
        layers: As of `embed`: "mix", "all", "top", "average", "token" or a layer's number.
        pooling: "none" for a vector per word; "mean", "max" or "first-last" for one per sentence (`pool_words`).
        keep_markers: Whether `<S>` and `</S>` have vectors too, and are pooled.
        text_is_tokenized: Whether the words of a line stand between white space.
        storage_dtype: "float32", "float16", or "int8" with a scale per vector.
        format: "arrow", "parquet", "safetensors" or "numpy".
        compression: "none", "gzip" or "zstd", as far as the format has it.
        max_words_per_shard: Words between white space, and two for each sentence, until a shard is full.
    """

    layers: str | int = "mix"
    pooling: str = "none"
    keep_markers: bool = False
    text_is_tokenized: bool = False
    storage_dtype: StorageDtype = "float32"
    format: ShardFormat = "arrow"
    compression: str = "none"
    max_words_per_shard: int = 65536

    def check(self) -> None:
        """Raises: ValueError naming the argument, the value got and the value wanted."""
        for name, known in (("pooling", POOLINGS), ("storage_dtype", STORAGE_DTYPES), ("format", tuple(COMPRESSIONS))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}.")
        check_compression(self.format, self.compression)
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


@dataclass(frozen=True)
class CorpusSummary:
    """What a run did: the shards that this process wrote, and whether all of the text's are there now.

    Args:
        written: The shards of this process in this run.
        num_skipped: Shards that stood there before.
        num_shards: Shards of the whole text.
        is_complete: Whether all of them are there.
        seconds: Of reading, computing and writing.
    """

    written: list[ShardRecord]
    num_skipped: int
    num_shards: int
    is_complete: bool
    seconds: float

    @property
    def num_words(self) -> int:
        return sum(record.num_words for record in self.written)

    @property
    def storage_error(self) -> StorageError:
        return sum((record.storage_error for record in self.written), StorageError())


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


class CorpusEmbedder:
    """The vectors of a corpus, written shard by shard into a directory.

    A shard appears under its name when it is complete, and the directory knows which text it holds: a run that is
    killed is gone on with by running it again, and shards of another text are refused. On one machine, with as many
    threads and the same kernels, a shard has the same bytes whichever run or process writes it. What is held in memory
    is the text of a shard and the vectors of a buffer; of safetensors and npz, those of a shard.

    Args:
        embedder: Gives the vectors; each distinct word of a shard is encoded once.
        output_dir: The directory.
        settings: What is written, and how.
        rank, num_ranks: Which of how many processes this is; each writes every `num_ranks`-th shard.
    Raises: ValueError naming what of the settings cannot be.
    """

    def __init__(
        self,
        embedder: ElmoEmbedder,
        output_dir: str,
        settings: VectorSettings,
        rank: int = 0,
        num_ranks: int = 1,
    ):
        settings.check()
        # Only to say what is wrong with the layers before anything is written.
        embedder.stream([], settings.layers)
        self.embedder, self.settings = embedder, settings
        self.rank, self.num_ranks = rank, num_ranks
        self.columns = settings.columns(embedder.num_layers)
        self.directory = EmbeddingDirectory(output_dir, self._describe())

    def prepare(self, overwrite: bool = False) -> None:
        """Make the directory, or check what is there; the first process's task, before any other goes on.

        Raises: FileExistsError or ValueError as `EmbeddingDirectory.prepare`.
        """
        self.directory.prepare(overwrite)

    def words_to_embed(self, source: SentenceSource) -> int:
        """Words between white space that this process will embed, by one reading of the text.

        Raises: ValueError where a shard that is there has another text, and for text that cannot be read.
        """
        finished = self.directory.finished()
        shards = cut_shards(source, self.settings.max_words_per_shard)
        return sum(shard.num_words for shard in self._mine(shards, finished))

    def run(
        self,
        sentences: Iterable[Sentence],
        track: Callable[[Iterator[Any], Callable[[Any], int]], Iterator[Any]] = lambda items, size: items,
    ) -> CorpusSummary:
        """Embed what is not there yet of this process's share.

        Args:
            sentences: The corpus, from its beginning.
            track: Shows how far it is: called with an iterator and a function that gives the words of each of its
                items; passes the items on.
        Raises: ValueError where a shard that is there has another text; FloatingPointError where a number is too large
            for float16; what reading raises.
        """
        started = time.perf_counter()
        finished, num_shards = self.directory.finished(), 0

        def counted() -> Iterator[Shard]:
            nonlocal num_shards
            for shard in cut_shards(sentences, self.settings.max_words_per_shard):
                num_shards = shard.number + 1
                yield shard

        try:
            items = track(self._embedded(self._mine(counted(), finished)), lambda item: count_words(item.sentence))
            by_shard = itertools.groupby(items, lambda item: item.shard.number)
            written = [self._write(next(entries), entries) for _, entries in by_shard]
        finally:
            cache_words(self.embedder.model.token_encoder, None)
        if len(finished) > num_shards:
            raise self._other_text(f"more shards than this text has, {num_shards}")
        complete = self.directory.complete(num_shards)
        return CorpusSummary(written, len(finished), num_shards, complete, time.perf_counter() - started)

    def _describe(self) -> dict[str, Any]:
        return {
            "checkpoint": self.embedder.name,
            "checkpoint_sha256": describe_checkpoint(self.embedder),
            "dtype": str(self.embedder.model.dtype).removeprefix("torch."),
            "vector_size": self.embedder.vector_size,
            "num_layers": self.embedder.num_layers,
            **asdict(self.settings),
            "columns": self.columns,
        }

    def _mine(self, shards: Iterable[Shard], finished: dict[int, ShardRecord]) -> Iterator[Shard]:
        """The shards that this process has to write; what stands there must be of this text."""
        was_complete = self.directory.is_complete
        for shard in shards:
            record = finished.get(shard.number)
            if record is None and was_complete:
                raise self._other_text(f"the whole of a text of {len(finished)} shards, and this one has more")
            if record is None and shard.number % self.num_ranks == self.rank:
                yield shard
            elif record is not None and record.text_sha256 != shard.text_sha256:
                last = shard.first_sentence + len(shard.sentences) - 1
                raise self._other_text(f"{record.file} of other sentences than {shard.first_sentence} to {last} here")

    def _other_text(self, what: str) -> ValueError:
        return ValueError(
            f"output_dir {str(self.directory.path)!r} holds {what}; give the text that it was begun with, name another "
            "directory, or pass --overwrite_output_dir to begin anew."
        )

    def _embedded(self, shards: Iterable[Shard]) -> Iterator[_Embedded]:
        for shard in shards:
            # Anew for each shard: a word's last bits depend on the words that it is encoded with, and those of a shard
            # must not depend on what this process has met before.
            cache_words(self.embedder.model.token_encoder, _CACHED_WORDS)
            cut = [self._cut(sentence) for sentence in shard.sentences]
            arrays = self.embedder.stream(
                (words for words, _ in cut), self.settings.layers, keep_markers=self.settings.keep_markers
            )
            for sentence, (words, offsets), array in zip(shard.sentences, cut, arrays, strict=True):
                if self.settings.keep_markers:
                    end = offsets[-1][1] if offsets else 0
                    words, offsets = [BOS_TOKEN, *words, EOS_TOKEN], [(0, 0), *offsets, (end, end)]
                yield _Embedded(shard, sentence, words, offsets, pool_words(array, self.settings.pooling))

    def _cut(self, sentence: Sentence) -> tuple[list[str], list[tuple[int, int]]]:
        if isinstance(sentence, str):
            return words_with_offsets(sentence, self.embedder.tokenizer, self.settings.text_is_tokenized)
        # Where they would stand between single spaces.
        ends = list(itertools.accumulate(len(word) + 1 for word in sentence))
        return sentence, [(end - 1 - len(word), end - 1) for word, end in zip(sentence, ends, strict=True)]

    def _write(self, first: _Embedded, others: Iterator[_Embedded]) -> ShardRecord:
        shard = first.shard
        target = self.directory.path / shard_file(shard.number, self.settings.format)
        error, num_words, number = StorageError(), 0, shard.first_sentence
        with files_written_aside(target) as (aside,):
            with open_shard(aside, self.settings.format, self.settings.compression) as write:
                for together in _groups(itertools.chain([first], others)):
                    batch = self._as_batch(together, number, error)
                    write(batch)
                    num_words, number = num_words + len(batch.words), number + len(together)
            open_to_readers(aside.parent)
        record = ShardRecord(
            shard.number,
            target.name,
            shard.first_sentence,
            len(shard.sentences),
            num_words,
            target.stat().st_size,
            shard.text_sha256,
            error.squared_error,
            error.squared_norm,
            error.largest,
        )
        self.directory.note(record)
        return record

    def _as_batch(self, entries: list[_Embedded], number: int, error: StorageError) -> ShardBatch:
        is_pooled, has_layers = self.settings.pooling != "none", self.settings.layers == "all"
        columns = {}
        for layer, name in enumerate(self.columns):
            arrays = [entry.vectors[layer] if has_layers else entry.vectors for entry in entries]
            vectors = np.stack(arrays) if is_pooled else np.concatenate(arrays)
            columns[name] = store_numbers(vectors, self.settings.storage_dtype)
            if self.settings.storage_dtype != "float32":
                error.measure(vectors, columns[name])
        return ShardBatch(
            np.arange(number, number + len(entries)),
            np.array([len(entry.words) for entry in entries], dtype=np.int64),
            [word for entry in entries for word in entry.words],
            np.array([place for entry in entries for place in entry.offsets], dtype=np.int32).reshape(-1, 2),
            columns,
            is_pooled,
        )


class _Embedded(NamedTuple):
    """A sentence of a shard, the words that have vectors, where they stand, and the vectors."""

    shard: Shard
    sentence: Sentence
    words: list[str]
    offsets: list[tuple[int, int]]
    vectors: np.ndarray


def _groups(entries: Iterable[_Embedded]) -> Iterator[list[_Embedded]]:
    """As many sentences at a time as have some thousands of words; empty ones count too."""
    group: list[_Embedded] = []
    num_words = 0
    for entry in entries:
        group.append(entry)
        num_words += len(entry.words) + 1
        if num_words >= _WORDS_AT_A_TIME:
            yield group
            group, num_words = [], 0
    if group:
        yield group
