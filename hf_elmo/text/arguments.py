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


@dataclass(frozen=True, kw_only=True)
class TextArguments(CorpusArguments):
    """Training text and held-out text, how they are cut into words, and the words of the softmax."""

    validation_file: list[str] | None = flag("Held-out text, in the same forms.", default=None)
    validation_split: str | None = flag("The dataset's held-out split.", default=None)
    validation_split_percentage: float = flag(
        "Percentage of the training text (lines, documents with --reset_state document, or records) to hold out where "
        "there is no validation file or split; a hash of each text chooses.",
        default=2.0,
    )
    shuffle_buffer_size: int = flag(
        "Records (lines of text; documents with --reset_state document) that each pass draws its next one from; 0 "
        "keeps the order of the text.",
        default=0,
    )
    vocab_file: str | None = flag(
        "Words of the softmax, one per line, <S>, </S> and <UNK> first; built from the training text if left out.",
        default=None,
    )
    skip_baselines: bool = flag("Leave out the unigram and bigram baselines (one more pass).", default=False)

    @property
    def holds_out(self) -> bool:
        """Whether the held-out text is cut from the training text, as none is named."""
        return self.validation_file is None and (self.dataset_name is None or self.validation_split is None)

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        CorpusArguments.check(self)
        check_least(self, ("shuffle_buffer_size",), 0)
        if not 0 < self.validation_split_percentage < 100:
            raise ValueError(
                f"--validation_split_percentage is {self.validation_split_percentage}; it must lie between 0 and 100."
            )
