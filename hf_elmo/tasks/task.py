"""A task: what `hf-elmo train` and `hf-elmo predict` know of it, and how its model is prepared.

A task is one subclass of `Task` and one line of `TASKS`. CONTRIBUTING shows how one is added.
"""

from __future__ import annotations

import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from huggingface_hub.errors import StrictDataclassError
from transformers import set_seed

from ..hub import TOKENIZER_FILE
from ..hub.cards import TaskCard
from ..hub.loading import find_file, load_config, load_tokenizer
from ..hub.writing import check_keeps_inputs
from ..model.configuration_elmo import ElmoConfig, HeadConfig
from ..model.modeling_elmo import ElmoTaskModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from . import training
from .data import FileArguments, describe_source, pad_rows, take_fractions
from .inputs import (
    TaskArguments,
    describe_head,
    fill_word_table,
    find_unseen,
    read_settings,
    set_word_inputs,
    start_model,
)

if TYPE_CHECKING:
    from .prediction import Predictor

_LIMIT = "It knows the labels, the language, the domain and the biases of its training data and no others."
# Of labels that the model does not know.
_MOST_SHOWN = 10
# New task layers learn fast; a pre-trained biLM that is trained along with them must not be torn up.
_TASK_LEARNING_RATE = 1e-3
_BILM_LEARNING_RATE = 1e-4


