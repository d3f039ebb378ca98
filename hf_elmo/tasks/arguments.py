"""The arguments that all tasks share, as dataclasses whose fields are the flags of `hf-elmo train`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from transformers import TrainingArguments

from ..given import flag

# The flag of transformers that asks for each step, and the split it works on.
STEPS = {"do_train": "train", "do_eval": "validation", "do_predict": "test"}
# The help of a flag of tasks whose data may be raw text.
PRE_TOKENIZER = (
    "How text is cut into words: at white space, for text that is tokenized; penn or unicode, for raw text; saved with "
    "the model. None leaves the checkpoint's rule."
)


@dataclass
class TaskArguments:
    """The model: what it starts from, and what it reads of each word."""

    model_name_or_path: str = flag(
        "Checkpoint to start from: pre-trained, converted, or one of this task (directory or Hub)."
    )
    from_scratch: bool = flag(
        "Take only the architecture and the tokenizer of model_name_or_path; its config.json is enough then.",
        default=False,
    )
    head: list[str] | None = flag(
        "Settings of the task's head, NAME=VALUE ..., as in config.json; they are listed below.", default=None
    )
    freeze_bilm: bool = flag(
        "Keep the token encoder and the biLM fixed, as in the paper; only mix and task are trained.", default=True
    )
    layers: Literal["all", "top", "token", "average"] | None = flag(
        "Layers that the task reads: all by shares that it learns, the top one, the token encoder's, or the average; "
        "None leaves the config's.",
        default=None,
    )
    mix_normalization: Literal["none", "batch", "word"] | None = flag(
        "Whether each layer is brought to a mean of 0 and a variance of 1 before it is mixed: by word, or over all "
        "words of a batch as the paper did for entailment. Layers of small models are small, and small numbers are "
        "slow to learn from. None leaves the config's.",
        default=None,
    )
    mix_l2: float | None = flag("L2 penalty on the weights of the scalar mix; None leaves the config's.", default=None)
    word_vectors: str | None = flag(
        "Text file of word vectors (GloVe, word2vec, fastText; also packed, or any address that fsspec opens); those "
        "of the words of all data given are read.",
        default=None,
    )
    learn_words: bool = flag(
        "Learn a vector for each word that stands at least twice in the training data; the others share one.",
        default=False,
    )
    layer_cache_dir: str | None = flag(
        "Directory in which the layers of a frozen biLM are kept for later runs, computed once for each text; without "
        "it they are kept beside the output until the run ends. They take no more than half of what is free on the "
        "disk, or the biLM is run in each epoch.",
        default=None,
    )


@dataclass
class FileArguments:
    """The data: a file for each split."""

    train_file: str | None = flag("Training data; also as .gz, .bz2, .xz or .zst.", default=None)
    validation_file: str | None = flag("Data to evaluate on, also after epochs.", default=None)
    test_file: str | None = flag("Data to predict and score at the end.", default=None)
    train_fraction: float = flag("Fraction of the training data to use, chosen by a hash of each text.", default=1.0)
    validation_fraction: float | None = flag(
        "Fraction of the training data to hold out as validation data, chosen by another hash of each text.",
        default=None,
    )

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}


@dataclass
class DatasetArguments(FileArguments):
    """The data: files, or a dataset that has splits of its own."""

    dataset_name: str | None = flag(
        "A dataset with the splits train, validation and test (directory or Hub).", default=None
    )
    dataset_config_name: str | None = flag("The dataset's configuration.", default=None)


def _unlike_transformers(default: Any) -> Any:
    """A field of TrainingArguments with another default, which --help leaves out as it does all the others."""
    return flag(argparse.SUPPRESS, default=default)


# Some of transformers' fields have no None, which here stands for what is settled later.
@dataclass
class TaskTrainingArguments(TrainingArguments):
    """The training: defaults that suit a small head on a frozen biLM."""

    output_dir: str | None = flag(
        "Directory of the model, its scores and its predictions; must be given.", default=None
    )
    overwrite_output_dir: bool = flag("Replace what output_dir holds, when the run has gone well.", default=False)
    learning_rate: float | None = flag(  # type: ignore[assignment]
        "Peak learning rate; by default 1e-3, or 1e-4 where a pre-trained biLM is trained too.", default=None
    )
    num_train_epochs: float = flag("Passes over the training data.", default=10.0)
    per_device_train_batch_size: int = flag("Examples per device and training step.", default=32)
    early_stopping_patience: int | None = flag(
        "With load_best_model_at_end: stop after so many evaluations in a row that are not better.", default=None
    )
    num_seeds: int = flag(
        "Trainings, with the seeds from --seed (42) on; the mean and the deviation of the scores are told, and the "
        "model that is best on the validation data is kept.",
        default=1,
    )
    resume_from_checkpoint: str | None = flag(
        "Resume from a checkpoint-N directory, from the `last` one of output_dir or, with `auto`, from that if there "
        "is one.",
        default=None,
    )
    per_device_eval_batch_size: int = _unlike_transformers(32)
    logging_strategy: str = _unlike_transformers("epoch")
    eval_strategy: str = _unlike_transformers("epoch")
    save_strategy: str = _unlike_transformers("no")
    train_sampling_strategy: str = _unlike_transformers("group_by_length")

    def __post_init__(self) -> None:
        # transformers itself turns do_eval on where eval_strategy is set: keep what was really asked for.
        self.steps_asked = [step for step in STEPS if getattr(self, step)]
        self.directory_asked, self.metric_asked = bool(self.output_dir), self.metric_for_best_model is not None
        self.keeps_checkpoints = self.save_strategy != "no"
        if self.load_best_model_at_end and not self.keeps_checkpoints:
            self.save_strategy, self.save_total_limit = "best", 1
        super().__post_init__()
        self.resumes_newest = self.resume_from_checkpoint in ("auto", "last")
        self.directory = Path(cast("str", self.output_dir))
