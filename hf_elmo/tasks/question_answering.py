"""The question answering task: SQuAD's JSON in, a trained reader, its scores and its answers out."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import Trainer

from ..model.configuration_elmo import ElmoConfig, QuestionAnsweringHead
from ..model.modeling_elmo_tasks import ElmoForQuestionAnswering
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.first_look import look_at_lines
from .answer_rows import AnswerRows
from .card_facts import describe_inputs
from .data_sources import name_file
from .features import check_table, set_word_inputs
from .fine_tuning import RESULT_PREFIXES, FineTuning
from .layer_cache import FeaturesWithLayers, make_layer_cache
from .metrics.answers import score_answers
from .question_answering_arguments import QuestionAnsweringArguments, QuestionDataArguments
from .readers.questions import Questions, read_questions
from .run_checks import check_files, check_run
from .splits import choose_splits, hold_out, share_of, shorten
from .training_arguments import TaskTrainingArguments
from .weights import (
    describe_model,
    is_random,
    load_source_config,
    load_tokenizer,
    set_model_fields,
    start_model,
)

# Settings of the head that have flags of their own.
_HEAD_FLAGS = ("reader", "hidden_size", "dropout", "hidden_dropout")
# So many answers are no longer than the bound on the length of answers that training chooses.
_SHARE_WITHIN_THE_BOUND = 0.99


class _AnswerTrainer(Trainer):
    """Keeps from the model the number of each row, by which its prediction is known in whatever order they come."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        own = {name: value for name, value in inputs.items() if name != "row"}
        return super().compute_loss(model, own, *args, **kwargs)


