"""The entailment task: pairs of texts with a label in, a trained classifier, its scores and its predictions out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from .class_reports import write_records
from .classification import ClassificationTask, check_arguments, prepare
from .classification_arguments import EntailmentArguments, EntailmentDataArguments
from .data_sources import read_splits
from .readers.pairs import pairs_of_dataset, read_pairs
from .training_arguments import TaskTrainingArguments

# Those of pairs, the default first.
_ENCODERS = ("esim", "pooled_pairs")


@dataclass
class EntailmentTask(ClassificationTask):
    """Entailment, or any one label for a pair of texts; writes its predictions as SNLI's lines of JSON, too."""

    name: ClassVar[str] = "entailment"

    def write_predictions(self, directory: Path, split: str, probabilities: np.ndarray) -> None:
        super().write_predictions(directory, split, probabilities)
        write_records(directory / f"{split}_predictions.jsonl", self.splits[split], self.labels, probabilities)


def prepare_task(
    model_args: EntailmentArguments, data_args: EntailmentDataArguments, training_args: TaskTrainingArguments
) -> ClassificationTask:
    """Check everything that can be wrong with the arguments and the data, and build the model.

    Nothing is written. Once this has returned, an error is one of the machine or of this package.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    check_arguments(model_args, data_args, training_args)
    columns = (data_args.text_column, data_args.text_pair_column, data_args.label_column)
    splits = read_splits(
        data_args,
        lambda file, argument: read_pairs(file, *columns, name=argument),
        lambda split, source: pairs_of_dataset(split, source, *columns),
    )
    return prepare(EntailmentTask, splits, model_args, data_args, training_args, _ENCODERS)
