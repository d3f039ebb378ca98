"""Fine-tuning as every task has it: the model's weights, the Trainer, its output directory, its lines, its results."""

from __future__ import annotations

import json
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizer, PrinterCallback, ProgressCallback, Trainer, TrainerCallback
from transformers.trainer_utils import IntervalStrategy

from ..checkpoints.file_names import RESULTS_FILE, TOKENIZER_FILE
from ..checkpoints.loading import Model, find_file, load_config, load_what_is_there
from ..checkpoints.loading import load_tokenizer as load_checkpoint_tokenizer
from ..checkpoints.provenance import describe_run, write_json
from ..checkpoints.writing import written_aside
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.progress import SECONDS_BETWEEN_LINES, progress_line
from .arguments import STEPS, ModelArguments
from .layer_cache import FeaturesWithLayers, LayerCache, collate_with_layers

if TYPE_CHECKING:
    from .training_arguments import TaskTrainingArguments

# What the Trainer calls the results on each split.
RESULT_PREFIXES = {"validation": "eval", "test": "predict"}

# New task layers learn fast; a pre-trained biLM that is trained along with them must not be torn up.
_TASK_LEARNING_RATE = 1e-3
_BILM_LEARNING_RATE = 1e-4

# What results.json keeps of the Trainer's arguments, beside the command.
_SETTINGS = (
    *("learning_rate", "num_train_epochs", "per_device_train_batch_size", "gradient_accumulation_steps"),
    *("weight_decay", "max_grad_norm", "seed"),
)


