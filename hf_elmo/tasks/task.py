"""A task: what `hf-elmo train` and `hf-elmo predict` know of it, and how its model is trained, scored and written.

A task is one subclass of `Task` and one line of `registry.TASKS`. CONTRIBUTING shows how one is added.
"""

from __future__ import annotations

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from accelerate import PartialState
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import Trainer, set_seed

from ..hub.cards import TaskCard, write_card
from ..hub.file_names import LAYER_SHARES_FILE, RESULTS_FILE
from ..hub.plots import plot_layer_shares
from ..hub.provenance import describe_run, write_json
from ..hub.scores import layer_names
from ..hub.writing import check_keeps_inputs, files_written_aside
from ..model.configuration_elmo import ElmoConfig, HeadConfig
from ..model.modeling_elmo import ElmoTaskModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .arguments import FileArguments, TaskArguments, TaskTrainingArguments
from .data import check_data_source, choose_splits, hold_out, name_source, share_of, shorten
from .inputs import (
    check_features,
    check_model_source,
    check_table,
    choose_labels,
    describe_model,
    fill_word_table,
    find_unseen,
    given_settings,
    is_random,
    leave_out_unseen,
    load_source_config,
    load_tokenizer,
    set_model_fields,
    set_word_inputs,
    settle_learning_rate,
    start_model,
)
from .layer_cache import FeaturesWithLayers, LayerCache, collate_with_layers, digest_of_bilm, make_layer_cache
from .reports import best_of, describe_seeds, show_in_lines, summarize
from .resuming import ExactResume, StopEarly, train
from .run_directory import (
    LAYERS_FOLDER,
    SEED_FILE,
    STATE_FILE,
    RunDirectory,
    check_run_directory,
    find_checkpoint,
    newest_checkpoint,
    point_to,
    read_seed,
    remove,
    run_directory,
)

if TYPE_CHECKING:
    from ..text.word_vectors import WordTable
    from .prediction import Predictor

# What the Trainer calls the results on each split.
RESULT_PREFIXES = {"validation": "eval", "test": "predict"}

# What cards say of models that learned from sentences, or texts.
LIMIT = "It knows the labels, the language, the domain and the biases of its training {} and no others."

# What results.json keeps of the Trainer's arguments, beside the command.
_SETTINGS = [
    "learning_rate",
    "num_train_epochs",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "weight_decay",
    "max_grad_norm",
    "seed",
    "num_seeds",
]


