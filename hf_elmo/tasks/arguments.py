"""The arguments of a token classification run, without transformers, so that --help answers at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..checkpoints.arguments import Preset

# The flag that asks for each step, and the split it works on.
STEPS = {"do_train": "train", "do_eval": "validation", "do_predict": "test"}


@dataclass
class ModelArguments:
    """Where the biLM comes from and what the task puts on top of it."""

    model_name_or_path: str | None = field(
        default=None,
        metadata={
            "help": "Checkpoint to start from: pre-trained, converted, or a token classifier (directory or Hub)."
        },
    )
    config_name: str | None = field(
        default=None,
        metadata={"help": "Directory or config.json of an architecture; its weights are drawn at random."},
    )
    preset: Preset | None = field(
        default=None, metadata={"help": "A published architecture; its weights are drawn at random."}
    )
    from_scratch: bool = field(
        default=False,
        metadata={
            "help": "Take only the architecture and the tokenizer of model_name_or_path and draw all weights at "
            "random; config_name and preset always do."
        },
    )
    freeze_bilm: bool = field(
        default=True,
        metadata={"help": "Keep the token encoder and the biLM fixed, as in the paper; only mix and task are trained."},
    )
    classifier_dropout: float | None = field(
        default=None, metadata={"help": "Dropout before the classifier; None leaves the config's."}
    )
    classifier_lstm_layers: int | None = field(
        default=None, metadata={"help": "Layers of a biLSTM of the task's own; None leaves the config's."}
    )
    classifier_lstm_size: int | None = field(
        default=None, metadata={"help": "Size of each direction of that biLSTM; None leaves the config's."}
    )
    mix_l2: float | None = field(
        default=None, metadata={"help": "L2 penalty on the weights of the scalar mix; None leaves the config's."}
    )


@dataclass
class DataArguments:
    """What is read: files or a dataset, and which of their columns."""

    train_file: str | None = field(
        default=None, metadata={"help": "Training sentences: columns (.conll, .txt, .tsv) or CoNLL-U (.conllu)."}
    )
    validation_file: str | None = field(default=None, metadata={"help": "Sentences to evaluate on, also after epochs."})
    test_file: str | None = field(default=None, metadata={"help": "Sentences to predict and score at the end."})
    word_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the words in files, a number from 0 or a name (of CoNLL-U, or of a header line); the "
            "first, or FORM, by default."
        },
    )
    label_column: str | None = field(
        default=None,
        metadata={"help": "Column of the labels in files, as word_column; the last, or UPOS, by default."},
    )
    dataset_name: str | None = field(
        default=None, metadata={"help": "A dataset with the splits train, validation and test (directory or Hub)."}
    )
    dataset_config_name: str | None = field(default=None, metadata={"help": "Configuration of that dataset."})
    text_column_name: str | None = field(
        default=None, metadata={"help": "Column of the dataset with lists of words; tokens or words by default."}
    )
    label_column_name: str | None = field(
        default=None, metadata={"help": "Column of the dataset with lists of labels; ner_tags by default."}
    )
    labels: list[str] | None = field(
        default=None, metadata={"help": "Labels to know beside those of the training data."}
    )
    tag_scheme: Literal["auto", "spans", "words"] = field(
        default="auto",
        metadata={
            "help": "How labels mark entities: spans (B-, I- and their like), words (each word on its own, parts of "
            "speech for example), or auto to tell from the labels."
        },
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Train on the first so many sentences only."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "Evaluate on the first so many sentences."})
    max_predict_samples: int | None = field(default=None, metadata={"help": "Predict the first so many sentences."})

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}


@dataclass
class TrainingFlags:
    """Training: ours, and the most used of transformers' TrainingArguments."""

    output_dir: str | None = field(
        default=None, metadata={"help": "Directory of the tagger, its scores and its predictions; must be given."}
    )
    overwrite_output_dir: bool = field(
        default=False, metadata={"help": "Replace output_dir if it holds something; the old one stays until the end."}
    )
    learning_rate: float | None = field(
        default=None,
        metadata={"help": "Peak learning rate; by default 1e-3, or 1e-4 where a pre-trained biLM is trained too."},
    )
    per_device_train_batch_size: int = field(default=32, metadata={"help": "Sentences per device and training step."})
    per_device_eval_batch_size: int = field(default=32, metadata={"help": "Sentences per device and evaluation step."})
    num_train_epochs: float = field(default=10.0, metadata={"help": "Passes over the training data."})
    logging_strategy: str = field(default="epoch", metadata={"help": "When to print the loss: no, steps or epoch."})
    eval_strategy: str | None = field(
        default=None,
        metadata={"help": "When to evaluate: no, steps or epoch; by default every epoch if there is validation data."},
    )
    save_strategy: str | None = field(
        default=None,
        metadata={
            "help": "When to keep checkpoints beside the final model: no, steps, epoch or best; none by default. "
            "load_best_model_at_end needs none kept."
        },
    )
    metric_for_best_model: str | None = field(
        default=None, metadata={"help": "What load_best_model_at_end goes by; f1 by default."}
    )
    do_train: bool = field(
        default=False,
        metadata={"help": "Train; without any of the three do_... flags, all that there is data for is done."},
    )
    do_eval: bool = field(default=False, metadata={"help": "Score the validation data at the end."})
    do_predict: bool = field(default=False, metadata={"help": "Predict and score the test data at the end."})
    load_best_model_at_end: bool = field(
        default=False, metadata={"help": "Keep the model of the best evaluation instead of the last one."}
    )
    max_steps: int = field(default=-1, metadata={"help": "Optimizer steps; where > 0, instead of num_train_epochs."})
    gradient_accumulation_steps: int = field(default=1, metadata={"help": "Batches to an optimizer step."})
    weight_decay: float = field(default=0.0, metadata={"help": "Weight decay of AdamW."})
    lr_scheduler_type: str = field(
        default="linear", metadata={"help": "How the learning rate falls, as transformers names schedules."}
    )
    bf16: bool = field(default=False, metadata={"help": "Mixed precision with bfloat16."})
    use_cpu: bool = field(default=False, metadata={"help": "Leave a GPU alone."})
    seed: int = field(default=42, metadata={"help": "Seed of new weights, dropout and shuffling."})
    resume_from_checkpoint: str | None = field(
        default=None, metadata={"help": "A checkpoint-N directory of an earlier run to go on from."}
    )
