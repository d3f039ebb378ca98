"""The arguments of a coreference run beside those that all tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..given.flags import flag
from .arguments import FeatureArguments, ModelArguments, SplitArguments


@dataclass
class CoreferenceArguments(ModelArguments, FeatureArguments):
    """What stands between ELMo and the clusters; what is left out is as the checkpoint has it, or as published."""

    lstm_size: int | None = flag("Size of each direction of the biLSTM (default: 200).", default=None)
    hidden_size: int | None = flag("Size of the dense layers of both scorers (default: 150).", default=None)
    feature_size: int | None = flag(
        "Size of the vectors of widths, distances and speakers (default: 20).", default=None
    )
    dropout: float | None = flag("Dropout on what is read of each word (default: 0.5).", default=None)
    hidden_dropout: float | None = flag("Dropout everywhere else (default: 0.2).", default=None)
    max_span_width: int | None = flag("Words of the widest span that can be found (default: 10).", default=None)
    spans_per_word: float | None = flag("Spans that are kept, for each word (default: 0.4).", default=None)
    max_antecedents: int | None = flag(
        "Kept spans before it that each one is compared with, the nearest (default: 250).", default=None
    )
    allow_crossing: bool | None = flag(
        "Whether spans that cross each other can be kept together (default: False).", default=None
    )
    read_across_sentences: bool | None = flag(
        "Whether the biLSTM reads the document in one go, not each sentence on its own (default: False).", default=None
    )
    mention_loss: float | None = flag(
        "Weight of the loss that teaches which spans are mentions at all, by themselves (default: 1 where singletons "
        "are kept, else 0).",
        default=None,
    )
    singletons: Literal["keep", "drop"] | None = flag(
        "Whether mentions that nothing else is named like are read, predicted and scored, as clusters of one; by "
        "default where the training data mark any.",
        default=None,
    )
    ignore_speakers: bool = flag("Leave out who says what, also where the training data know.", default=False)
    max_train_sentences: int = flag(
        "Train on a random window of so many sentences of each longer document; 0 for whole ones.", default=50
    )


@dataclass
class CoreferenceDataArguments(SplitArguments):
    """What is read: files in the columns of CoNLL-2012, packed or not."""

    train_file: str | None = flag(
        "Training data in the columns of CoNLL-2012, also as .gz, .bz2, .xz or .zst.", default=None
    )
    validation_file: str | None = flag("Data to evaluate on, also after epochs.", default=None)
    test_file: str | None = flag("Data to predict and score at the end.", default=None)

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}
