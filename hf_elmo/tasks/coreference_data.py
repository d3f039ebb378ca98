"""The data of a coreference run: documents as rows for the model, a document a batch, in training a window of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import DataCollatorWithPadding, PreTrainedTokenizer

from .layer_cache import CachedLayers, collate_with_layers
from .readers.documents import Document, Documents


@dataclass
class EncodedDocument:
    """A document as the model wants it.

    Args:
        sentences: Of each sentence `input_ids` (T, C), `attention_mask` (T) and, where speakers are read,
            `speaker_ids` (T); T counts the sentence markers.
        starts: How many words stand before each sentence, and in the whole document.
        mentions: Rows of first word, the word behind the last one, and cluster, (M, 3).
    """

    sentences: list[dict[str, np.ndarray]]
    starts: list[int]
    mentions: np.ndarray


class EncodedDocuments(Dataset):
    """Documents for a Trainer, one an item.

    Args:
        documents: All of them.
        max_sentences: Of longer documents an item is a window of so many sentences, drawn anew by torch's random
            numbers each time; None gives whole documents.
        layers: The biLM's layers of all their sentences in order, where they are kept.
    """

    def __init__(
        self, documents: Sequence[EncodedDocument], max_sentences: int | None = None, layers: CachedLayers | None = None
    ):
        self.documents, self.max_sentences, self.layers = documents, max_sentences, layers
        self._firsts = list(itertools.accumulate((len(document.sentences) for document in documents), initial=0))

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> dict[str, Any]:
        document = self.documents[index]
        count, first = len(document.sentences), 0
        if self.max_sentences is not None and count > self.max_sentences:
            first = int(torch.randint(count - self.max_sentences + 1, ()))
            count = self.max_sentences
        sentences: list[dict[str, Any]] = document.sentences[first : first + count]
        if self.layers is not None:
            start = self._firsts[index] + first
            sentences = [
                {**sentence, "packed_layers": partial(self.layers.__getitem__, start + place)}
                for place, sentence in enumerate(sentences)
            ]
        start, stop = document.starts[first], document.starts[first + count]
        mentions = document.mentions
        mentions = mentions[(mentions[:, 0] >= start) & (mentions[:, 1] <= stop)]
        return {"sentences": sentences, "labels": mentions - np.array([start, start, 0])}

    @property
    def sentences(self) -> list[dict[str, np.ndarray]]:
        """Those of all documents."""
        return [sentence for document in self.documents for sentence in document.sentences]

    def with_layers(self, layers: CachedLayers) -> EncodedDocuments:
        """The same documents with the layers of their sentences."""
        return EncodedDocuments(self.documents, self.max_sentences, layers)


def encode_documents(documents: Documents, tokenizer: PreTrainedTokenizer, use_speakers: bool) -> list[EncodedDocument]:
    """Turn documents into rows.

    Args:
        documents: As they were read.
        tokenizer: Makes the rows of their words.
        use_speakers: Whether the model reads who says what.
    """
    return [encode_document(document, tokenizer, use_speakers) for document in documents.documents]


def encode_document(document: Document, tokenizer: PreTrainedTokenizer, use_speakers: bool) -> EncodedDocument:
    """Turn a document into rows; see `encode_documents`."""
    encoded = tokenizer(document.sentences, is_split_into_words=True)
    sentences = [
        {"input_ids": np.asarray(rows, dtype=np.int64), "attention_mask": np.ones(len(rows), dtype=np.int64)}
        for rows in encoded["input_ids"]
    ]
    starts = list(itertools.accumulate(map(len, document.sentences), initial=0))
    if use_speakers:
        names = document.speakers or [""] * starts[-1]
        numbers = {name: number for number, name in enumerate(sorted({*names} - {""}), start=1)}
        ids = [numbers.get(name, 0) for name in names]
        for sentence, (start, stop) in zip(sentences, itertools.pairwise(starts), strict=True):
            sentence["speaker_ids"] = np.array([0, *ids[start:stop], 0])
    mentions = [[*mention, number] for number, cluster in enumerate(document.clusters) for mention in cluster]
    return EncodedDocument(sentences, starts, np.array(mentions, dtype=np.int64).reshape(-1, 3))


def make_document_collator(tokenizer: PreTrainedTokenizer) -> Callable[[list[Mapping[str, Any]]], dict[str, Tensor]]:
    """What makes a batch of one document: its sentences, padded, and its mentions as `labels`, (1, M, 3)."""
    pad = collate_with_layers(DataCollatorWithPadding(tokenizer))

    def collate(items: list[Mapping[str, Any]]) -> dict[str, Tensor]:
        if len(items) != 1:
            raise ValueError(f"a batch of {len(items)} documents; a batch is one document.")
        (item,) = items
        speakers = [sentence["speaker_ids"] for sentence in item["sentences"] if "speaker_ids" in sentence]
        rows = [{key: value for key, value in row.items() if key != "speaker_ids"} for row in item["sentences"]]
        batch = dict(pad(rows))
        if speakers:
            mask = batch["attention_mask"].bool()
            batch["speaker_ids"] = torch.zeros(mask.shape, dtype=torch.long)
            batch["speaker_ids"][mask] = torch.from_numpy(np.concatenate(speakers)).long()
        batch["labels"] = torch.from_numpy(item["labels"]).unsqueeze(0)
        return batch

    return collate


def drop_singletons(documents: Documents) -> Documents:
    """The documents without clusters of one mention."""
    kept = [
        replace(document, clusters=[cluster for cluster in document.clusters if len(cluster) > 1])
        for document in documents.documents
    ]
    return replace(documents, documents=kept)


def has_singletons(documents: Documents) -> bool:
    """Whether any cluster has one mention alone."""
    return any(len(cluster) == 1 for document in documents.documents for cluster in document.clusters)


def count_mentions(documents: Documents, max_span_width: int) -> tuple[int, int]:
    """How many mentions there are, and how many of them are wider than a span can be, or in several sentences."""
    total = out_of_reach = 0
    for document in documents.documents:
        sentence_of = [number for number, sentence in enumerate(document.sentences) for _ in sentence]
        for start, stop in itertools.chain(*document.clusters):
            total += 1
            out_of_reach += stop - start > max_span_width or sentence_of[start] != sentence_of[stop - 1]
    return total, out_of_reach
