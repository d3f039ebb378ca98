"""The question answering task: SQuAD's JSON in, a trained QA model, its scores and its answers out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..given import check_least, flag
from ..hub.cards import TaskCard
from ..inference.pages import Mark, Passage
from ..model.configuration_elmo import QuestionAnsweringHead
from ..model.modeling_elmo import IGNORED_LABEL
from ..model.modeling_elmo_tasks import ElmoForQuestionAnswering
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..pipelines import QUESTION_ANSWERING, context_windows
from ..text.arguments import PreTokenizer
from ..text.files import suffix_of
from ..text.progress import track
from ..text.raw_text import look_at
from .data import FileArguments, describe_source, read_splits, type_of_rows
from .inputs import PRE_TOKENIZER, TaskArguments
from .metrics import score_answers
from .prediction import LONGEST_SHOWN, Item, Predictor
from .readers.questions import Answer, Questions, read_questions
from .task import Task

# So many answers are no longer than the bound on the length of answers that training chooses.
_FRACTION_WITHIN_THE_BOUND = 0.99


@dataclass
class QuestionAnsweringArguments(TaskArguments):
    """The model: what it starts from, and which words it reads."""

    max_length: int | None = flag(
        "Read contexts in windows: so many words of a question and a piece of its context, special tokens included. "
        "None reads each context whole, as the paper did.",
        default=None,
    )
    stride: int | None = flag("Words that two windows share (default: half of the context's).", default=None)
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
        self.is_squad = file is not None and suffix_of(file) == ".json"
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

    def lines(self, predictions: Iterable[tuple[Any, Any]]) -> Iterator[str]:
        if self.arguments.output_suffix != ".jsonl":
            yield answers_json({name: found["answer"] for (name, *_), found in predictions})
            return
        for (name, question, _), found in predictions:
            record = {key: found[key] for key in ("answer", "start", "end", "score")}
            yield json.dumps({"id": name, "question": question, **record}, ensure_ascii=False)

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
        # Each reader is published with a size of its own.
        is_other = head is not None and self.settings.get("reader", head.reader) != head.reader
        return {"hidden_size": None, **self.settings} if is_other else self.settings

    def settle(self, has_head: bool) -> None:
        args = self.model_args
        self.rows = {
            split: AnswerRows(questions, self.tokenizer, args.max_length, args.stride, split == "train")
            for split, questions in self.splits.items()
        }
        if "train" in self.rows:
            lengths = self.rows["train"].answer_words
            if not lengths:
                raise ValueError(
                    f"{self.splits['train'].source} has no answer that is whole in a window; take a larger max_length, "
                    "or more data."
                )
            if "max_answer_words" not in self.settings and not has_head:
                longest = math.ceil(np.quantile(lengths, _FRACTION_WITHIN_THE_BOUND))
                self.config.head = replace(self.head, max_answer_words=longest)

    def words_of(self, examples: Questions) -> Iterator[str]:
        for question in examples.questions:
            yield from self.tokenizer.tokenize(question.text)
        for place in sorted({question.context for question in examples.questions}):
            yield from self.tokenizer.tokenize(examples.contexts[place])

    def count(self, split: str) -> dict[str, Any]:
        args, questions, rows = self.data_args, self.splits[split], self.rows[split]
        source = describe_source(args, split)["source"]
        if args.num_folds is not None and (split == "train" or split not in args.files):
            source += f", {'' if split == 'test' else 'all but '}fold {args.fold} of {args.num_folds}"
        return {
            "source": source,
            "questions": len(questions),
            "contexts": len({question.context for question in questions.questions}),
            "widened_answers": rows.num_widened,
            "lost_answers": rows.num_lost,
            "unanswerable": questions.num_unanswerable,
        }

    def notes(self) -> Iterator[str | None]:
        yield from super().notes()
        for split, questions in self.splits.items():
            yield from look_at(questions.contexts, questions.source, self.tokenizer.pre_tokenizer)
            widened, lost = self.rows[split].num_widened, self.rows[split].num_lost
            if widened:
                yield (
                    f"{questions.source}: {widened:,} of {len(questions):,} answers begin or end inside a word and "
                    "are widened to whole ones"
                )
            if lost:
                yield f"{questions.source}: {lost:,} answers are not whole in a window, or have no words"

    def encode(self, split: str) -> list[dict[str, Any]]:
        return self.rows[split].rows

    def keep(self, logits: Any, labels: Any) -> Tensor:
        start, end = logits[:2]
        spans = self.model.best_spans(start, end)
        # Windows of one context are compared by their logits: each has probabilities of its own.
        every = torch.arange(len(start), device=start.device)
        scores = start.float()[every, spans.starts] + end.float()[every, spans.ends]
        return torch.stack([spans.starts.float(), spans.ends.float(), scores], dim=-1)

    def report(self, split: str, output: Any) -> tuple[dict[str, Any], Mapping[str, Iterable[str]]]:
        answers = self.rows[split].answers(output.predictions, output.label_ids[-1])
        return score_answers(answers, self.splits[split].answers()), {".json": [answers_json(answers)]}

    def describe_card(self) -> TaskCard:
        return self.make_card(
            what="A reader that answers questions",
            tags=["question-answering"],
            code="""\
