"""The question answering task: SQuAD's JSON in, a trained QA model, its scores and its answers out.

Letters in shapes: V words of a context or of a window of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
import torch
from datasets import Dataset, Features, Value
from datasets import Sequence as ListOf
from torch import Tensor

from ..given.flags import check_least, flag
from ..hub.cards import TaskCard
from ..inference.pages import Mark, Passage
from ..model.configuration_elmo import QuestionAnsweringHead
from ..model.modeling_elmo import IGNORED_LABEL
from ..model.modeling_elmo_tasks import ElmoForQuestionAnswering
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..pipelines import QUESTION_ANSWERING
from ..text.cutting import PreTokenizer
from ..text.first_look import look_at_lines
from .arguments import PRE_TOKENIZER, FileArguments, TaskArguments
from .data import name_source, read_splits
from .inputs import describe_inputs
from .metrics import score_answers
from .prediction import LONGEST_SHOWN, Item, Predictor
from .readers.questions import Answer, Questions, read_questions
from .task import Task

# So many answers are no longer than the bound on the length of answers that training chooses.
_FRACTION_WITHIN_THE_BOUND = 0.99
# Suffixes of SQuAD's JSON; other files are lines of a question and its context.
_SQUAD_SUFFIXES = tuple(f".json{compressed}" for compressed in ("", ".gz", ".bz2", ".xz", ".zst"))
# Rows of characters are most of a data set; all ids are below 2^15 but for the largest dictionaries.
_SMALL_IDS = 2**15


@dataclass
class QuestionAnsweringArguments(TaskArguments):
    """The model: what it starts from, and which words it reads."""

    max_length: int | None = flag(
        "Read contexts in windows: so many words of a question and a piece of its context, special tokens included. "
        "None reads each context whole, as the paper did.",
        default=None,
    )
    stride: int | None = flag("Words that two windows share (default: half of max_length).", default=None)
    pre_tokenizer: PreTokenizer | None = flag(PRE_TOKENIZER, default=None)


@dataclass
class QuestionDataArguments(FileArguments):
    """The data: files of questions in the JSON of SQuAD 1.1; a fraction of one is one of its articles."""

    num_folds: int | None = flag(
        "Test on one of so many parts of the training file, which have whole articles, in place of a test file.",
        default=None,
    )
    fold: int = flag("Which of these parts, from 0.", default=0)


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
        yield f"{found['answer']!r} {found['score']:.3f} {place}  {asked[1][:LONGEST_SHOWN]}"

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> None:
        answers, records = {}, []
        for (name, question, _), found in predictions:
            answers[name] = found["answer"]
            record = {"id": name, "question": question, "answer": found["answer"]}
            ends = {"start": found["start"], "end": found["end"]}
            records.append({**record, **ends, "score": round(found["score"], 6)})
        if self.arguments.output_suffix == ".jsonl":
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        else:
            file.write(answers_json(answers))

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        # Questions of one context that follow one another share it.
        for context, group in groupby(predictions, lambda prediction: prediction[0][2]):
            marks, notes = [], []
            for number, ((_, question, _), found) in enumerate(group, start=1):
                marks.append(Mark(found["start"], found["end"], str(number), question))
                notes.append(f"{number} {question} · {found['answer'] or 'no answer'} ({found['score']:.3f})")
            yield Passage(context, marks, notes)


class QuestionAnswering(Task):
    """Question answering; it writes `test_predictions.json` and its like beside the rest.

    Attributes:
        rows: The rows of each split.
    """

    name: ClassVar[str] = "question-answering"
    model_class = ElmoForQuestionAnswering
    head_class = QuestionAnsweringHead
    model_arguments = QuestionAnsweringArguments
    data_arguments = QuestionDataArguments
    predictor_class = AnswerPredictor
    examples: ClassVar[str] = """
