"""Texts, or pairs of them, with one label each: what classifiers learn from, and what of it must be right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from datasets import Dataset

from ...given.bounded_files import quoted
from ...text.files import check_characters
from .rows import Column, Row, class_label_of, rows_of_dataset

_NO_LABEL = "-"


@dataclass
class LabelledTexts:
    """One part of a corpus of texts, or of pairs of texts, with a label each.

    Args:
        source: What errors call it: the argument that named it and its value.
        texts: The texts; of pairs the first ones.
        labels: The label of each.
        places: Where each stood, "line 7" for example.
        second_texts: Of pairs the second texts.
        ids: What the corpus calls each; None where it has no names for them.
        is_tokenized: Whether the words of a text stand between spaces, whatever a tokenizer would do.
        known_labels: Labels that the corpus declares, whether they occur or not.
        num_unlabelled: How many were left out because they have no label.
    """

    source: str
    texts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    second_texts: list[str] | None = None
    ids: list[str] | None = None
    is_tokenized: bool = False
    known_labels: tuple[str, ...] = ()
    num_unlabelled: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, index: int) -> str:
        """Where a text stands, for errors; counted from 0."""
        return f"{self.source}, {self.places[index]}"

    def label_places(self) -> dict[str, str]:
        """Each label that occurs, and where it stands first, for errors."""
        first: dict[str, int] = {}
        for index, label in enumerate(self.labels):
            first.setdefault(label, index)
        return {label: self.place(index) for label, index in first.items()}

    def text(self, place: int) -> str:
        """What says which share of a corpus a text belongs to; of a pair the first text, whose pairs stay together."""
        return self.texts[place]

    def pick(self, places: Sequence[int]) -> LabelledTexts:
        """The texts at these places; labels that only others have stay known."""
        columns = ("texts", "labels", "places", "second_texts", "ids")
        chosen = {name: getattr(self, name) for name in columns if getattr(self, name) is not None}
        kept: dict[str, Any] = {name: [values[place] for place in places] for name, values in chosen.items()}
        return replace(self, **kept, known_labels=tuple(dict.fromkeys([*self.known_labels, *self.labels])))


def gather(rows: Iterable[Row], source: str) -> LabelledTexts:
    """The texts of rows with the keys `text` and `label` and, where there are such, `second` and `id`.

    Rows without a label are counted and left out: those with None for one and, of pairs, with `-`, by which SNLI says
    that its annotators did not agree.

    Args:
        rows: From `read_rows` or `rows_of_dataset`.
        source: What errors call them.
    Raises: ValueError naming the row whose text or label is none, or the source if nothing is left.
    """
    kept = LabelledTexts(source)
    second_texts, ids = [], []
    for place, values in rows:
        where = f"{source}, {place}"
        label = None if values["label"] is None else _checked_label(values["label"], where)
        if label is None or (label == _NO_LABEL and "second" in values):
            kept.num_unlabelled += 1
            continue
        kept.texts.append(_checked_text(values["text"], where, "the text"))
        kept.labels.append(label)
        kept.places.append(place)
        if "second" in values:
            second_texts.append(_checked_text(values["second"], where, "the second text"))
        if "id" in values:
            ids.append(str(values["id"]))
    if not len(kept):
        raise ValueError(
            f"{source} holds no texts with a label ({kept.num_unlabelled} without): it is empty, or has only titles. "
            "Name another one."
        )
    kept.second_texts, kept.ids = second_texts or None, ids or None
    return kept


def gather_dataset(dataset: Dataset, source: str, columns: Mapping[str, Column]) -> LabelledTexts:
    """The texts of one split of a dataset, as `gather`, and the labels that its `ClassLabel` declares."""
    kept = gather(rows_of_dataset(dataset, columns, source), source)
    place = columns["label"].find(dataset.column_names, source)
    declared = class_label_of(dataset, dataset.column_names[place])
    kept.known_labels = () if declared is None else tuple(declared.names)
    return kept


def _checked_text(value: Any, place: str, column: str) -> str:
    """A text without the space around it, if it is one and holds more than that."""
    if not isinstance(value, str):
        raise ValueError(
            f"{place}: {column} holds {type(value).__name__} ({quoted(value)}), not text. Name a column of texts, or "
            "mend the record."
        )
    check_characters(value, place)
    if not value.strip():
        raise ValueError(f"{place}: {column} is empty; fill it in or remove the record.")
    return value.strip()


def _checked_label(value: Any, place: str) -> str:
    """A label, a word or a whole number, as a string."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    label = _checked_text(value, place, "the label")
    if any(mark in label for mark in "\t\r\n"):
        raise ValueError(f"{place}: the label is {quoted(label)}, with a tab or a line end in it; name it otherwise.")
    return label
