"""Who is who in a text: clusters of mentions, by their characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..model.modeling_elmo_coref import ElmoForCoreferenceResolution, read_clusters
from ..text.sentence_ends import cut_sentences
from .applied import load_applied
from .word_places import place_words


class PlacedMention(NamedTuple):
    """A mention: its first character in the text, the character behind its last one, and what stands there."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True)
class ResolvedText:
    """A text whose mentions have been found.

    Args:
        text: As it was given.
        sentences: The words of each sentence, as the model read them.
        offsets: Of each word of the text its first character, and the character behind its last one.
        word_clusters: Clusters of mentions as their first words, counted over the text from 0, and the words behind
            their last ones.
    """

    text: str
    sentences: list[list[str]]
    offsets: list[tuple[int, int]]
    word_clusters: list[list[tuple[int, int]]]

    @property
    def clusters(self) -> list[list[PlacedMention]]:
        """The clusters, by their first mentions, each in the order of the text."""
        return [[self._place(*mention) for mention in cluster] for cluster in self.word_clusters]

    def _place(self, first: int, behind: int) -> PlacedMention:
        start, stop = self.offsets[first][0], self.offsets[behind - 1][1]
        return PlacedMention(start, stop, self.text[start:stop])


class ElmoCoreference:
    """A document in, the clusters of its mentions out.

    Args:
        model_name_or_path: A coreference model, a directory or a name on the Hub.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        pre_tokenizer: How sentences are cut into words; None as the checkpoint's tokenizer says.
    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the device.
    """

    def __init__(self, model_name_or_path: str, device: str | None = None, pre_tokenizer: str | None = None):
        self.model, self.tokenizer = load_applied(
            ElmoForCoreferenceResolution, model_name_or_path, device, pre_tokenizer
        )
        self.device = self.model.device

    def resolve(self, text: str, is_tokenized: bool = False) -> ResolvedText:
        """The clusters of a text, which is one document.

        Args:
            text: Paragraphs, one a line; sentences are found in them by `cut_sentences`.
            is_tokenized: Each line is a sentence, whose words stand between white space.
        """
        sentences: list[list[str]] = []
        offsets: list[tuple[int, int]] = []
        for start, stop in _sentences_of(text, is_tokenized):
            placed = place_words(text[start:stop], self.tokenizer, is_tokenized)
            if placed.words:
                sentences.append(placed.words)
                offsets += [(start + first, start + behind) for first, behind in placed.offsets]
        return ResolvedText(text, sentences, offsets, self.resolve_words(sentences))

    @torch.inference_mode()
    def resolve_words(self, sentences: Sequence[Sequence[str]]) -> list[list[tuple[int, int]]]:
        """The clusters of a document that has been cut, as in `ResolvedText.word_clusters`; no sentence is empty."""
        if not sentences:
            return []
        words = [list(sentence) for sentence in sentences]
        batch = self.tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
        output = self.model(**{name: tensor.to(self.device) for name, tensor in batch.items()})
        return read_clusters(output.clusters[0].tolist())


def _sentences_of(text: str, is_tokenized: bool) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.split("\n"):
        parts = [(0, len(line))] if is_tokenized else cut_sentences(line)
        for first, behind in parts:
            yield start + first, start + behind
        start += len(line) + 1
