"""How text is cut into words, as flags, tokenizers and the files beside a vocabulary say it, and whether they agree."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..given import flag, quoted, read_json
from .vocabulary import VOCABULARY_FACTS_FILE, VOCABULARY_FILE

PreTokenizer = Literal["whitespace", "punctuation", "unicode", "penn"]
Cleaning = Literal["NFC", "invisible", "marks"]
CUTTING_NAMES = ("pre_tokenizer", "do_lower_case", "normalization", "drop_invisible", "ascii_marks")
# What --clean calls the tokenizer's settings.
_CLEANING: dict[str, str] = {"normalization": "NFC", "drop_invisible": "invisible", "ascii_marks": "marks"}
# What a count of words writes beside them, and what lies beside the words of a checkpoint.
_FILES_THAT_SAY = (VOCABULARY_FACTS_FILE, "tokenizer_config.json")


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
    clean: list[Cleaning] | None = flag(
        "What to clean first: NFC composes letters and their accents; invisible drops soft hyphens, byte order marks "
        "and their like, and ends a word at a zero width space; marks reads typographic quotes, dashes and ellipses as "
        "those of a keyboard. Saved.",
        default=None,
    )

    @property
    def cutting(self) -> dict[str, Any]:
        """The settings by the names that ElmoCharTokenizer has for them.

        Raises: ValueError for what `clean` does not know.
        """
        clean = set(self.clean or ())
        if not clean <= {*_CLEANING.values()}:
            raise ValueError(f"--clean is {sorted(clean)}; it must be some of {', '.join(_CLEANING.values())}.")
        return {
            "pre_tokenizer": self.pre_tokenizer,
            "do_lower_case": self.do_lower_case,
            "normalization": "NFC" if "NFC" in clean else None,
            "drop_invisible": "invisible" in clean,
            "ascii_marks": "marks" in clean,
        }


def cutting_of(tokenizer: Any) -> dict[str, Any]:
    """The settings of a tokenizer."""
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
    for name in _FILES_THAT_SAY if path.name == VOCABULARY_FILE else ():
        try:
            found = read_json(path.with_name(name), name)
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and "pre_tokenizer" in found:
            return {name: found.get(name) for name in CUTTING_NAMES}
    return None


def check_cutting(vocab_file: str | os.PathLike, cutting: Mapping[str, Any]) -> None:
    """Check that a run cuts text as the text of its vocabulary was cut.

    Raises: ValueError naming the settings that differ, both values, and the flags that make them agree.
    """
    built = read_cutting(vocab_file)
    differing = [name for name in CUTTING_NAMES if built and (built[name] or None) != (cutting[name] or None)]
    if built is None or not differing:
        return
    listed = "; ".join(f"{name} was {quoted(built[name])} and is {cutting[name]!r} in this run" for name in differing)
    raise ValueError(
        f"--vocab_file {str(vocab_file)!r} holds words that were cut otherwise: {listed}. Run with "
        f"{quoted(flags_of(built))}, or build the vocabulary with {flags_of(cutting)!r}."
    )


def flags_of(cutting: Mapping[str, Any]) -> str:
    """The settings as one writes them behind a command."""
    clean = " ".join(word for name, word in _CLEANING.items() if cutting[name])
    lower = " --do_lower_case" if cutting["do_lower_case"] else ""
    return f"--pre_tokenizer {cutting['pre_tokenizer']}{lower}{f' --clean {clean}' if clean else ''}"