class Task(ABC):
    """A task on ELMo: reads its data, builds a model with its head, and has that trained, scored and written.

    A subclass supplies the class attributes and the abstract methods, and overrides of the others what differs.
    """

    # What results.json and `hf-elmo train` call the task.
    name: ClassVar[str]
    model_class: ClassVar[type[ElmoTaskModel]]
    head_class: ClassVar[type[HeadConfig]]
    model_arguments: ClassVar[type[TaskArguments]] = TaskArguments
    data_arguments: ClassVar[type[FileArguments]] = FileArguments
    # What the log and the card show, in percent; the first one says which model is best.
    scores: ClassVar[tuple[str, ...]]
    has_labels: ClassVar[bool] = True
    # What `hf-elmo predict` does with its models; None where it does nothing.
    predictor_class: ClassVar[type[Predictor] | None] = None

    # The examples for what is to be done: "train", "validation", "test"; and what results.json says of them.
    splits: dict[str, Any]
    data: dict[str, dict[str, Any]]
    # The settings of the head that the flags name, the architecture with all of them, and the model's tokenizer.
    settings: dict[str, Any]
    config: ElmoConfig
    tokenizer: ElmoCharTokenizer
    # Those that the model knows, in the order of their ids, and gold ones that it does not, whose ids come behind.
    labels: Sequence[str] = ()
    unseen_labels: Sequence[str] = ()
    # The model of the first seed, then of the current one; a line about it; and what builds one, with a line.
    model: Any
    description: str
    build_model: Callable[[], tuple[Any, str]]

    def __init__(
        self, model_args: TaskArguments, data_args: FileArguments, training_args: training.TaskTrainingArguments
    ):
        self.model_args: Any = model_args
        self.data_args: Any = data_args
        self.training_args = training_args
        if not training_args.metric_asked:
            training_args.metric_for_best_model, training_args.greater_is_better = self.scores[0], True
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
        """The examples of a split as rows for the model; scores know a `row` of theirs, which the model never sees."""

    @abstractmethod
    def report(self, split: str, output: Any) -> tuple[dict[str, Any], Mapping[str, Iterable[str]]]:
        """The results on a split; and the lines of each file of its predictions, by its suffix.

        `output` is what `Trainer.predict` returns. Results that are a float are scores and count in training too, where
        no lines are read and examples stand in another order; others are tables of the card. "entities" is called
        `predict_entities` of the test data in results.json, and `eval_entities` of the others.
        """

    @abstractmethod
    def describe_card(self) -> TaskCard:
        """What the model's card says."""

    # What a task may change.

    def check_arguments(self) -> None:  # noqa: B027
        """Check what can be checked before any data is read; raises ValueError naming the argument."""

    def head_settings(self, head: Any) -> dict[str, Any]:
        """The settings of the head that follow from flags, data and the checkpoint's settings, None without a head."""
        return self.settings

    def settle(self, has_head: bool) -> None:  # noqa: B027
        """Set what the head takes from the data, or change the data for it, once there is a tokenizer.

        `has_head` says whether the checkpoint has a trained head of this task. Raises ValueError naming the argument.
        """

    def choose_labels(self, known: Sequence[str] | None) -> list[str]:
        """The labels of the model; `known` are those of the checkpoint's classifier, None where it has none.

        These, in their order, where they hold all that are wanted or nothing is to be trained; else those of the
        training data and what the corpus declares, sorted, numbers by size.
        """
        train = self.splits.get("train")
        wanted = set() if train is None else {*train.label_places(), *train.known_labels}
        if known is not None and wanted <= set(known):
            return list(known)
        return sorted(wanted, key=lambda label: (0, int(label), "") if label.isdecimal() else (1, 0, label))

    def count(self, split: str) -> dict[str, Any]:
        """What results.json counts of a split, beside its words."""
        return {"examples": len(self.splits[split])}

    def notes(self) -> Iterator[str | None]:
        """What a user should know of the data."""
        return (examples.note for examples in self.splits.values())

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """A batch of rows."""
        return pad_rows(rows)

    def keep(self, logits: Any, labels: Any) -> Any:
        """What is kept as predictions of a batch's scores, those of the best label unless a task wants more."""
        return logits.argmax(dim=-1)

    def sentences(self, dataset: Any) -> Any:
        """What the biLM reads of encoded examples, rows with `input_ids` (T, C), whose layers can be kept."""
        return dataset

    # What all tasks do.

    @property
    def all_labels(self) -> list[str]:
        """The labels in the order of their ids, those that the model does not know behind its own."""
        return [*self.labels, *self.unseen_labels]

    @property
    def label_ids(self) -> dict[str, int]:
        """The id of each of `all_labels`."""
        return {label: index for index, label in enumerate(self.all_labels)}

    def prepare(self) -> Any:
        """Check everything that can be wrong with the arguments and the data, and build the model; returns the task.

        Nothing is written. Once this has returned, an error is one of the machine or of this package.

        Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
        """
        model_args, data_args, training_args = self.model_args, self.data_args, self.training_args
        training.check_run_directory(training_args)
        check_keeps_inputs(
            training_args.directory, [(f"{split}_file", file) for split, file in data_args.files.items()]
        )
        if training_args.push_to_hub:
            raise ValueError("push_to_hub is on; upload what output_dir holds when all is done, with hf-elmo push.")
        self.settings = read_settings(model_args.head, self.head_class)
        self.check_arguments()
        self.splits = training.choose_splits(take_fractions(self.load(), data_args), training_args)
        has_head = self.set_architecture()
        if "train" not in self.splits and not has_head:
            raise ValueError(
                f"There is nothing to train on, and the checkpoint has no head of the task {self.name} to evaluate; "
                "name one that has with --model_name_or_path, or give training data."
            )
        if find_file(model_args.model_name_or_path, TOKENIZER_FILE) is None:
            self.tokenizer = ElmoCharTokenizer(max_characters_per_word=self.config.max_characters_per_word)
        else:
            self.tokenizer = load_tokenizer(model_args.model_name_or_path, self.config)
        if getattr(model_args, "pre_tokenizer", None) is not None:
            self.tokenizer.pre_tokenizer = model_args.pre_tokenizer
        self.settle(has_head)
        unseen: dict[str, str] = {}
        known = self.config.label_names if has_head else None
        if self.has_labels:
            self.labels = self.choose_labels(known)
            if "train" in self.splits and len(self.labels) < 2:
                raise ValueError(
                    f"{self.splits['train'].source} has the labels {self.labels}, and a classifier wants two; name the "
                    "right column with --label_column."
                )
            unseen = find_unseen(self.splits, self.labels)
            self.unseen_labels = list(unseen)
            self.config.id2label = dict(enumerate(self.labels))
            self.config.label2id = {label: index for index, label in enumerate(self.labels)}
        words = {split: list(self.words_of(examples)) for split, examples in self.splits.items()}
        others = itertools.chain(*(its for split, its in words.items() if split != "train"))
        vector_size = self.settings.get("word_vector_size")
        table = set_word_inputs(self.config, model_args, self.tokenizer, words.get("train", []), others, vector_size)
        self.data = {
            split: {**describe_source(data_args, split), **self.count(split), "words": len(words[split])}
            for split in self.splits
        }
        notes = list(filter(None, self.notes()))
        if unseen:
            shown = ", ".join(f"{label!r} ({place})" for label, place in itertools.islice(unseen.items(), _MOST_SHOWN))
            notes.append(f"{len(unseen)} labels that the model does not know are scored as missed: {shown}")
        if training_args.process_index == 0:
            for line in notes:
                print(f"note: {line}", file=sys.stderr)
        redrawn = len(self.labels) if self.has_labels and self.labels != known else None

        def build_model() -> tuple[Any, str]:
            model, origin = start_model(self.model_class, model_args, self.config, redrawn)
            if table is not None:
                fill_word_table(model, table)
            labels = f"{len(self.labels)} labels" if self.labels else ""
            return model, "; ".join(filter(None, [origin, describe_head(self.head), labels])) + "."

        self.build_model = build_model
        set_seed(training_args.seed)
        self.model, self.description = build_model()
        if training_args.learning_rate is None:
            trains_pretrained = not model_args.freeze_bilm and not model_args.from_scratch
            training_args.learning_rate = _BILM_LEARNING_RATE if trains_pretrained else _TASK_LEARNING_RATE
        return self

    def set_architecture(self) -> bool:
        """Set `config` as the arguments and the data want it; whether the checkpoint has a head of this task."""
        args = self.model_args
        config = self.config = load_config(args.model_name_or_path)
        has_head = not args.from_scratch and self.model_class.__name__ in (config.architectures or [])
        head: Any = config.head if getattr(config.head, "type", None) == self.head_class.type else None
        if args.word_vectors and args.learn_words:
            raise ValueError(f"word_vectors is {args.word_vectors!r} and learn_words is on; leave one of them out.")
        # The word softmax is left behind.
        config.word_vocab_size = None
        given = {
            "freeze_bilm": args.freeze_bilm,
            "mixed_layers": args.layers,
            "mix_normalization": args.mix_normalization,
            "mix_l2": args.mix_l2,
        }
        try:
            for name, value in given.items():
                if value is not None:
                    setattr(config, name, value)
            settings = self.head_settings(head)
            if args.word_vectors or args.learn_words:
                # Their number and size follow when all words have been read.
                settings = {"word_vector_size": 1, **settings, "word_table_size": 1}
            config.head = self.head_class(**settings) if head is None else replace(head, **settings)
            config.validate()
        except StrictDataclassError as error:
            raise ValueError(str(error.__cause__ or error)) from error
        return has_head

    @property
    def head(self) -> Any:
        """The settings of the head."""
        return self.config.require_head(self.head_class)

    def make_card(self, code: str, tags: list[str], limits: Iterable[str] = (), **own: Any) -> TaskCard:
        """A card with what those of all tasks say, and a task's `own`; `code` uses `pipeline` and `{name}`."""
        return TaskCard(
            **{"tags": tags, "pipeline_tag": tags[0], "labels": [*self.labels], "scores": list(self.scores), **own},
            usage=f"```python\nimport hf_elmo\nfrom transformers import pipeline\n\n{code}\n```",
            limits=[*limits, _LIMIT],
        )

    def run(self) -> dict[str, Any]:
        """Train, evaluate and predict, as far as there are splits for it, and write the output directory.

        Returns: What `results.json` holds; scores lie in [0, 1].
        Raises: FileExistsError where another run writes there, or seeds of other settings are to be resumed.
        """
        return training.run(self)

    def say(self, message: str) -> None:
        """Show a user a line, by one process of several."""
        if self.training_args.process_index == 0:
            print(message, flush=True)
