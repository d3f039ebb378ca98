"""Fine-tuning as every task has it: the Trainer, seeds, kept layers, the output directory, results and their card."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from torch import Tensor
from transformers import EarlyStoppingCallback, Trainer, set_seed

from ..checkpoints.file_names import LAYER_SHARES_FILE, RESULTS_FILE
from ..checkpoints.layer_shares_plot import layer_names, plot_layer_shares
from ..checkpoints.provenance import describe_run, write_json
from ..checkpoints.writing import written_aside
from ..model.modeling_elmo import ElmoTaskModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .features import fill_word_table
from .layer_cache import FeaturesWithLayers, LayerCache, collate_with_layers, digest_of_bilm
from .seeds import best_of, describe_seeds, summarize
from .trainer_lines import show_in_lines
from .weights import settle_learning_rate

if TYPE_CHECKING:
    from ..text.word_vectors import WordTable
    from .arguments import ModelArguments
    from .training_arguments import TaskTrainingArguments

Task = TypeVar("Task", bound="FineTuning")

# What the Trainer calls the results on each split.
RESULT_PREFIXES = {"validation": "eval", "test": "predict"}

# What results.json keeps of the Trainer's arguments, beside the command.
_SETTINGS = (
    *("learning_rate", "num_train_epochs", "per_device_train_batch_size", "gradient_accumulation_steps"),
    *("weight_decay", "max_grad_norm", "seed", "num_seeds"),
)
# The folder of the layers that are kept for one run alone, inside the directory that it writes aside.
_LAYERS_OF_THIS_RUN = ".layers"


@dataclass
class FineTuning(ABC):
    """A task that has been checked and is ready to run; a subclass supplies reading, encoding, metric and predictions.

    Args:
        model: The model with the task's head, of the first seed.
        tokenizer: Its tokenizer.
        splits: The examples for what is to be done: "train", "validation", "test".
        training_args: The Trainer's arguments.
        description: One line about the model, for the log.
        data: What results.json says of each split.
        make_model: Makes the model anew, by random numbers whose seed was set before; needed for several seeds.
        layer_cache: Where the layers of a frozen biLM are kept for later runs.
        layer_bytes: What they may take where they are kept for this run alone; 0 to run the biLM in each epoch.
    """

    model: ElmoTaskModel
    tokenizer: ElmoCharTokenizer
    splits: dict[str, Any]
    training_args: TaskTrainingArguments
    description: str
    data: dict[str, dict[str, Any]]
    make_model: Callable[[], ElmoTaskModel] | None = field(default=None, kw_only=True)
    layer_cache: LayerCache | None = field(default=None, kw_only=True)
    layer_bytes: int = field(default=0, kw_only=True)

    # The scores that the lines of the log show, in percent.
    shown_scores: ClassVar[tuple[str, ...]]
    # The one that says which model is best, unless the flags name another.
    best_score: ClassVar[str]
    trainer_class: ClassVar[type[Trainer]] = Trainer

    def __post_init__(self) -> None:
        self.training_args.choose_by(self.best_score)
        if self.training_args.device.type == "cpu":
            self.training_args.dataloader_pin_memory = False

    @classmethod
    def start(
        cls: type[Task],
        build_model: Callable[[], tuple[ElmoTaskModel, str]],
        table: WordTable | None,
        model_args: ModelArguments,
        training_args: TaskTrainingArguments,
        tokenizer: ElmoCharTokenizer,
        splits: dict[str, Any],
        data: dict[str, dict[str, Any]],
        layer_cache: LayerCache | None,
        **own: Any,
    ) -> Task:
        """Build the model of the first seed, and the task around it.

        Args:
            build_model: Makes a model, and a line about it.
            table: The words that its own table is filled with.
            model_args: Where its weights come from, and what their layers may take.
            training_args, tokenizer, splits, data, layer_cache: As of the class.
            own: What the task has beside them.
        Raises: FileNotFoundError or ValueError as `build_model`.
        """

        def make_model() -> tuple[ElmoTaskModel, str]:
            model, description = build_model()
            fill_word_table(model, table)
            return model, description

        set_seed(training_args.seed)
        model, description = make_model()
        settle_learning_rate(training_args, model_args)
        return cls(
            model,
            tokenizer,
            splits,
            training_args,
            description,
            data,
            make_model=lambda: make_model()[0],
            layer_cache=layer_cache,
            layer_bytes=int(model_args.layer_cache_gigabytes * 2**30),
            **own,
        )

    @abstractmethod
    def encode(self, split: str) -> Any:
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

    def keep(self, logits: Tensor, labels: Tensor) -> Tensor:
        """What is kept as predictions of a batch's scores, those of the best label unless a task wants more."""
        return logits.argmax(dim=-1)

    def keep_layers(self, cache: LayerCache, dataset: Dataset) -> Dataset | FeaturesWithLayers:
        """The examples with the layers that a cache has of them, without them where it keeps none."""
        layers = cache.layers_of(self.model, dataset)
        return dataset if layers is None else FeaturesWithLayers(dataset, layers)

    def describe(self) -> dict[str, Any]:
        """What results.json says of the task itself."""
        return {}

    def reads_often(self) -> bool:
        """Whether a frozen biLM would read some text more than once."""
        args = self.training_args
        if not (self.model.uses_elmo and self.model.config.freeze_bilm and "train" in self.splits):
            return False
        count = len(self.splits["train"])
        in_a_step = min(count, args.train_batch_size * args.gradient_accumulation_steps)
        epochs = args.num_train_epochs if args.max_steps <= 0 else args.max_steps * in_a_step / count
        return epochs * args.num_seeds > 1

    def run(self) -> dict[str, Any]:
        """Train, evaluate and predict, as far as there are splits for it, and write the output directory.

        The directory appears when everything has gone well: `results.json` with all scores and how they came about,
        the predictions for the validation and the test split, and after training the model with its tokenizer and its
        card. Of several seeds these are those of the one that is best on the validation data (the first one, where
        there is none), and `results.json` has the scores of all of them.

        Returns: What `results.json` holds; scores lie in [0, 1].
        """
        args = self.training_args
        target = args.directory
        results: dict[str, Any] = {
            "model": self.description,
            **self.describe(),
            "data": self.data,
            "settings": {name: getattr(args, name) for name in _SETTINGS},
            **describe_run(),
        }
        self._say(f"Model: {self.description}")
        encoded = {split: self.encode(split) for split in self.splits}
        with _written_aside_together(target, args.overwrite_output_dir) as aside:
            results.update(self._run_seeds(encoded, aside))
            args.output_dir = str(target)
            if args.process_index == 0:
                shutil.rmtree(aside / _LAYERS_OF_THIS_RUN, ignore_errors=True)
                _point_to(aside, target.absolute())
                write_json(aside / RESULTS_FILE, results)
                if "train" in self.splits:
                    self._draw_shares(results, aside)
                    self.write_card(aside, target.resolve().name)
        self._say(f"\nWritten to {target}.")
        return results

    def _draw_shares(self, results: dict[str, Any], directory: Path) -> None:
        """Draw which layers the task reads, if it reads any."""
        if results["layer_shares"]:
            try:
                plot_layer_shares(results, directory / LAYER_SHARES_FILE)
            except ImportError as error:
                self._say(f"no plot of the layers: {error}")

    def _run_seeds(self, encoded: Mapping[str, Dataset], aside: Path) -> dict[str, Any]:
        """Run once for each seed; the directory then holds what the best of them wrote."""
        args = self.training_args
        seeds = range(args.seed, args.seed + args.num_seeds)
        if len(seeds) == 1:
            results, lines = self._run_once(self._with_layers(encoded, aside), aside)
            if lines:
                self._say(lines)
            return results
        runs: dict[int, dict[str, Any]] = {}
        tables: dict[int, str] = {}
        best, best_model, datasets, bilm = seeds[0], self.model, dict(encoded), None
        for number, seed in enumerate(seeds, start=1):
            self._say(f"\nSeed {seed}, {number} of {len(seeds)}:")
            if number > 1:
                args.seed = seed
                set_seed(seed)
                self.model = self._new_model()
            # Random weights are others for each seed; loaded ones are not.
            if bilm != (bilm := digest_of_bilm(self.model)):
                datasets = self._with_layers(encoded, aside)
            # A table for each of them would bury their mean.
            runs[seed], tables[seed] = self._run_once(datasets, aside / f"seed-{seed}")
            last_best = best
            best = list(runs)[best_of(list(runs.values()), *args.best_by)]
            if best == seed:
                best_model = self.model
            PartialState().wait_for_everyone()
            if number > 1 and args.process_index == 0:
                shutil.rmtree(aside / f"seed-{last_best if best == seed else seed}")
        self.model, args.seed = best_model, seeds[0]
        if args.process_index == 0:
            kept = aside / f"seed-{best}"
            _point_to(kept, aside)
            for path in list(kept.iterdir()):
                path.rename(aside / path.name)
            kept.rmdir()
        scores = [f"{prefix}_{name}" for prefix in RESULT_PREFIXES.values() for name in (*self.shown_scores, "loss")]
        summary = summarize(runs, [score for score in scores if score in runs[best]])
        self._say(f"\nKept the model of seed {best}.")
        if tables[best]:
            self._say(f"{tables[best]}\n\n{describe_seeds(summary, RESULT_PREFIXES, self.shown_scores)}")
        return {**runs[best], "kept_seed": best, **summary}

    def _new_model(self) -> ElmoTaskModel:
        if self.make_model is None:
            raise ValueError(f"num_seeds is {self.training_args.num_seeds}, which wants make_model; pass it.")
        return self.make_model()

    def _run_once(
        self, datasets: Mapping[str, Dataset | FeaturesWithLayers], directory: Path
    ) -> tuple[dict[str, Any], str]:
        """Train, evaluate and predict once, into a directory; the results, and lines about them."""
        args = self.training_args
        target, args.output_dir = args.output_dir, str(directory)
        directory.mkdir(exist_ok=True)
        trainer = self._make_trainer(datasets)
        results: dict[str, Any] = {}
        tables = []
        if "train" in self.splits:
            results.update(self._train(trainer))
        for split in RESULT_PREFIXES:
            if split in self.splits:
                scores, table, line = self._evaluate(trainer, split, datasets[split])
                results.update(scores)
                tables.append("\n" + table)
                if self.training_args.num_seeds > 1:
                    self._say(line)
        args.output_dir = target
        if "train" in self.splits:
            trainer.save_model(str(directory))
        return results, "\n".join(tables)

    def _with_layers(self, encoded: Mapping[str, Dataset], aside: Path) -> dict[str, Dataset | FeaturesWithLayers]:
        """The examples with the layers of a frozen biLM, where those are kept."""
        cache = self.layer_cache if self.model.uses_elmo else None
        if cache is None and self.layer_bytes and self.reads_often():
            cache = LayerCache(aside / _LAYERS_OF_THIS_RUN, self.layer_bytes, self._say)
        kept: dict[str, Dataset | FeaturesWithLayers] = {}
        for split, dataset in encoded.items():
            kept[split] = dataset if cache is None else self.keep_layers(cache, dataset)
        return kept

    def _make_trainer(self, datasets: Mapping[str, Dataset | FeaturesWithLayers]) -> Trainer:
        trainer = self.trainer_class(
            model=self.model,
            args=self.training_args,
            data_collator=collate_with_layers(self.make_collator()),
            train_dataset=datasets.get("train"),
            eval_dataset=datasets.get("validation"),
            processing_class=self.tokenizer,
            compute_metrics=self.score,
            preprocess_logits_for_metrics=self.keep,
        )
        if self.training_args.early_stopping_patience is not None:
            trainer.add_callback(EarlyStoppingCallback(self.training_args.early_stopping_patience))
        show_in_lines(trainer, self.shown_scores)
        return trainer

    def _train(self, trainer: Trainer) -> dict[str, Any]:
        args = self.training_args
        output = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
        if args.load_best_model_at_end and not args.checkpoints_asked:
            # All processes have loaded the best one by then; it was saved for nothing else.
            PartialState().wait_for_everyone()
            if trainer.is_world_process_zero():
                for checkpoint in args.directory.glob("checkpoint-*"):
                    shutil.rmtree(checkpoint)
                trainer.state.best_model_checkpoint = None
        kept: dict[str, Any] = {}
        if args.load_best_model_at_end and trainer.state.best_metric is not None:
            name, score = args.best_by[0], trainer.state.best_metric
            kept["kept_step"] = trainer.state.best_global_step
            self._say(f"Kept the model of step {kept['kept_step']}: validation {name} {score:.4f}.")
        kept["layer_shares"] = self.model.layer_shares()[: self.model.num_read_mixes] if self.model.uses_elmo else []
        for where, shares in zip(("", " at its output"), kept["layer_shares"], strict=False):
            self._say(f"Layers that the task reads{where}: " + _shares_in_words(shares))
        trainer.save_state()
        return {**output.metrics, **kept, "train_samples": len(self.splits["train"])}

    def _evaluate(
        self, trainer: Trainer, split: str, dataset: Dataset | FeaturesWithLayers
    ) -> tuple[dict[str, Any], str, str]:
        """Score and write the predictions of a split; the results, and lines and a line about them."""
        prefix = RESULT_PREFIXES[split]
        args = self.training_args
        # Where transformers groups what is trained on by length, it does so with what is predicted: out of its order.
        strategy, args.train_sampling_strategy = args.train_sampling_strategy, "random"
        output = trainer.predict(dataset, metric_key_prefix=prefix)
        args.train_sampling_strategy = strategy
        metrics = output.metrics or {}
        directory = args.directory if trainer.is_world_process_zero() else None
        more, lines = self.report(split, output, directory)
        scores = (f"{name} {100 * metrics[f'{prefix}_{name}']:.2f}" for name in self.shown_scores)
        results = {**metrics, **more, f"{prefix}_samples": len(self.splits[split])}
        return results, lines, f"{split}: {', '.join(scores)}"

    def _say(self, message: str) -> None:
        if self.training_args.process_index == 0:
            print(message, flush=True)


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
        shared = [""]
        broadcast_object_list(shared)
        yield Path(shared[0])
        state.wait_for_everyone()


def _point_to(aside: Path, target: Path) -> None:
    """Have the Trainer's notes on its checkpoints name the directory by its final name."""
    old, new = (json.dumps(str(path))[1:-1] for path in (aside, target))
    for path in aside.rglob("trainer_state.json"):
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def _shares_in_words(shares: Sequence[float]) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in zip(layer_names(len(shares)), shares, strict=True)) + "."
