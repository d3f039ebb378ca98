"""Uses in shards by way of clusters of their vectors: what lies far from a word is not looked into."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..checkpoints.provenance import write_json
from ..checkpoints.writing import files_written_aside
from ..given.bounded_json import read_json
from .embedding_shards import vectors_of
from .neighbours import Use, unit
from .shard_search import EmbeddedCorpus, ShardBatch, ShardIndex

# Clusters are as many as four square roots of the uses, as faiss advises, with so many uses in each at least.
_LEAST_IN_CLUSTER, _MOST_CLUSTERS = 40, 4096
# Uses that the middles are worked out from, per cluster, and clusters that are looked into for a word.
_SAMPLED_PER_CLUSTER, _CLUSTERS_TO_LOOK_INTO = 64, 16


class _Block(NamedTuple):
    """A batch, and the number of its first use among all uses."""

    batch: int
    first_use: int


class ClusterIndex(ShardIndex):
    """As `ShardIndex`, looking only into the blocks that hold uses near to a word by an index of clusters (faiss).

    What is found has the same similarities; a use that is near, but lies in a block of which no other use is, may be
    missed. Where nothing is found, all blocks are looked into. The index is made by the first search and kept beside
    the shards, a byte for each number of a vector; later searches map it into memory.

    Args:
        directory, embedder, layer, track: As of `ShardIndex`.
    Raises: ImportError where faiss is not installed; ValueError as `ShardIndex`, and for an index that is damaged.
    """

    def _prepare(self) -> None:
        try:
            import faiss
        except ImportError as error:
            raise ImportError("--approximate needs faiss: pip install 'hf_elmo[search]'.") from error
        path = self.corpus.path
        self._files = path / f"clusters-{self.column}.faiss", path / f"clusters-{self.column}.json"
        facts = self._read_facts() if all(file.is_file() for file in self._files) else None
        if facts is None or facts["vectors_sha256"] != _digest(self.corpus):
            self._build(faiss)
            facts = self._read_facts()
        self._blocks = [_Block(*block) for block in facts["blocks"]]
        # Old versions of faiss map a file that was cut off, and read beyond its end.
        if self._files[0].stat().st_size != facts["num_bytes"]:
            raise self._damaged(self._files[0])
        try:
            self._index = faiss.read_index(str(self._files[0]), faiss.IO_FLAG_MMAP)
        except RuntimeError as error:
            raise self._damaged(self._files[0]) from error
        if self._index.ntotal != self.corpus.num_words or self._index.d != self.corpus.settings["vector_size"]:
            raise self._damaged(self._files[0])
        faiss.ParameterSpace().set_index_parameter(self._index, "nprobe", _CLUSTERS_TO_LOOK_INTO)

    def nearest_to_each(
        self, sentence: str | Sequence[str], places: Sequence[int], count: int = 1, same_word: bool = False
    ) -> list[list[tuple[float, Use]]]:
        """See `ShardIndex`; where the near blocks hold no such use, all are looked into."""
        words = self.cut(sentence)
        found = self._nearest(words, places, count, same_word, self._near_blocks)
        missing = [place for place, uses in zip(places, found, strict=True) if not uses]
        exact = iter(super().nearest_to_each(words, missing, count, same_word) if missing else ())
        return [uses or next(exact) for uses in found]

    def _near_blocks(self, queries: np.ndarray, count: int) -> Iterator[ShardBatch]:
        _, uses = self._index.search(np.ascontiguousarray(queries.T), min(count, self._index.ntotal))
        firsts = np.array([block.first_use for block in self._blocks])
        # Where fewer are found than asked for, faiss says -1.
        places = np.unique(np.searchsorted(firsts, uses[uses >= 0], side="right") - 1)
        yield from self.corpus.batches([self._blocks[place].batch for place in places])

    def _read_facts(self) -> dict[str, Any]:
        path = self._files[1]
        facts = read_json(path, repr(str(path)))
        blocks = facts.get("blocks") if isinstance(facts, dict) else None
        if not isinstance(blocks, list) or not isinstance(facts.get("vectors_sha256"), str) or "num_bytes" not in facts:
            raise self._damaged(path)
        if not all(isinstance(block, list) and [*map(type, block)] == [int] * 2 for block in blocks):
            raise self._damaged(path)
        batches, firsts = [block[0] for block in blocks], [block[1] for block in blocks]
        if not all(0 <= batch < self.corpus.num_batches for batch in batches) or firsts != sorted(firsts):
            raise self._damaged(path)
        return facts

    def _damaged(self, path: Any) -> ValueError:
        return ValueError(f"{str(path)!r} is no index of the vectors beside it; remove it, and it is made again.")

    def _build(self, faiss: Any) -> None:
        """Make the index in two passes over the vectors: some of them give the clusters, then all are put into them."""
        num_uses = self.corpus.num_words
        most = min(_MOST_CLUSTERS, num_uses // _LEAST_IN_CLUSTER)
        clusters = max(1, min(most, int(4 * num_uses**0.5)))
        step = max(1, num_uses // (_SAMPLED_PER_CLUSTER * clusters))
        size = self.corpus.settings["vector_size"]
        index = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(size), size, clusters, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        index.train(np.concatenate([vectors[::step] for vectors in self._vectors(self.corpus.batches())]))
        blocks: list[_Block] = []

        def numbered() -> Iterator[ShardBatch]:
            first_use = 0
            for number, batch in enumerate(self.corpus.batches()):
                blocks.append(_Block(number, first_use))
                first_use += len(batch.words)
                yield batch

        for vectors in self._vectors(numbered()):
            index.add(vectors)
        with files_written_aside(*self._files) as (index_file, facts_file):
            faiss.write_index(index, str(index_file))
            num_bytes = index_file.stat().st_size
            write_json(facts_file, {"vectors_sha256": _digest(self.corpus), "num_bytes": num_bytes, "blocks": blocks})

    def _vectors(self, batches: Iterator[ShardBatch]) -> Iterator[np.ndarray]:
        for batch in self._tracked(batches):
            yield np.ascontiguousarray(unit(vectors_of(batch.rows[self.column])), dtype=np.float32)


def _digest(corpus: EmbeddedCorpus) -> str:
    """Of the checkpoint, the settings and the shards as they lie there."""
    stats = [path.stat() for path in sorted(corpus.path.glob("shard-*"))]
    facts = [corpus.settings, [(stat.st_size, stat.st_mtime_ns) for stat in stats]]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
