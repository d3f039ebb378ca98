"""Uses of words in a text, with their senses perhaps, their vectors, and the words by their vectors without context."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ..given import quoted
from ..text.files import check_characters, form_of, json_records
from .embedder import ElmoEmbedder

_MAX_STATIC_WORDS = 20_000
# A record of a file of senses, as the data of Senseval-2 is often given.
_KEYS = ("tokens", "index", "sense")

# The words of a sentence and, where the text has labels, one for each of them, None for a word without a label.
LabeledSentence = tuple[Sequence[str], Sequence[str | None] | None]


class Use(NamedTuple):
    """One occurrence of a word: the index of its sentence, its position there, and the words of the sentence."""

    sentence: int
    position: int
    words: tuple[str, ...]
    label: str | None = None  # its sense or part of speech, where the text has them

    @property
    def word(self) -> str:
        return self.words[self.position]

    def around(self, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Up to so many words before it, and behind it."""
        return self.words[max(0, self.position - count) : self.position], self.words[self.position + 1 :][:count]

    def snippet(self, count: int = 5) -> str:
        """The word in square brackets with up to `count` words on each side."""
        before, behind = self.around(count)
        left = ["..."] * (len(before) < self.position) + [*before]
        right = [*behind] + ["..."] * (self.position + 1 + len(behind) < len(self.words))
        return " ".join([*left, f"[{self.word}]", *right])


@dataclass(frozen=True)
class WordUses:
    """The uses of one word."""

    word: str  # its name, "play" for example, whichever forms of it are among the uses
    uses: list[Use]  # one at least
    num_found: int  # how many the text has

    @property
    def labels(self) -> list[str] | None:
        """The label of each use; None where the text has none."""
        labels = [use.label for use in self.uses if use.label is not None]
        return labels if len(labels) == len(self.uses) else None


def holds_senses(file: str, name: str = "file") -> bool:
    """Whether a file's first record is a use with its sense; raises ValueError naming the line that is not JSON."""
    if form_of(file, name) != "json":
        return False
    _, first = next(json_records(file, name), ("", {}))
    return all(key in first for key in _KEYS)


def read_senses(file: str, name: str = "file") -> list[LabeledSentence]:
    """The sentences of a file of uses, each with the sense of one word, and None for the others.

    A record has `tokens`, the words, `index`, the number of one of them from 0, and `sense`; ValueError names the line.
    """
    uses: list[LabeledSentence] = []
    for place, record in json_records(file, name):
        words, index, sense = (cast("Any", record.get(key)) for key in _KEYS)
        are_words = isinstance(words, list) and all(isinstance(word, str) and word for word in words)
        is_place = type(index) is int and are_words and 0 <= index < len(words)
        if not is_place or not isinstance(sense, str) or not sense:
            raise ValueError(
                f"{place}: wanted tokens, a list of words, index, the number of one of them from 0, and sense, its "
                f"name; got {quoted(words)}, {quoted(index)} and {quoted(sense)}."
            )
        check_characters(" ".join([*words, sense]), place)
        uses.append((words, [sense if at == index else None for at in range(len(words))]))
    if not uses:
        raise ValueError(f"{name} {file!r} holds no uses; give one with a record per line.")
    return uses


def gather_uses(
    sentences: Iterable[LabeledSentence], max_uses: int, asked: Sequence[Sequence[str]] | None = None
) -> tuple[list[WordUses], Counter[str]]:
    """At most `max_uses` uses of each word of a text, chosen by their sentences' hash, and the counts of all words.

    The words are asked for as their forms, [["play", "plays"], ["bank"]]; None takes every word with a label as one.
    A sentence that was there before counts once. ValueError names a word that the text lacks.
    """
    word_of = {form: number for number, forms in enumerate(asked or ()) for form in forms}
    found: list[list[Use]] = [[] for _ in asked or [""]]
    counts, seen = Counter[str](), set[tuple[str, ...]]()
    for sentence, (words, labels) in enumerate(sentences):
        counts.update(words)
        numbers = [word_of.get(word) if asked else 0 for word in words]
        # Where only some words have labels, those are meant.
        meant = labels if labels is not None and None in labels else words
        places = [(at, n) for at, n in enumerate(numbers) if n is not None and meant[at] is not None]
        # The same sentence again, with a label at another of its words, has another use.
        told = (*map(str.casefold, words), "", *(str(at) for at, _ in places))
        if places and told not in seen:
            seen.add(told)
            for at, number in places:
                found[number].append(Use(sentence, at, tuple(words), None if labels is None else labels[at]))
    result = []
    for number, uses in enumerate(found):
        if not uses:
            raise ValueError(
                f"--words has {','.join((asked or [''])[number])!r}, which is none of the {counts.total():,} words of "
                "the text; name another one, or another spelling."
            )
        chosen = sorted(uses, key=lambda use: sentence_digest(use.words))[:max_uses]
        name = asked[number][0] if asked else Counter(use.word.casefold() for use in uses).most_common(1)[0][0]
        result.append(WordUses(name, sorted(chosen), len(uses)))
    return result, counts


class StaticWords:
    """The commonest words of a text, of those with a letter, by the token encoder's vectors, which know no context."""

    def __init__(self, embedder: ElmoEmbedder, counts: Counter[str]):
        self.words = [word for word, _ in counts.most_common() if any(map(str.isalpha, word))][:_MAX_STATIC_WORDS]
        self._embedder, self._vectors = embedder, static_vectors(embedder, self.words)

    def nearest(self, word: str, count: int) -> list[tuple[str, float]]:
        """The most similar other words to any word, by cosine, with their similarities; of each one spelling."""
        similarities = self._vectors @ static_vectors(self._embedder, [word])[0]
        nearest: dict[str, tuple[str, float]] = {}
        for index in np.argsort(-similarities, kind="stable"):
            other = self.words[index]
            if len(nearest) < count and other.casefold() != word.casefold():
                nearest.setdefault(other.casefold(), (other, float(similarities[index])))
        return list(nearest.values())


def static_vectors(embedder: ElmoEmbedder, words: Sequence[str]) -> np.ndarray:
    """The token encoder's vectors of words, of length 1, (words, P)."""
    # Without context a list of words is as good as a sentence; both halves are the same.
    return unit(embedder.embed_sentence(words, "token")[:, : embedder.vector_size // 2])


def embed_uses(embedder: ElmoEmbedder, uses: Sequence[Use]) -> np.ndarray:
    """The vectors of uses in every layer, each sentence read by itself, (L + 1, N, D)."""
    arrays = embedder.stream((use.words for use in uses), "all")
    return np.stack([array[:, use.position] for array, use in zip(arrays, uses, strict=True)], axis=1)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors scaled to the length 1, in float32, so that products are cosines; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


def sentence_digest(words: Sequence[str]) -> bytes:
    """A hash of a sentence, in upper or lower case, by which sentences are chosen the same way each time."""
    text = " ".join(words).casefold()
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
