"""Arguments that name text: what is read, how it is cut into words, and which of them make a vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from ..given.flags import check_choices, check_least, flag
from .cutting import CuttingArguments
from .word_counts import MAX_WORDS_IN_MEMORY


@dataclass(frozen=True, kw_only=True)
class CorpusArguments(CuttingArguments):
    """Training text, how it is cut into words, and how they are counted."""

    train_file: list[str] | None = flag(
        "Training text: files or quoted globs of text (one sentence per line), .jsonl or .parquet, also as .gz, .bz2, "
        ".xz or .zst.",
        default=None,
    )
    dataset_name: str | None = flag("Any name or directory that datasets.load_dataset knows; streamed.", default=None)
    dataset_config_name: str | None = flag("The dataset's configuration.", default=None)
    train_split: str = flag("The dataset's training split.", default="train")
    text_column: str = flag("Column that holds the text, in JSON, Parquet and datasets.", default="text")
    max_vocab_size: int | None = flag("Most words of a vocabulary that is built.", default=None)
    min_count: int = flag("Words seen less often are <UNK> in a vocabulary that is built.", default=2)
    max_words_in_memory: int = flag(
        "Distinct words that are counted in memory, some 200 bytes each; beyond them counts go to disk, to the same "
        "result.",
        default=MAX_WORDS_IN_MEMORY,
    )

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        if (self.train_file is None) == (self.dataset_name is None):
            raise ValueError("give either --train_file or --dataset_name: exactly one names the training text.")
        check_choices(self)
        check_least(self, ("min_count", "max_words_in_memory"), 1)
