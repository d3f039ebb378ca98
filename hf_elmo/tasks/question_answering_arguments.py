"""The arguments of question answering runs beside those that all tasks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..given.flags import flag
from ..text.cutting import PreTokenizer
from .arguments import BatchArguments, FeatureArguments, ModelArguments, SplitArguments


@dataclass
class QuestionAnsweringArguments(ModelArguments, FeatureArguments, BatchArguments):
    """The reader of questions and contexts; what is left out is as the checkpoint has it, or as published."""

    reader: Literal["self_attention", "bidaf"] | None = flag(
        "self_attention, the paper's (Clark and Gardner 2017; the default), or bidaf (Seo et al. 2016, as AllenNLP has "
        "it).",
        default=None,
    )
    hidden_size: int | None = flag(
        "Size of each direction of the reader's recurrences (default: 90, of bidaf 100).", default=None
    )
    dropout: float | None = flag("Dropout on what is read of each word (default: 0.5).", default=None)
    hidden_dropout: float | None = flag("Dropout between the reader's layers (default: 0.2).", default=None)
    max_answer_words: int | None = flag(
        "Words that an answer may have, 0 for any number; by default as many as 99 in 100 answers of the training data "
        "have.",
        default=None,
    )
    max_length: int | None = flag(
        "Read contexts in windows: so many words of a question and a piece of its context, markers included. None "
        "reads each context whole, as the paper did.",
        default=None,
    )
    stride: int | None = flag("Words that two windows share (default: half of max_length).", default=None)
    pre_tokenizer: PreTokenizer | None = flag(
        "How text is cut into words: penn or unicode, for raw text; saved with the model. None leaves the checkpoint's "
        "rule.",
        default=None,
    )


@dataclass
class QuestionDataArguments(SplitArguments):
    """What is read: files of questions in the JSON of SQuAD 1.1."""

    train_file: str | None = flag(
        "Training data, the JSON of SQuAD 1.1; also as .gz, .bz2, .xz or .zst. A share of it is one of its articles.",
        default=None,
    )
    validation_file: str | None = flag("Data to evaluate on, also after epochs.", default=None)
    test_file: str | None = flag("Data to predict and score at the end.", default=None)
    num_folds: int | None = flag(
        "Test on one of so many parts of the training file, which have whole articles, in place of a test file.",
        default=None,
    )
    fold: int = flag("Which of these parts, from 0.", default=0)

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}
