"""Nearest neighbors: uses by contextual vectors, words by vectors without context (Peters et al. 2018, table 4).

Letters in shapes: N words of some sentences one after another, Q queries, D numbers of a vector.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pyarrow import compute

from ..hub.writing import files_written_aside
from ..text.progress import track
from .embedder import ElmoEmbedder
from .embedding import resolve_layers
from .embedding_shards import digest_of_checkpoint, load_embeddings, read_settings, vectors_of
from .word_uses import StaticWords, Use, other_spellings, unit

# Two sentences are shown as one where this fraction of their words, in this order, is the same.
_NEARLY_THE_SAME = 0.8
# Uses that a first pass keeps, of which those in sentences that are nearly the same are left out.
_LEAST_KEPT, _KEPT_PER_RESULT = 64, 8
_SENTENCES_PER_BLOCK = 256
# Clusters of an approximate search: four square roots of the uses, as faiss advises, of so many uses at least each.
_LEAST_IN_CLUSTER, _MOST_CLUSTERS = 40, 4096
# Uses that the clusters are computed from, per cluster, and clusters that are looked into for a word.
_SAMPLED_PER_CLUSTER, _CLUSTERS_PER_QUERY = 64, 16


class Block(NamedTuple):
    """Some sentences, their indices in the text, and the vectors of all their words, of length 1, (N, D)."""

    indices: Sequence[int]
    sentences: Sequence[tuple[str, ...]]
    vectors: np.ndarray


# The blocks in which uses near to some queries (Q, D) may lie, for so many uses of each.
_Blocks = Callable[[np.ndarray, int], Iterable[Block]]


class UseIndex:
    """What finds the uses of a text that are nearest to a word in a sentence; `TextIndex` and `ShardIndex` make it.

    Args:
        embedder: The checkpoint, for the vectors of other sentences.
        layers: The vectors to compare, as of `embed`: "top", "token", "average", "mix" or a layer's number.
    """

    def __init__(self, embedder: ElmoEmbedder, layers: str | int):
        if layers == "all":
            raise ValueError("layers is 'all', which gives several vectors to a word; name one of the layers.")
        self.embedder, self.layers = embedder, layers

    def all_blocks(self, queries: np.ndarray, count: int) -> Iterable[Block]:
        """The whole text."""
        raise NotImplementedError

    # Where to look first; None for the whole text.
    near_blocks: _Blocks | None = None

    def nearest_to(
        self, sentence: str | Sequence[str], positions: Sequence[int], count: int = 1, same_word: bool = False
    ) -> list[list[tuple[float, Use]]]:
        """The uses most similar, by cosine, to some words of a sentence as it uses them, nearest first.

        Of sentences that are nearly the same only the nearest use is given, and none of those that are nearly the same
        as this one. No use is given only where the text has no other.

        Args:
            sentence: A string, which the tokenizer cuts, or a list of words.
            positions: Positions of the words in it, from 0.
            count: Number of uses.
            same_word: Whether only uses of the same word, in upper or lower case, are looked at.
        Returns: For each position, similarities and uses.
        """
        words = self.tokenize(sentence)
        vectors = unit(self.embedder.embed_sentence(words, self.layers))
        return self.nearest([Use(-1, at, words) for at in positions], vectors[list(positions)], count, same_word)

    def nearest(
        self, uses: Sequence[Use], vectors: np.ndarray, count: int = 1, same_word: bool = False
    ) -> list[list[tuple[float, Use]]]:
        """As `nearest_to`, for uses and their vectors (Q, D) of length 1."""
        if self.near_blocks is None:
            return self._search(self.all_blocks, uses, vectors, count, same_word)
        found = self._search(self.near_blocks, uses, vectors, count, same_word)
        # Only a search of the whole text can say that there is no other use.
        missing = [number for number, each in enumerate(found) if not each]
        again = [uses[number] for number in missing]
        exact = iter(self._search(self.all_blocks, again, vectors[missing], count, same_word))
        return [each or next(exact) for each in found]

    def _search(
        self, blocks: _Blocks, uses: Sequence[Use], vectors: np.ndarray, count: int, same_word: bool
    ) -> list[list[tuple[float, Use]]]:
        results: dict[int, list[tuple[float, Use]]] = {}
        kept = max(_LEAST_KEPT, _KEPT_PER_RESULT * count)
        while left := [number for number in range(len(uses)) if number not in results]:
            best = _best(blocks(vectors[left], kept), [uses[number] for number in left], vectors[left], kept, same_word)
            for number, similar in zip(left, best, strict=True):
                found = list(itertools.islice(distinct_sentences(similar, uses[number]), count))
                # Too many of those kept lie in sentences that are nearly the same: look at more.
                if len(found) == count or len(similar) < kept:
                    results[number] = found
            kept *= _KEPT_PER_RESULT
        return [results[number] for number in range(len(uses))]

    def tokenize(self, sentence: str | Sequence[str]) -> tuple[str, ...]:
        """The words of a sentence; a string is cut by the tokenizer."""
        return tuple(self.embedder.tokenizer.tokenize(sentence) if isinstance(sentence, str) else sentence)

    def normalized(self, word: str) -> str:
        """A word as the tokenizer gives it, lower-cased for example; one that it would cut stays as it is."""
        words = self.tokenize(word)
        return words[0] if len(words) == 1 else word


def _best(
    blocks: Iterable[Block], uses: Sequence[Use], vectors: np.ndarray, kept: int, same_word: bool
) -> list[list[tuple[float, Use]]]:
    """The `kept` most similar uses for each query, nearest first."""
    best: list[list[tuple[float, Use]]] = [[] for _ in uses]
    for block in blocks:
        similarities = block.vectors @ vectors.T
        ends = np.cumsum([len(words) for words in block.sentences])
        if same_word:
            words = np.array([word.casefold() for sentence in block.sentences for word in sentence], dtype=object)
        for number, use in enumerate(uses):
            # What cannot be among the best is left out first.
            least = best[number][-1][0] if len(best[number]) == kept else -np.inf
            is_candidate = similarities[:, number] > least
            (rows,) = np.nonzero(is_candidate & (words == use.word.casefold()) if same_word else is_candidate)
            for row in rows[np.argsort(-similarities[rows, number], kind="stable")[:kept]]:
                sentence = int(np.searchsorted(ends, row, side="right"))
                position = int(row - ends[sentence]) + len(block.sentences[sentence])
                found = Use(block.indices[sentence], position, block.sentences[sentence])
                best[number].append((float(similarities[row, number]), found))
            best[number] = sorted(best[number], key=lambda each: -each[0])[:kept]
    return best


class TextIndex(UseIndex):
    """All uses of all words of some sentences, held in memory: 4 x D bytes per word of the text.

    Args:
        embedder: The checkpoint.
        sentences: Strings or lists of words; read once.
        layers: As of `UseIndex`.
    Raises: ValueError for layers that the model lacks, or where the sentences hold no word.
    """

    def __init__(self, embedder: ElmoEmbedder, sentences: Iterable[str | Sequence[str]], layers: str | int = "top"):
        super().__init__(embedder, layers)
        read, kept = itertools.tee(map(self.tokenize, sentences))
        arrays = [unit(array) for array in embedder.stream(read, layers)]
        self.sentences = list(kept)
        self.counts = Counter(itertools.chain.from_iterable(self.sentences))
        if not self.counts:
            raise ValueError(f"sentences holds no words in {len(self.sentences)} sentences; give text to look into.")
        self._block = Block(range(len(self.sentences)), self.sentences, np.concatenate(arrays))
        self.uses = [Use(n, at, words) for n, words in enumerate(self.sentences) for at in range(len(words))]
        self.static = StaticWords(embedder.model, embedder.tokenizer, self.counts)

    def all_blocks(self, queries: np.ndarray, count: int) -> Iterable[Block]:
        """The whole text."""
        return [self._block]

    def most_different_uses(self, word: str, count: int = 2) -> list[tuple[Use, np.ndarray]]:
        """Uses of a word, with their vectors, that lie far from one another, each the farthest from those before."""
        rows = [row for row, use in enumerate(self.uses) if use.word == word]
        if not rows:
            return []
        vectors = self._block.vectors[rows]
        # From the most typical use on: the one nearest to the mean of all.
        chosen = [int((vectors @ unit(vectors.mean(axis=0))).argmax())]
        while len(chosen) < min(count, len(rows)):
            chosen.append(int((vectors @ vectors[chosen].T).max(axis=1).argmin()))
        return [(self.uses[rows[number]], vectors[number]) for number in chosen]


class ShardIndex(UseIndex):
    """All uses of all words of a corpus whose vectors `hf-elmo embed --output_dir` wrote.

    An exact search compares every vector, a block of sentences at a time, and holds nothing but the block and the best
    uses in memory. An approximate one finds sentences by clusters of vectors (faiss): the similarities are the same,
    but it may miss a use. The first search builds its index and keeps it beside the shards, a byte for each number.

    Args:
        directory: The shards, without pooling.
        embedder: The checkpoint that made them.
        layers: As of `UseIndex`; None takes what the directory has, or of all layers the top one.
        approximate: Whether to search by clusters.
    Raises: FileNotFoundError or ValueError naming the directory or the argument where they do not fit, or a damaged
        index; ImportError where faiss is not installed.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        embedder: ElmoEmbedder,
        layers: str | int | None = None,
        approximate: bool = False,
    ):
        settings, where = read_settings(directory), f"vectors {str(directory)!r}"
        if settings["pooling"] != "none":
            raise ValueError(
                f"{where} has one vector per sentence ({settings['pooling']}); embed the text without --pooling."
            )
        if settings["checkpoint_sha256"] != digest_of_checkpoint(embedder):
            raise ValueError(
                f"{where} is of the checkpoint {settings['checkpoint']!r}, and model_name_or_path {embedder.name!r} is "
                "another one, whose vectors do not compare; name the one that made them."
            )
        has, num_layers = resolve_layers(settings["layers"], settings["num_layers"]), settings["num_layers"]
        asked = resolve_layers(("top" if has == "all" else has) if layers is None else layers, num_layers)
        if not (asked == has or (has == "all" and isinstance(asked, int))):
            raise ValueError(
                f"layers is {layers!r}, and {where} has layers {settings['layers']!r} alone; leave it out, or embed "
                "the text with --layers all."
            )
        super().__init__(embedder, asked)
        self._column = settings["columns"][int(asked) if has == "all" else 0]
        self._has_markers: bool = settings["keep_markers"]
        self._rows = load_embeddings(directory).with_format("arrow")
        # Of the vectors of a sentence, the index of the first one among all, and of what is behind the last.
        lengths = compute.list_value_length(self._rows.data.column("words")).to_numpy()
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        if approximate:
            self._clusters = self._open_clusters(Path(directory) / f"clusters-{self._column}.faiss")
            self.near_blocks = self._blocks_of_clusters

    def __repr__(self) -> str:
        return f"ShardIndex of {self._starts[-1]:,} uses in {len(self._rows):,} sentences, by layers {self.layers!r}"

    def all_blocks(self, queries: np.ndarray, count: int) -> Iterable[Block]:
        """The whole corpus, some sentences at a time."""
        return track(
            (self._without_markers(*block) for block in self._blocks(self._rows)),
            *("searching", "words", int(self._starts[-1])),
            size=lambda block: len(block.vectors),
        )

    def _blocks(self, rows: Any) -> Iterator[tuple[Block, np.ndarray]]:
        """Blocks with the special tokens that the corpus has, and which of the vectors are of words."""
        for table in rows.iter(_SENTENCES_PER_BLOCK):
            sentences = [tuple(words) for words in table["words"].to_pylist()]
            vectors = unit(vectors_of(table[self._column]))
            is_word = np.ones(len(vectors), dtype=bool)
            if self._has_markers:
                ends = np.cumsum([len(words) for words in sentences])
                is_word[ends - 1] = is_word[ends - [len(words) for words in sentences]] = False
            yield Block(table["sentence_id"].to_pylist(), sentences, vectors), is_word

    def _without_markers(self, block: Block, is_word: np.ndarray) -> Block:
        if not self._has_markers:
            return block
        return Block(block.indices, [words[1:-1] for words in block.sentences], block.vectors[is_word])

    def _blocks_of_clusters(self, queries: np.ndarray, count: int) -> Iterable[Block]:
        """The sentences of the uses that are near to queries (Q, D) by the clusters."""
        _, found = self._clusters.search(np.ascontiguousarray(queries), min(count, int(self._starts[-1])))
        # Where fewer are found than asked for, faiss says -1.
        sentences = np.unique(np.searchsorted(self._starts, found[found >= 0], side="right") - 1)
        return (self._without_markers(*block) for block in self._blocks(self._rows.select(sentences)))

    def _open_clusters(self, path: Path) -> Any:
        # Not `Dataset.add_faiss_index`, which takes a row for a vector and holds the index in memory.
        try:
            import faiss
        except ImportError as error:
            raise ImportError("--approximate needs faiss: pip install 'hf_elmo[search]'.") from error
        if not path.is_file():
            self._build_clusters(faiss, path)
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
            is_ours = index.ntotal == self._starts[-1] and index.d == self.embedder.vector_size
        except RuntimeError:
            is_ours = False
        if not is_ours:
            raise ValueError(f"{str(path)!r} is not an index of the vectors beside it; remove it to build it again.")
        faiss.ParameterSpace().set_index_parameter(index, "nprobe", _CLUSTERS_PER_QUERY)
        return index

    def _build_clusters(self, faiss: Any, path: Path) -> None:
        """Build the index in two passes: some of the vectors give the clusters, then all are put into them."""
        num_uses = int(self._starts[-1])
        clusters = max(1, min(_MOST_CLUSTERS, num_uses // _LEAST_IN_CLUSTER, int(4 * num_uses**0.5)))
        step = max(1, num_uses // (_SAMPLED_PER_CLUSTER * clusters))

        def vectors(what: str) -> Iterator[np.ndarray]:
            blocks = (block.vectors for block, _ in self._blocks(self._rows))
            return track(blocks, what, "words", num_uses, size=len)

        index = faiss.index_factory(self.embedder.vector_size, f"IVF{clusters},SQ8", faiss.METRIC_INNER_PRODUCT)
        index.train(np.concatenate([each[::step] for each in vectors("sampling")]))
        for each in vectors("clustering"):
            index.add(each)
        with files_written_aside(path) as (aside,):
            faiss.write_index(index, str(aside))


def distinct_sentences(uses: Iterable[tuple[float, Use]], query: Use) -> Iterator[tuple[float, Use]]:
    """The uses, nearest first, without those in sentences nearly the same as an earlier one's or the query's."""
    seen = [_folded(query.words)]
    for similarity, use in uses:
        words = _folded(use.words)
        if not any(_nearly_the_same(words, others) for others in seen):
            seen.append(words)
            yield similarity, use


def _folded(words: Sequence[str]) -> list[str]:
    return [word.casefold() for word in words]


def _nearly_the_same(words: list[str], others: list[str]) -> bool:
    matcher = SequenceMatcher(None, words, others, autojunk=False)
    # Two bounds that are quick to have, before the comparison that is not.
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
    return all(bound() >= _NEARLY_THE_SAME for bound in bounds)


def describe_words(
    index: TextIndex, words: Sequence[str], uses_each: int = 2, count: int = 1, same_word: bool = False
) -> str:
    """A table for the screen: for each word its static neighbors, then some of its uses with their nearest uses.

    Args:
        index: Where to look.
        words: What to look for, as it stands in the text; a line names those that are not there.
        uses_each: Uses shown of each word, chosen far from one another.
        count: Nearest uses shown of each of them.
        same_word: Whether only uses of the same word are shown as the nearest ones.
    """
    lines = []
    for word in map(index.normalized, words):
        uses = index.most_different_uses(word, uses_each)
        if not uses:
            spellings = other_spellings([word], index.counts)
            hint = f", but {', '.join(map(repr, spellings))}" if spellings else ""
            lines.append(f"{word!r}: not among the {len(index.counts):,} words of the text{hint}")
            continue
        similar = ", ".join(other for other, _ in index.static.nearest(word, 6))
        lines.append(f"{word!r}: nearest words by the static vector: {similar}")
        for use, vector in uses:
            lines.append(f"    use      {use.snippet()}")
            for similarity, neighbor in index.nearest([use], vector[None], count, same_word)[0]:
                lines.append(f"    nearest  {neighbor.snippet()}   ({similarity:.2f})")
    return "\n".join(lines)


def describe_sentence(
    index: UseIndex, sentence: str | Sequence[str], word: str | None = None, count: int = 5, same_word: bool = False
) -> str:
    """A table for the screen: the uses nearest to a word of a sentence, as it is used there.

    Args:
        index: Where to look.
        sentence: A string or a list of words.
        word: The word; None takes each word of the sentence.
        count: Nearest uses shown.
        same_word: Whether only uses of the same word are shown.
    Raises: ValueError where the sentence does not have the word.
    """
    words = index.tokenize(sentence)
    word = None if word is None else index.normalized(word)
    positions = [at for at, other in enumerate(words) if word in (None, other)]
    if not positions:
        raise ValueError(f"word is {word!r}, which the sentence does not have: {', '.join(map(repr, words))}.")
    lines = []
    for at, nearest in zip(positions, index.nearest_to(words, positions, count, same_word), strict=True):
        lines.append(Use(-1, at, words).snippet())
        lines += [f"    {similarity:5.2f}  {use.snippet()}" for similarity, use in nearest]
        if not nearest:
            lines.append(f"    no other use{f' of {words[at]!r}' if same_word else ''} in the text")
    return "\n".join(lines)
