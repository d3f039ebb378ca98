"""The arguments of a semantic role labelling run beside those that all tasks share."""

from __future__ import annotations

from dataclasses import dataclass

from ..given.flags import flag
from .arguments import BatchArguments, FeatureArguments, ModelArguments, SplitArguments


@dataclass
class RoleArguments(ModelArguments, FeatureArguments, BatchArguments):
    """What stands between ELMo and the roles; what is left out is as the checkpoint has it, or as published."""

    hidden_size: int | None = flag("Size of each highway LSTM (default: 300).", default=None)
    num_layers: int | None = flag("Highway LSTMs, reading forward and backward in turns (default: 8).", default=None)
    predicate_size: int | None = flag(
        "Size of the vector that says whether a word is the predicate (default: 100).", default=None
    )
    dropout: float | None = flag("Dropout on what is read of each word (default: 0.1).", default=None)
    recurrent_dropout: float | None = flag(
        "Dropout on what comes back in each LSTM, the same for all words of a sentence (default: 0.1).", default=None
    )
    find_predicates: bool = flag(
        "Also learn which words are predicates, by a small classifier on what is read of each, so that raw text can be "
        "labelled.",
        default=False,
    )


@dataclass
class PropositionArguments(SplitArguments):
    """What is read: sentences with predicates and brackets, in the columns of CoNLL-2005, CoNLL-2012 or PropBank."""

    train_file: str | None = flag("Training sentences; also as .gz, .bz2, .xz or .zst.", default=None)
    validation_file: str | None = flag("Sentences to evaluate on, also after epochs.", default=None)
    test_file: str | None = flag("Sentences to predict and score at the end.", default=None)

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}
