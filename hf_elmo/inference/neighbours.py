"""Nearest neighbours by contextual and by static vectors: the table with which the paper shows "play"."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..model.modeling_elmo import ElmoModel
from ..model.tokenization_elmo import ElmoCharTokenizer


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


class UseIndex:
    """All uses of all words of some sentences, by the top biLM layer; all distinct words, by the token encoder.

    Args:
        model: Gives the vectors: its last layer for uses (Peters et al. 2018, sec. 5.3 and table 4), its context-free
            layer 0 for words.
        tokenizer: Cuts the sentences.
        sentences: Texts, a sentence each.
        batch_size: Sentences that are run through the model at a time.
    """

    def __init__(self, model: ElmoModel, tokenizer: ElmoCharTokenizer, sentences: Sequence[str], batch_size: int = 32):
        self.uses: list[Use] = []
        contextual: list[Tensor] = []
        static: dict[str, Tensor] = {}
        model.eval()
        # Sentences of like length together: little padding. Uses keep the numbers of the order given.
        order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
        for start in range(0, len(order), batch_size):
            numbers = order[start : start + batch_size]
            words = [tokenizer.tokenize(sentences[number]) for number in numbers]
            batch = tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt").to(model.device)
            with torch.no_grad():
                layers = model(**batch, output_hidden_states=True).hidden_states
            for row, (number, sentence) in enumerate(zip(numbers, words, strict=True)):
                places = [token for token, word in enumerate(batch.word_ids(row)) if word is not None]
                contextual.append(layers[-1][row, places].cpu())
                for place, word in enumerate(sentence):
                    self.uses.append(Use(number, place, tuple(sentence)))
                    static.setdefault(word, layers[0][row, places[place]].cpu())
        self.words = list(static)
        self._contextual = F.normalize(torch.cat(contextual).float(), dim=-1)
        self._static = F.normalize(torch.stack(list(static.values())).float(), dim=-1)
        self._places = {word: index for index, word in enumerate(self.words)}

    def uses_of(self, word: str) -> list[Use]:
        """All uses of a word, in no particular order."""
        return [use for use in self.uses if use.word == word]

    def nearest_uses(self, use: Use, count: int = 1) -> list[tuple[float, Use]]:
        """The most similar uses of any word in other sentences, by cosine, with their similarities."""
        similarities = self._contextual @ self._contextual[self.uses.index(use)]
        ranked = ((float(similarities[index]), self.uses[index]) for index in similarities.argsort(descending=True))
        return list(itertools.islice((pair for pair in ranked if pair[1].words != use.words), count))

    def nearest_words(self, word: str, count: int = 6) -> list[str]:
        """The most similar other words by the static vector of layer 0, by cosine."""
        similarities = self._static @ self._static[self._places[word]]
        nearest = [self.words[index] for index in similarities.argsort(descending=True)[: count + 1].tolist()]
        return [other for other in nearest if other != word][:count]

    def most_different_uses(self, word: str, count: int = 2) -> list[Use]:
        """Uses of a word that lie far from one another, each the farthest from those before it."""
        indices = [index for index, use in enumerate(self.uses) if use.word == word]
        if not indices:
            return []
        vectors = self._contextual[indices]
        # From the most typical use on: the one nearest to the mean of all.
        chosen = [int((vectors @ F.normalize(vectors.mean(dim=0), dim=0)).argmax())]
        while len(chosen) < min(count, len(indices)):
            chosen.append(int((vectors @ vectors[chosen].T).amax(dim=1).argmin()))
        return [self.uses[indices[place]] for place in chosen]


def describe_neighbours(index: UseIndex, words: Sequence[str], uses_each: int = 2) -> str:
    """A table for the eye: for each word its static neighbours, then some of its uses, each with its nearest use."""
    lines = []
    for word in words:
        uses = index.most_different_uses(word, uses_each)
        if not uses:
            continue
        lines.append(f"{word!r}: nearest words by the static vector: {', '.join(index.nearest_words(word))}")
        for use in uses:
            for similarity, neighbour in index.nearest_uses(use):
                lines.append(f"    use      {use.snippet()}")
                lines.append(f"    nearest  {neighbour.snippet()}   ({similarity:.2f})")
    return "\n".join(lines)
