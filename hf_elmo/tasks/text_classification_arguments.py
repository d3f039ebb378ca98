"""The arguments of a text classification run beside those that all tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..given.flags import flag
from ..text.cutting import PreTokenizer
from .arguments import BatchArguments, FeatureArguments, ModelArguments, SplitArguments


@dataclass
class ClassifierArguments(ModelArguments, FeatureArguments, BatchArguments):
    """What stands between ELMo and the label; what is left out is as the checkpoint has it, or as published."""

    encoder: Literal["bcn", "pooled", "esim", "pooled_pairs"] | None = flag(
        "Of texts: bcn, the biattentive classifier (McCann et al. 2017; the default), or pooled, mean and maximum of "
        "the words. Of pairs: esim (Chen et al. 2017; the default), or pooled_pairs, mean and maximum of the words of "
        "both texts, their difference and their product.",
        default=None,
    )
    hidden_size: int | None = flag(
        "Size of each direction of the encoder's biLSTMs, and of its dense layer (default: 300).", default=None
    )
    dropout: float | None = flag("Dropout on what is read of each word (default: 0.5).", default=None)
    hidden_dropout: float | None = flag("Dropout on what the encoder's dense layer gives.", default=None)
    output_sizes: list[int] | None = flag(
        "Sizes of the dense layers on top, the last one (of the labels) left out.", default=None
    )
    output_dropouts: list[float] | None = flag(
        "Dropout before each of the dense layers on top, the last one included.", default=None
    )
    max_length: int | None = flag(
        "Cut what is longer than so many words, markers included; of a pair the longer text first.", default=None
    )
    pre_tokenizer: PreTokenizer | None = flag(
        "How text is cut into words: at white space, for text that is tokenised; penn or unicode, for raw text; saved "
        "with the model. None leaves the checkpoint's rule.",
        default=None,
    )


@dataclass
class LabelledDataArguments(SplitArguments):
    """What is read: files or a dataset of texts, or of pairs of texts, and which of their columns."""

    train_file: str | None = flag(
        "Training data: .tsv or .txt (tabs), .csv, .jsonl, .json or .parquet, or trees in brackets, as the Stanford "
        "Sentiment Treebank has them; text also as .gz, .bz2, .xz or .zst.",
        default=None,
    )
    validation_file: str | None = flag("Data to evaluate on, also after epochs.", default=None)
    test_file: str | None = flag("Data to predict and score at the end.", default=None)
    dataset_name: str | None = flag(
        "A dataset with the splits train, validation and test (directory or Hub).", default=None
    )
    dataset_config_name: str | None = flag("Configuration of that dataset.", default=None)
    text_column: str | None = flag(
        "Column of the text (of a pair: of the first one), its name or its number from 0; by default the first that "
        "has a usual name, such as text, sentence, premise or sentence1.",
        default=None,
    )
    text_pair_column: str | None = flag(
        "Column of the second text, as text_column: it makes the examples pairs. By default, where text_column is not "
        "named either, one that is called hypothesis, sentence2 or the like, if there is one.",
        default=None,
    )
    label_column: str | None = flag(
        "Column of the label, as text_column; label, gold_label or the like by default.", default=None
    )
    labels: list[str] | None = flag("Labels to know beside those of the training data.", default=None)
    text_is_tokenized: bool = flag(
        "Words stand between white space; without it the checkpoint's tokenizer cuts them.", default=False
    )
    min_phrase_words: int | None = flag(
        "Of training data in trees, also take the phrases of so many words and more; 4 as in the paper, 1 for all. "
        "None takes whole sentences alone.",
        default=None,
    )

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}
