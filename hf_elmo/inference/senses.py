"""Uses of words with their senses: a JSON object each, as the data of Senseval-2 is often given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ..given.bounded_files import quoted
from ..text.files import check_characters, form_of, json_records

_KEYS = ("tokens", "index", "sense")


@dataclass(frozen=True)
class SenseUse:
    """One use of a word: its sentence, its place in that, from 0, and its sense."""

    words: tuple[str, ...]
    place: int
    sense: str

    @property
    def labels(self) -> list[str | None]:
        """The sense at its place, and None for the other words."""
        return [self.sense if place == self.place else None for place in range(len(self.words))]


def holds_senses(file: str, name: str = "file") -> bool:
    """Whether a file's first record is a use with its sense; raises ValueError naming the line that is not JSON."""
    if form_of(file, name) != "json":
        return False
    _, first = next(json_records(file, name), ("", {}))
    return all(key in first for key in _KEYS)


def read_senses(file: str, name: str = "file") -> list[SenseUse]:
    """The uses of a file.

    Args:
        file: A record per line with `tokens`, the words of a sentence, `index`, the place of one of them from 0, and
            `sense`; compressed or not.
        name: The argument that named the file, for errors.
    Raises: ValueError naming the file and the line of what is no such record.
    """
    uses = []
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
        uses.append(SenseUse(tuple(words), index, sense))
    if not uses:
        raise ValueError(f"{name} {file!r} holds no uses; give one with a record per line.")
    return uses
