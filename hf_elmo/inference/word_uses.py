"""The uses of a word over a text, and their vectors in every layer beside those of the text's words without context."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..model.modeling_elmo import ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .embedding import embed
from .neighbours import Use, unit

# The words of a sentence; and a label for each of them, None for a word that has none, where the text has labels.
Sentence = tuple[Sequence[str], Sequence[str | None] | None]


@dataclass(frozen=True)
class WordUses:
    """The uses of one word.

    Args:
        word: What it is called, "play" for example, whichever forms of it are among the uses.
        uses: N of them, N > 0.
        labels: The sense or the part of speech of each; None where the text has none.
        num_found: How many there were in the text.
    """

    word: str
    uses: list[Use]
    labels: list[str] | None
    num_found: int

    def pick(self, numbers: Iterable[int]) -> WordUses:
        """Some of the uses, in the order of their numbers here."""
        numbers = list(numbers)
        labels = None if self.labels is None else [self.labels[number] for number in numbers]
        return replace(self, uses=[self.uses[number] for number in numbers], labels=labels)


class UseGatherer:
    """Gathers the uses of some words, and counts all words, while a text goes by.

    Args:
        asked: The words, each as its forms: [["play", "plays"], ["bank"]]. None takes every word that has a label,
            all of them as uses of one word.
    """

    def __init__(self, asked: Sequence[Sequence[str]] | None = None):
        self.asked = asked
        self.counts: Counter[str] = Counter()
        self._number_of = {form: number for number, forms in enumerate(asked or ()) for form in forms}
        self._found: list[list[tuple[Use, str | None]]] = [[] for _ in asked] if asked else [[]]
        self._seen: set[tuple[str, ...]] = set()
        self._num_sentences = 0

    def read(self, sentences: Iterable[Sentence]) -> None:
        """Look through some more sentences; one that was there before counts once."""
        for words, labels in sentences:
            self.counts.update(words)
            places = [(place, number) for place, word in enumerate(words) if (number := self._find(word)) is not None]
            if labels is not None and any(label is None for label in labels):
                # Only some uses have labels: those are meant.
                places = [(place, number) for place, number in places if labels[place] is not None]
            # The same sentence again, with a label at another of its words, has another use.
            lowered = tuple(word.casefold() for word in words)
            seen = (*lowered, "", *(str(place) for place, _ in places))
            if places and seen not in self._seen:
                self._seen.add(seen)
                for place, number in places:
                    use = Use(self._num_sentences, place, tuple(words))
                    self._found[number].append((use, labels[place] if labels is not None else None))
            self._num_sentences += 1

    def found(self, max_uses: int) -> list[WordUses]:
        """The uses of each word, of many of them as many as are wanted, the same ones each time.

        Args:
            max_uses: Of each word; which ones, a hash of their sentences says.
        Raises: ValueError naming a word without uses, and the text's number of words.
        """
        gathered = []
        for number, found in enumerate(self._found):
            forms = self.asked[number] if self.asked else [self._commonest_form()]
            if not found:
                lowered = {form.casefold() for form in forms}
                spellings = sorted(word for word in self.counts if word.casefold() in lowered)
                hint = f"it has {', '.join(map(repr, spellings))}" if spellings else "name another one, or more text"
                raise ValueError(
                    f"--words has {','.join(forms)!r}, which is none of the {self.counts.total():,} words of the text; "
                    f"{hint}."
                )
            kept = sorted(found, key=lambda each: sentence_digest(each[0].words))[:max_uses]
            kept.sort(key=lambda each: (each[0].sentence, each[0].place))
            labels = [label for _, label in kept]
            with_labels = all(label is not None for label in labels)
            gathered.append(
                WordUses(
                    forms[0],
                    [use for use, _ in kept],
                    [str(label) for label in labels] if with_labels else None,
                    len(found),
                )
            )
        return gathered

    def _find(self, word: str) -> int | None:
        return self._number_of.get(word) if self.asked else 0

    def _commonest_form(self) -> str:
        forms = Counter(use.word.casefold() for use, _ in self._found[0])
        return forms.most_common(1)[0][0] if forms else "a word with a label"


class StaticWords:
    """The commonest words of a text by the token encoder's vectors, which know no context.

    Args:
        model, tokenizer: A checkpoint's.
        counts: How often each word stands in the text; words without a letter are left out.
        max_words: How many are kept.
    """

    def __init__(
        self, model: ElmoPreTrainedModel, tokenizer: ElmoCharTokenizer, counts: Counter[str], max_words: int = 20_000
    ):
        common = (word for word, _ in counts.most_common() if any(map(str.isalpha, word)))
        self.words = [word for word, _ in zip(common, range(max_words), strict=False)]
        self._vectors = static_vectors(model, tokenizer, self.words)

    def nearest(self, vector: np.ndarray, but: Iterable[str], count: int) -> list[tuple[str, float]]:
        """The words whose vectors are most similar by cosine, with their similarities, one spelling of each.

        Args:
            vector: (P,).
            but: Words that are left out, in upper or lower case.
            count: How many.
        """
        similarities = self._vectors @ unit(vector)
        seen, nearest = {word.casefold() for word in but}, []
        for number in np.argsort(-similarities, kind="stable"):
            word = self.words[number]
            if word.casefold() not in seen:
                seen.add(word.casefold())
                nearest.append((word, float(similarities[number])))
            if len(nearest) >= count:
                break
        return nearest


def static_vectors(model: ElmoPreTrainedModel, tokenizer: ElmoCharTokenizer, words: Sequence[str]) -> np.ndarray:
    """The token encoder's vectors of words, of length 1, (words, P)."""
    arrays = embed(model, tokenizer, ([word] for word in words), layers="token")
    # Both halves are the same.
    return unit(np.stack([np.split(array[0], 2)[0] for array in arrays]))


def embed_uses(
    model: ElmoPreTrainedModel, tokenizer: ElmoCharTokenizer, uses: Iterable[Use], max_words_per_batch: int = 2048
) -> np.ndarray:
    """The vectors of uses in every layer, each sentence read by itself, (L + 1, N, D)."""
    uses = list(uses)
    arrays = embed(model, tokenizer, (use.words for use in uses), layers="all", max_words_per_batch=max_words_per_batch)
    return np.stack([array[:, use.place] for array, use in zip(arrays, uses, strict=True)], axis=1)


def sentence_digest(words: Sequence[str]) -> bytes:
    """A hash of a sentence, in upper or lower case, by which sentences are chosen the same way each time."""
    text = " ".join(words).casefold()
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
