"""Uses of words with their senses: a JSON object each, as the data of Senseval-2 is often given."""

from __future__ import annotations

from dataclasses import dataclass

from ...given.bounded_files import quoted
from ...text.files import check_characters, form_of, json_records

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
    """Whether a file's first record is a use with its sense.

    Raises: ValueError naming the file and the line of what is not JSON.
    """
    if form_of(file, name) != "json":
        return False
    _, first = next(json_records(file, name), ("", {}))
    return all(key in first for key in _KEYS)


def read_senses(file: str, name: str = "file") -> list[SenseUse]:
    """The uses of a file.

    Args:
        file: A record per line with `tokens`, the words of a sentence, `index`, the place of one of them from 0, and
            `sense`; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        name: The argument that named the file, for errors.
    Raises: ValueError naming the file and the line of what is no such record.
    """
    uses = []
    for place, record in json_records(file, name):
        missing = [key for key in _KEYS if key not in record]
        if missing:
            raise ValueError(f"{place} has no {' and no '.join(missing)}; wanted {', '.join(_KEYS)}.")
        words, index, sense = (record[key] for key in _KEYS)
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise ValueError(f"{place}: tokens is {quoted(words)}; wanted a list of words.")
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(words):
            raise ValueError(f"{place}: index is {quoted(index)}; wanted a number from 0 to {len(words) - 1}.")
        if not isinstance(sense, str) or not sense:
            raise ValueError(f"{place}: sense is {quoted(sense)}; wanted its name.")
        check_characters(" ".join([*words, sense]), place)
        uses.append(SenseUse(tuple(words), index, sense))
    if not uses:
        raise ValueError(f"{name} {file!r} holds no uses; give one with a record per line.")
    return uses