@dataclass
class FineTuning(ABC):
    """A task that has been checked and is ready to run; a subclass supplies reading, encoding, metric and predictions.

    Args:
        model: The model with the task's head.
        tokenizer: Its tokenizer.
        splits: The examples for what is to be done: "train", "validation", "test".
        training_args: The Trainer's arguments.
        description: One line about the model, for the log.
        data: What results.json says of each split.
        layer_cache: Where the layers of a frozen biLM are kept; None to run the biLM in each epoch.
    """

    model: ElmoPreTrainedModel
    tokenizer: PreTrainedTokenizer
    splits: dict[str, Any]
    training_args: TaskTrainingArguments
    description: str
    data: dict[str, dict[str, Any]]
    layer_cache: LayerCache | None = field(default=None, kw_only=True)

    # The scores that the lines of the log show, in percent.
    shown_scores: ClassVar[tuple[str, ...]]

    @abstractmethod
    def encode(self, split: str) -> Dataset:
        """The examples of a split as rows for the model."""

    @abstractmethod
    def make_collator(self) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
        """What makes a batch of rows."""

    @abstractmethod
    def score(self, output: Any) -> dict[str, float]:
        """The scores of predictions beside `label_ids`, as the Trainer wants them."""

    @abstractmethod
    def report(self, split: str, output: Any, directory: Path | None) -> tuple[dict[str, Any], str]:
        """More results on a split and lines for the screen; writes its predictions where there is a directory."""

    @abstractmethod
    def write_card(self, directory: Path, name: str) -> None:
        """Render the model's card from the files in its directory."""

    def describe(self) -> dict[str, Any]:
        """What results.json says of the task itself."""
        return {}

    def run(self) -> dict[str, Any]:
        """Train, evaluate and predict, as far as there are splits for it, and write the output directory.

        The directory appears when everything has gone well: `results.json` with all scores and how they came about,
        the predictions for the validation and the test split, and after training the model with its tokenizer and its
        card.

        Returns: What `results.json` holds; scores lie in [0, 1].
        """
        args = self.training_args
        target = Path(args.output_dir)
        settings = {name: getattr(args, name) for name in _SETTINGS}
        results: dict[str, Any] = {
            "model": self.description,
            **self.describe(),
            "data": self.data,
            "settings": settings,
            **describe_run(),
        }
        self._say(f"Model: {self.description}")
        datasets = {split: self._with_layers(self.encode(split)) for split in self.splits}
        with _written_aside_together(target, args.overwrite_output_dir) as aside:
            args.output_dir = str(aside)
            trainer = self._make_trainer(datasets)
            if "train" in self.splits:
                results.update(self._train(trainer))
            for split in RESULT_PREFIXES:
                if split in self.splits:
                    results.update(self._evaluate(trainer, split, datasets[split]))
            args.output_dir = str(target)
            if "train" in self.splits:
                trainer.save_model(str(aside))
            if trainer.is_world_process_zero():
                _point_to(aside, target.absolute())
                write_json(aside / RESULTS_FILE, results)
                if "train" in self.splits:
                    self.write_card(aside, target.resolve().name)
        self._say(f"\nWritten to {target}.")
        return results

    def _with_layers(self, dataset: Dataset) -> Dataset | FeaturesWithLayers:
        """The examples with their layers, where those are kept."""
        layers = None if self.layer_cache is None else self.layer_cache.layers_of(self.model, dataset)
        return dataset if layers is None else FeaturesWithLayers(dataset, layers)

    def _make_trainer(self, datasets: dict[str, Dataset | FeaturesWithLayers]) -> Trainer:
        trainer = Trainer(
            model=self.model,
            args=self.training_args,
            data_collator=collate_with_layers(self.make_collator()),
            train_dataset=datasets.get("train"),
            eval_dataset=datasets.get("validation"),
            processing_class=self.tokenizer,
            compute_metrics=self.score,
            preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1),
            callbacks=[_LogLines(self.shown_scores)],
        )
        trainer.remove_callback(PrinterCallback)
        if trainer.pop_callback(ProgressCallback) is not None:
            trainer.add_callback(_Bars if sys.stderr.isatty() else _ProgressLines)
        return trainer

    def _train(self, trainer: Trainer) -> dict[str, Any]:
        args = self.training_args
        output = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
        if args.load_best_model_at_end and not args.checkpoints_asked and trainer.is_world_process_zero():
            # The best one has been loaded; it was saved for nothing else.
            for checkpoint in Path(args.output_dir).glob("checkpoint-*"):
                shutil.rmtree(checkpoint)
            trainer.state.best_model_checkpoint = None
        kept: dict[str, Any] = {}
        if args.load_best_model_at_end and trainer.state.best_metric is not None:
            name, score = args.metric_for_best_model.removeprefix("eval_"), trainer.state.best_metric
            kept["kept_step"] = trainer.state.best_global_step
            self._say(f"Kept the model of step {kept['kept_step']}: validation {name} {score:.4f}.")
        kept["layer_shares"] = self.model.layer_shares()
        for shares in kept["layer_shares"]:
            self._say("Layers that the task reads: " + _shares_in_words(shares))
        trainer.save_state()
        return {**output.metrics, **kept, "train_samples": len(self.splits["train"])}

    def _evaluate(self, trainer: Trainer, split: str, dataset: Dataset | FeaturesWithLayers) -> dict[str, Any]:
        """Score and write the predictions of a split."""
        prefix = RESULT_PREFIXES[split]
        output = trainer.predict(dataset, metric_key_prefix=prefix)
        directory = Path(trainer.args.output_dir) if trainer.is_world_process_zero() else None
        more, lines = self.report(split, output, directory)
        self._say("\n" + lines)
        return {**output.metrics, **more, f"{prefix}_samples": len(self.splits[split])}

    def _say(self, message: str) -> None:
        if self.training_args.process_index == 0:
            print(message, flush=True)


