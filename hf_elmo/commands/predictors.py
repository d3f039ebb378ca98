"""How `hf-elmo predict` applies each task's pipeline: what it reads of a line, and what it shows, writes and draws."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, cast

from transformers import pipeline

from ..checkpoints.loading import load_config, load_model, load_tokenizer
from ..inference.batches import in_batches
from ..inference.devices import usable_device
from ..inference.pages import Mark, Passage, marks_of_words
from ..model.modeling_elmo import ElmoPreTrainedModel
from ..model.modeling_elmo_coref import ElmoForCoreferenceResolution
from ..model.modeling_elmo_srl import ElmoForSemanticRoleLabeling
from ..model.modeling_elmo_tasks import (
    OUTSIDE,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    read_spans,
    write_spans,
)
from ..pipelines import COREFERENCE, QUESTION_ANSWERING, SEMANTIC_ROLES, put_in_brackets
from ..tasks.metrics.entities import read_any_spans, tag_scheme_of
from ..tasks.readers.documents import Document, Mention, document_lines
from ..tasks.readers.propositions import write_brackets
from ..tasks.readers.questions import read_questions
from .text_input import warn_of_raw_text

if TYPE_CHECKING:
    from .predict import PredictionArguments

_LONGEST_SHOWN = 100
# SQuAD's JSON; other files are lines of a question and its context.
_SQUAD_SUFFIXES = tuple(f".json{compressed}" for compressed in ("", ".gz", ".bz2", ".xz", ".zst"))


# How many words an input has, special tokens included; the input; what else the prediction needs beside its result.
Item = tuple[int, Any, Any]


class Predictor(ABC):
    """A task's pipeline for many texts, in batches of similar lengths.

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
    # What a prediction is called, in the plural.
    unit = "sentences"

    def __init__(self, arguments: PredictionArguments):
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
        if arguments.input_file is not None and "text_is_tokenized" not in self.refuses:
            warn_of_raw_text(arguments, self.tokenizer.pre_tokenizer)

    def read(self) -> Iterator[Any]:
        """The lines of the input, unless a task reads another kind of file."""
        return self.arguments.lines()

    def check(self) -> None:  # noqa: B027
        """Check the arguments against the model."""

    @abstractmethod
    def items(self) -> Iterable[Item]:
        """What is predicted, one after another."""

    @abstractmethod
    def show(self, asked: Any, found: Any) -> Iterable[str]:
        """The lines of a prediction on the screen."""

    @abstractmethod
    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> str:
        """Write all predictions, and say in some words what they were."""

    @abstractmethod
    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        """The predictions as texts with marked spans."""

    def predict(self) -> Iterator[tuple[Any, Any]]:
        """The predictions, in the order of the input."""

        def compute(items: Sequence[Item]) -> list[tuple[Any, Any]]:
            found = self.pipeline([given for _, given, _ in items], batch_size=len(items), **self.settings)
            return [(asked, each) for (*_, asked), each in zip(items, found, strict=True)]

        return in_batches(self.items(), lambda item: item[0], compute, self.arguments.max_words_per_batch)

    def tokenize(self, text: str) -> list[str]:
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
                        f"{where} {index + 1} is {line[:_LONGEST_SHOWN]!r}; the checkpoint {self.does}, so wanted "
                        f"{wanted} with a tab between them, or --text_pair for the second of all lines."
                    )
                yield index, texts[0], texts[1]

    def refuse_emptiness(self, count: int) -> None:
        if not count:
            raise ValueError(f"input_file {self.arguments.input_file!r} holds no text; give one with text in it.")


