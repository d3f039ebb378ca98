"""Flags that name text: what is read, and how it is cut into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..given import check_choices, flag
from .cutting import CuttingArguments

if TYPE_CHECKING:
    from .corpora import Corpus


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
        """Check what can be checked before any file is read.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
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