class Task(ABC):
    """A task on ELMo: reads its data, builds a model with its head, and has that trained, scored and written.

    A subclass supplies the class attributes and the abstract methods, and overrides of the others what differs.

    Args:
        model_args: Where the model comes from, with the settings of the head; an instance of `model_arguments`.
        data_args: What is read; an instance of `data_arguments`.
        training_args: The Trainer's arguments.

    Attributes:
        splits: The examples for what is to be done: "train", "validation", "test".
        words: All words of each split, until they have been counted.
        config: The architecture.
        tokenizer: The checkpoint's, or a plain one.
        labels: The labels that the model knows, in the order of their ids; none for a task without them.
        unseen_labels: Gold labels that it does not know; their ids come behind those of its own.
        model: The model of the first seed, then of the current one.
        description: One line about it.
        data: What results.json says of each split.
        layer_cache: Where the layers of a frozen biLM are kept for later runs.
    """

    # What results.json and `hf-elmo train` call the task.
    name: ClassVar[str]
    model_class: ClassVar[type[ElmoTaskModel]]
    # The settings of its head. A flag that has the name of one of them sets it.
    head_class: ClassVar[type[HeadConfig]]
    model_arguments: ClassVar[type[TaskArguments]] = TaskArguments
    data_arguments: ClassVar[type[FileArguments]] = FileArguments
    # What --help says last.
    examples: ClassVar[str] = ""
    # The scores that the lines of the log show, in percent.
    shown_scores: ClassVar[tuple[str, ...]]
    # The one that says which model is best, unless the flags name another.
    best_score: ClassVar[str]
    has_labels: ClassVar[bool] = True
    # What `hf-elmo predict` does with its models; None where it does nothing.
    predictor_class: ClassVar[type[Predictor] | None] = None
    trainer_class: ClassVar[type[Trainer]] = Trainer

    def __init__(self, model_args: TaskArguments, data_args: FileArguments, training_args: TaskTrainingArguments):
        self.model_args: Any = model_args
        self.data_args: Any = data_args
        self.training_args = training_args
        self.splits: dict[str, Any] = {}
        self.words: dict[str, list[str]] = {}
        self.labels: list[str] = []
        self.unseen_labels: list[str] = []
        self.config: ElmoConfig
        self.tokenizer: ElmoCharTokenizer
        self.model: Any
        self.description = ""
        self.data: dict[str, dict[str, Any]] = {}
        self.layer_cache: LayerCache | None = None
        self._table: WordTable | None = None
        self._keeps_classifier = False
        training_args.choose_by(self.best_score)
        if training_args.device.type == "cpu":
            training_args.dataloader_pin_memory = False

    # What a task supplies.

    @abstractmethod
    def load(self) -> dict[str, Any]:
        """The examples of each split, `Examples` of `readers`; raises what `data.read_splits` and the readers do."""

    @abstractmethod
    def words_of(self, examples: Any) -> Iterable[str]:
        """All words of some examples, as often as they occur."""

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
    def describe_card(self, results: Mapping[str, Any]) -> TaskCard:
        """What the model's card says, of what results.json holds."""

    # What a task may change.

    def check_arguments(self) -> None:  # noqa: B027
        """Check what can be checked before any data is read; raises ValueError naming the argument."""

    def head_settings(self, head: Any) -> dict[str, Any]:
        """The settings of the head that follow from flags and data.

        Args:
            head: The checkpoint's settings; None where it has no head of this task.
        """
        return given_settings(self.model_args, self.head_class)

    def settle(self, has_head: bool) -> None:  # noqa: B027
        """Set what the head takes from the data, or change the data for it, once there is a tokenizer.

        Args:
            has_head: Whether the checkpoint has a trained head of this task.
        Raises: ValueError naming the argument.
        """

    def choose_labels(self, known: Sequence[str] | None) -> list[str]:
        """The labels of the model.

        Args:
            known: Those of the checkpoint's classifier; None where it has none.
        Raises: ValueError as `inputs.choose_labels`.
        """
        return choose_labels(self.splits, getattr(self.data_args, "labels", None) or [], known)

    def draw_classifier(self, model: Any) -> set[str]:
        """Draw the parts of a checkpoint's model anew that are for other labels, and name them."""
        model.classifier = nn.Linear(model.classifier.in_features, len(self.labels))
        model._init_weights(model.classifier)
        return {"classifier"}

    def describe_head(self, model: Any) -> str:
        """The head in some words, as the end of the line about the model."""
        return f"{len(self.labels)} labels."

    def name_source(self, split: str) -> str:
        """What a split is called in results.json."""
        return name_source(self.data_args, split)

    def count(self, split: str) -> dict[str, Any]:
        """What results.json counts of a split, beside where it comes from."""
        return {"examples": len(self.splits[split]), "words": len(self.words[split])}

    def notes(self) -> Iterator[str]:
        """What a user should know of the data."""
        return iter(())

    def warnings(self) -> Iterator[str]:
        """What may be wrong with the data."""
        return iter(())

    def keep(self, logits: Any, labels: Any) -> Any:
        """What is kept as predictions of a batch's scores, those of the best label unless a task wants more."""
        return logits.argmax(dim=-1)

    def keep_layers(self, cache: LayerCache, dataset: Any) -> Any:
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

    # What all tasks do.

    @property
    def all_labels(self) -> list[str]:
        """The labels in the order of their ids, those that the model does not know behind its own."""
        return [*self.labels, *self.unseen_labels]

    def prepare(self) -> Any:
        """Check everything that can be wrong with the arguments and the data, and build the model; returns the task.

        Nothing is written. Once this has returned, an error is one of the machine or of this package.

        Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
        """
        model_args, data_args, training_args = self.model_args, self.data_args, self.training_args
        self._check_run()
        check_data_source(data_args)
        self.check_arguments()
        self.splits = choose_splits(hold_out(self.load(), data_args), training_args)
        self.splits = shorten(self.splits, data_args)
        has_head = self.set_architecture()
        if "train" not in self.splits and not has_head:
            raise ValueError(
                f"do_train is off, but the checkpoint has no head of the task {self.name} to evaluate; name one that "
                "has with --model_name_or_path, or give training data."
            )
        self.layer_cache = make_layer_cache(model_args, self.config)
        self.tokenizer = load_tokenizer(model_args, self.config)
        if getattr(model_args, "pre_tokenizer", None) is not None:
            self.tokenizer.pre_tokenizer = model_args.pre_tokenizer
        self.settle(has_head)
        warnings = []
        if self.has_labels:
            known = self.config.label_names if has_head else None
            self.labels = self.choose_labels(known)
            self._keeps_classifier = self.labels == known
            self.unseen_labels, warning = find_unseen(self.splits, self.labels)
            warnings.append(warning)
        self.words = {split: list(self.words_of(examples)) for split, examples in self.splits.items()}
        self._table = set_word_inputs(
            self.config,
            self.head_class,
            model_args,
            self.tokenizer,
            self.words.get("train", []),
            [word for split, words in self.words.items() if split != "train" for word in words],
        )
        check_table(self.config, self._table, is_random(model_args))
        training_args.settle_sampling(getattr(model_args, "group_by_length", False))
        self.data = {
            split: {"source": self.name_source(split), **share_of(split, data_args), **self.count(split)}
            for split in self.splits
        }
        # They have been counted; of a large corpus they take more memory than anything else.
        self.words = {}
        if training_args.process_index == 0:
            for kind, lines in (("note", self.notes()), ("warning", [*self.warnings(), *warnings])):
                for line in filter(None, lines):
                    print(f"{kind}: {line}", file=sys.stderr)
        set_seed(training_args.seed)
        self.model, self.description = self.build_model()
        settle_learning_rate(training_args, model_args)
        return self

    def _check_run(self) -> None:
        """Check where the model comes from and where the output goes."""
        args = self.training_args
        if not args.directory_asked:
            raise ValueError("output_dir is missing; pass --output_dir, for the model, its scores and its predictions.")
        check_run_directory(args)
        files = [(f"{split}_file", file) for split, file in self.data_args.files.items()]
        check_keeps_inputs(args.directory, files)
        check_model_source(self.model_args)
        if args.push_to_hub:
            raise ValueError(
                "push_to_hub is on, but output_dir stands only when everything is done; upload it then, with "
                "hf-elmo push."
            )
        check_features(self.model_args)

    def set_architecture(self) -> bool:
        """Set `config` as the arguments and the data want it; whether the checkpoint has a head of this task.

        Raises: FileNotFoundError or ValueError naming the argument.
        """
        config = self.config = load_source_config(self.model_args)
        has_head = not is_random(self.model_args) and self.model_class.__name__ in (config.architectures or [])
        head: Any = config.head if getattr(config.head, "type", None) == self.head_class.type else None
        try:
            set_model_fields(config, self.model_args)
            settings = self.head_settings(head)
            config.head = self.head_class(**settings) if head is None else replace(head, **settings)
            config.validate()
        except StrictDataclassError as error:
            raise ValueError(str(error.__cause__ or error)) from error
        return has_head

    @property
    def head(self) -> Any:
        """The settings of the head."""
        return self.config.require_head(self.head_class)

    def build_model(self) -> tuple[Any, str]:
        """Make the model, in float32, and describe it in one line.

        Raises: FileNotFoundError or ValueError where the weights are not there or not of a biLM of this architecture.
        """
        if self.has_labels:
            self.config.id2label = dict(enumerate(self.labels))
            self.config.label2id = {label: index for index, label in enumerate(self.labels)}
        draw = None if self._keeps_classifier or not self.has_labels else self.draw_classifier
        model, origin = start_model(self.model_class, self.model_args, self.config, draw)
        fill_word_table(model, self._table)
        if self.unseen_labels:
            leave_out_unseen(model)
        return model, f"{describe_model(model, self.config, origin)}; {self.describe_head(model)}"

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
        unseen = {"unseen_labels": self.unseen_labels} if self.unseen_labels else {}
        facts: dict[str, Any] = {
            "model": self.description,
            "task": self.name,
            **self.describe(),
            **unseen,
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
                    point_to(made, run.path)
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
            done = read_seed(folder / SEED_FILE, facts) if run.is_resumed else None
            self._say(f"\nSeed {seed}, {number} of {len(seeds)}" + (":" if done is None else " was done before."))
            if done is None:
                if number > 1:
                    args.seed = seed
                    set_seed(seed)
                    self.model, _ = self.build_model()
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
        own_bytes = int(self.model_args.layer_cache_gigabytes * 2**30)
        if cache is None and own_bytes and self.reads_often():
            cache = LayerCache(run.path / LAYERS_FOLDER, own_bytes)
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


def _shares_in_words(shares: Sequence[float]) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in zip(layer_names(len(shares)), shares, strict=True)) + "."
