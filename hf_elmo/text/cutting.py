"""How text is cut into words, as flags, tokenizers and the files beside a vocabulary say it, and whether they agree."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from ..given.bounded_json import read_json
from ..given.flags import flag, part_of
from .vocabulary import VOCABULARY_FACTS_FILE, VOCABULARY_FILE

PreTokenizer = Literal["whitespace", "punctuation", "unicode", "penn"]
# What a count of words writes beside them, and what lies beside the words of a checkpoint.
_FILES_THAT_SAY = (VOCABULARY_FACTS_FILE, "tokenizer_config.json")
_NAME = re.compile(r"\w{1,40}")


@dataclass(frozen=True, kw_only=True)
class CuttingArguments:
    """How text is cut into words, and how they are read; the settings of a tokenizer."""

    pre_tokenizer: PreTokenizer = flag(
        "How text is cut into words: at white space, for text that is tokenised; unicode, for raw text (don't, U.S. "
        "and 3.14 stay whole, other marks are words); penn, for raw English (do n't, Alice 's); or punctuation (every "
        "mark by itself). Saved.",
        default="whitespace",
    )
    do_lower_case: bool = flag("Lower-case words before their characters are read. Saved.", default=False)
    normalization: Literal["NFC"] | None = flag(
        "Compose letters and their accents, so that words that look alike are alike. Saved.", default=None
    )
    drop_invisible: bool = flag(
        "Leave out soft hyphens, byte order marks and their like; a zero width space ends a word. Saved.", default=False
    )
    ascii_marks: bool = flag(
        "Read typographic quotes, dashes and ellipses as the marks of a keyboard. Saved.", default=False
    )

    @property
    def cutting(self) -> dict[str, Any]:
        """The settings by the names that ElmoCharTokenizer has for them."""
        return asdict(part_of(self, CuttingArguments))


CUTTING_NAMES = tuple(field.name for field in fields(CuttingArguments))


def cutting_of(tokenizer: Any) -> dict[str, Any]:
    """The settings of a tokenizer; what an older one lacks is off."""
    return {name: getattr(tokenizer, name, None) for name in CUTTING_NAMES}


def read_cutting(vocab_file: str | os.PathLike) -> dict[str, Any] | None:
    """How the words of a vocabulary were cut, as the files beside it say; None where none does.

    Args:
        vocab_file: The file of words, or the directory that holds one. Under another name than its own it may lie
            anywhere, so that nothing beside it is believed.
    """
    path = Path(vocab_file)
    if path.is_dir():
        path /= VOCABULARY_FILE
    if path.name != VOCABULARY_FILE:
        return None
    for name in _FILES_THAT_SAY:
        try:
            found = read_json(path.with_name(name), name)
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and "pre_tokenizer" in found:
            cutting = {name: found.get(name) for name in CUTTING_NAMES}
            if all(map(_is_setting, cutting.values())):
                return cutting
    return None


def _is_setting(value: Any) -> bool:
    return value is None or isinstance(value, bool) or (isinstance(value, str) and bool(_NAME.fullmatch(value)))


def check_cutting(vocab_file: str | os.PathLike, cutting: Mapping[str, Any]) -> None:
    """Check that a run cuts text as the text of its vocabulary was cut.

    Raises: ValueError naming the settings that differ, both values, and the flags that make them agree.
    """
    built = read_cutting(vocab_file)
    differing = [name for name in CUTTING_NAMES if built and (built[name] or None) != (cutting[name] or None)]
    if built is None or not differing:
        return
    listed = "; ".join(f"{name} was {built[name]!r} and is {cutting[name]!r} in this run" for name in differing)
    raise ValueError(
        f"--vocab_file {str(vocab_file)!r} holds words that were cut otherwise: {listed}. "
        f"Run {_remedy(built, differing)}, or build the vocabulary {_remedy(cutting, differing)}."
    )


def _remedy(cutting: Mapping[str, Any], names: Sequence[str]) -> str:
    parts = (
        ("with", flags_of({name: cutting[name] for name in names if cutting[name]})),
        (
            "without",
            " ".join(f"--{name}" for name in names if not cutting[name]),
        ),
    )
    return " and ".join(f"{word} {flags}" for word, flags in parts if flags)


def flags_of(cutting: Mapping[str, Any]) -> str:
    """The settings as one writes them behind a command; without those that are off."""
    return " ".join(f"--{name}" if value is True else f"--{name} {value}" for name, value in cutting.items() if value)
