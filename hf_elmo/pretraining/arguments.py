"""The arguments of a pre-training run: what they mean, what they default to and what contradicts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..checkpoints.writing import check_output_directory
from ..text.word_counts import MAX_WORDS_IN_MEMORY
from .lanes import RESETS
from .objectives import OBJECTIVES
from .recipes import OPTIMIZERS, RECIPES, Recipe
from .run_state import checkpoints_in, find_checkpoint

PRESETS = ("small", "medium", "original")
TOKEN_INPUTS = ("characters", "words", "both")


def _help(text: str, **defaults: Any) -> Any:
    return field(metadata={"help": text}, **defaults)


def _by_recipe(text: str) -> Any:
    return _help(f"{text} Left out, the recipe's.", default=None)


@dataclass
class PretrainingArguments:
    """Arguments of a pre-training run; the flags of scripts/run_pretraining.py."""

    output_dir: str = _help("Directory of the run's checkpoints and, at the end, of the finished one.")
    train_file: list[str] | None = _help(
        "Training text: files or quoted globs of text (one sentence a line), .jsonl or .parquet, also as .gz.",
        default=None,
    )
    validation_file: list[str] | None = _help("Held-out text, in the same forms.", default=None)
    dataset_name: str | None = _help("Any name or directory that datasets.load_dataset knows; streamed.", default=None)
    dataset_config_name: str | None = _help("The dataset's configuration.", default=None)
    train_split: str = _help("The dataset's training split.", default="train")
    validation_split: str | None = _help("The dataset's held-out split.", default=None)
    validation_split_percentage: float = _help(
        "Share of the training records held out where there is no validation file or split.", default=2.0
    )
    text_column: str = _help("Column that holds the text, in JSON, Parquet and datasets.", default="text")
    shuffle_buffer_size: int = _help(
        "Records (lines of text; documents with --reset_state document) that each pass draws its next one from; 0 "
        "keeps the order of the text.",
        default=0,
    )
    pre_tokenizer: str = _help("How text is cut into words: whitespace or punctuation. Saved.", default="whitespace")
    do_lower_case: bool = _help("Lower-case words before their characters are read. Saved.", default=False)
    vocab_file: str | None = _help(
        "Words of the softmax, one a line, <S>, </S> and <UNK> first; built from the training text if left out.",
        default=None,
    )
    max_vocab_size: int | None = _help("Most words of a vocabulary that is built.", default=None)
    min_count: int = _help("Words seen less often are <UNK> in a vocabulary that is built.", default=2)
    max_words_in_memory: int = _help(
        "Distinct words that are counted in memory; beyond them counts go to disk.", default=MAX_WORDS_IN_MEMORY
    )
    model_name_or_path: str | None = _help(
        "A checkpoint to go on from with new text: its weights, tokenizer and, without --vocab_file, its words.",
        default=None,
    )
    config_name: str | None = _help("A config.json, or a directory with one, for the sizes of the model.", default=None)
    preset: str | None = _help("A published size instead: small, medium or original.", default=None)
    config_overrides: str | None = _help(
        'Fields of ElmoConfig to change, as JSON: \'{"cell_size": 512, "dropout": 0.2}\'.', default=None
    )
    token_inputs: str | None = _help(
        "What words are read by: their characters, a table of word vectors (words) or both. Left out, the config's.",
        default=None,
    )
    word_vectors: str | None = _help("GloVe or word2vec text to fill the table of word vectors with.", default=None)
    word_vector_size: int | None = _help("Size of the word vectors of a table that is learned.", default=None)
    freeze_word_vectors: bool = _help("Keep the vectors of --word_vectors as they are.", default=False)
    recipe: str = _help(
        "What optimises where the next flags do not say so: paper (the original's Adagrad and sampled softmax) or "
        "modern (lower perplexity in the same number of words).",
        default="modern",
    )
    objective: str | None = _by_recipe(
        "What is trained: full softmax, sampled (the full one in evaluation) or adaptive (evaluated by that one)."
    )
    num_negative_samples: int | None = _by_recipe(
        "Words that the sampled softmax draws for each direction of a window."
    )
    per_device_train_batch_size: int | None = _by_recipe("Lanes of each process.")
    unroll_steps: int | None = _by_recipe("Words of a window; states are carried from window to window.")
    optim: str | None = _by_recipe("Optimizer: adamw or adagrad.")
    learning_rate: float | None = _by_recipe("Highest learning rate.")
    weight_decay: float | None = _by_recipe("Weight decay.")
    adam_beta2: float | None = _by_recipe("Decay of AdamW's second moments.")
    warmup_ratio: float | None = _by_recipe("Share of the steps in which the learning rate rises.")
    lr_scheduler_type: str | None = _by_recipe("Schedule after that, as transformers names them.")
    max_grad_norm: float | None = _by_recipe("Bound on the norm of the gradients.")
    layer_learning_rate_decay: float = _help(
        "Each layer's learning rate is that of the one above times this; the softmax is the uppermost.", default=1.0
    )
    group_learning_rates: str | None = _help(
        'Learning rates of single parts, as JSON: \'{"token_encoder": 1e-4, "word_softmax": 1e-3}\'.', default=None
    )
    unfreeze_steps: int = _help(
        "Steps after which one layer more is trained, from the softmax down; 0 trains all from the start.", default=0
    )
    reset_state: str = _help(
        "When the LSTM state goes back to zeros: never, at each document (empty lines end one in text; each record of "
        "other formats is one) or at each epoch.",
        default="never",
    )
    per_device_eval_batch_size: int = _help("Lanes that the held-out text is dealt to.", default=32)
    gradient_accumulation_steps: int = _help("Windows to an optimizer step.", default=1)
    bf16: bool = _help("Round the factors of matrix products to bfloat16; weights stay in float32.", default=False)
    num_train_epochs: float = _help("Passes over the training text.", default=1.0)
    max_words: int | None = _help(
        "Words and closing markers to train on, counted over all processes; instead of num_train_epochs.", default=None
    )
    max_steps: int = _help("Optimizer steps; overrides num_train_epochs and max_words.", default=-1)
    eval_steps: int | None = _help("Steps between evaluations; left out, there is one halfway.", default=None)
    logging_steps: int = _help("Steps between entries of the loss history in results.json.", default=50)
    save_steps: int = _help(
        "Steps between checkpoints, beside one at each best evaluation; 0 writes the finished one alone.", default=500
    )
    save_total_limit: int | None = _help(
        "Most checkpoints kept; the last and the best one always are. 0 keeps all.", default=2
    )
    resume_from_checkpoint: str | None = _help(
        "Go on from a checkpoint-N directory, from the `last` one of output_dir or, with `auto`, from that if there is "
        "any.",
        default=None,
    )
    report_to: str | None = _help("A tracker that accelerate knows, such as tensorboard.", default=None)
    logging_dir: str | None = _help("Where it writes; left out, runs/NAME beside output_dir.", default=None)
    push_to_hub: bool = _help("Upload the finished checkpoint to the Hub.", default=False)
    hub_model_id: str | None = _help("Its name there; left out, that of output_dir under your account.", default=None)
    hub_private_repo: bool = _help("Whether others may not see it.", default=False)
    seed: int = _help("Seed of the weights, the dropout and the shuffling.", default=42)
    skip_baselines: bool = _help("Leave out the unigram and bigram baselines (one more pass).", default=False)
    overwrite_output_dir: bool = _help(
        "Replace a full output directory when the first checkpoint or the finished one stands.", default=False
    )

    def with_recipe(self) -> PretrainingArguments:
        """The same with the recipe's values where none are given.

        Raises: ValueError when there is no such recipe.
        """
        _require_one_of("recipe", self.recipe, RECIPES)
        recipe, own = RECIPES[self.recipe], {field.name for field in fields(self)}
        missing = [field.name for field in fields(Recipe) if field.name in own and getattr(self, field.name) is None]
        return replace(self, **{name: getattr(recipe, name) for name in missing})

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint to go on from; None for a run that starts.

        Raises: FileNotFoundError when there is none where one was named.
        """
        return find_checkpoint(self.resume_from_checkpoint, self.output_dir)

    @property
    def learning_rates(self) -> dict[str, float] | None:
        """--group_learning_rates, read.

        Raises: ValueError when it is not a JSON object of numbers.
        """
        return None if self.group_learning_rates is None else read_json_object(self, "group_learning_rates")

    def check(self) -> None:
        """Check what can be checked before any file is read; the recipe has to be in.

        Raises: ValueError or FileExistsError naming the argument, the value got and the value wanted.
        """
        if (self.train_file is None) == (self.dataset_name is None):
            raise ValueError("give either --train_file or --dataset_name: exactly one names the training text.")
        self._check_numbers()
        self._check_choices()
        self._check_model()
        self._check_output()

    def _check_numbers(self) -> None:
        for name in (
            "per_device_train_batch_size",
            "per_device_eval_batch_size",
            "unroll_steps",
            "gradient_accumulation_steps",
            "logging_steps",
            "min_count",
            "max_words_in_memory",
            "num_negative_samples",
            "max_words",
            "eval_steps",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} is {value}; it must be an integer >= 1.")
        for name in ("save_steps", "save_total_limit", "unfreeze_steps", "shuffle_buffer_size", "weight_decay"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"--{name} is {value}; it must be >= 0.")
        for name in ("learning_rate", "max_grad_norm", "layer_learning_rate_decay"):
            if not getattr(self, name) > 0:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be > 0.")
        if self.max_steps < 0 and self.max_words is None and not self.num_train_epochs > 0:
            raise ValueError(f"--num_train_epochs is {self.num_train_epochs}; it must be > 0, or set --max_steps.")
        if self.max_steps == 0:
            raise ValueError("--max_steps is 0; it must be > 0, or left out to train for --num_train_epochs.")
        for name in ("warmup_ratio", "adam_beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must lie in [0, 1).")
        if not 0 < self.validation_split_percentage < 100:
            raise ValueError(
                f"--validation_split_percentage is {self.validation_split_percentage}; it must lie between 0 and 100."
            )

    def _check_choices(self) -> None:
        _require_one_of("objective", self.objective, OBJECTIVES)
        _require_one_of("reset_state", self.reset_state, RESETS)
        _require_one_of("optim", self.optim, OPTIMIZERS)
        for name, choices in (("preset", PRESETS), ("token_inputs", TOKEN_INPUTS)):
            if getattr(self, name) is not None:
                _require_one_of(name, getattr(self, name), choices)

    def _check_model(self) -> None:
        sources = [name for name in ("preset", "config_name", "model_name_or_path") if getattr(self, name) is not None]
        if len(sources) > 1:
            named = " and ".join(f"--{name}" for name in sources)
            raise ValueError(f"{named} each name the sizes of the model; give one of them.")
        if self.word_vectors is not None and self.token_inputs == "characters":
            raise ValueError(
                "--word_vectors fills a table of words, but --token_inputs is 'characters'; set it to both."
            )
        if self.freeze_word_vectors and self.word_vectors is None:
            raise ValueError("--freeze_word_vectors keeps the vectors of --word_vectors, which is not given.")
        if self.model_name_or_path is not None:
            plain = {field.name: field.default for field in fields(self)}
            for name in ("pre_tokenizer", "do_lower_case", "token_inputs", "word_vectors", "word_vector_size"):
                if getattr(self, name) != plain[name]:
                    raise ValueError(
                        f"--{name} is {getattr(self, name)!r}, but --model_name_or_path brings its own; leave it out."
                    )
        if not self.push_to_hub and (self.hub_model_id is not None or self.hub_private_repo):
            raise ValueError("--hub_model_id and --hub_private_repo are for --push_to_hub; add it, or leave them out.")
        # Read for its errors.
        _ = self.learning_rates

    def _check_output(self) -> None:
        checkpoint = self.checkpoint
        if checkpoint is not None and checkpoint.resolve().parent == Path(self.output_dir).resolve():
            return
        if checkpoints_in(self.output_dir) and not self.overwrite_output_dir:
            raise FileExistsError(
                f"output_dir {self.output_dir!r} holds checkpoints of a run; go on with --resume_from_checkpoint last, "
                "name another one, or pass --overwrite_output_dir to replace it."
            )
        check_output_directory(self.output_dir, self.overwrite_output_dir)


def read_json_object(arguments: PretrainingArguments, name: str) -> dict[str, Any]:
    """A JSON argument, read.

    Raises: ValueError naming the argument when it is no JSON object.
    """
    example = {"config_overrides": '{"cell_size": 512}', "group_learning_rates": '{"token_encoder": 1e-4}'}[name]
    try:
        read = json.loads(getattr(arguments, name) or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"--{name} is not JSON ({error}); wanted '{example}'.") from error
    if not isinstance(read, dict):
        raise ValueError(f"--{name} is {read!r}; wanted an object, '{example}'.")
    return read


def _require_one_of(name: str, value: str, choices: Any) -> None:
    if value not in choices:
        raise ValueError(f"--{name} is {value!r}; it must be one of {', '.join(choices)}.")
