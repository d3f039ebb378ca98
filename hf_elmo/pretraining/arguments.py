"""The arguments of a pre-training run, in groups, and the recipes, which are presets of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from ..given import check_least, flag, parse_json, quoted
from ..hub.writing import OutputArguments
from ..text.arguments import CorpusArguments, CuttingArguments

# Of the arguments that are None; None stands for what follows from the text, see `PretrainingArguments.settled`.
RECIPES: dict[str, dict[str, Any]] = {
    # Peters et al. 2018, sec. 3.4, by bilm-tf's training code; it ran three processes of 128 lanes.
    "paper": {
        "objective": "sampled",
        "num_negative_samples": 8192,
        "per_device_train_batch_size": 128,
        "unroll_steps": 20,
        "optim": "adagrad",
        "learning_rate": 0.2,
        "lr_scheduler_type": "constant",
        "reset_probability": 0.0,
    },
    # What was best in equal minutes: model_cards/speedrun.
    "modern": {
        "objective": None,
        "num_negative_samples": 4096,
        "per_device_train_batch_size": None,
        "unroll_steps": 20,
        "optim": "muon",
        "learning_rate": 8e-3,
        "lr_scheduler_type": "cosine",
        "reset_probability": 0.02,
    },
}
# Of a new model, whose --config_overrides say nothing of it.
DROPOUT = 0.1
# A softmax of fewer words is not worth sampling: what is drawn is noise, and saves little.
_WORDS_PER_NEGATIVE = 4
# More lanes make faster steps, but what is learned depends on the number of steps too.
_MOST_LANES, _LEAST_WINDOWS = 128, 100


def _by_recipe(text: str) -> Any:
    return flag(text, default=None)


@dataclass(frozen=True, kw_only=True)
class TextArguments(CorpusArguments):
    """Held-out text, the order of the training text, and the words of the softmax."""

    validation_file: list[str] | None = flag("Held-out text, in the same formats.", default=None)
    validation_split: str | None = flag("The dataset's held-out split.", default=None)
    validation_split_percentage: float = flag(
        "Percentage of the training text (lines, documents with --reset_state document, or records) to hold out where "
        "there is no validation file or split; a hash of each text decides.",
        default=2.0,
    )
    shuffle_buffer_size: int = flag(
        "Records (lines of text; documents with --reset_state document) in the buffer that each pass is shuffled "
        "with; 0 keeps the order of the text.",
        default=0,
    )
    vocab_file: str | None = flag(
        "Words of the softmax, one per line, <S>, </S> and <UNK> first (hf-elmo vocabulary); left out, those that the "
        "training text has twice.",
        default=None,
    )
    skip_baselines: bool = flag("Leave out the unigram and bigram baselines (one more pass).", default=False)


@dataclass(frozen=True, kw_only=True)
class ModelArguments:
    """The model that a run starts from: its sizes, or a checkpoint."""

    model_name_or_path: str | None = flag(
        "A checkpoint to continue from with new text: its weights, tokenizer and, without --vocab_file, its words.",
        default=None,
    )
    # Each a class method of ElmoConfig, and nothing else beside.
    preset: Literal["small", "medium", "original", "fast"] | None = flag(
        "Sizes that have a name: one of the three published, or fast, which learns most in an hour of a desk's "
        "processor; small where none is named.",
        default=None,
    )
    config_overrides: str | None = flag(
        'Fields of ElmoConfig to change, as JSON: \'{"cell_size": 512, "dropout": 0, "token_inputs": "both"}\'.',
        default=None,
    )
    word_vectors: str | None = flag(
        "A table of word vectors beside the characters, filled with GloVe or word2vec text.", default=None
    )


@dataclass(frozen=True, kw_only=True)
class OptimizationArguments:
    """What is optimized and how, for how long, and when it is evaluated."""

    recipe: Literal["paper", "modern"] = flag(
        "Defaults of the next flags: paper (the original's Adagrad and sampled softmax) or modern (lower perplexity in "
        "the same time).",
        default="modern",
    )
    objective: Literal["full", "sampled", "adaptive"] = _by_recipe(
        "Softmax to train: full, sampled (the full one in evaluation) or adaptive (in evaluation too); left out with "
        "modern, sampled where the vocabulary is four times --num_negative_samples or more, and else full."
    )
    num_negative_samples: int = _by_recipe("Negatives of the sampled softmax, for each direction of a window.")
    per_device_train_batch_size: int = _by_recipe(
        "Lanes of each process; left out with modern, 128, or fewer where a pass would not have a hundred windows."
    )
    unroll_steps: int = _by_recipe(
        "Words of a window: gradients stop at its start, LSTM states are carried from window to window."
    )
    optim: Literal["adamw", "adagrad", "muon"] = _by_recipe(
        "Optimizer; muon is for the matrices of the biLM, the highway layers and the projection, with adamw for the "
        "rest."
    )
    learning_rate: float = _by_recipe("Highest learning rate.")
    weight_decay: float = flag(
        "Weight decay of the matrices of the biLM, the highway layers and the projection.", default=0.0
    )
    lr_scheduler_type: str = _by_recipe(
        "Schedule of the learning rate, by transformers' name; with modern it rises in the first twentieth of the run."
    )
    reset_state: Literal["never", "epoch", "document"] = flag(
        "When LSTM states are reset to zero: never, at each document (in text an empty line ends one; a record of "
        "other formats is one) or at each epoch.",
        default="never",
    )
    reset_probability: float = _by_recipe(
        "Probability of resetting a lane's LSTM state to zero before each window, so that the model also learns to "
        "start from zeros, as the vectors of single sentences do."
    )
    gradient_accumulation_steps: int = flag("Batches to an optimizer step.", default=1)
    bf16: bool = flag("Mixed precision: matrix products in bfloat16, weights in float32.", default=False)
    num_train_epochs: float | None = flag(
        "Passes over the training text; left out, one where neither --max_steps nor --max_hours is given.", default=None
    )
    max_steps: int = flag("Optimizer steps; overrides num_train_epochs.", default=-1)
    max_hours: float | None = flag(
        "Hours that the run may take, with all that it does and its earlier legs, unless --num_train_epochs or "
        "--max_steps end it earlier. The schedule ends with the run.",
        default=None,
    )
    eval_steps: int | None = flag(
        "Steps between evaluations; left out, there is one halfway, or ten with --early_stopping_patience.",
        default=None,
    )
    early_stopping_patience: int | None = flag(
        "Evaluations in a row without a new best one after which the run stops.", default=None
    )
    seed: int = flag("Seed of new weights, dropout and shuffling.", default=42)


@dataclass(frozen=True, kw_only=True)
class RunArguments(OutputArguments):
    """Where checkpoints and figures go."""

    save_steps: int | None = flag(
        "Steps between checkpoints, beside one at each best evaluation; left out, a quarter of the run, 500 at most; 0 "
        "writes the finished one alone.",
        default=None,
    )
    save_total_limit: int = flag("Most checkpoints kept; the last and the best one always are. 0 keeps all.", default=2)
    resume_from_checkpoint: str | None = flag(
        "Resume from a checkpoint-N directory, from the `last` one of output_dir or, with `auto`, from that if there "
        "is one.",
        default=None,
    )
    report_to: str | None = flag(
        "A tracker that accelerate knows, such as tensorboard; it writes to runs/NAME beside output_dir.", default=None
    )


@dataclass(frozen=True, kw_only=True)
class PretrainingArguments(RunArguments, TextArguments, ModelArguments, OptimizationArguments):
    """Pre-train an ELMo on text files or a dataset; the flags of `hf-elmo pretrain`."""

    def with_recipe(self) -> PretrainingArguments:
        """The same with the recipe's values where none are given."""
        defaults = RECIPES.get(self.recipe, {}).items()
        return replace(self, **{name: value for name, value in defaults if getattr(self, name) is None})

    def check(self) -> None:
        """Check what can be checked before any file is read; the recipe has to be in.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        CorpusArguments.check(self)
        check_least(self, ("per_device_train_batch_size", "unroll_steps", "gradient_accumulation_steps"), 1)
        check_least(self, ("num_negative_samples", "eval_steps", "early_stopping_patience"), 1)
        check_least(self, ("save_steps", "save_total_limit", "shuffle_buffer_size", "weight_decay"), 0)
        for name, is_right, wanted in (
            ("learning_rate", self.learning_rate > 0, "> 0"),
            ("max_hours", self.max_hours is None or self.max_hours > 0, "> 0"),
            ("num_train_epochs", self.num_train_epochs is None or self.num_train_epochs > 0, "> 0"),
            ("max_steps", self.max_steps != 0, "> 0, or left out"),
            ("reset_probability", 0 <= self.reset_probability < 1, "in [0, 1)"),
            ("validation_split_percentage", 0 < self.validation_split_percentage < 100, "between 0 and 100"),
        ):
            if not is_right:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be {wanted}.")
        # Read for their errors.
        _ = self.cutting, self.overrides
        if self.model_name_or_path is not None:
            plain = {field.name: field.default for field in fields(self)}
            for name in (*CuttingArguments.__dataclass_fields__, "word_vectors", "preset"):
                if getattr(self, name) != plain[name]:
                    raise ValueError(
                        f"--{name} is {getattr(self, name)!r}, but --model_name_or_path brings its own; leave it out."
                    )

    def settled(self, num_words: int, num_entries: int, num_processes: int) -> PretrainingArguments:
        """The same with what the text decides where neither a flag nor the recipe does: the objective, the lanes, the
        steps of the run (-1 where the clock alone ends it), and those between evaluations (None where the clock
        decides) and checkpoints.

        Args:
            num_words: Words of the softmax.
            num_entries: Entries of all lanes in one pass: the words and two special tokens per sentence.
            num_processes: Processes, each with lanes of its own.
        """
        is_large = num_words >= _WORDS_PER_NEGATIVE * self.num_negative_samples
        objective = self.objective or ("sampled" if is_large else "full")
        lanes = self.per_device_train_batch_size
        if lanes is None:
            lanes = num_entries // (_LEAST_WINDOWS * self.unroll_steps * num_processes)
            lanes = min(max(lanes, 1), _MOST_LANES)
        max_steps, eval_steps, save_steps = self.max_steps, self.eval_steps, self.save_steps
        passes = self.num_train_epochs or (1 if self.max_hours is None else None)
        if max_steps < 0 and passes is not None:
            entries_of_step = lanes * self.unroll_steps * self.gradient_accumulation_steps * num_processes
            max_steps = math.ceil(num_entries * passes / entries_of_step)
        if self.max_hours is None:
            eval_steps = eval_steps or math.ceil(max_steps / self.num_evaluations)
        if save_steps is None:
            save_steps = 500 if max_steps < 0 else min(500, math.ceil(max_steps / 4))
        return replace(
            self,
            objective=objective,
            per_device_train_batch_size=lanes,
            max_steps=max_steps,
            eval_steps=eval_steps,
            save_steps=save_steps,
        )

    @property
    def num_evaluations(self) -> int:
        """Evaluations of a run after its first step, where eval_steps does not say how many."""
        return 2 if self.early_stopping_patience is None else 10

    @property
    def logging_steps(self) -> int | None:
        """Steps between entries of the history; None where the clock decides."""
        return None if self.max_hours is not None else min(50, math.ceil(self.max_steps / 20))

    @property
    def overrides(self) -> dict[str, Any]:
        """--config_overrides, read.

        Raises: ValueError when it is not a JSON object.
        """
        read = parse_json(self.config_overrides or "{}", "--config_overrides")
        if not isinstance(read, dict):
            raise ValueError(f"--config_overrides is {quoted(read)}; wanted an object, '{{\"cell_size\": 512}}'.")
        return read

    @property
    def warmup_ratio(self) -> float:
        """Fraction of the run in which the learning rate rises."""
        return 0.0 if self.recipe == "paper" else 0.05

    @property
    def max_grad_norm(self) -> float:
        """Bound on the norm of all gradients together."""
        return 10.0 if self.recipe == "paper" else 1.0

    @property
    def loss_scale(self) -> float:
        """What the mean loss is multiplied by before it is differentiated.

        bilm-tf's bound on the norm meets the gradient of a window's sum of losses per lane.
        """
        return float(self.unroll_steps if self.recipe == "paper" else 1)
