"""The arguments of a pre-training run, in groups, and the recipes, which are presets of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from ..given.flags import check_choices, check_least, flag, read_json_object
from ..hub.arguments import OutputArguments, Preset
from ..text.arguments import CorpusArguments
from ..text.cutting import CUTTING_NAMES

Objective = Literal["full", "sampled", "adaptive"]
Optimizer = Literal["adamw", "adagrad", "muon"]
Reset = Literal["never", "epoch", "document"]

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
        "warmup_ratio": 0.0,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 10.0,
        "dropout": 0.1,
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
        "warmup_ratio": 0.05,
        "lr_scheduler_type": "cosine",
        "max_grad_norm": 1.0,
        "dropout": 0.1,
        "reset_probability": 0.02,
    },
}
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
        "Words of the softmax, one per line, <S>, </S> and <UNK> first; left out, built from the training text.",
        default=None,
    )
    skip_baselines: bool = flag("Leave out the unigram and bigram baselines (one more pass).", default=False)

    @property
    def holds_out(self) -> bool:
        """Whether the held-out text is a fraction of the training text, as none is named."""
        return self.validation_file is None and (self.dataset_name is None or self.validation_split is None)


@dataclass(frozen=True, kw_only=True)
class ModelArguments:
    """The model that a run starts from: its sizes, or a checkpoint."""

    model_name_or_path: str | None = flag(
        "A checkpoint to continue from with new text: its weights, tokenizer and, without --vocab_file, its words.",
        default=None,
    )
    config_name: str | None = flag("A config.json, or a directory with one, for the sizes of the model.", default=None)
    preset: Preset | None = flag(
        "Sizes that have a name instead: one of the three published, or fast, which learns most in an hour of a desk's "
        "processor; small where nothing names the sizes.",
        default=None,
    )
    config_overrides: str | None = flag(
        'Fields of ElmoConfig to change, as JSON: \'{"cell_size": 512, "token_inputs": "both"}\'.', default=None
    )
    word_vectors: str | None = flag(
        "A table of word vectors beside the characters, filled with GloVe or word2vec text.", default=None
    )

    def _check_model(self) -> None:
        sources = [name for name in ("preset", "config_name", "model_name_or_path") if getattr(self, name) is not None]
        if len(sources) > 1:
            named = " and ".join(f"--{name}" for name in sources)
            raise ValueError(f"{named} each name the sizes of the model; give one of them.")


@dataclass(frozen=True, kw_only=True)
class OptimizationArguments:
    """What is optimized and how, for how long, and when it is evaluated."""

    recipe: Literal["paper", "modern"] = flag(
        "Defaults of the next flags: paper (the original's Adagrad and sampled softmax) or modern (lower perplexity in "
        "the same time).",
        default="modern",
    )
    objective: Objective = _by_recipe(
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
    optim: Optimizer = _by_recipe(
        "Optimizer; muon is for the matrices of the biLM, the highway layers and the projection, with adamw for the "
        "rest."
    )
    learning_rate: float = _by_recipe("Highest learning rate.")
    weight_decay: float = flag("Weight decay, not of biases and embeddings.", default=0.0)
    warmup_ratio: float = _by_recipe("Fraction of the run in which the learning rate rises.")
    lr_scheduler_type: str = _by_recipe("Schedule of the learning rate, by transformers' name.")
    lr_scheduler_kwargs: str | None = flag(
        "What else transformers takes for the schedule, as JSON: '{\"num_decay_steps\": 1000}'.", default=None
    )
    max_grad_norm: float = _by_recipe("Bound on the norm of all gradients together.")
    dropout: float | None = _by_recipe(
        "Dropout of the biLM; left out with --config_name or --model_name_or_path, the config's."
    )
    reset_state: Reset = flag(
        "When LSTM states are reset to zero: never, at each document (in text an empty line ends one; a record of "
        "other formats is one) or at each epoch.",
        default="never",
    )
    reset_probability: float = _by_recipe(
        "Probability of resetting a lane's LSTM state to zero before each window, so that the model also learns to "
        "start from zeros, as the vectors of single sentences do."
    )
    gradient_accumulation_steps: int = flag("Windows of an optimizer step.", default=1)
    bf16: bool = flag("Matrix products in bfloat16; weights stay in float32.", default=False)
    num_train_epochs: float = flag("Passes over the training text.", default=1.0)
    max_words: int | None = flag(
        "Words and closing markers to train on, in all processes together; instead of num_train_epochs.", default=None
    )
    max_steps: int = flag("Optimizer steps; overrides num_train_epochs and max_words.", default=-1)
    max_hours: float | None = flag(
        "Hours that the run may take, with all that it does and its earlier legs; instead of num_train_epochs, beside "
        "max_words or max_steps where they end it earlier. The schedule ends with the run.",
        default=None,
    )
    eval_steps: int | None = flag(
        "Steps between evaluations; left out, there is one halfway, or ten with --early_stopping_patience.",
        default=None,
    )
    logging_steps: int | None = flag(
        "Steps between entries of the loss history in results.json; left out, a twentieth of the run, 50 at most.",
        default=None,
    )
    early_stopping_patience: int | None = flag(
        "Evaluations in a row without a new best one after which the run stops.", default=None
    )
    seed: int = flag("Seed of the weights, the dropout and the shuffling.", default=42)

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """The recipes' values, for --help."""
        shown = {}
        for name, modern in RECIPES["modern"].items():
            paper = RECIPES["paper"][name]
            if modern is not None:
                shown[name] = str(modern) if modern == paper else f"{paper} with paper, {modern} with modern"
        return shown

    def _check_optimization(self) -> None:
        check_least(
            self,
            (
                "per_device_train_batch_size",
                "unroll_steps",
                "gradient_accumulation_steps",
                "logging_steps",
                "num_negative_samples",
                "max_words",
                "eval_steps",
                "early_stopping_patience",
            ),
            1,
        )
        check_least(self, ("weight_decay",), 0)
        for name in ("learning_rate", "max_grad_norm", "max_hours"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be > 0.")
        for name in ("warmup_ratio", "reset_probability", "dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"--{name} is {value}; it must lie in [0, 1).")
        if self.max_hours is not None and self.num_train_epochs != 1:
            raise ValueError(
                f"--max_hours {self.max_hours} and --num_train_epochs {self.num_train_epochs} both say how long the "
                "run is; leave out one of them, or bound it by --max_words."
            )
        if self.max_steps < 0 and self.max_words is None and not self.num_train_epochs > 0:
            raise ValueError(f"--num_train_epochs is {self.num_train_epochs}; it must be > 0, or set --max_steps.")
        if self.max_steps == 0:
            raise ValueError("--max_steps is 0; it must be > 0, or left out to train for --num_train_epochs.")


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
    push_to_hub: bool = flag("Upload the finished checkpoint to the Hub.", default=False)
    hub_model_id: str | None = flag("Its name there; left out, that of output_dir under your account.", default=None)
    hub_private_repo: bool = flag("Make the repository private.", default=False)

    def _check_run(self) -> None:
        check_least(self, ("save_steps", "save_total_limit"), 0)
        if not self.push_to_hub and (self.hub_model_id is not None or self.hub_private_repo):
            raise ValueError("--hub_model_id and --hub_private_repo are for --push_to_hub; add it, or leave them out.")


@dataclass(frozen=True, kw_only=True)
class PretrainingArguments(RunArguments, TextArguments, ModelArguments, OptimizationArguments):
    """Pre-train an ELMo on text files or a dataset; the flags of `hf-elmo pretrain`."""

    def with_recipe(self) -> PretrainingArguments:
        """The same with the recipe's values where none are given.

        Raises: ValueError when there is no such recipe.
        """
        if self.recipe not in RECIPES:
            raise ValueError(f"--recipe is {self.recipe!r}; it must be one of {', '.join(RECIPES)}.")
        values = {name: value for name, value in RECIPES[self.recipe].items() if getattr(self, name) is None}
        if self.config_name is not None or self.model_name_or_path is not None:
            # A config that is read has a dropout of its own.
            values.pop("dropout", None)
        return replace(self, **values)

    def check(self) -> None:
        """Check what can be checked before any file is read; the recipe has to be in.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        CorpusArguments.check(self)
        check_choices(self)
        check_least(self, ("shuffle_buffer_size",), 0)
        if not 0 < self.validation_split_percentage < 100:
            raise ValueError(
                f"--validation_split_percentage is {self.validation_split_percentage}; it must lie between 0 and 100."
            )
        self._check_model()
        self._check_optimization()
        self._check_run()
        # Read for their errors.
        _ = self.overrides, self.schedule_options
        if self.model_name_or_path is not None:
            plain = {field.name: field.default for field in fields(self)}
            for name in (*CUTTING_NAMES, "word_vectors"):
                if getattr(self, name) != plain[name]:
                    raise ValueError(
                        f"--{name} is {getattr(self, name)!r}, but --model_name_or_path brings its own; leave it out."
                    )

    def settled(self, num_words: int, num_entries: int, num_targets: int, num_processes: int) -> PretrainingArguments:
        """The same with what the text decides where neither a flag nor the recipe does.

        Those are the objective, the lanes, the steps of the run (-1 where the clock alone ends it), and the steps
        between logs and evaluations (None where the clock decides).

        Args:
            num_words: Words of the softmax.
            num_entries: Entries of all lanes in one pass: the words and two markers per sentence.
            num_targets: Words to predict in one pass: the words and one closing marker per sentence.
            num_processes: Processes, each with lanes of its own.
        """
        is_large = num_words >= _WORDS_PER_NEGATIVE * self.num_negative_samples
        objective = self.objective or ("sampled" if is_large else "full")
        lanes = self.per_device_train_batch_size
        if lanes is None:
            lanes = num_entries // (_LEAST_WINDOWS * self.unroll_steps * num_processes)
            lanes = min(max(lanes, 1), _MOST_LANES)
        max_steps, eval_steps, logging_steps = self.max_steps, self.eval_steps, self.logging_steps
        if max_steps < 0 and (self.max_words is not None or self.max_hours is None):
            passes = self.num_train_epochs if self.max_words is None else self.max_words / num_targets
            entries_of_step = lanes * self.unroll_steps * self.gradient_accumulation_steps * num_processes
            max_steps = math.ceil(num_entries * passes / entries_of_step)
        if self.max_hours is None:
            eval_steps = eval_steps or math.ceil(max_steps / self.num_evaluations)
            logging_steps = logging_steps or min(50, math.ceil(max_steps / 20))
        save_steps = self.save_steps
        if save_steps is None:
            save_steps = 500 if max_steps < 0 else min(500, math.ceil(max_steps / 4))
        return replace(
            self,
            objective=objective,
            per_device_train_batch_size=lanes,
            max_steps=max_steps,
            eval_steps=eval_steps,
            logging_steps=logging_steps,
            save_steps=save_steps,
        )

    @property
    def num_evaluations(self) -> int:
        """Evaluations of a run after its first step, where eval_steps does not say how many."""
        return 2 if self.early_stopping_patience is None else 10

    @property
    def overrides(self) -> dict[str, Any]:
        """Fields of the config to change: --config_overrides, and --dropout where it is given.

        Raises: ValueError when --config_overrides is not a JSON object.
        """
        read = read_json_object("config_overrides", self.config_overrides, '{"cell_size": 512}')
        return {**({} if self.dropout is None else {"dropout": self.dropout}), **read}

    @property
    def schedule_options(self) -> dict[str, Any]:
        """--lr_scheduler_kwargs, read.

        Raises: ValueError when it is not a JSON object.
        """
        return read_json_object("lr_scheduler_kwargs", self.lr_scheduler_kwargs, '{"num_decay_steps": 1000}')

    @property
    def loss_scale(self) -> float:
        """What the mean loss is multiplied by before it is differentiated.

        bilm-tf's bound on the norm meets the gradient of a window's sum of losses per lane.
        """
        return float(self.unroll_steps if self.recipe == "paper" else 1)