example:
  hf-elmo train question-answering --model_name_or_path CHECKPOINT --train_file train-v1.1.json \\
      --validation_file dev-v1.1.json --pre_tokenizer penn --load_best_model_at_end --output_dir reader
"""
    scores = ("f1", "exact_match")
    has_labels = False

    rows: dict[str, AnswerRows]

    def check_arguments(self) -> None:
        args = self.model_args
        check_least(args, ["max_length"], 1)
        check_least(args, ["stride"], 0)
        if args.stride is not None and args.max_length is None:
            raise ValueError(f"stride is {args.stride}, but there are no windows without max_length; give it too.")
        # The Trainer hands them to whoever scores beside the predictions.
        self.training_args.label_names = ["start_positions", "end_positions", "row"]

    def load(self) -> dict[str, Questions]:
        return _pick_fold(read_splits(self.data_args, read_questions), self.data_args)

    def head_settings(self, head: QuestionAnsweringHead | None) -> dict[str, Any]:
        settings = self.settings
        if head is not None and settings.get("reader", head.reader) != head.reader:
            # The settings of another reader are no start for this one.
            fresh = QuestionAnsweringHead(**settings)
            return {field.name: getattr(fresh, field.name) for field in fields(fresh)}
        return settings

    def settle(self, has_head: bool) -> None:
        self.rows, count = {}, 0
        args = self.model_args
        for split, questions in self.splits.items():
            rows = AnswerRows(questions, self.tokenizer, args.max_length, args.stride, split == "train", count)
            self.rows[split], count = rows, count + len(rows.dataset)
        if "train" in self.rows and not len(self.rows["train"].dataset):
            raise ValueError(
                f"{self.splits['train'].source} has no answer that is whole in a window; take a larger max_length, or "
                "more data."
            )
        if "max_answer_words" not in self.settings and "train" in self.rows and not has_head:
            longest = math.ceil(np.quantile(self.rows["train"].answer_words, _FRACTION_WITHIN_THE_BOUND))
            self.config.head = replace(self.head, max_answer_words=longest)

    def words_of(self, examples: Questions) -> Iterator[str]:
        for question in examples.questions:
            yield from self.tokenizer.tokenize(question.text)
        for place in sorted({question.context for question in examples.questions}):
            yield from self.tokenizer.tokenize(examples.contexts[place])

    def describe_head(self, model: ElmoForQuestionAnswering) -> str:
        head = self.head
        bound = (
            f"answers of at most {head.max_answer_words} words" if head.max_answer_words else "answers of any length"
        )
        return f"{head.reader} of {head.hidden_size}, reads {describe_inputs(head)}; {bound}."

    def name_source(self, split: str) -> str:
        """What a split is called in results.json, with its fold."""
        args, name = self.data_args, name_source(self.data_args, split)
        if args.num_folds is None or (split in args.files and split != "train"):
            return name
        which = f"fold {args.fold}" if split == "test" else f"all but fold {args.fold}"
        return f"{name}, {which} of {args.num_folds}"

    def count(self, split: str) -> dict[str, Any]:
        questions, rows = self.splits[split], self.rows[split]
        return {
            "source": self.name_source(split),
            "questions": len(questions),
            "contexts": len({question.context for question in questions.questions}),
            "widened_answers": rows.num_widened,
            **({"lost_answers": rows.num_lost} if rows.num_lost else {}),
            **({"unanswerable": questions.num_unanswerable} if questions.num_unanswerable else {}),
        }

    def notes(self) -> Iterator[str]:
        for split, questions in self.splits.items():
            first_look = look_at_lines(text.split() for text in questions.contexts)
            yield from first_look.warnings(questions.source, self.tokenizer.pre_tokenizer, can_choose=True)
            widened, lost = self.rows[split].num_widened, self.rows[split].num_lost
            if widened:
                yield (
                    f"{questions.source}: {widened:,} of {len(questions):,} answers begin or end inside a word and "
                    "are widened to whole ones"
                )
            if lost:
                yield f"{questions.source}: {lost:,} answers are not whole in a window, or have no words"
            if questions.num_unanswerable:
                yield f"{questions.source}: {questions.num_unanswerable:,} questions without an answer left out"

    def encode(self, split: str) -> Dataset:
        return self.rows[split].dataset

    def make_collator(self) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
        def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
            # Padded behind them: where an answer stands is counted from the first row on.
            words = [{name: row[name] for name in ("input_ids", "token_type_ids")} for row in rows]
            batch = self.tokenizer.pad(words, padding_side="right", return_tensors="pt")
            for name in ("start_positions", "end_positions", "row"):
                if name in rows[0]:
                    batch[name] = torch.tensor([row[name] for row in rows])
            return dict(batch)

        return collate

    def keep(self, logits: Any, labels: Any) -> Tensor:
        start, end = logits[:2]
        spans = self.model.best_spans(start, end)
        # Windows of one context are compared by their logits: each has probabilities of its own.
        every = torch.arange(len(start), device=start.device)
        scores = start.float()[every, spans.starts] + end.float()[every, spans.ends]
        return torch.stack([spans.starts.float(), spans.ends.float(), scores], dim=-1)

    def score(self, output: Any) -> dict[str, float]:
        numbers = output.label_ids[-1]
        split = next(split for split, rows in self.rows.items() if rows.holds(numbers))
        return score_answers(self.rows[split].answers(output.predictions, numbers), self.splits[split].answers())

    def report(self, split: str, output: Any, directory: Path | None) -> dict[str, Any]:
        answers = self.rows[split].answers(output.predictions, output.label_ids[-1])
        if directory is not None:
            (directory / f"{split}_predictions.json").write_text(answers_json(answers), encoding="utf-8")
        return {}

    def describe(self) -> dict[str, Any]:
        return {"max_answer_words": self.model.max_answer_words}

    def describe_card(self, results: Mapping[str, Any]) -> TaskCard:
        return TaskCard(
            what="A reader that answers questions",
            task_name="Question answering",
            tags=["question-answering"],
            pipeline_tag="question-answering",
            usage="""\
