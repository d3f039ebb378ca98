"""Flags that name text, and how it is cut into words; whether the words of a vocabulary were cut alike."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..given import check_choices, flag, quoted, read_json
from .vocabulary import VOCABULARY_FACTS_FILE, VOCABULARY_FILE

if TYPE_CHECKING:
    from .corpora import Corpus

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
        "How text is cut into words: at white space, for text that is tokenized; unicode, for raw text (don't, U.S. "
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
        """The settings by the names that ElmoCharTokenizer has for them."""
        clean: Sequence[str] = self.clean or ()
        return {
            "pre_tokenizer": self.pre_tokenizer,
            "do_lower_case": self.do_lower_case,
            "normalization": "NFC" if "NFC" in clean else None,
            "drop_invisible": "invisible" in clean,
            "ascii_marks": "marks" in clean,
        }


@dataclass(frozen=True, kw_only=True)
class CorpusArguments(CuttingArguments):
    """Training text, and how it is cut into words."""

    train_file: list[str] | None = flag(
        "Training text: files or quoted globs of text (one sentence per line), .jsonl or .parquet, also as .gz, .bz2, "
        ".xz or .zst.",
        default=None,
    )
    dataset_name: str | None = flag(
        "Any name or directory that datasets.load_dataset knows; its split `train` is streamed.", default=None
    )
    dataset_config_name: str | None = flag("The dataset's configuration.", default=None)
    text_column: str = flag("Column that holds the text, in JSON, Parquet and datasets.", default="text")

    def check(self) -> None:
        """Raises: ValueError naming the argument, the value got and the value wanted."""
        if (self.train_file is None) == (self.dataset_name is None):
            raise ValueError("give either --train_file or --dataset_name: exactly one names the training text.")
        check_choices(self)

    def open_dataset(self, split: str) -> Corpus:
        """Stream a split of the dataset that is named."""
        from .corpora import corpus_from_dataset

        return corpus_from_dataset(self.dataset_name or "", self.dataset_config_name, split, self.text_column)

    def open_train(self, by_document: bool = False) -> Corpus:
        """Stream the training text; see `corpus_from_files`."""
        from .corpora import corpus_from_files

        if self.dataset_name is not None:
            return self.open_dataset("train")
        return corpus_from_files(self.train_file or (), "--train_file", self.text_column, by_document)


def cutting_of(tokenizer: Any) -> dict[str, Any]:
    """The settings of a tokenizer."""
    return {name: getattr(tokenizer, name, None) for name in CUTTING_NAMES}


def read_cutting(vocab_file: str | os.PathLike) -> dict[str, Any] | None:
    """How the words of a file, or of a directory with one, were cut, as the files beside it say; None if none does."""
    path = Path(vocab_file)
    if path.is_dir():
        path /= VOCABULARY_FILE
    # Under another name than its own it may lie anywhere, so that nothing beside it is believed.
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
