"""Sentences with predicates as rows for the model, a row for each predicate, and batches of them.

Letters in shapes: T words, the sentence markers included, C characters per word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from ..model.modeling_elmo import IGNORED_LABEL
from ..model.tokenization_elmo import ElmoCharTokenizer
from .readers.propositions import Propositions

_SENTENCES_AT_A_TIME = 1000


class PropositionRows(Dataset):
    """A row for each predicate; the characters of a sentence are held once for all of its predicates.

    A row has `input_ids` (T, C), `attention_mask` (T,), `predicate_mask` (T,) and `labels` (T,), which are -100 at the
    sentence markers.

    Args:
        propositions: The sentences.
        tokenizer: Makes the characters' ids.
        label2id: The ids of all tags.
        with_all_predicates: Whether a row also has `all_predicates` (T,), those of its sentence, and sentences
            without any have a row too, whose labels are all -100.

    Attributes:
        places: Of each row its sentence and its predicate there; None for a row without.
    """

    def __init__(
        self,
        propositions: Propositions,
        tokenizer: ElmoCharTokenizer,
        label2id: Mapping[str, int],
        with_all_predicates: bool,
    ):
        self._sentences = propositions.sentences
        self._label2id = label2id
        self._with_all_predicates = with_all_predicates
        self._characters: list[np.ndarray] = []
        words = [sentence.words for sentence in self._sentences]
        for start in range(0, len(words), _SENTENCES_AT_A_TIME):
            encoded = tokenizer(words[start : start + _SENTENCES_AT_A_TIME], is_split_into_words=True)
            self._characters += [np.asarray(rows, dtype=np.int32) for rows in encoded["input_ids"]]
        self.places: list[tuple[int, int | None]] = []
        for place, sentence in enumerate(self._sentences):
            numbers: Sequence[int | None] = range(len(sentence.predicates))
            if with_all_predicates and not sentence.predicates:
                numbers = [None]
            self.places += [(place, number) for number in numbers]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        place, number = self.places[index]
        sentence, characters = self._sentences[place], self._characters[place]
        length = len(characters)
        row = {
            "input_ids": characters,
            "attention_mask": np.ones(length, dtype=np.int64),
            "predicate_mask": np.zeros(length, dtype=np.int64),
            "labels": np.full(length, IGNORED_LABEL, dtype=np.int64),
        }
        if number is not None:
            predicate = sentence.predicates[number]
            row["predicate_mask"][1 + predicate.place] = 1
            row["labels"][1:-1] = [self._label2id[tag] for tag in predicate.tags]
        if self._with_all_predicates:
            row["all_predicates"] = np.zeros(length, dtype=np.int64)
            row["all_predicates"][[1 + predicate.place for predicate in sentence.predicates]] = 1
        return row


def make_row_collator(padding_side: str) -> Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]]:
    """What makes a batch of rows, padded on this side by zeros, labels by -100."""

    def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        longest = max(len(row["input_ids"]) for row in rows)
        batch = {}
        for name, first in rows[0].items():
            filler = IGNORED_LABEL if name == "labels" else 0
            padded = torch.full((len(rows), longest, *first.shape[1:]), filler, dtype=torch.long)
            for target, row in zip(padded, rows, strict=True):
                length = len(row[name])
                start = longest - length if padding_side == "left" else 0
                target[start : start + length] = torch.from_numpy(row[name])
            batch[name] = padded
        return batch

    return collate
