"""Uses of words in a text, their vectors in every layer, and the words of the text by their vectors without context."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .embedder import ElmoEmbedder

_MAX_STATIC_WORDS = 20_000

# The words of a sentence and, where the text has labels, one for each of them, None for a word without a label.
LabeledSentence = tuple[Sequence[str], Sequence[str | None] | None]


class Use(NamedTuple):
    """One occurrence of a word: the index of its sentence, its position there, and the words of the sentence."""

    sentence: int
    position: int
    words: tuple[str, ...]

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
    labels: list[str] | None  # the sense or the part of speech of each; None where the text has none
    num_found: int  # how many the text has

    def select(self, indices: Iterable[int]) -> WordUses:
        """Some of the uses, in the order of their indices here."""
        indices = list(indices)
        labels = None if self.labels is None else [self.labels[index] for index in indices]
        return replace(self, uses=[self.uses[index] for index in indices], labels=labels)


def gather_uses(
    sentences: Iterable[LabeledSentence], max_uses: int, asked: Sequence[Sequence[str]] | None = None
) -> tuple[list[WordUses], Counter[str]]:
    """At most `max_uses` uses of each word of a text, chosen by their sentences' hash, and the counts of all words.

    The words are asked for as their forms, [["play", "plays"], ["bank"]]; None takes every word with a label as one.
    A sentence that was there before counts once. ValueError names a word that the text lacks.
    """
    words_asked, counts = asked or [["a word with a label"]], Counter[str]()
    word_of = {form: number for number, forms in enumerate(asked or ()) for form in forms}
    found: list[list[tuple[Use, str | None]]] = [[] for _ in words_asked]
    seen: set[tuple[str, ...]] = set()
    for sentence, (words, labels) in enumerate(sentences):
        counts.update(words)
        places = [(at, word_of.get(word) if asked else 0) for at, word in enumerate(words)]
        # Where only some words have labels, those are meant.
        meant = labels if labels is not None and None in labels else words
        places = [(at, number) for at, number in places if number is not None and meant[at] is not None]
        # The same sentence again, with a label at another of its words, has another use.
        told = (*map(str.casefold, words), "", *(str(at) for at, _ in places))
        if places and told not in seen:
            seen.add(told)
            for at, number in places:
                use = Use(sentence, at, tuple(words))
                found[number or 0].append((use, labels[at] if labels is not None else None))
    for forms, uses in zip(words_asked, found, strict=True):
        if not uses:
            spellings = other_spellings(forms, counts)
            hint = f"it has {', '.join(map(repr, spellings))}" if spellings else "name another one, or more text"
            raise ValueError(
                f"--words has {','.join(forms)!r}, which is none of the {counts.total():,} words of the text; {hint}."
            )
    names = [forms[0] for forms in asked] if asked else [_commonest(use.word for use, _ in found[0])]
    return [_choose(name, uses, max_uses) for name, uses in zip(names, found, strict=True)], counts


def _commonest(words: Iterable[str]) -> str:
    return Counter(map(str.casefold, words)).most_common(1)[0][0]


def _choose(name: str, found: list[tuple[Use, str | None]], max_uses: int) -> WordUses:
    chosen = sorted(found, key=lambda each: sentence_digest(each[0].words))[:max_uses]
    chosen.sort(key=lambda each: (each[0].sentence, each[0].position))
    labels = [label for _, label in chosen if label is not None]
    return WordUses(name, [use for use, _ in chosen], labels if len(labels) == len(chosen) else None, len(found))


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
    arrays = [array[0] for array in embedder.stream(([word] for word in words), "token")]
    # Both halves are the same.
    return unit(np.array(arrays).reshape(len(words), 2, -1)[:, 0])


def embed_uses(embedder: ElmoEmbedder, uses: Sequence[Use]) -> np.ndarray:
    """The vectors of uses in every layer, each sentence read by itself, (L + 1, N, D)."""
    arrays = embedder.stream((use.words for use in uses), "all")
    return np.stack([array[:, use.position] for array, use in zip(arrays, uses, strict=True)], axis=1)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors scaled to the length 1, in float32, so that products are cosines; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


def other_spellings(forms: Sequence[str], words: Iterable[str]) -> list[str]:
    """The words that differ from one of the forms by upper and lower case alone, sorted."""
    folded = {form.casefold() for form in forms}
    return sorted(word for word in words if word.casefold() in folded and word not in forms)


def sentence_digest(words: Sequence[str]) -> bytes:
    """A hash of a sentence, in upper or lower case, by which sentences are chosen the same way each time."""
    text = " ".join(words).casefold()
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
