"""Nearest neighbours by contextual and by static vectors: the table with which the paper shows "play"."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from transformers import PreTrainedTokenizer

from ..model.modeling_elmo import ElmoPreTrainedModel
from .embedding import embed

# Two sentences are shown as one where this share of their words, in this order, is the same.
_NEARLY_THE_SAME = 0.8


@dataclass(frozen=True)
class Use:
    """One occurrence of a word: the sentence's number, the word's place in it, and the words around it."""

    sentence: int
    place: int
    words: tuple[str, ...]

    @property
    def word(self) -> str:
        return self.words[self.place]

    def snippet(self, around: int = 5) -> str:
        """The word in square brackets with up to `around` words on each side."""
        start, end = max(0, self.place - around), self.place + around + 1
        left = " ".join((["..."] if start else []) + list(self.words[start : self.place]))
        right = " ".join(list(self.words[self.place + 1 : end]) + (["..."] if end < len(self.words) else []))
        return f"{left} [{self.word}] {right}".strip()


class UseFinder(ABC):
    """What finds uses of words that are near to others, wherever their vectors lie.

    Args:
        tokenizer: The checkpoint's; it cuts the sentences that are strings.
    """

    def __init__(self, tokenizer: PreTrainedTokenizer):
        self.tokenizer = tokenizer

    @abstractmethod
    def nearest_to_each(
        self, sentence: str | Sequence[str], places: Sequence[int], count: int = 1, same_word: bool = False
    ) -> list[list[tuple[float, Use]]]:
        """For each of some words of a sentence the uses that are most similar to it as it is used there.

        Args:
            sentence: A string or a list of words.
            places: The words' places in it, from 0.
            count: How many uses.
            same_word: Whether only uses of the same word, in upper or lower case, are looked at.
        """

    def nearest_to(
        self, sentence: str | Sequence[str], place: int, count: int = 1, same_word: bool = False
    ) -> list[tuple[float, Use]]:
        """`nearest_to_each` for one place."""
        return self.nearest_to_each(sentence, [place], count, same_word)[0]

    def cut(self, sentence: str | Sequence[str]) -> tuple[str, ...]:
        """The words of a sentence; a string is cut by the tokenizer."""
        return tuple(self.tokenizer.tokenize(sentence) if isinstance(sentence, str) else sentence)

    def as_read(self, word: str) -> str:
        """A word as the tokenizer gives it, lower-cased for example; one that it would cut stays as it is."""
        read = self.cut(word)
        return read[0] if len(read) == 1 else word


class UseIndex(UseFinder):
    """All uses of all words of some sentences, by one layer of the biLM; all distinct words, by the token encoder.

    It holds the vectors of all uses: 4 x D bytes per word of the text, 4 GB for a million words of the original model.

    Args:
        model: Gives the vectors. Peters et al. 2018 (sec. 5.3 and table 4) take its top layer for uses; for words it is
            the context-free layer 0.
        tokenizer: The checkpoint's; it cuts the sentences that are strings.
        sentences: Strings or lists of words; read once.
        layer: The layer of the uses, from 0 or, backwards, from -1, the top one.
        max_words_per_batch: Words computed at once, markers and padding included.
    Raises: ValueError for a layer that the model lacks, or where the sentences hold no word.
    """

    def __init__(
        self,
        model: ElmoPreTrainedModel,
        tokenizer: PreTrainedTokenizer,
        sentences: Iterable[str | Sequence[str]],
        layer: int = -1,
        max_words_per_batch: int = 2048,
    ):
        super().__init__(tokenizer)
        self.model, self.layer = model, layer
        self.num_sentences = 0
        self.uses: list[Use] = []
        contextual: list[np.ndarray] = []
        static: dict[str, np.ndarray] = {}
        # Only to say what is wrong with the layer before any sentence is read.
        embed(model, tokenizer, [], layers=layer)
        read, kept = itertools.tee(map(self.cut, sentences))
        arrays = embed(model, tokenizer, read, layers="all", max_words_per_batch=max_words_per_batch)
        for layers, words in zip(arrays, kept, strict=False):
            contextual.append(unit(layers[layer]))
            for place, word in enumerate(words):
                self.uses.append(Use(self.num_sentences, place, words))
                # Both halves of layer 0 are the token encoder's vector.
                static.setdefault(word, np.split(layers[0, place], 2)[0])
            self.num_sentences += 1
        if not self.uses:
            raise ValueError(f"sentences holds no words in {self.num_sentences} sentences; give text to look into.")
        self.words = list(static)
        self._contextual = np.concatenate(contextual)
        self._static = unit(np.stack(list(static.values())))
        self._word_numbers = {word: number for number, word in enumerate(self.words)}
        self._use_numbers = {(use.sentence, use.place): number for number, use in enumerate(self.uses)}

    def __repr__(self) -> str:
        return (
            f"UseIndex of {len(self.uses):,} uses of {len(self.words):,} words in {self.num_sentences:,} sentences, by "
            f"layer {self.layer}"
        )

    def uses_of(self, word: str) -> list[Use]:
        """All uses of a word, in no particular order."""
        return [use for use in self.uses if use.word == word]

    def nearest_uses(self, use: Use, count: int = 1, same_word: bool = False) -> list[tuple[float, Use]]:
        """The most similar uses in other sentences, by cosine, with their similarities.

        Of sentences that are nearly the same only the nearest use is given, and none of those that are nearly the same
        as the use's own.

        Args:
            use: One of this index.
            count: How many.
            same_word: Whether only uses of the same word, in upper or lower case, are looked at.
        """
        vector = self._contextual[self._use_numbers[use.sentence, use.place]]
        return list(itertools.islice(self._ranked(vector, use, same_word), count))

    def nearest_to_each(
        self, sentence: str | Sequence[str], places: Sequence[int], count: int = 1, same_word: bool = False
    ) -> list[list[tuple[float, Use]]]:
        """See `UseFinder` and `nearest_uses`."""
        words = self.cut(sentence)
        (vectors,) = embed(self.model, self.tokenizer, [words], layers=self.layer)
        return [
            list(itertools.islice(self._ranked(unit(vectors[place]), Use(-1, place, words), same_word), count))
            for place in places
        ]

    def nearest_words(self, word: str, count: int = 6) -> list[str]:
        """The most similar other words by the static vector of layer 0, by cosine."""
        similarities = self._static @ self._static[self._word_numbers[word]]
        nearest = [self.words[number] for number in np.argsort(-similarities)[: count + 1]]
        return [other for other in nearest if other != word][:count]

    def most_different_uses(self, word: str, count: int = 2) -> list[Use]:
        """Uses of a word that lie far from one another, each the farthest from those before it."""
        numbers = [number for number, use in enumerate(self.uses) if use.word == word]
        if not numbers:
            return []
        vectors = self._contextual[numbers]
        # From the most typical use on: the one nearest to the mean of all.
        chosen = [int((vectors @ unit(vectors.mean(axis=0))).argmax())]
        while len(chosen) < min(count, len(numbers)):
            chosen.append(int((vectors @ vectors[chosen].T).max(axis=1).argmin()))
        return [self.uses[numbers[place]] for place in chosen]

    def spellings(self, word: str) -> list[str]:
        """The words of the text that differ from a word by upper and lower case alone, the word itself left out."""
        return [other for other in self.words if other.casefold() == word.casefold() and other != word]

    def _ranked(self, vector: np.ndarray, query: Use, same_word: bool) -> Iterator[tuple[float, Use]]:
        similarities = self._contextual @ vector
        uses = ((float(similarities[number]), self.uses[number]) for number in np.argsort(-similarities, kind="stable"))
        word = query.word.casefold()
        return distinct_sentences(
            ((similarity, use) for similarity, use in uses if not same_word or use.word.casefold() == word), query
        )


def distinct_sentences(uses: Iterable[tuple[float, Use]], query: Use) -> Iterator[tuple[float, Use]]:
    """The uses, the nearest first, without those in sentences nearly the same as an earlier one's or the query's."""
    seen = [_lowered(query.words)]
    for similarity, use in uses:
        words = _lowered(use.words)
        if not any(_nearly_the_same(words, others) for others in seen):
            seen.append(words)
            yield similarity, use


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors scaled to the length 1, in float32, so that products are cosines; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


def _lowered(words: Sequence[str]) -> list[str]:
    return [word.casefold() for word in words]


def _nearly_the_same(words: list[str], others: list[str]) -> bool:
    matcher = SequenceMatcher(None, words, others, autojunk=False)
    # Two bounds that are quick to have, before the comparison that is not.
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
    return all(bound() >= _NEARLY_THE_SAME for bound in bounds)


def describe_neighbours(
    index: UseIndex, words: Sequence[str], uses_each: int = 2, count: int = 1, same_word: bool = False
) -> str:
    """A table for the eye: for each word its static neighbours, then some of its uses with their nearest uses.

    Args:
        index: Where to look.
        words: What to look for, as they stand in the text; of those that do not, a line says so.
        uses_each: Uses shown of each word, chosen far from one another.
        count: Nearest uses shown of each of them.
        same_word: Whether only uses of the same word are shown as the nearest ones.
    """
    lines = []
    for word in map(index.as_read, words):
        uses = index.most_different_uses(word, uses_each)
        if not uses:
            spellings = index.spellings(word)
            hint = f", but {', '.join(map(repr, spellings))}" if spellings else ""
            lines.append(f"{word!r}: not among the {len(index.words):,} words of the text{hint}")
            continue
        lines.append(f"{word!r}: nearest words by the static vector: {', '.join(index.nearest_words(word))}")
        for use in uses:
            lines.append(f"    use      {use.snippet()}")
            for similarity, neighbour in index.nearest_uses(use, count, same_word):
                lines.append(f"    nearest  {neighbour.snippet()}   ({similarity:.2f})")
    return "\n".join(lines)


def describe_query(
    index: UseFinder, sentence: str | Sequence[str], word: str | None = None, count: int = 5, same_word: bool = False
) -> str:
    """A table for the eye: the uses nearest to a word of a sentence, as it is used there.

    Args:
        index: Where to look.
        sentence: A string or a list of words.
        word: The word; None takes each word of the sentence.
        count: Nearest uses shown.
        same_word: Whether only uses of the same word are shown.
    Raises: ValueError where the word does not stand in the sentence.
    """
    words = index.cut(sentence)
    word = None if word is None else index.as_read(word)
    places = [place for place, other in enumerate(words) if word in (None, other)]
    if not places:
        raise ValueError(
            f"word is {word!r}, which is none of the words of the sentence: {', '.join(map(repr, words))}."
        )
    lines = []
    for place, nearest in zip(places, index.nearest_to_each(words, places, count, same_word), strict=True):
        lines.append(Use(-1, place, words).snippet())
        lines += [f"    {similarity:5.2f}  {use.snippet()}" for similarity, use in nearest]
        if not nearest:
            lines.append(f"    no other use{f' of {words[place]!r}' if same_word else ''} in the text")
    return "\n".join(lines)