class _Bars(ProgressCallback):
    """transformers' progress bars without its dumps of dictionaries."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        pass


class _ProgressLines(TrainerCallback):
    """What a file gets in place of bars: a line each half minute."""

    def __init__(self) -> None:
        self._first_step = self._predicted = 0
        self._started = self._printed = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._first_step = state.global_step
        self._started = self._printed = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        taken = state.global_step - self._first_step
        seconds = time.monotonic() - self._started
        # Of a run that goes on only the steps since then took these seconds.
        self._show("training", "steps", state.global_step, state.max_steps, seconds * state.global_step / taken, state)

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, eval_dataloader: Any = None, **kwargs: Any
    ) -> None:
        self._predicted += 1
        if self._predicted == 1:
            self._first_predicted = time.monotonic()
            return
        # The first one is done when the clock starts.
        seconds = (time.monotonic() - self._first_predicted) * self._predicted / (self._predicted - 1)
        self._show("predicting", "batches", self._predicted, len(eval_dataloader), seconds, state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._predicted = 0

    def on_predict(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._predicted = 0

    def _show(self, what: str, unit: str, number: int, total: int, seconds: float, state: Any) -> None:
        if state.is_world_process_zero and time.monotonic() - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            print(progress_line(what, unit, number, total, seconds), file=sys.stderr, flush=True)


class _LogLines(TrainerCallback):
    """One readable line for each log of the Trainer that has a loss or a score in it."""

    def __init__(self, scores: tuple[str, ...]) -> None:
        self._scores = scores

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        start = f"epoch {logs.get('epoch', 0):g} of {args.num_train_epochs:g}" if args.max_steps <= 0 else ""
        start = start or f"step {state.global_step} of {args.max_steps}"
        if "loss" in logs:
            tqdm.write(f"{start}: training loss {float(logs['loss']):.4f}, learning rate {logs['learning_rate']:.3g}")
        if "eval_loss" in logs:
            scores = ", ".join(f"{name} {100 * logs[f'eval_{name}']:.2f}" for name in self._scores)
            tqdm.write(f"{start}: validation loss {logs['eval_loss']:.4f}, {scores}")


@contextmanager
def _written_aside_together(target: Path, overwrite: bool) -> Iterator[Path]:
    """`written_aside` for one or several processes: the first one makes the directory and all of them write to it."""
    state = PartialState()
    if state.is_main_process:
        with written_aside(target, overwrite) as aside:
            broadcast_object_list([str(aside)])
            yield aside
            state.wait_for_everyone()
    else:
        shared = [None]
        broadcast_object_list(shared)
        yield Path(shared[0])
        state.wait_for_everyone()


def _point_to(aside: Path, target: Path) -> None:
    """Have the Trainer's notes on its checkpoints name the directory by its final name."""
    old, new = (json.dumps(str(path))[1:-1] for path in (aside, target))
    for path in aside.rglob("trainer_state.json"):
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def check_model_source(model_args: ModelArguments) -> None:
    """Check that exactly one flag says where the model comes from.

    Raises: ValueError naming those that were given.
    """
    sources = {name: getattr(model_args, name) for name in ("model_name_or_path", "config_name", "preset")}
    given = [name for name, value in sources.items() if value]
    if len(given) != 1:
        raise ValueError(
            f"{' and '.join(given) or 'No model'} given; wanted exactly one of --model_name_or_path for a checkpoint, "
            "--config_name or --preset for random weights."
        )


def choose_splits(splits: dict[str, Any], args: TaskTrainingArguments) -> dict[str, Any]:
    """The splits that the `do_...` flags ask for, all of them without any; settles those flags and when to evaluate.

    Raises: ValueError or FileNotFoundError naming the flag that asks for what is not there.
    """
    for step in args.steps_asked:
        if STEPS[step] not in splits:
            raise ValueError(
                f"{step} is on, but there is no {STEPS[step]} data; give --{STEPS[step]}_file or a dataset with that "
                "split, or leave the flag out."
            )
    wanted = {STEPS[step] for step in args.steps_asked} or set(splits)
    if "train" in wanted:
        wanted.add("validation")
    chosen = {split: examples for split, examples in splits.items() if split in wanted}
    for step, split in STEPS.items():
        setattr(args, step, split in chosen)
    if not args.do_eval:
        if args.load_best_model_at_end or (args.eval_strategy_asked and args.eval_strategy != IntervalStrategy.NO):
            flag = "load_best_model_at_end" if args.load_best_model_at_end else "eval_strategy"
            raise ValueError(f"{flag} is set, but there is no validation data; give --validation_file or leave it out.")
        args.eval_strategy = IntervalStrategy.NO
    if args.load_best_model_at_end and args.eval_strategy == IntervalStrategy.NO:
        raise ValueError("load_best_model_at_end is set, but eval_strategy is 'no'; leave --eval_strategy out.")
    resumed = args.resume_from_checkpoint
    if resumed is not None and not Path(resumed).is_dir():
        raise FileNotFoundError(f"resume_from_checkpoint {resumed!r} is not a directory; check the path.")
    return chosen


def is_random(model_args: ModelArguments) -> bool:
    """Whether all weights are to be drawn at random."""
    return model_args.from_scratch or not model_args.model_name_or_path