```python
import hf_elmo
from transformers import pipeline

answer = pipeline("extractive-question-answering", model="{name}")
print(answer(question="Who sat on the mat?", context="The cat sat on the mat."))
```

An answer has its place in the context, in characters, and a probability.""",
            intended_use=[
                "To answer questions by pieces of a text that holds the answer, in text like it was trained on."
            ],
            limits=[
                "It always answers, also where the text does not say.",
                "It knows the language, the domain and the biases of its training texts and no others.",
            ],
            scores=list(self.scores),
            counts=["questions", "contexts", "words"],
            notes={"all": ["As SQuAD 1.1 counts them, the best of several right answers."]},
        )


def answers_json(answers: Mapping[str, str]) -> str:
    """Answers by the id of their question, as SQuAD's own script reads them."""
    return json.dumps(answers, ensure_ascii=False, indent=1) + "\n"


def _pick_fold(splits: dict[str, Questions], data_args: QuestionDataArguments) -> dict[str, Questions]:
    """The splits, with some of the training file's articles as test data where the arguments want a fold.

    Raises: ValueError naming the argument where it contradicts the data, or nothing would be left.
    """
    count, fold = data_args.num_folds, data_args.fold
    if count is None:
        if fold:
            raise ValueError(f"fold is {fold}, but there are no folds without num_folds; give it too.")
        return splits
    if count < 2 or not 0 <= fold < count:
        raise ValueError(f"num_folds is {count} and fold {fold}; wanted two folds or more, and one of them from 0 on.")
    if "train" not in splits or "test" in splits:
        there = "there is a test_file" if "test" in splits else "there is no train_file to take it from"
        raise ValueError(f"num_folds is {count}, but {there}; leave one of them out.")
    train = splits["train"]
    articles = {title: number for number, title in enumerate(dict.fromkeys(map(train.text, range(len(train)))))}
    if len(articles) < count:
        raise ValueError(f"num_folds is {count}, but {train.source} has {len(articles)} articles; take fewer folds.")
    is_test = [articles[train.text(place)] % count == fold for place in range(len(train))]
    parts = {
        split: train.pick([place for place, is_in_test in enumerate(is_test) if is_in_test == (split == "test")])
        for split in ("train", "test")
    }
    return {**splits, **parts}