answer = pipeline("extractive-question-answering", model="{name}")
# An answer has its place in the context, in characters, and a probability.
print(answer(question="Who sat on the mat?", context="The cat sat on the mat."))""",
            intended_use=[
                "To answer questions by pieces of a text that holds the answer, in text like it was trained on."
            ],
            limits=["It always answers, also where the text does not say."],
            counts=["questions", "contexts", "words"],
            notes={"all": ["As SQuAD 1.1 counts them, the best of several right answers."]},
        )


def answers_json(answers: Mapping[str, str]) -> str:
    """Answers by the id of their question, as SQuAD's own script reads them."""
    return json.dumps(answers, ensure_ascii=False, indent=1)


def _pick_fold(splits: dict[str, Questions], args: QuestionDataArguments) -> dict[str, Questions]:
    """The splits, with some of the training file's articles as test data where the arguments want a fold."""
    count, fold = args.num_folds, args.fold
    if count is None and not fold:
        return splits
    train = splits.get("train", Questions("", (), (), []))
    titles = list(map(train.text, range(len(train))))
    articles = {title: number for number, title in enumerate(dict.fromkeys(titles))}
    if count is None or "test" in splits or not 0 <= fold < count or not 2 <= count <= len(articles):
        raise ValueError(
            f"num_folds is {count} and fold {fold}, of {len(articles)} articles to train on; wanted from 2 folds to as "
            "many as there are articles, one of them from 0 on, and no test_file."
        )
    parts = {"train": list[int](), "test": list[int]()}
    for place, title in enumerate(titles):
        parts["test" if articles[title] % count == fold else "train"].append(place)
    return {**splits, **{split: train.pick(places) for split, places in parts.items()}}


def locate(answer: Answer, spans: Sequence[tuple[int, int] | None]) -> tuple[int, int, bool] | None:
    """The first and the last word of an answer, and whether they are wider than it, which ends inside of one.

    None where it has no word, or more of them than are there. `spans` are those of `context_windows`.
    """
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    stop = answer.start + len(answer.text.rstrip())
    words = [(row, *span) for row, span in enumerate(spans) if span is not None]
    covered = [word for word in words if word[1] < stop and start < word[2]]
    if not covered or start < words[0][1] or stop > words[-1][2]:
        return None
    (first, begin, _), (last, _, end) = covered[0], covered[-1]
    return first, last, (begin, end) != (start, stop)


class AnswerRows:
    """The rows of one split, one for each window of each question's context, and how to read predictions off them.

    Args:
        questions, tokenizer: The split, and what cuts questions and contexts.
        max_length, stride: As of `context_windows`.
        only_answerable: Whether rows without the answer, or with no part of it, are left out: to train on.

    Attributes:
        rows: Beside what the model reads `start_positions` and `end_positions`, of the first one of a question's
            answers, and, of what is not trained on, its number as `row`.
        num_widened: Questions whose answer begins or ends inside a word.
        num_lost: Questions whose answer is not whole in any window, or of no word.
        answer_words: How many words each row's answer has, of the rows that have one.
    """

    def __init__(
        self,
        questions: Questions,
        tokenizer: ElmoCharTokenizer,
        max_length: int | None = None,
        stride: int | None = None,
        only_answerable: bool = False,
    ):
        self.questions, dtype = questions, type_of_rows(tokenizer)
        self.rows: list[dict[str, Any]] = []
        self.num_widened = self.num_lost = 0
        self.answer_words: list[int] = []
        # Of each row its question, and the place of each word in the context, (T, 2), -1 for what is none of it.
        self._windows: list[tuple[Any, np.ndarray]] = []
        for question in track(questions.questions, f"encoding {questions.source}", "questions", len(questions)):
            context, answers = questions.contexts[question.context], []
            for row, spans in context_windows(tokenizer, question.text, context, max_length, stride):
                found = locate(question.answers[0], spans)
                answers += [] if found is None else [found]
                if found is None and only_answerable:
                    continue
                row = {name: np.asarray(values, dtype) for name, values in row.items()}
                row["start_positions"], row["end_positions"] = (IGNORED_LABEL,) * 2 if found is None else found[:2]
                # What is trained on is not asked back.
                if not only_answerable:
                    row["row"] = len(self.rows)
                    self._windows.append((question, np.array([span or (-1, -1) for span in spans], np.int32)))
                self.rows.append(row)
            self.num_lost += not answers
            self.num_widened += any(is_widened for *_, is_widened in answers)
            self.answer_words += [last - first + 1 for first, last, _ in answers]

    def answers(self, predictions: np.ndarray, rows: np.ndarray) -> dict[str, str]:
        """The answer to each question by its id, from the best span of each row.

        Args:
            predictions: Of each row the numbers of the answer's first and last word, and the score by which the windows
                of a question are compared, (rows, 3).
            rows: The number of each of these rows; they may stand in any order.
        """
        best: dict[str, tuple[float, str]] = {}
        for number, (first, last, score) in sorted(zip(rows.tolist(), predictions.tolist(), strict=True)):
            question, spans = self._windows[number]
            start, stop = spans[int(first), 0], spans[int(last), 1]
            text = self.questions.contexts[question.context][start:stop] if 0 <= start < stop else ""
            if question.id not in best or score > best[question.id][0]:
                best[question.id] = (score, text)
        return {name: text for name, (_, text) in best.items()}