class TokenPredictor(Predictor):
    """Labels of words, or the spans that they mark; asked are the words."""

    task = "token-classification"
    model_class = ElmoForTokenClassification
    settings = {"is_split_into_words": True, "ignore_labels": []}
    does = "labels words"
    refuses = ("text_pair",)
    title = "Labels"

    def check(self) -> None:
        try:
            self.has_spans = tag_scheme_of(self.labels) == "spans"
        except ValueError:
            self.has_spans = False
        scheme = self.arguments.convert_scheme
        if scheme is not None and not self.has_spans:
            raise ValueError(
                f"convert_scheme is {scheme!r}, but the checkpoint labels single words, not spans; leave it out."
            )

    def items(self) -> Iterable[Item]:
        for words in map(self.tokenize, self.inputs):
            yield len(words) + 2, words, words

    def labels_of(self, found: Sequence[Mapping[str, Any]]) -> list[str]:
        labels, scheme = [word["entity"] for word in found], self.arguments.convert_scheme
        return labels if scheme is None else write_spans(read_any_spans(labels), len(labels), scheme)

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        labels = self.labels_of(found)
        if self.has_spans:
            yield put_in_brackets(asked, read_any_spans(labels))
        else:
            yield " ".join(map("/".join, zip(asked, labels, strict=True)))

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> str:
        num_sentences = num_words = 0
        for words, found in predictions:
            file.writelines(f"{word}\t{label}\n" for word, label in zip(words, self.labels_of(found), strict=True))
            file.write("\n" if words else "")
            num_sentences, num_words = num_sentences + 1, num_words + len(words)
        return f"{num_sentences:,} sentences of {num_words:,} words with their labels"

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        for words, found in filter(all, predictions):
            labels = self.labels_of(found)
            if self.has_spans:
                yield Passage(" ".join(words), marks_of_words(words, read_any_spans(labels)))
                continue
            marks = marks_of_words(words, [(label, index, index + 1) for index, label in enumerate(labels)])
            scores = (f"{mark.label}, probability {each['score']:.3f}" for mark, each in zip(marks, found, strict=True))
            marks = [mark._replace(title=score) for mark, score in zip(marks, scores, strict=True)]
            yield Passage(" ".join(words), [mark for mark in marks if mark.label != OUTSIDE])