class WordSpan(NamedTuple):
    """The words that an answer covers.

    Args:
        first: The first of them.
        last: The last of them.
        is_widened: Whether they have more characters than the answer, which begins or ends inside a word.
    """

    first: int
    last: int
    is_widened: bool


def locate(answer: Answer, spans: np.ndarray) -> WordSpan | None:
    """The words that an answer covers, widened to whole ones; None where it covers none, or more than is there.

    Args:
        answer: Its text and where that starts in the context.
        spans: Start and end of each word of the context, or of a window of it, (V, 2), in characters.
    """
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    stop = answer.start + len(answer.text.rstrip())
    if not len(spans) or start < spans[0, 0] or stop > spans[-1, 1]:
        return None
    first = int(np.searchsorted(spans[:, 1], start, side="right"))
    last = int(np.searchsorted(spans[:, 0], stop, side="left")) - 1
    if first > last:
        return None
    return WordSpan(first, last, bool(spans[first, 0] != start or spans[last, 1] != stop))


class AnswerRows:
    """The rows of one split, one for each window of each question's context, and how to read predictions off them.

    Args:
        questions: The split.
        tokenizer: Cuts questions and contexts.
        max_length: Rows of a window, special tokens and question included; None for whole contexts.
        stride: Words that two windows share.
        only_answerable: Whether rows without the answer, or with no part of it, are left out: to train on.
        first_number: The number of the first row.

    Attributes:
        dataset: `input_ids` (T, C), `token_type_ids` (T), `start_positions` and `end_positions`, numbers, of the first
            one of a question's answers, and, of what is not trained on, `row`, its own number.
        num_widened: Questions whose answer begins or ends inside a word.
        num_lost: Questions whose answer is not whole in any window, or of no word.
        answer_words: How many words each row's answer has, of the rows that have one.
    Raises: ValueError naming max_length where a question leaves no room for its context.
    """

    def __init__(
        self,
        questions: Questions,
        tokenizer: ElmoCharTokenizer,
        max_length: int | None = None,
        stride: int | None = None,
        only_answerable: bool = False,
        first_number: int = 0,
    ):
        self.questions = questions
        self._first_number = first_number
        self._tokenizer = tokenizer
        self._windows: dict[str, Any] = {}
        if max_length is not None:
            # The question and its special tokens, those of the context, and a word of that.
            longest = max(len(tokenizer.tokenize(question.text)) for question in questions.questions) + 5
            stride = max_length // 2 if stride is None else stride
            if max_length < longest + stride:
                raise ValueError(
                    f"max_length is {max_length} and stride {stride}, but the longest question and its special tokens "
                    f"take {longest - 1} words of a window; take a larger max_length, or a smaller stride."
                )
            self._windows = {"truncation": "only_second", "max_length": max_length, "stride": stride}
        ids = Value("int16" if tokenizer.vocab_size < _SMALL_IDS else "int32")
        number = Value("int64")
        features = Features(
            {
                "input_ids": ListOf(ListOf(ids)),
                "token_type_ids": ListOf(number),
                "start_positions": number,
                "end_positions": number,
                "is_widened": Value("bool"),
                "question": number,
                "first_row": number,
                "spans": ListOf(ListOf(Value("int32"))),
            }
        )
        places = Dataset.from_dict({"place": list(range(len(questions)))})
        rows = places.map(
            lambda batch: _columns(self._encode(batch["place"]), features),
            batched=True,
            batch_size=200,
            remove_columns=["place"],
            features=features,
            desc=f"Encoding {questions.source}",
        )
        has_answer = np.array(rows["start_positions"]) != IGNORED_LABEL
        of_question = np.array(rows["question"])
        self.num_widened = len(set(of_question[np.array(rows["is_widened"])].tolist()))
        self.num_lost = len(questions) - len(set(of_question[has_answer].tolist()))
        self.answer_words = (
            np.array(rows["end_positions"])[has_answer] - np.array(rows["start_positions"])[has_answer] + 1
        )
        if only_answerable:
            rows = rows.select(np.flatnonzero(has_answer))
        self._questions = np.array(rows["question"], dtype=np.int64)
        self._first_rows = np.array(rows["first_row"], dtype=np.int64)
        self._spans = [] if only_answerable else [np.array(spans).reshape(-1, 2) for spans in rows["spans"]]
        rows = rows.remove_columns(["is_widened", "question", "first_row", "spans"])
        # What is trained on is not asked back, and a column beside a selection would copy it.
        self.dataset = rows if only_answerable else rows.add_column("row", first_number + np.arange(len(rows)))

    def _encode(self, places: Sequence[int]) -> Iterator[dict[str, Any]]:
        """The rows of some questions."""
        asked = [self.questions[place] for place in places]
        contexts = [self.questions.contexts[question.context] for question in asked]
        encoded = self._tokenizer(
            [question.text for question in asked], contexts, return_overflowing_tokens=True, **self._windows
        )
        for index, sample in enumerate(encoded["overflow_to_sample_mapping"]):
            encoding = encoded.encodings[index]
            rows = [row for row, sequence in enumerate(encoding.sequence_ids) if sequence == 1]
            spans = np.array([encoding.offsets[row] for row in rows], dtype=np.int32).reshape(-1, 2)
            first_row = rows[0] if rows else 0
            found = locate(asked[sample].answers[0], spans)
            yield {
                "input_ids": encoded["input_ids"][index],
                "token_type_ids": encoded["token_type_ids"][index],
                "start_positions": IGNORED_LABEL if found is None else first_row + found.first,
                "end_positions": IGNORED_LABEL if found is None else first_row + found.last,
                "is_widened": found is not None and found.is_widened,
                "question": places[sample],
                "first_row": first_row,
                "spans": spans.tolist(),
            }

    def holds(self, numbers: np.ndarray) -> bool:
        """Whether the rows with these numbers are of this split."""
        return all(0 <= number < len(self.dataset) for number in numbers - self._first_number)

    def answers(self, predictions: np.ndarray, rows: np.ndarray) -> dict[str, str]:
        """The answer to each question by its id, from the best span of each row.

        Args:
            predictions: Of each row the rows of the answer's first and last word, and the score by which the windows
                of a question are compared, (rows, 3).
            rows: The number of each of these rows, (rows,); they may stand in any order.
        """
        best: dict[int, tuple[float, str]] = {}
        for row, (first, last, score) in sorted(
            zip((rows - self._first_number).tolist(), predictions.tolist(), strict=True)
        ):
            place, spans = int(self._questions[row]), self._spans[row]
            words = [int(word) - int(self._first_rows[row]) for word in (first, last)]
            text = ""
            if len(spans) and 0 <= words[0] <= words[1] < len(spans):
                context = self.questions.contexts[self.questions[place].context]
                text = context[spans[words[0], 0] : spans[words[1], 1]]
            if place not in best or score > best[place][0]:
                best[place] = (score, text)
        return {self.questions[place].id: text for place, (_, text) in sorted(best.items())}


def _columns(rows: Iterator[Mapping[str, Any]], features: Features) -> dict[str, list]:
    kept = list(rows)
    return {name: [row[name] for row in kept] for name in features}
