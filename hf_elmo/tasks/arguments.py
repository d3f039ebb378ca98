"""The arguments that all tasks share, as dataclasses whose fields are the flags of `hf-elmo train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from transformers import TrainingArguments

from ..given.flags import flag
from ..hub.arguments import Preset

# The flag that asks for each step, and the split it works on.
STEPS = {"do_train": "train", "do_eval": "validation", "do_predict": "test"}


@dataclass
class ModelArguments:
    """Where the biLM comes from, and what the task reads of it."""

    model_name_or_path: str | None = flag(
        "Checkpoint to start from: pre-trained, converted, or one of this task (directory or Hub).", default=None
    )
    config_name: str | None = flag(
        "Directory or config.json of an architecture; its weights are drawn at random.", default=None
    )
    preset: Preset | None = flag("An architecture that has a name; its weights are drawn at random.", default=None)
    from_scratch: bool = flag(
        "Take only the architecture and the tokenizer of model_name_or_path and draw all weights at "
        "random; config_name and preset always do.",
        default=False,
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
    layer_cache_dir: str | None = flag(
        "Directory in which the layers of a frozen biLM are kept for later runs, computed once for each text; without "
        "it they are kept beside the output until the run ends.",
        default=None,
    )
    layer_cache_gigabytes: float = flag(
        "What these layers may take together; those used longest ago make room, and where the disk or this is too "
        "small the biLM is run in each epoch. 0 keeps none.",
        default=20.0,
    )
    mix_l2: float | None = flag("L2 penalty on the weights of the scalar mix; None leaves the config's.", default=None)


@dataclass
class FeatureArguments:
    """What stands beside ELMo for each word, or in its place; what is left out is as the checkpoint has it."""

    no_use_elmo: bool = flag("Leave ELMo out: only what stands beside it is read, as a baseline.", default=False)
    word_vectors: str | None = flag(
        "Text file of word vectors (GloVe, word2vec, fastText; also packed, or any address that fsspec opens); those "
        "of the words of all data given are read.",
        default=None,
    )
    more_word_vectors: int = flag(
        "Keep so many of the file's first vectors too, of its most frequent words, for text that comes later.",
        default=0,
    )
    learn_words: bool = flag("Learn a vector for each word of the training data.", default=False)
    min_word_count: int | None = flag(
        "Learn a vector only for words that stand there so often; the others share one (default: 2).", default=None
    )
    word_vector_size: int | None = flag(
        "Size of a vector: of learned ones (default: 50), or of those of a file whose first word has spaces in it.",
        default=None,
    )
    no_train_word_vectors: bool = flag("Keep the vectors of the file as they are.", default=False)
    lower_case_words: bool = flag(
        "Look words up with A to Z lower-cased, for files of lower-cased words or few words to learn from.",
        default=False,
    )
    character_filters: list[str] | None = flag(
        "Convolutions of a small CNN over a word's characters, WIDTH:COUNT ..., 3:128 for example.", default=None
    )
    character_embedding_size: int | None = flag("Size of a character's vector in that CNN (default: 16).", default=None)
    mix_at_output: bool = flag(
        "Give a second mix to the layer behind the task's own biLSTM, beside what comes out of that.", default=False
    )


@dataclass
class TaskArguments(ModelArguments, FeatureArguments):
    """The model of a task; what is left out is as the checkpoint has it, or as published."""


@dataclass
class BatchArguments:
    """How examples are put together, for tasks whose batches are of several."""

    group_by_length: bool = flag(
        "Train on batches of examples of about one length, which have less padding.", default=True
    )


@dataclass
class SplitArguments:
    """Which examples are trained on, chosen by and tested on."""

    train_fraction: float = flag(
        "Fraction of the training data to use, chosen by a hash of each text.",
        default=1.0,
    )
    validation_fraction: float | None = flag(
        "Fraction of the training data to hold out as validation data, chosen by another hash of each text.",
        default=None,
    )
    max_train_samples: int | None = flag("Train on the first so many examples only.", default=None)
    max_eval_samples: int | None = flag("Evaluate on the first so many examples.", default=None)
    max_predict_samples: int | None = flag("Predict the first so many examples.", default=None)


@dataclass
class FileArguments(SplitArguments):
    """What is read: a file for each split."""

    train_file: str | None = flag("Training data; also as .gz, .bz2, .xz or .zst.", default=None)
    validation_file: str | None = flag("Data to evaluate on, also after epochs.", default=None)
    test_file: str | None = flag("Data to predict and score at the end.", default=None)

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}


@dataclass
class DatasetArguments(FileArguments):
    """What is read: files, or a dataset that has splits of its own."""

    dataset_name: str | None = flag(
        "A dataset with the splits train, validation and test (directory or Hub).", default=None
    )
    dataset_config_name: str | None = flag("The dataset's configuration.", default=None)


@dataclass
class TrainingFlags:
    """Training: ours, and the most used of transformers' TrainingArguments."""

    # Fields of transformers' TrainingArguments, which is neither frozen nor without a default here.
    output_dir: str | None = flag(
        "Directory of the model, its scores and its predictions; must be given.", default=None
    )
    overwrite_output_dir: bool = flag(
        "Replace output_dir if it holds something; the old one stays until the first checkpoint, or else the end.",
        default=False,
    )
    learning_rate: float | None = flag(
        "Peak learning rate; by default 1e-3, or 1e-4 where a pre-trained biLM is trained too.", default=None
    )
    per_device_train_batch_size: int = flag("Examples per device and training step.", default=32)
    per_device_eval_batch_size: int = flag("Examples per device and evaluation step.", default=32)
    num_train_epochs: float = flag("Passes over the training data.", default=10.0)
    logging_strategy: str = flag("When to print the loss: no, steps or epoch.", default="epoch")
    eval_strategy: str | None = flag(
        "When to evaluate: no, steps or epoch; by default every epoch if there is validation data.", default=None
    )
    save_strategy: str | None = flag(
        "When to save checkpoints, which are kept beside the final model: no, steps, epoch or best; none by default. "
        "load_best_model_at_end saves the best one until the end.",
        default=None,
    )
    metric_for_best_model: str | None = flag(
        "What load_best_model_at_end and num_seeds choose by; the task's own score by default (f1 or accuracy).",
        default=None,
    )
    do_train: bool = flag(
        "Train; without any of the three do_... flags, all that there is data for is done.", default=False
    )
    do_eval: bool = flag("Score the validation data at the end.", default=False)
    do_predict: bool = flag("Predict and score the test data at the end.", default=False)
    load_best_model_at_end: bool = flag("Keep the model of the best evaluation instead of the last one.", default=False)
    early_stopping_patience: int | None = flag(
        "With load_best_model_at_end: stop after so many evaluations in a row that are not better.", default=None
    )
    max_steps: int = flag("Optimizer steps; where > 0, instead of num_train_epochs.", default=-1)
    gradient_accumulation_steps: int = flag("Batches to an optimizer step.", default=1)
    weight_decay: float = flag("Weight decay.", default=0.0)
    lr_scheduler_type: str = flag("Schedule of the learning rate, by its name in transformers.", default="linear")
    bf16: bool = flag("Mixed precision: matrix products in bfloat16, weights in float32.", default=False)
    use_cpu: bool = flag("Leave a GPU alone.", default=False)
    seed: int = flag("Seed of new weights, dropout and shuffling.", default=42)
    num_seeds: int = flag(
        "Train so often, with the seeds from seed on; the scores' mean and deviation are told, and the model that is "
        "best on the validation data is kept.",
        default=1,
    )
    resume_from_checkpoint: str | None = flag(
        "Resume from a checkpoint-N directory, from the `last` one of output_dir or, with `auto`, from that if there "
        "is one.",
        default=None,
    )


