"""How a run is optimised: the arguments, and the recipes, which are presets of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar, get_args

from ..given.flags import check_choices, check_least, flag, read_json_object

Objective = Literal["full", "sampled", "adaptive"]
Optimizer = Literal["adamw", "adagrad", "muon"]
Reset = Literal["never", "epoch", "document"]
OBJECTIVES, OPTIMIZERS, RESETS = (get_args(choices) for choices in (Objective, Optimizer, Reset))

# A softmax of fewer words is not worth sampling: what is drawn is noise, and saves little.
_WORDS_PER_NEGATIVE = 4
# More lanes make faster steps, but what is learned hangs on the number of steps too.
_MOST_LANES, _LEAST_WINDOWS = 128, 100

_Arguments = TypeVar("_Arguments", bound="OptimizationArguments")


def _by_recipe(text: str) -> Any:
    # None until `with_recipe`, and `with_objective` and `with_lanes` where the recipe leaves it to them.
    return flag(text, default=None)


@dataclass(frozen=True, kw_only=True)
class OptimizationArguments:
    """What is optimised, how, and for how long."""

    recipe: Literal["paper", "modern"] = flag(
        "What optimises where the next flags do not say so: paper (the original's Adagrad and sampled softmax) or "
        "modern (lower perplexity in the same time).",
        default="modern",
    )
    objective: Objective = _by_recipe(
        "What is trained: full softmax, sampled (the full one in evaluation) or adaptive (evaluated by that one); left "
        "out with modern, sampled where the vocabulary is four times --num_negative_samples or more, and else full."
    )
    num_negative_samples: int = _by_recipe("Words that the sampled softmax draws for each direction of a window.")
    per_device_train_batch_size: int = _by_recipe(
        "Lanes of each process; left out with modern, 128, or fewer where a pass would not have a hundred windows."
    )
    unroll_steps: int = _by_recipe(
        "Words of a window; gradients stop at its start, states are carried from window to window."
    )
    optim: Optimizer = _by_recipe(
        "Optimizer; muon is for the matrices of the biLM, of the highway layers and of the projection, and adamw then "
        "for the rest."
    )
    learning_rate: float = _by_recipe("Highest learning rate.")
    muon_learning_rate: float | None = flag(
        "Highest learning rate of the matrices that --optim muon is for; left out, --learning_rate, which suits both.",
        default=None,
    )
    weight_decay: float = _by_recipe(
        "Weight decay of matrices, filters and the softmax, not of biases and tables of embeddings."
    )
    ema_decay: float = _by_recipe(
        "Evaluate and keep an exponential moving average of the weights, of which so much stays at each step (0.999 "
        "for one over the last thousand); 0 for none."
    )
    adam_beta2: float = _by_recipe("Decay of AdamW's second moments.")
    adagrad_initial_accumulator: float = _by_recipe("What Adagrad's sums of squares start from.")
    warmup_ratio: float = _by_recipe("Share of the steps in which the learning rate rises.")
    lr_scheduler_type: str = _by_recipe("Schedule after that, as transformers names them.")
    decay_ratio: float = _by_recipe(
        "Share of the steps, the last ones, in which the rate falls with --lr_scheduler_type warmup_stable_decay."
    )
    lr_scheduler_kwargs: str | None = flag(
        'What else transformers takes for the schedule, as JSON: \'{"decay_type": "1-sqrt", "min_lr_ratio": 0.1}\'.',
        default=None,
    )
    max_grad_norm: float = _by_recipe("Bound on the norm of all gradients together.")
    scales_loss_by_unroll: bool = _by_recipe(
        "Multiply the loss by unroll_steps before it is differentiated, so that the bound meets the gradient of a "
        "window's sum of losses per lane rather than of their mean."
    )
    dropout: float | None = _by_recipe(
        "Dropout of the biLM; that of a --config_name or --model_name_or_path stays where this is left out."
    )
    input_dropout: float | None = _by_recipe(
        "Dropout of the word vectors that the first layer reads, where it differs."
    )
    layer_dropout: float | None = _by_recipe("Dropout of what the other layers read, where it differs.")
    output_dropout: float | None = _by_recipe("Dropout of what the softmax reads, where it differs.")
    recurrent_dropout: float = _by_recipe(
        "Share of the recurrent weights that is dropped, drawn anew for each window (DropConnect)."
    )
    starts_from_frequencies: bool = _by_recipe(
        "Start the biases of a full softmax from the words' log frequencies instead of zeros."
    )
    layer_learning_rate_decay: float = flag(
        "Each layer's learning rate is that of the one above times this; the softmax is the uppermost.", default=1.0
    )
    group_learning_rates: str | None = flag(
        'Learning rates of single parts, as JSON: \'{"token_encoder": 1e-4, "word_softmax": 1e-3}\'.', default=None
    )
    unfreeze_steps: int = flag(
        "Steps after which one layer more is trained, from the softmax down; 0 trains all from the start.", default=0
    )
    reset_state: Reset = flag(
        "When the LSTM state goes back to zeros: never, at each document (empty lines end one in text; each record of "
        "other formats is one) or at each epoch.",
        default="never",
    )
    reset_probability: float = _by_recipe(
        "How likely a lane's state goes back to zeros before a window, besides: vectors of single sentences start from "
        "zeros, which lanes that only go on forget."
    )
    per_device_eval_batch_size: int = flag("Lanes that the held-out text is dealt to.", default=32)
    gradient_accumulation_steps: int = flag("Windows to an optimizer step.", default=1)
    bf16: bool = flag("Round the factors of matrix products to bfloat16; weights stay in float32.", default=False)
    num_train_epochs: float = flag("Passes over the training text.", default=1.0)
    max_words: int | None = flag(
        "Words and closing markers to train on, counted over all processes; instead of num_train_epochs.", default=None
    )
    max_steps: int = flag("Optimizer steps; overrides num_train_epochs and max_words.", default=-1)
    max_hours: float | None = flag(
        "Hours that the run may take, all that it does and its earlier legs included; instead of num_train_epochs, and "
        "beside max_words or max_steps where they end it earlier. The schedule ends with the run.",
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
    load_best_model_at_end: bool = flag(
        "Make the finished checkpoint that of the best evaluation, where that is not the last one; there have to be "
        "checkpoints, so not with --save_steps 0.",
        default=True,
    )
    early_stopping_patience: int | None = flag(
        "Stop after so many evaluations in a row none of which is the best.", default=None
    )
    seed: int = flag("Seed of the weights, the dropout and the shuffling.", default=42)

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """What the recipes put where nothing is given, for --help."""
        shown = {}
        for field in fields(OptimizationArguments):
            values = {name: getattr(recipe, field.name) for name, recipe in RECIPES.items()}
            if field.default is None and None not in values.values():
                shown[field.name] = ", ".join(f"{value} with {name}" for name, value in values.items())
                if len({*values.values()}) == 1:
                    shown[field.name] = str(values["modern"])
        return shown

    def with_recipe(self: _Arguments) -> _Arguments:
        """The same with the recipe's values where none are given.

        Raises: ValueError when there is no such recipe.
        """
        if self.recipe not in RECIPES:
            raise ValueError(f"--recipe is {self.recipe!r}; it must be one of {', '.join(RECIPES)}.")
        names = [field.name for field in fields(OptimizationArguments) if getattr(self, field.name) is None]
        return replace(self, **{name: getattr(RECIPES[self.recipe], name) for name in names})

    def with_objective(self: _Arguments, num_words: int) -> _Arguments:
        """The same with an objective, where neither flag nor recipe names one: what is cheaper over so many words."""
        if self.objective is not None:
            return self
        is_sampled = num_words >= _WORDS_PER_NEGATIVE * self.num_negative_samples
        return replace(self, objective="sampled" if is_sampled else "full")

    def with_lanes(self: _Arguments, num_entries: int, num_processes: int) -> _Arguments:
        """The same with lanes, where neither flag nor recipe says how many: fewer for a short text.

        Args:
            num_entries: Entries of all lanes in one pass, as for `count_steps`.
            num_processes: Processes, each with lanes of its own.
        """
        if self.per_device_train_batch_size is not None:
            return self
        lanes = num_entries // (_LEAST_WINDOWS * self.unroll_steps * num_processes)
        return replace(self, per_device_train_batch_size=min(max(lanes, 1), _MOST_LANES))

    def check(self) -> None:
        """Check the numbers and the choices; the recipe has to be in.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        check_choices(self)
        check_least(
            self,
            (
                "per_device_train_batch_size",
                "per_device_eval_batch_size",
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
        check_least(self, ("unfreeze_steps", "weight_decay", "adagrad_initial_accumulator"), 0)
        for name in (
            "learning_rate",
            "muon_learning_rate",
            "max_grad_norm",
            "layer_learning_rate_decay",
            "max_hours",
        ):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be > 0.")
        if self.muon_learning_rate is not None and self.optim != "muon":
            raise ValueError(f"--muon_learning_rate is for --optim muon, which is {self.optim!r}; leave it out.")
        dropouts = ("dropout", "input_dropout", "layer_dropout", "output_dropout", "recurrent_dropout")
        for name in ("warmup_ratio", "decay_ratio", "adam_beta2", "ema_decay", "reset_probability", *dropouts):
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
        # Read for their errors.
        _ = self.learning_rates, self.schedule_options

    @property
    def learning_rates(self) -> dict[str, float] | None:
        """--group_learning_rates, read.

        Raises: ValueError when it is not a JSON object.
        """
        if self.group_learning_rates is None:
            return None
        return read_json_object("group_learning_rates", self.group_learning_rates, '{"token_encoder": 1e-4}')

    @property
    def schedule_options(self) -> dict[str, Any]:
        """--lr_scheduler_kwargs, read.

        Raises: ValueError when it is not a JSON object.
        """
        return read_json_object("lr_scheduler_kwargs", self.lr_scheduler_kwargs, '{"min_lr_ratio": 0.1}')

    @property
    def matrix_rate(self) -> float | None:
        """What a learning rate is multiplied by for the matrices of --optim muon; None with other optimizers."""
        if self.optim != "muon":
            return None
        return 1.0 if self.muon_learning_rate is None else self.muon_learning_rate / self.learning_rate

    @property
    def loss_scale(self) -> float:
        """What the mean loss is multiplied by before it is differentiated."""
        return float(self.unroll_steps if self.scales_loss_by_unroll else 1)

    @property
    def warmup_steps(self) -> int:
        """Steps in which the learning rate rises; max_steps has to be settled."""
        return round(self.warmup_ratio * self.max_steps)

    def has_sparse_gradients(self, num_processes: int) -> bool:
        """Whether the gradient of the sampled softmax holds the drawn rows alone.

        DDP does not know how to add such gradients up, AdamW and weight decay how to use them.
        """
        is_sparse = self.objective == "sampled" and self.optim == "adagrad" and not self.weight_decay
        return is_sparse and num_processes == 1

    @property
    def num_evaluations(self) -> int:
        """Evaluations of a run after its first step, where eval_steps does not say how many."""
        return 2 if self.early_stopping_patience is None else 10

    def with_steps(self: _Arguments, max_steps: int) -> _Arguments:
        """The same for a run of so many steps, with the steps between logs and evaluations that suit its length."""
        return replace(
            self,
            max_steps=max_steps,
            eval_steps=self.eval_steps or math.ceil(max_steps / self.num_evaluations),
            logging_steps=self.logging_steps or min(50, math.ceil(max_steps / 20)),
        )

    def count_steps(self, num_entries: int, num_targets: int, num_processes: int) -> int:
        """Optimizer steps of the run: max_steps, or those that max_words or the epochs take; -1 where none bounds it.

        Args:
            num_entries: Entries of all lanes in one pass: the words and two markers per sentence.
            num_targets: Words to be predicted in one pass: the words and one closing marker per sentence.
            num_processes: Processes, each with lanes of its own.
        """
        if self.max_steps >= 0:
            return self.max_steps
        if self.max_hours is not None and self.max_words is None:
            return -1
        entries_per_window = self.per_device_train_batch_size * self.unroll_steps
        passes = self.num_train_epochs if self.max_words is None else self.max_words / num_targets
        return math.ceil(num_entries * passes / (entries_per_window * self.gradient_accumulation_steps * num_processes))


RECIPES = {
    # Peters et al. 2018, sec. 3.4, by bilm-tf's training code; it ran three processes of 128 lanes.
    "paper": OptimizationArguments(
        recipe="paper",
        objective="sampled",
        num_negative_samples=8192,
        per_device_train_batch_size=128,
        unroll_steps=20,
        optim="adagrad",
        learning_rate=0.2,
        weight_decay=0.0,
        ema_decay=0.0,
        adam_beta2=0.999,
        adagrad_initial_accumulator=1.0,
        warmup_ratio=0.0,
        lr_scheduler_type="constant",
        decay_ratio=0.2,
        max_grad_norm=10.0,
        scales_loss_by_unroll=True,
        dropout=0.1,
        recurrent_dropout=0.0,
        reset_probability=0.0,
        starts_from_frequencies=False,
    ),
    # What was best in equal minutes: model_cards/speedrun. The objective goes by the vocabulary, lanes by the text.
    "modern": OptimizationArguments(
        recipe="modern",
        num_negative_samples=4096,
        unroll_steps=20,
        optim="muon",
        learning_rate=8e-3,
        weight_decay=0.0,
        ema_decay=0.0,
        adam_beta2=0.99,
        adagrad_initial_accumulator=0.0,
        warmup_ratio=0.05,
        lr_scheduler_type="cosine",
        decay_ratio=0.2,
        max_grad_norm=1.0,
        scales_loss_by_unroll=False,
        dropout=0.1,
        recurrent_dropout=0.0,
        reset_probability=0.02,
        starts_from_frequencies=True,
    ),
}
