"""Uses of words with their senses: a JSON object each, as the data of Senseval-2 is often given."""

from __future__ import annotations

from typing import Any, cast

from ..given import quoted
from ..text.files import check_characters, form_of, json_records
from .word_uses import LabeledSentence

_KEYS = ("tokens", "index", "sense")


def holds_senses(file: str, name: str = "file") -> bool:
    """Whether a file's first record is a use with its sense; raises ValueError naming the line that is not JSON."""
    if form_of(file, name) != "json":
        return False
    _, first = next(json_records(file, name), ("", {}))
    return all(key in first for key in _KEYS)


def read_senses(file: str, name: str = "file") -> list[LabeledSentence]:
    """The sentences of a file of uses, each with the sense of one word, and None for the others.

    A record has `tokens`, the words, `index`, the number of one of them from 0, and `sense`; ValueError names the line.
    """
    uses: list[LabeledSentence] = []
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
        uses.append((words, [sense if at == index else None for at in range(len(words))]))
    if not uses:
        raise ValueError(f"{name} {file!r} holds no uses; give one with a record per line.")
    return uses