@dataclass
class QuestionAnsweringTask(FineTuning):
    """Question answering, checked and ready to run; it writes `test_predictions.json` and its like beside the rest.

    Args:
        rows: The rows of each split.
    """

    model: ElmoForQuestionAnswering
    splits: dict[str, Questions]
    rows: dict[str, AnswerRows] = field(kw_only=True)

    shown_scores: ClassVar[tuple[str, ...]] = ("exact_match", "f1")
    best_score: ClassVar[str] = "f1"

    trainer_class: ClassVar[type[Trainer]] = _AnswerTrainer

    # Which split the Trainer scores; during training that is the validation split.
    _scored: str = field(default="validation", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        # The Trainer hands them to whoever scores beside the predictions.
        self.training_args.label_names = ["start_positions", "end_positions", "row"]

    def encode(self, split: str) -> Dataset:
        return self.rows[split].dataset

    def make_collator(self) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
        return _Collator(self.tokenizer)

    def keep(self, logits: Any, labels: Any) -> Tensor:
        start, end = logits[:2]
        spans = self.model.best_spans(start, end)
        # Windows of one context are compared by their logits: each has probabilities of its own.
        every = torch.arange(len(start), device=start.device)
        scores = start.float()[every, spans.starts] + end.float()[every, spans.ends]
        return torch.stack([spans.starts.float(), spans.ends.float(), scores], dim=-1)

    def score(self, output: Any) -> dict[str, float]:
        answers = self.rows[self._scored].answers(output.predictions, output.label_ids[-1])
        return score_answers(answers, self.splits[self._scored].answers())

    def report(self, split: str, output: Any, directory: Path | None) -> tuple[dict[str, Any], str]:
        questions = self.splits[split]
        answers = self.rows[split].answers(output.predictions, output.label_ids[-1])
        if directory is not None:
            (directory / f"{split}_predictions.json").write_text(
                json.dumps(answers, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
            )
        scores = score_answers(answers, questions.answers())
        lines = [f"{split} ({questions.source})"]
        for question in questions.questions[:3]:
            lines.append(
                f"  {question.text}\n    answered {answers[question.id]!r}, right {question.answers[0].text!r}"
            )
        lines.append(
            f"exact match {100 * scores['exact_match']:.2f}, F1 {100 * scores['f1']:.2f} of {len(questions):,} "
            "questions"
        )
        return {f"{RESULT_PREFIXES[split]}_{name}": score for name, score in scores.items()}, "\n".join(lines)

    def describe(self) -> dict[str, Any]:
        return {"task": "question-answering", "max_answer_words": self.model.max_answer_words}

    def _evaluate(
        self, trainer: Trainer, split: str, dataset: Dataset | FeaturesWithLayers, made: Path
    ) -> tuple[dict[str, Any], str, str]:
        self._scored = split
        try:
            return super()._evaluate(trainer, split, dataset, made)
        finally:
            self._scored = "validation"


class _Collator:
    """Makes a batch of rows, padded behind them: where an answer stands is counted from the first row on."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        words = [{name: row[name] for name in ("input_ids", "token_type_ids")} for row in rows]
        batch = self._tokenizer.pad(words, padding_side="right", return_tensors="pt")
        for name in ("start_positions", "end_positions", "row"):
            if name in rows[0]:
                batch[name] = torch.tensor([row[name] for row in rows])
        return dict(batch)


def prepare_task(
    model_args: QuestionAnsweringArguments, data_args: QuestionDataArguments, training_args: TaskTrainingArguments
) -> QuestionAnsweringTask:
    """Check everything that can be wrong with the arguments and the data, and build the model.

    Nothing is written. Once this has returned, an error is one of the machine or of this package.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    _check_arguments(model_args, data_args, training_args)
    splits = {split: read_questions(file, f"{split}_file") for split, file in data_args.files.items()}
    splits = choose_splits(hold_out(_pick_fold(splits, data_args), data_args), training_args)
    splits = shorten(splits, data_args)
    config, has_reader = load_architecture(model_args)
    if "train" not in splits and not has_reader:
        raise ValueError(
            "do_train is off, but the checkpoint has no reader to evaluate; name one that has with "
            "--model_name_or_path, or give training data."
        )
    layer_cache = make_layer_cache(model_args, config)
    tokenizer = load_tokenizer(model_args, config)
    if model_args.pre_tokenizer is not None:
        tokenizer.pre_tokenizer = model_args.pre_tokenizer
    words = {split: list(_words_of(questions, tokenizer)) for split, questions in splits.items()}
    table = set_word_inputs(
        config,
        QuestionAnsweringHead,
        model_args,
        tokenizer,
        words.get("train", []),
        [word for split, its in words.items() if split != "train" for word in its],
    )
    check_table(config, table, is_random(model_args))
    rows = {
        split: AnswerRows(
            questions, tokenizer, model_args.max_length, model_args.stride, only_answerable=split == "train"
        )
        for split, questions in splits.items()
    }
    if "train" in rows and not len(rows["train"].dataset):
        raise ValueError(
            f"{splits['train'].source} has no answer that is whole in a window; take a larger max_length, or more data."
        )
    _bound_answers(config, model_args, rows, has_reader)

    training_args.settle_sampling(model_args.group_by_length)
    data = {
        split: {
            "source": _name_source(data_args, split),
            **share_of(split, data_args),
            "questions": len(questions),
            "contexts": len({question.context for question in questions.questions}),
            "words": len(words[split]),
            "widened_answers": rows[split].num_widened,
            **({"lost_answers": rows[split].num_lost} if rows[split].num_lost else {}),
            **({"unanswerable": questions.num_unanswerable} if questions.num_unanswerable else {}),
        }
        for split, questions in splits.items()
    }
    if training_args.process_index == 0:
        for line in _warnings(splits, rows, tokenizer):
            print(line, file=sys.stderr)
    build = partial(build_model, model_args, config)
    return QuestionAnsweringTask.start(
        build, table, model_args, training_args, tokenizer, splits, data, layer_cache, rows=rows
    )


def load_architecture(model_args: QuestionAnsweringArguments) -> tuple[ElmoConfig, bool]:
    """The config that the arguments name, with the task's own head, and whether a trained reader comes along.

    Raises: FileNotFoundError or ValueError naming the argument.
    """
    config = load_source_config(model_args)
    has_reader = not is_random(model_args) and ElmoForQuestionAnswering.__name__ in (config.architectures or [])
    given = {name: getattr(model_args, name) for name in _HEAD_FLAGS if getattr(model_args, name) is not None}
    try:
        set_model_fields(config, model_args)
        old = config.head
        if isinstance(old, QuestionAnsweringHead) and given.get("reader", old.reader) == old.reader:
            config.head = replace(old, **given)
        else:
            config.head = QuestionAnsweringHead(**given)
        config.validate()
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    return config, has_reader


def build_model(model_args: QuestionAnsweringArguments, config: ElmoConfig) -> tuple[ElmoForQuestionAnswering, str]:
    """Make the model, in float32, and describe it in one line.

    Raises: FileNotFoundError or ValueError where the weights are not there or not those of a biLM of this architecture.
    """
    model, origin = start_model(ElmoForQuestionAnswering, model_args, config)
    head = config.require_head(QuestionAnsweringHead)
    bound = f"answers of at most {head.max_answer_words} words" if head.max_answer_words else "answers of any length"
    reads = f"{head.reader} of {head.hidden_size}, reads {describe_inputs(head.to_dict())}; {bound}."
    return model, f"{describe_model(model, config, origin)}; {reads}"


def _check_arguments(
    model_args: QuestionAnsweringArguments, data_args: QuestionDataArguments, training_args: TaskTrainingArguments
) -> None:
    """Check what can be checked before any data is read."""
    check_run(model_args, data_args, training_args)
    check_files(data_args)
    if model_args.max_answer_words is not None and model_args.max_answer_words < 0:
        raise ValueError(
            f"max_answer_words is {model_args.max_answer_words}; it must be an integer >= 1, or 0 for no bound."
        )
    for name in ("max_length", "stride"):
        value = getattr(model_args, name)
        if value is not None and value < (1 if name == "max_length" else 0):
            raise ValueError(f"{name} is {value}; it must be a positive integer, or left out.")
    if model_args.stride is not None and model_args.max_length is None:
        raise ValueError(f"stride is {model_args.stride}, but there are no windows without max_length; give it too.")


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


def _bound_answers(
    config: ElmoConfig, model_args: QuestionAnsweringArguments, rows: dict[str, AnswerRows], has_reader: bool
) -> None:
    """Set how long answers may be: as the arguments say, or else as nearly all of the training data are."""
    head, bound = config.require_head(QuestionAnsweringHead), model_args.max_answer_words
    if bound is not None:
        config.head = replace(head, max_answer_words=bound or None)
    elif "train" in rows and not has_reader:
        longest = math.ceil(np.quantile(rows["train"].answer_words, _SHARE_WITHIN_THE_BOUND))
        config.head = replace(head, max_answer_words=longest)


def _words_of(questions: Questions, tokenizer: ElmoCharTokenizer) -> Iterator[str]:
    """All words of some questions and of their contexts, each context once, as the tokenizer cuts them."""
    for question in questions.questions:
        yield from tokenizer.tokenize(question.text)
    for place in sorted({question.context for question in questions.questions}):
        yield from tokenizer.tokenize(questions.contexts[place])


def _name_source(data_args: QuestionDataArguments, split: str) -> str:
    """What a split is called where others read it: no folders of this machine."""
    name = name_file(data_args, split)
    if data_args.num_folds is None or (split in data_args.files and split != "train"):
        return name
    which = f"fold {data_args.fold}" if split == "test" else f"all but fold {data_args.fold}"
    return f"{name}, {which} of {data_args.num_folds}"


def _warnings(splits: dict[str, Questions], rows: dict[str, AnswerRows], tokenizer: ElmoCharTokenizer) -> Iterator[str]:
    """What a user should know of the data before the model is trained on them."""
    for split, questions in splits.items():
        for warning in look_at_lines(text.split() for text in questions.contexts).warnings(
            questions.source, tokenizer.pre_tokenizer, can_choose=True
        ):
            yield f"warning: {warning}"
        widened, lost = rows[split].num_widened, rows[split].num_lost
        if widened:
            yield (
                f"note: {questions.source}: {widened:,} of {len(questions):,} answers begin or end inside a word and "
                "are widened to whole ones"
            )
        if lost:
            yield f"note: {questions.source}: {lost:,} answers are not whole in a window, or have no words"
        if questions.num_unanswerable:
            yield f"note: {questions.source}: {questions.num_unanswerable:,} questions without an answer left out"
