"""Nearest neighbors: uses by contextual vectors, words by vectors without context (Peters et al. 2018, table 4).

Letters in shapes: N words of some sentences one after another, Q queries, D numbers of a vector.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..text.progress import track
from .embedder import ElmoEmbedder, Sentence, resolve_layers
from .embedding_files import digest_of_checkpoint, load_embeddings, read_settings, vectors_of
from .word_uses import StaticWords, Use, unit

_SENTENCES_PER_BLOCK = 256

# Similarities and uses, nearest first.
Nearest = list[tuple[float, Use]]


class Block(NamedTuple):
    """The uses of all words of some sentences, and their vectors, of length 1, (N, D)."""

    uses: list[Use]
    vectors: np.ndarray


def _uses_in(sentences: Iterable[tuple[int, Sequence[str]]]) -> list[Use]:
    numbered = ((number, tuple(words)) for number, words in sentences)
    return [Use(number, at, words) for number, words in numbered for at in range(len(words))]


class UseIndex:
    """All uses of all words of a text, to find those that are nearest to a word in a sentence: `of_text`, `of_shards`.

    `blocks` gives the whole text, whenever it is called, with vectors of `layers`, as of `embed`.
    """

    def __init__(self, embedder: ElmoEmbedder, layers: str | int, blocks: Callable[[], Iterable[Block]]):
        self.embedder, self.layers, self.blocks = embedder, layers, blocks

    @classmethod
    def of_text(cls, embedder: ElmoEmbedder, sentences: Iterable[Sentence], layers: str | int = "top") -> UseIndex:
        """The uses of sentences, held in memory: 4 x D bytes per word. ValueError where they hold no word."""
        if layers == "all":
            raise ValueError("layers is 'all', which gives several vectors to a word; name one of the layers.")
        read, kept = itertools.tee(_cut(embedder, sentence) for sentence in sentences)
        arrays, words = [unit(array) for array in embedder.stream(read, layers)], list(kept)
        if not any(words):
            raise ValueError(f"sentences holds no words in {len(words)} sentences; give text to look into.")
        block = Block(_uses_in(enumerate(words)), np.concatenate(arrays))
        return cls(embedder, layers, lambda: [block])

    @classmethod
    def of_shards(
        cls, directory: str | os.PathLike, embedder: ElmoEmbedder, layers: str | int | None = None
    ) -> UseIndex:
        """The uses of a corpus whose vectors `hf-elmo embed --output_dir` wrote; a search holds one block in memory.

        Raises: ValueError naming the directory or the argument where they do not fit.
        """
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
        column = settings["columns"][int(asked) if has == "all" else 0]
        rows = load_embeddings(directory).with_format("arrow")

        def blocks() -> Iterator[Block]:
            num_blocks = -(-len(rows) // _SENTENCES_PER_BLOCK)
            for table in track(rows.iter(_SENTENCES_PER_BLOCK), "searching", "blocks", num_blocks):
                uses = _uses_in(zip(table["sentence_id"].to_pylist(), table["words"].to_pylist(), strict=True))
                yield Block(uses, unit(vectors_of(table[column])))

        return cls(embedder, asked, blocks)

    def nearest_to(
        self, sentence: Sentence, positions: Sequence[int], count: int = 1, same_word: bool = False
    ) -> list[Nearest]:
        """The uses most similar, by cosine, to the words at some positions of a sentence, as it uses them.

        A sentence is given once, however often it occurs in the text, and this one is not. With `same_word` only uses
        of the same word, in upper or lower case, are looked at.
        """
        words = _cut(self.embedder, sentence)
        vectors = unit(self.embedder.embed_sentence(words, self.layers))
        return self.nearest([Use(-1, at, words) for at in positions], vectors[list(positions)], count, same_word)

    def nearest(
        self, uses: Sequence[Use], vectors: np.ndarray, count: int = 1, same_word: bool = False
    ) -> list[Nearest]:
        """As `nearest_to`, for uses and their vectors (Q, D) of length 1."""
        best: list[Nearest] = [[] for _ in uses]
        for block in self.blocks():
            similarities = block.vectors @ vectors.T
            for query, use in enumerate(uses):
                # What cannot be among the best is left out first.
                least = best[query][-1][0] if len(best[query]) == count else -np.inf
                rows = np.flatnonzero(similarities[:, query] > least)
                ranked = rows[np.argsort(-similarities[rows, query], kind="stable")]
                found = (
                    (float(similarities[row, query]), block.uses[row])
                    for row in ranked
                    if not same_word or block.uses[row].word.casefold() == use.word.casefold()
                )
                both = heapq.merge(best[query], found, key=lambda each: -each[0])
                best[query] = list(itertools.islice(_one_a_sentence(both, use), count))
        return best

    def most_different_uses(self, word: str, count: int = 2) -> list[tuple[Use, np.ndarray]]:
        """Uses of a word, with their vectors, that lie far from one another, each the farthest from those before."""
        found = [
            (use, vector)
            for block in self.blocks()
            for use, vector in zip(block.uses, block.vectors, strict=True)
            if use.word == word
        ]
        if not found:
            return []
        vectors = np.stack([vector for _, vector in found])
        # From the most typical use on: the one nearest to the mean of all.
        chosen = [int((vectors @ unit(vectors.mean(axis=0))).argmax())]
        while len(chosen) < min(count, len(found)):
            chosen.append(int((vectors @ vectors[chosen].T).max(axis=1).argmin()))
        return [found[number] for number in chosen]


def _cut(embedder: ElmoEmbedder, sentence: Sentence) -> tuple[str, ...]:
    return tuple(embedder.tokenizer.tokenize(sentence) if isinstance(sentence, str) else sentence)


def _normalized(embedder: ElmoEmbedder, word: str) -> str:
    """A word as the tokenizer gives it, lower-cased for example; one that it would cut stays as it is."""
    words = embedder.tokenizer.tokenize(word)
    return words[0] if len(words) == 1 else word


def _one_a_sentence(uses: Iterable[tuple[float, Use]], query: Use) -> Iterator[tuple[float, Use]]:
    """The uses, nearest first, with one for each sentence and none in that of the query."""
    seen = {tuple(map(str.casefold, query.words))}
    for similarity, use in uses:
        words = tuple(map(str.casefold, use.words))
        if words not in seen:
            seen.add(words)
            yield similarity, use


def describe_words(index: UseIndex, words: Sequence[str], count: int = 1, same_word: bool = False) -> str:
    """A table for the screen: for each word its static neighbors, then two of its uses with their nearest uses."""
    counts = Counter(use.word for block in index.blocks() for use in block.uses)
    static, lines = StaticWords(index.embedder, counts), []
    for word in (_normalized(index.embedder, word) for word in words):
        uses = index.most_different_uses(word)
        if not uses:
            lines.append(f"{word!r}: not among the {len(counts):,} words of the text")
            continue
        similar = ", ".join(other for other, _ in static.nearest(word, 6))
        lines.append(f"{word!r}: nearest words by the static vector: {similar}")
        for use, vector in uses:
            lines.append(f"    use      {use.snippet()}")
            for similarity, neighbor in index.nearest([use], vector[None], count, same_word)[0]:
                lines.append(f"    nearest  {neighbor.snippet()}   ({similarity:.2f})")
    return "\n".join(lines)


def describe_sentence(
    index: UseIndex, sentence: Sentence, word: str | None = None, count: int = 5, same_word: bool = False
) -> str:
    """A table for the screen: the uses nearest to a word of a sentence (else ValueError), or to each of its words."""
    words = _cut(index.embedder, sentence)
    word = None if word is None else _normalized(index.embedder, word)
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
