"""The sentiment task: texts with a label each in, a trained classifier, its scores and its predictions out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .classification import ClassificationTask, check_arguments, prepare
from .classification_arguments import SentimentArguments, SentimentDataArguments
from .data_sources import read_splits
from .readers.labelled_texts import LabelledTexts
from .readers.sentences import read_sentences, sentences_of_dataset
from .training_arguments import TaskTrainingArguments

# Those of texts, the default first.
_ENCODERS = ("bcn", "pooled")


@dataclass
class SentimentTask(ClassificationTask):
    """Sentiment, or any one label for a text, checked and ready to run."""

    name: ClassVar[str] = "sentiment"


def prepare_task(
    model_args: SentimentArguments, data_args: SentimentDataArguments, training_args: TaskTrainingArguments
) -> ClassificationTask:
    """Check everything that can be wrong with the arguments and the data, and build the model.

    Nothing is written. Once this has returned, an error is one of the machine or of this package.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    check_arguments(model_args, data_args, training_args)
    least = data_args.min_phrase_words
    if least is not None and (least < 1 or data_args.train_file is None):
        raise ValueError(f"min_phrase_words is {least}; it must be an integer >= 1, and train_file a file of trees.")
    if least is not None and data_args.validation_share is not None:
        raise ValueError(
            f"min_phrase_words is {least} and validation_share {data_args.validation_share}: phrases would be held out "
            "of sentences that are trained on; give a validation_file."
        )

    def read_file(file: str, argument: str) -> LabelledTexts:
        phrases = least if argument == "train_file" else None
        return read_sentences(file, data_args.text_column, data_args.label_column, phrases, argument)

    splits = read_splits(
        data_args,
        read_file,
        lambda split, source: sentences_of_dataset(split, source, data_args.text_column, data_args.label_column),
    )
    return prepare(SentimentTask, splits, model_args, data_args, training_args, _ENCODERS)
