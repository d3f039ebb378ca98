"""The arguments of a token classification run beside those that all tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..given.flags import flag
from .arguments import BatchArguments, FeatureArguments, ModelArguments, SplitArguments


@dataclass
class TaggerArguments(ModelArguments, FeatureArguments, BatchArguments):
    """What stands between ELMo and the labels."""

    classifier_dropout: float | None = flag("Dropout before the classifier; None leaves the config's.", default=None)
    classifier_lstm_layers: int | None = flag(
        "Layers of a biLSTM of the task's own; None leaves the config's.", default=None
    )
    classifier_lstm_size: int | None = flag(
        "Size of each direction of that biLSTM; None leaves the config's.", default=None
    )
    output_layer: Literal["softmax", "crf"] | None = flag(
        "softmax for each word by itself, crf for the labels of a sentence together, by the rules of their scheme; "
        "None leaves the config's.",
        default=None,
    )
    convert_scheme: Literal["IOB1", "IOB2", "BIOES"] | None = flag(
        "Learn the labels of spans in this scheme, whatever the data's; predictions are written in the data's.",
        default=None,
    )


@dataclass
class TaggedDataArguments(SplitArguments):
    """What is read: files or a dataset, and which of their columns."""

    train_file: str | None = flag(
        "Training sentences, a word and its label on each line: columns of any CoNLL corpus, CoNLL-U or OntoNotes.",
        default=None,
    )
    validation_file: str | None = flag("Sentences to evaluate on, also after epochs.", default=None)
    test_file: str | None = flag("Sentences to predict and score at the end.", default=None)
    word_column: str | None = flag(
        "Column of the words in files, a number from 0 or a name (of CoNLL-U, or of a header line); the "
        "first, or FORM, by default.",
        default=None,
    )
    label_column: str | None = flag(
        "Column of the labels in files, as word_column; the last, UPOS of CoNLL-U, or named entities of OntoNotes, by "
        "default.",
        default=None,
    )
    dataset_name: str | None = flag(
        "A dataset with the splits train, validation and test (directory or Hub).", default=None
    )
    dataset_config_name: str | None = flag("Configuration of that dataset.", default=None)
    text_column_name: str | None = flag(
        "Column of the dataset with lists of words; tokens or words by default.", default=None
    )
    label_column_name: str | None = flag(
        "Column of the dataset with lists of labels; ner_tags by default.", default=None
    )
    labels: list[str] | None = flag("Labels to know beside those of the training data.", default=None)
    tag_scheme: Literal["auto", "spans", "words"] = flag(
        "How labels mark entities: spans (B-, I- and their like), words (each word on its own, parts of "
        "speech for example), or auto to tell from the labels.",
        default="auto",
    )

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}
