"""The uses of words in a corpus that are nearest to a word as a sentence uses it, by vectors that lie in shards."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .embedder import ElmoEmbedder
from .embedding_shards import digest_of_checkpoint, load_embeddings, read_settings, vectors_of
from .neighbours import Use, UseFinder, distinct_sentences, unit

# Uses that are kept of a first pass, of which those in sentences that are nearly the same are left out.
_LEAST_KEPT = 64
_KEPT_PER_WANTED = 8
# Sentences that are compared together.
_SENTENCES_AT_A_TIME = 256


class ShardBatch(NamedTuple):
    """Sentences that follow one another: their numbers and words in each, (S,), the N words, and their rows."""

    sentence_ids: np.ndarray
    num_words: np.ndarray
    words: list[str]
    rows: pa.Table


class EmbeddedCorpus:
    """The vectors of a directory, some sentences at a time.

    Args:
        directory: Written by `hf-elmo embed --output_dir`.
    Raises: As `load_embeddings`.
    """

    def __init__(self, directory: str | os.PathLike):
        self.path, self.settings = Path(directory), read_settings(directory)
        self.columns: list[str] = self.settings["columns"]
        self._rows = load_embeddings(directory).with_format("arrow")
        self.num_sentences = len(self._rows)
        self.num_batches = -(-self.num_sentences // _SENTENCES_AT_A_TIME)
        self.num_words = pc.sum(pc.list_value_length(self._rows.data.column("words"))).as_py() or 0

    def batches(self, numbers: Iterable[int] | None = None) -> Iterator[ShardBatch]:
        """Batches by their numbers; None for all."""
        for number in range(self.num_batches) if numbers is None else numbers:
            rows = self._rows[number * _SENTENCES_AT_A_TIME : (number + 1) * _SENTENCES_AT_A_TIME]
            words = rows["words"].combine_chunks()
            yield ShardBatch(
                rows["sentence_id"].to_numpy(), words.value_lengths().to_numpy(), words.flatten().to_pylist(), rows
            )


# Passes batches on, and shows how many of their words, of so many, have gone by.
Track = Callable[[Iterator[ShardBatch], int], Iterator[ShardBatch]]
# The blocks that are looked into for so many uses nearest to each query, (D, Q).
_Blocks = Callable[[np.ndarray, int], Iterator[ShardBatch]]


class ShardIndex(UseFinder):
    """All uses of all words of a corpus whose vectors `hf-elmo embed --output_dir` wrote.

    The search is exact: every vector is compared, a block of some thousands after another. Nothing but the block and
    the best uses is held in memory; the files are memory-mapped.

    Args:
        directory: The shards, without pooling.
        embedder: The checkpoint that made them, for the vectors of other sentences.
        layer: The layer to compare, from 0 or backwards from -1; None takes the one there is, or of all the top one.
        track: Shows how far a search is.
    Raises: FileNotFoundError or ValueError naming the directory, or the argument, where they do not fit.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        embedder: ElmoEmbedder,
        layer: int | None = None,
        track: Track = lambda batches, num_words: batches,
    ):
        super().__init__(embedder.tokenizer)
        self.corpus, self.embedder, self._track = EmbeddedCorpus(directory), embedder, track
        settings = self.corpus.settings
        self._has_markers: bool = settings["keep_markers"]
        where = f"vectors {str(directory)!r}"
        if settings["pooling"] != "none":
            raise ValueError(
                f"{where} has one vector per sentence ({settings['pooling']}); embed the text without --pooling."
            )
        if settings["checkpoint_sha256"] != digest_of_checkpoint(embedder):
            raise ValueError(
                f"{where} is of the checkpoint {settings['checkpoint']!r}, and model_name_or_path {embedder.name!r} is "
                "another one, whose vectors do not compare; name the one that made them."
            )
        if settings["layers"] == "all":
            self.layers: str | int = _checked(-1 if layer is None else layer, settings["num_layers"])
            self.column = self.corpus.columns[int(self.layers)]
        else:
            self.layers, self.column = settings["layers"], self.corpus.columns[0]
            if layer is not None and _number_of(self.layers, settings["num_layers"]) != _checked(
                layer, settings["num_layers"]
            ):
                raise ValueError(
                    f"layer is {layer}, and {where} has layers {self.layers!r} alone; leave it out, or embed the text "
                    "with --layers all."
                )
        self._prepare()

    def _prepare(self) -> None:
        """Open or make what searches need beside the shards."""

    def __repr__(self) -> str:
        corpus = self.corpus
        return (
            f"ShardIndex of {corpus.num_words:,} uses in {corpus.num_sentences:,} sentences, by layers {self.layers!r}"
        )

    def nearest_to_each(
        self, sentence: str | Sequence[str], places: Sequence[int], count: int = 1, same_word: bool = False
    ) -> list[list[tuple[float, Use]]]:
        """For each of some words of a sentence the most similar uses, by cosine, with their similarities.

        Of sentences that are nearly the same only the nearest use is given, and none of those that are nearly the same
        as this one.

        Args:
            sentence: A string or a list of words.
            places: The words' places in it, from 0.
            count: How many uses.
            same_word: Whether only uses of the same word, in upper or lower case, are looked at.
        """
        return self._nearest(self.cut(sentence), places, count, same_word, self._all_blocks)

    def _nearest(
        self, words: tuple[str, ...], places: Sequence[int], count: int, same_word: bool, blocks: _Blocks
    ) -> list[list[tuple[float, Use]]]:
        """As `nearest_to_each`, among the uses in some blocks."""
        vectors = unit(self.embedder.embed_sentence(words, self.layers)[list(places)])
        queries = [_Query(Use(-1, place, words), vector) for place, vector in zip(places, vectors, strict=True)]
        results: dict[int, list[tuple[float, Use]]] = {}
        kept = max(_LEAST_KEPT, _KEPT_PER_WANTED * count)
        while left := [number for number in range(len(queries)) if number not in results]:
            best = self._best([queries[number] for number in left], kept, same_word, blocks)
            for number, uses in zip(left, best, strict=True):
                found = list(itertools.islice(distinct_sentences(uses, queries[number].use), count))
                # Too many of those that were kept lie in sentences that are nearly the same: look at more.
                if len(found) == count or len(uses) < kept:
                    results[number] = found
            kept *= _KEPT_PER_WANTED
        return [results[number] for number in range(len(queries))]

    def _best(
        self, queries: Sequence[_Query], count: int, same_word: bool, blocks: _Blocks
    ) -> list[list[tuple[float, Use]]]:
        """The `count` most similar uses for each query, the nearest first."""
        best: list[list[tuple[float, Use]]] = [[] for _ in queries]
        stacked = np.stack([query.vector for query in queries], axis=1)
        for batch in blocks(stacked, count):
            similarities = unit(vectors_of(batch.rows[self.column])) @ stacked
            words = np.array([word.casefold() for word in batch.words], dtype=object)
            ends = np.cumsum(batch.num_words)
            is_word = np.ones(len(words), dtype=bool)
            if self._has_markers:
                is_word[ends - batch.num_words] = is_word[ends - 1] = False
            for number, query in enumerate(queries):
                wanted = is_word & (words == query.use.word.casefold()) if same_word else is_word
                # What cannot be among the best any more is left out first.
                least = best[number][-1][0] if len(best[number]) == count else -np.inf
                (rows,) = np.nonzero(wanted & (similarities[:, number] > least))
                order = np.argsort(-similarities[rows, number], kind="stable")[:count]
                new = [(float(similarities[row, number]), self._use_at(batch, ends, int(row))) for row in rows[order]]
                best[number] = sorted([*best[number], *new], key=lambda entry: -entry[0])[:count]
        return best

    def _all_blocks(self, queries: np.ndarray, count: int) -> Iterator[ShardBatch]:
        return self._tracked(self.corpus.batches())

    def _tracked(self, batches: Iterator[ShardBatch]) -> Iterator[ShardBatch]:
        return self._track(batches, self.corpus.num_words)

    def _use_at(self, batch: ShardBatch, ends: np.ndarray, row: int) -> Use:
        sentence = int(np.searchsorted(ends, row, side="right"))
        start, end = int(ends[sentence] - batch.num_words[sentence]), int(ends[sentence])
        if self._has_markers:
            start, end = start + 1, end - 1
        return Use(int(batch.sentence_ids[sentence]), row - start, tuple(batch.words[start:end]))


class _Query(NamedTuple):
    """A word as a sentence uses it, and its vector of the length 1."""

    use: Use
    vector: np.ndarray


def _number_of(layers: str | int, num_layers: int) -> int | None:
    """The layer that was asked for by a name or from behind; None for more than one."""
    number = {"token": 0, "top": num_layers - 1}.get(str(layers), layers)
    return number % num_layers if isinstance(number, int) else None


def _checked(layer: int, num_layers: int) -> int:
    if not -num_layers <= layer < num_layers:
        raise ValueError(f"layer is {layer}; the vectors are of the layers 0 to {num_layers - 1}.")
    return layer % num_layers