# Some of transformers' fields have no None, which here stands for what is settled later.
@dataclass
class TaskTrainingArguments(TrainingFlags, TrainingArguments):  # type: ignore[misc]
    """transformers' TrainingArguments with defaults that suit a small head on a frozen biLM.

    None in `learning_rate`, `eval_strategy`, `save_strategy` and `metric_for_best_model` stands for what follows from
    the rest: see their help.
    """

    def __post_init__(self) -> None:
        # transformers itself turns do_eval on where eval_strategy is set: keep what was really asked for.
        self.steps_asked = [step for step in STEPS if getattr(self, step)]
        self.eval_strategy_asked = self.eval_strategy is not None
        self.checkpoints_asked = self.save_strategy is not None
        # transformers names one where nobody does.
        self.directory_asked = bool(self.output_dir)
        metric_asked, order_asked = self.metric_for_best_model is not None, self.greater_is_better is not None
        if self.eval_strategy is None:
            self.eval_strategy = "epoch"
        if self.save_strategy is None:
            self.save_strategy = "best" if self.load_best_model_at_end else "no"
            self.save_total_limit = 1
        super().__post_init__()
        self.metric_asked, self.order_asked = metric_asked, order_asked

    @property
    def resumes_newest(self) -> bool:
        """Whether what is resumed is the newest checkpoint of output_dir; the Trainer calls it True."""
        return str(self.resume_from_checkpoint).lower() in ("auto", "last", "true")

    @property
    def directory(self) -> Path:
        """`output_dir` as a path."""
        return Path(cast("str", self.output_dir))

    @property
    def best_by(self) -> tuple[str, bool]:
        """The score that the best model is chosen by, without `eval_`, and whether a higher one is better."""
        score, greater_is_better = cast("str", self.metric_for_best_model), cast("bool", self.greater_is_better)
        return score.removeprefix("eval_"), greater_is_better

    def choose_by(self, score: str) -> None:
        """Have the best model be that of the highest `score`, unless the flags say otherwise."""
        if not self.metric_asked:
            self.metric_for_best_model = score
            if not self.order_asked:
                self.greater_is_better = True

    def settle_sampling(self, group_by_length: bool) -> None:
        """Have batches of like lengths where they are wanted, unless a flag names another way."""
        if group_by_length and self.train_sampling_strategy == "random":
            self.train_sampling_strategy = "group_by_length"
