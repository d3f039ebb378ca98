"""How `hf-elmo predict` applies a task's pipeline: what it reads of a line, and what it shows, writes and draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from transformers import pipeline

from ..hub.loading import load_model, load_tokenizer, usable_device
from ..inference.embedder import in_batches
from ..inference.pages import Passage
from ..model.modeling_elmo import ElmoPreTrainedModel

LONGEST_SHOWN = 100

# How many words an input has, special tokens included; the input; what else the prediction needs beside its result.
Item = tuple[int, Any, Any]


class Predictor(ABC):
    """A task's pipeline for many texts, in batches of similar lengths, from the arguments of `hf-elmo predict`.

    A prediction is what an item says beside its input, and the pipeline's result. All methods raise ValueError or
    OSError naming the argument, what it was and what to do.
    """

    task: ClassVar[str]
    model_class: ClassVar[type[ElmoPreTrainedModel]]
    # The arguments of the pipeline's calls.
    settings: Mapping[str, Any] = {}
    # What the checkpoint does, and the arguments that do not go with that.
    does: str
    refuses: ClassVar[tuple[str, ...]]
    title: ClassVar[str]
    # Whether an input may be a list of words, in place of a text.
    takes_words: ClassVar[bool] = False
    # What a prediction is called, in the plural.
    unit = "sentences"

    def __init__(self, arguments: Any):
        self.arguments = arguments
        for argument in self.refuses:
            value = getattr(arguments, argument)
            if value != type(arguments).__dataclass_fields__[argument].default:
                raise ValueError(f"{argument} is {value!r}, but the checkpoint {self.does}; leave it out.")
        name = arguments.model_name_or_path
        # Before the model, which takes longer.
        device, self.inputs = usable_device(arguments.device), self.read()
        self.model: Any = load_model(self.model_class, name)
        self.tokenizer = load_tokenizer(name, self.model.config)
        # All words are read, whatever bound is written there.
        self.tokenizer.model_max_length = int(1e30)
        if arguments.pre_tokenizer is not None:
            self.tokenizer.pre_tokenizer = arguments.pre_tokenizer
        # Its overloads name transformers' own tasks.
        self.pipeline = cast("Any", pipeline)(self.task, model=self.model, tokenizer=self.tokenizer, device=device)
        self.labels: list[str] = self.model.config.label_names
        self.check()

    def read(self) -> Iterator[Any]:
        """The lines of the input, unless a task reads another kind of file."""
        return self.arguments.lines(self.takes_words)

    def check(self) -> None:  # noqa: B027
        """Check the arguments against the model."""

    @abstractmethod
    def items(self) -> Iterable[Item]:
        """What is predicted, one after another."""

    @abstractmethod
    def show(self, asked: Any, found: Any) -> Iterable[str]:
        """The lines of a prediction on the screen."""

    @abstractmethod
    def lines(self, predictions: Iterable[tuple[Any, Any]]) -> Iterable[str]:
        """The lines of a file of all predictions."""

    @abstractmethod
    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        """The predictions as texts with marked spans."""

    def predict(self) -> Iterator[tuple[Any, Any]]:
        """The predictions, in the order of the input."""

        def compute(items: Sequence[Item]) -> list[tuple[Any, Any]]:
            found = self.pipeline([given for _, given, _ in items], batch_size=len(items), **self.settings)
            return [(asked, each) for (*_, asked), each in zip(items, found, strict=True)]

        return in_batches(self.items(), lambda item: item[0], compute, self.arguments.max_words_per_batch)

    def tokenize(self, text: str | list[str]) -> list[str]:
        if isinstance(text, list):
            return text
        return text.split() if self.arguments.text_is_tokenized else self.tokenizer.tokenize(text)

    def pairs(self, wanted: str) -> Iterator[tuple[int, str, str]]:
        """The index of each line that is not blank, its text, and the second one, behind a tab or of --text_pair."""
        second, file = self.arguments.text_pair, self.arguments.input_file
        for index, line in enumerate(self.inputs):
            if line.strip():
                texts = line.split("\t") if second is None else [line, second]
                if len(texts) != 2 or not all(map(str.strip, texts)):
                    where = "text" if file is None else f"input_file {file!r}, line"
                    raise ValueError(
                        f"{where} {index + 1} is {line[:LONGEST_SHOWN]!r}; the checkpoint {self.does}, so wanted "
                        f"{wanted} with a tab between them, or --text_pair for the second of all lines."
                    )
                yield index, texts[0], texts[1]