class TextPredictor(Predictor):
    """Labels of texts, or of pairs of texts; asked are the index of the line and its texts."""

    task = "text-classification"
    model_class = ElmoForSequenceClassification
    settings = {"is_split_into_words": True, "top_k": None, "function_to_apply": "softmax"}
    does = "classifies texts"
    refuses = ("convert_scheme",)
    title = "Labels of texts"
    unit = "texts"

    def check(self) -> None:
        self.reads_pairs = self.model.text_encoder.reads_pairs
        if self.reads_pairs:
            self.does, self.unit = "classifies pairs", "pairs"
        elif self.arguments.text_pair is not None:
            raise ValueError(
                f"text_pair is {self.arguments.text_pair!r}, but the checkpoint classifies single texts; leave it out."
            )

    def items(self) -> Iterable[Item]:
        lines = ((index, line) for index, line in enumerate(self.inputs) if line.strip())
        for index, *texts in self.pairs("two texts") if self.reads_pairs else lines:
            words = [self.tokenize(str(text)) for text in texts]
            yield sum(map(len, words)) + 2 * len(words), dict(zip(("text", "text_pair"), words)), (index, texts)  # noqa: B905

    def probabilities(self, found: Iterable[Mapping[str, Any]]) -> dict[str, float]:
        """In the order of the labels' ids, the first of the best ones and all of them."""
        by_label = {each["label"]: each["score"] for each in found}
        return {label: by_label[label] for label in self.labels}

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        label, probability = _best(self.probabilities(found))
        texts = (text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..." for text in asked[1])
        yield f"{label} {probability:.3f}  {' | '.join(texts)}"

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> str:
        are_records, count = self.arguments.output_suffix == ".jsonl", 0
        if not are_records:
            file.write("\t".join(["id", "predicted", *(f"p({label})" for label in self.labels)]) + "\n")
        for (index, texts), found in predictions:
            probabilities = self.probabilities(found)
            label, _ = _best(probabilities)
            if are_records:
                names = ("sentence",) if len(texts) == 1 else ("sentence1", "sentence2")
                record = {"id": index, "predicted_label": label, **dict(zip(names, texts, strict=True))}
                record["probabilities"] = {name: round(each, 6) for name, each in probabilities.items()}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                numbers = (f"{each:.6f}" for each in probabilities.values())
                file.write("\t".join([str(index), label, *numbers]) + "\n")
            count += 1
        self.refuse_emptiness(count)
        return f"{count:,} {self.unit} with their labels"

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        for (_, texts), found in predictions:
            scores = ", ".join(f"{each['label']} {each['score']:.3f}" for each in found)
            yield Passage("\n".join(texts), notes=[scores])


def _best(probabilities: Mapping[str, float]) -> tuple[str, float]:
    return max(probabilities.items(), key=lambda each: each[1])


class AnswerPredictor(Predictor):
    """Answers to questions, as spans of a context; asked are the id, the question and the context."""

    task = QUESTION_ANSWERING
    model_class = ElmoForQuestionAnswering
    does = "answers questions from raw text"
    refuses = ("convert_scheme", "text_is_tokenized")
    title = "Answers"
    unit = "questions"

    def read(self) -> Iterator[Any]:
        file = self.arguments.input_file
        self.is_squad = file is not None and file.endswith(_SQUAD_SUFFIXES)
        if not self.is_squad:
            return super().read()
        if self.arguments.text_pair is not None:
            raise ValueError("text_pair is given, but the questions of input_file have contexts there; leave it out.")
        read = read_questions(str(file), "input_file", keeps_unanswered=True)
        return iter([(one.id, one.text, read.contexts[one.context]) for one in read.questions])

    def items(self) -> Iterable[Item]:
        for name, question, context in self.inputs if self.is_squad else self.pairs("a question and its context"):
            count = len(self.tokenize(question)) + len(self.tokenize(context)) + 4
            yield count, {"question": question, "context": context}, (str(name), question, context)

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        place = f"[{found['start']}:{found['end']}]"
        yield f"{found['answer']!r} {found['score']:.3f} {place}  {asked[1][:_LONGEST_SHOWN]}"

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> str:
        answers, records = {}, []
        for (name, question, _), found in predictions:
            answers[name] = found["answer"]
            record = {"id": name, "question": question, "answer": found["answer"]}
            ends = {"start": found["start"], "end": found["end"]}
            records.append({**record, **ends, "score": round(found["score"], 6)})
        self.refuse_emptiness(len(answers))
        if self.arguments.output_suffix == ".jsonl":
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        else:
            file.write(json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
        return f"{len(answers):,} questions with their answers"

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        # Questions of one context that follow one another share it.
        for context, group in groupby(predictions, lambda prediction: prediction[0][2]):
            marks, notes = [], []
            for number, ((_, question, _), found) in enumerate(group, start=1):
                marks.append(Mark(found["start"], found["end"], str(number), question))
                notes.append(f"{number} {question} · {found['answer'] or 'no answer'} ({found['score']:.3f})")
            yield Passage(context, marks, notes)


class CoreferencePredictor(Predictor):
    """Clusters of mentions of a text, all of which is one document."""

    task = COREFERENCE
    model_class = ElmoForCoreferenceResolution
    does = "resolves coreference in a whole document"
    refuses = ("convert_scheme", "text_pair", "max_words_per_batch")
    title = "Coreference"
    unit = "documents"

    def read(self) -> Iterator[str]:
        text = "\n".join(super().read())
        self.refuse_emptiness(len(text.strip()))
        return iter([text])

    def items(self) -> Iterable[Item]:
        self.settings = {"is_tokenized": self.arguments.text_is_tokenized}
        return ((1, text, None) for text in self.inputs)

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        for cluster in found["clusters"]:
            yield " | ".join(f"{' '.join(one['text'].split())} [{one['start']}:{one['end']}]" for one in cluster)
        if not found["clusters"]:
            yield "no clusters"

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> str:
        ((_, found),) = predictions
        clusters = found["clusters"]
        if self.arguments.output_suffix == ".conll":
            mentions = [[Mention(*mention["words"]) for mention in cluster] for cluster in clusters]
            name = Path(str(self.arguments.output_file)).stem
            file.writelines(f"{line}\n" for line in document_lines(Document(name, 0, found["sentences"], mentions)))
        else:
            placed = [[{name: one[name] for name in ("start", "end", "text")} for one in each] for each in clusters]
            file.write(json.dumps({"text": found["text"], "clusters": placed}, ensure_ascii=False, indent=1) + "\n")
        return f"{sum(map(len, clusters)):,} mentions in {len(clusters):,} clusters"

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        for _, found in predictions:
            marks: list[Mark] = []
            names: list[str] = []
            for cluster in found["clusters"]:
                name = " ".join(cluster[0]["text"].split())
                if len(cluster) > 1:
                    names.append(f"{len(names) + 1} {name} ({len(cluster)})")
                label = str(len(names)) if len(cluster) > 1 else ""
                titles = (f"{name}, mention {index} of {len(cluster)}" for index in range(1, len(cluster) + 1))
                marks += [
                    Mark(one["start"], one["end"], label, title) for one, title in zip(cluster, titles, strict=True)
                ]
            yield Passage(found["text"], marks, [" · ".join(names) or "no clusters"])


class RolePredictor(Predictor):
    """The predicates of sentences, and their arguments."""

    task = SEMANTIC_ROLES
    model_class = ElmoForSemanticRoleLabeling
    does = "labels semantic roles"
    refuses = ("convert_scheme", "text_pair")
    title = "Semantic roles"

    def check(self) -> None:
        if self.model.finder is None:
            raise ValueError(
                f"model_name_or_path {self.arguments.model_name_or_path!r} does not find predicates, which text has no "
                "marks of; name one that was trained with --find_predicates, or score a file that has them by "
                "hf-elmo train semantic-roles --test_file."
            )

    def items(self) -> Iterable[Item]:
        return ((len(words) + 2, {"text": words}, None) for words in map(self.tokenize, self.inputs))

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        yield " ".join(found["words"])
        yield from (f"  {frame['description']}" for frame in found["frames"])

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> str:
        num_sentences = num_frames = 0
        for _, found in predictions:
            file.writelines(f"{line}\n" for line in _as_columns(found["words"], found["frames"]))
            num_sentences, num_frames = num_sentences + bool(found["words"]), num_frames + len(found["frames"])
        return f"{num_sentences:,} sentences with {num_frames:,} predicates"

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        """The sentence once more for each of its predicates."""
        for words, frames in ((found["words"], found["frames"]) for _, found in predictions):
            for frame in frames:
                marks = marks_of_words(words, read_spans(frame["tags"], "IOB2"))
                yield Passage(" ".join(words), marks, [frame["predicate"]])
            if words and not frames:
                yield Passage(" ".join(words), notes=["no predicates"])


def _as_columns(words: Sequence[str], frames: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The lines of a sentence: word, itself again where it is a predicate, and the brackets of each predicate."""
    predicates = {frame["index"] for frame in frames}
    brackets = [write_brackets(frame["tags"]) for frame in frames]
    for index, word in enumerate(words):
        yield "\t".join([word, word if index in predicates else "-", *(column[index] for column in brackets)])
    if words:
        yield ""


_PREDICTORS: dict[str, type[Predictor]] = {
    each.model_class.__name__: each
    for each in (TokenPredictor, TextPredictor, AnswerPredictor, CoreferencePredictor, RolePredictor)
}


def make_predictor(arguments: PredictionArguments) -> Predictor:
    """What applies a checkpoint, by the class of its model."""
    name = arguments.model_name_or_path
    architectures = load_config(name).architectures or []
    for architecture, predictor in _PREDICTORS.items():
        if architecture in architectures:
            return predictor(arguments)
    raise ValueError(
        f"model_name_or_path {name!r} is a checkpoint of {', '.join(architectures) or 'no class'}; wanted one that was "
        f"trained for a task: {', '.join(_PREDICTORS)}."
    )
