"""Fine-tuning as every task has it: the Trainer, seeds, kept layers, the output directory, results and their card."""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from accelerate import PartialState
from datasets import Dataset
from torch import Tensor
from transformers import Trainer, set_seed

from ..checkpoints.cards import TaskCard, write_card
from ..checkpoints.file_names import LAYER_SHARES_FILE, RESULTS_FILE
from ..checkpoints.plots import plot_layer_shares
from ..checkpoints.provenance import describe_run, write_json
from ..checkpoints.scores import layer_names
from ..checkpoints.writing import files_written_aside
from ..model.modeling_elmo import ElmoTaskModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .card_facts import describe_task
from .features import fill_word_table
from .layer_cache import FeaturesWithLayers, LayerCache, collate_with_layers, digest_of_bilm
from .resuming import ExactResume, StopEarly, train
from .run_directory import (
    LAYERS_FOLDER,
    SEED_FILE,
    STATE_FILE,
    RunDirectory,
    find_checkpoint,
    newest_checkpoint,
    remove,
    run_directory,
)
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

    def describe_card(self, results: Mapping[str, Any]) -> TaskCard:
        """What the model's card says, of what results.json holds."""
        return describe_task(self.model.config.to_dict(), results)

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

        Results appear when everything has gone well: `results.json` with all scores and how they came about, the
        predictions for the validation and the test split, and after training the model with its tokenizer and its card.
        Of several seeds these are those of the one that is best on the validation data (the first one, where there is
        none), and `results.json` has the scores of all of them. Checkpoints stand in the directory while the run lasts,
        and stay where it fails.

        Returns: What `results.json` holds; scores lie in [0, 1].
        Raises: FileExistsError where another run writes there, or seeds of other settings are to be resumed;
            KeyboardInterrupt and OSError with what is kept and how to resume.
        """
        args = self.training_args
        facts: dict[str, Any] = {
            "model": self.description,
            **self.describe(),
            "data": self.data,
            "settings": {name: getattr(args, name) for name in _SETTINGS},
        }
        results = {**facts, **describe_run()}
        self._say(f"Model: {self.description}")
        encoded = {split: self.encode(split) for split in self.splits}
        with run_directory(args) as run:
            if args.num_seeds == 1:
                made = run.aside
                datasets, checkpoint = self._with_layers(encoded, run), find_checkpoint(args)
                found, lines = self._run_once(datasets, run, run.path, made, checkpoint)
                results.update(found)
                if lines:
                    self._say(lines)
            else:
                more, made = self._run_seeds(encoded, run, facts)
                results.update(more)
            if args.process_index == 0:
                if "train" in self.splits:
                    results["card"] = asdict(self.describe_card(results))
                    self._draw_shares(results, made)
                write_json(made / RESULTS_FILE, results)
                if "train" in self.splits:
                    write_card(made, run.path.name)
                if made != run.aside:
                    _point_to(made, run.path)
                    remove(made / SEED_FILE)
                    for path in list(made.iterdir()):
                        path.rename(run.aside / path.name)
        self._say(f"\nWritten to {args.directory}.")
        return results

    def _draw_shares(self, results: dict[str, Any], directory: Path) -> None:
        """Draw which layers the task reads, if it reads any."""
        if results["layer_shares"]:
            try:
                plot_layer_shares(results, directory / LAYER_SHARES_FILE)
            except ImportError as error:
                self._say(f"no plot of the layers: {error}")

    def _run_seeds(
        self, encoded: Mapping[str, Dataset], run: RunDirectory, facts: dict[str, Any]
    ) -> tuple[dict[str, Any], Path]:
        """Run once for each seed that is not done yet; the results, and the folder of the best one."""
        args = self.training_args
        seeds = range(args.seed, args.seed + args.num_seeds)
        runs: dict[int, dict[str, Any]] = {}
        tables: dict[int, str] = {}
        best, datasets, bilm = seeds[0], dict(encoded), None
        for number, seed in enumerate(seeds, start=1):
            folder = run.path / f"seed-{seed}"
            done = _read_seed(folder / SEED_FILE, facts) if run.is_resumed else None
            self._say(f"\nSeed {seed}, {number} of {len(seeds)}" + (":" if done is None else " was done before."))
            if done is None:
                if number > 1:
                    args.seed = seed
                    set_seed(seed)
                    self.model = self._new_model()
                # Random weights are others for each seed; loaded ones are not.
                if bilm != (bilm := digest_of_bilm(self.model)):
                    datasets = self._with_layers(encoded, run)
                checkpoint = newest_checkpoint(args, folder) if run.is_resumed else None
                done = self._run_once(datasets, run, folder, folder, checkpoint)
                if args.process_index == 0:
                    with files_written_aside(folder / SEED_FILE) as (aside,):
                        write_json(aside, {"facts": facts, "results": done[0], "table": done[1]})
            # A table for each of them would bury their mean.
            runs[seed], tables[seed] = done
            last_best = best
            best = list(runs)[best_of(list(runs.values()), *args.best_by)]
            PartialState().wait_for_everyone()
            if number > 1 and args.process_index == 0:
                worse = run.path / f"seed-{last_best if best == seed else seed}"
                for path in worse.iterdir():
                    if path.name != SEED_FILE:
                        remove(path)
        args.seed = seeds[0]
        scores = [f"{prefix}_{name}" for prefix in RESULT_PREFIXES.values() for name in (*self.shown_scores, "loss")]
        summary = summarize(runs, [score for score in scores if score in runs[best]])
        self._say(f"\nKept the model of seed {best}.")
        if tables[best]:
            self._say(f"{tables[best]}\n\n{describe_seeds(summary, RESULT_PREFIXES, self.shown_scores)}")
        return {**runs[best], "kept_seed": best, **summary}, run.path / f"seed-{best}"

    def _new_model(self) -> ElmoTaskModel:
        if self.make_model is None:
            raise ValueError(f"num_seeds is {self.training_args.num_seeds}, which wants make_model; pass it.")
        return self.make_model()

    def _run_once(
        self,
        datasets: Mapping[str, Dataset | FeaturesWithLayers],
        run: RunDirectory,
        checkpoints: Path,
        made: Path,
        checkpoint: Path | None,
    ) -> tuple[dict[str, Any], str]:
        """Train, evaluate and predict once; the results, and lines about them.

        Args:
            datasets: The examples of each split.
            run: The directory of the run.
            checkpoints: Where checkpoints are saved.
            made: Where the model and the predictions are written.
            checkpoint: The one that is resumed, if any.
        """
        trainer = self._make_trainer(datasets, checkpoints)
        trainer.add_callback(ExactResume(checkpoint, run.remove_old))
        results: dict[str, Any] = {}
        tables = []
        if "train" in self.splits:
            results.update(self._train(trainer, checkpoint))
        if made != run.aside:
            run.remove_old()
            made.mkdir(exist_ok=True)
        for split in RESULT_PREFIXES:
            if split in self.splits:
                scores, table, line = self._evaluate(trainer, split, datasets[split], made)
                results.update(scores)
                tables.append("\n" + table)
                if self.training_args.num_seeds > 1:
                    self._say(line)
        if "train" in self.splits:
            trainer.args.output_dir = self.training_args.output_dir
            trainer.save_model(str(made))
            if trainer.is_world_process_zero():
                trainer.state.save_to_json(str(made / STATE_FILE))
        return results, "\n".join(tables)

    def _with_layers(
        self, encoded: Mapping[str, Dataset], run: RunDirectory
    ) -> dict[str, Dataset | FeaturesWithLayers]:
        """The examples with the layers of a frozen biLM, where those are kept."""
        cache = self.layer_cache if self.model.uses_elmo else None
        if cache is None and self.layer_bytes and self.reads_often():
            cache = LayerCache(run.path / LAYERS_FOLDER, self.layer_bytes)
        kept: dict[str, Dataset | FeaturesWithLayers] = {}
        for split, dataset in encoded.items():
            kept[split] = dataset if cache is None else self.keep_layers(cache, dataset)
        return kept

    def _make_trainer(self, datasets: Mapping[str, Dataset | FeaturesWithLayers], checkpoints: Path) -> Trainer:
        args = copy.copy(self.training_args)
        args.output_dir = str(checkpoints)
        # Ours find out by themselves where they stood.
        args.restore_callback_states_from_checkpoint = False
        trainer = self.trainer_class(
            model=self.model,
            args=args,
            data_collator=collate_with_layers(self.make_collator()),
            train_dataset=datasets.get("train"),
            eval_dataset=datasets.get("validation"),
            processing_class=self.tokenizer,
            compute_metrics=self.score,
            preprocess_logits_for_metrics=self.keep,
        )
        if args.early_stopping_patience is not None:
            trainer.add_callback(StopEarly(args.early_stopping_patience))
        show_in_lines(trainer, self.shown_scores)
        return trainer

    def _train(self, trainer: Trainer, checkpoint: Path | None) -> dict[str, Any]:
        args = self.training_args
        metrics = train(trainer, checkpoint, args.early_stopping_patience)
        if args.load_best_model_at_end and not args.checkpoints_asked:
            # It was saved to be loaded again and to be resumed, and goes when the run has gone well.
            trainer.state.best_model_checkpoint = None
        kept: dict[str, Any] = {}
        if args.load_best_model_at_end and trainer.state.best_metric is not None:
            name, score = args.best_by[0], trainer.state.best_metric
            kept["kept_step"] = trainer.state.best_global_step
            self._say(f"Kept the model of step {kept['kept_step']}: validation {name} {score:.4f}.")
        kept["layer_shares"] = self.model.layer_shares()[: self.model.num_read_mixes] if self.model.uses_elmo else []
        for where, shares in zip(("", " at its output"), kept["layer_shares"], strict=False):
            self._say(f"Layers that the task reads{where}: " + _shares_in_words(shares))
        return {**metrics, **kept, "train_samples": len(self.splits["train"])}

    def _evaluate(
        self, trainer: Trainer, split: str, dataset: Dataset | FeaturesWithLayers, made: Path
    ) -> tuple[dict[str, Any], str, str]:
        """Score and write the predictions of a split; the results, and lines and a line about them."""
        prefix, args = RESULT_PREFIXES[split], trainer.args
        # Where transformers groups what is trained on by length, it does so with what is predicted: out of its order.
        strategy, args.train_sampling_strategy = args.train_sampling_strategy, "random"
        output = trainer.predict(dataset, metric_key_prefix=prefix)
        args.train_sampling_strategy = strategy
        metrics = output.metrics or {}
        more, lines = self.report(split, output, made if trainer.is_world_process_zero() else None)
        scores = (f"{name} {100 * metrics[f'{prefix}_{name}']:.2f}" for name in self.shown_scores)
        results = {**metrics, **more, f"{prefix}_samples": len(self.splits[split])}
        return results, lines, f"{split}: {', '.join(scores)}"

    def _say(self, message: str) -> None:
        if self.training_args.process_index == 0:
            print(message, flush=True)


def _read_seed(path: Path, facts: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    """The results of a seed and lines about them; None where it is not done.

    Raises: FileExistsError where it was trained with other settings than these.
    """
    if not path.is_file():
        return None
    done = json.loads(path.read_text(encoding="utf-8"))
    differing = [name for name, now in json.loads(json.dumps(facts)).items() if done["facts"].get(name) != now]
    if differing:
        raise FileExistsError(
            f"output_dir {str(path.parent.parent)!r} holds {path.parent.name}, which was trained with other "
            f"{' and '.join(differing)}; name another one, or pass --overwrite_output_dir to replace it."
        )
    return done["results"], done["table"]


def _point_to(old: Path, new: Path) -> None:
    """Have the Trainer's notes on checkpoints that move name the directory that they will be in."""
    before, after = (json.dumps(str(path))[1:-1] for path in (old, new))
    for path in old.rglob(STATE_FILE):
        path.write_text(path.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")


def _shares_in_words(shares: Sequence[float]) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in zip(layer_names(len(shares)), shares, strict=True)) + "."
