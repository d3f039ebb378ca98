"""Readers of annotated data, one file per form; each gives one part of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

AnyExamples = TypeVar("AnyExamples", bound="Examples")


@dataclass
class Examples:
    """One part of a corpus. Each field of a subclass that is a list has an entry for each example."""

    source: str  # what errors call it: the argument that named it and its value
    known_labels: tuple[str, ...] = field(default=(), kw_only=True)  # whether they occur here or not
    note: str | None = field(default=None, kw_only=True)  # what a user should know of how it was read

    def __len__(self) -> int:
        return len(self._first())

    def __getitem__(self, index: int) -> Any:
        return self._first()[index]

    def _first(self) -> list:
        return next(column for column in vars(self).values() if isinstance(column, list))

    def text(self, index: int) -> str:
        """What says which fraction of a corpus an example belongs to; examples with the same text stay together."""
        raise NotImplementedError

    def labels_with_places(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Each label, as often as it occurs, and the arguments of `place` for it."""
        return iter(())

    def place(self, *where: int) -> str:
        """Where an example stands, for errors."""
        raise NotImplementedError

    def label_places(self) -> dict[str, str]:
        """Each label that occurs, and where it stands first, for errors."""
        first: dict[str, tuple[int, ...]] = {}
        for label, where in self.labels_with_places():
            first.setdefault(label, where)
        return {label: self.place(*where) for label, where in first.items()}

    def pick(self: AnyExamples, indices: Sequence[int]) -> AnyExamples:
        """The examples at these indices; labels that only others have stay known."""
        columns = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        kept: dict[str, Any] = {
            name: [column[index] for index in indices] for name, column in columns.items() if isinstance(column, list)
        }
        occurring = {label for label, _ in self.labels_with_places()}
        return replace(self, **kept, known_labels=tuple(sorted({*self.known_labels, *occurring})))