def load_source_config(model_args: ModelArguments) -> ElmoConfig:
    """The config that the arguments name, before the task sets its own fields.

    Raises: FileNotFoundError or ValueError naming the argument.
    """
    if model_args.preset is not None:
        return getattr(ElmoConfig, model_args.preset)()
    argument = "model_name_or_path" if model_args.model_name_or_path else "config_name"
    return load_config(getattr(model_args, argument), argument)


def load_tokenizer(model_args: ModelArguments, config: ElmoConfig) -> PreTrainedTokenizer:
    """The checkpoint's tokenizer, or the plain one where it has none."""
    name = model_args.model_name_or_path or model_args.config_name
    if name is None or find_file(name, TOKENIZER_FILE) is None:
        return ElmoCharTokenizer(max_characters_per_word=config.max_characters_per_word)
    return load_checkpoint_tokenizer(name, config)


def _shares_in_words(shares: Sequence[float]) -> str:
    names = ["token encoder", *(f"layer {number}" for number in range(1, len(shares)))]
    return ", ".join(f"{name} {share:.1%}" for name, share in zip(names, shares, strict=True)) + "."


def make_layer_cache(model_args: ModelArguments, config: ElmoConfig) -> LayerCache | None:
    """Where layers are kept, if they are to be.

    Raises: ValueError naming the argument where the biLM is trained, or nothing may be kept; NotADirectoryError.
    """
    directory, gigabytes = model_args.layer_cache_dir, model_args.layer_cache_gigabytes
    if directory is None:
        return None
    if not config.freeze_bilm:
        raise ValueError(
            f"layer_cache_dir is {directory!r}, but the biLM is trained (no_freeze_bilm), so that its layers change; "
            "leave one of them out."
        )
    if not gigabytes * 2**30 >= 1:
        raise ValueError(f"layer_cache_gigabytes is {gigabytes}; it must be > 0.")
    if Path(directory).exists() and not Path(directory).is_dir():
        raise NotADirectoryError(f"layer_cache_dir {directory!r} is a file; name a directory.")
    return LayerCache(directory, int(gigabytes * 2**30), lambda line: print(line, flush=True))


def load_weights(model_class: type[Model], name: str, config: ElmoConfig) -> tuple[Model, set[str]]:
    """A checkpoint's weights in a model with a task's head, and which of its parts had none of the right shape there.

    Args:
        model_class: The class of the model.
        name: The checkpoint.
        config: The config of the model to be.
    Raises: FileNotFoundError where there are no weights, ValueError where some of the biLM's are lacking.
    """
    try:
        model, new = load_what_is_there(model_class, name, config)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"model_name_or_path {name!r} has no weights; for random ones pass --from_scratch. ({error})"
        ) from error
    lost = [key for key in new if key.startswith(("elmo.token_encoder.", "elmo.bilm."))]
    if lost:
        raise ValueError(
            f"model_name_or_path {name!r} has no weights, or weights of another shape, for {lost[0]!r} and "
            f"{len(lost) - 1} more of the biLM; name a complete ELMo checkpoint."
        )
    return model, {key.split(".")[0] if not key.startswith("elmo.mixes") else "scalar mix" for key in new}


def describe_model(model: torch.nn.Module, config: ElmoConfig, origin: str) -> str:
    """The size of a model, what of it is trained and where its weights come from, in some words."""
    total = sum(parameter.numel() for parameter in model.parameters())
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    frozen = "fixed" if config.freeze_bilm else "trained"
    return f"{total:,} parameters, {trained:,} of them trained (biLM {frozen}); {origin}"


def settle_learning_rate(args: TaskTrainingArguments, model_args: ModelArguments) -> None:
    """Set the learning rate where it was left out: lower where a pre-trained biLM is trained too."""
    if args.learning_rate is None:
        trains_pretrained = not model_args.freeze_bilm and not is_random(model_args)
        args.learning_rate = _BILM_LEARNING_RATE if trains_pretrained else _TASK_LEARNING_RATE


def limit(examples: Any, argument: str, count: int | None) -> Any:
    """The first `count` examples of a split, all of them where it is None.

    Raises: ValueError naming the argument where the count is not positive.
    """
    if count is None:
        return examples
    if count < 1:
        raise ValueError(f"{argument} is {count}; it must be an integer >= 1, or left out for all sentences.")
    return examples.first(count)
