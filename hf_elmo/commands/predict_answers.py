"""What `hf-elmo predict` does with a reader of questions: an answer to each, from its context."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, NamedTuple

from .delivery import deliver
from .prediction_arguments import PredictionArguments

if TYPE_CHECKING:
    from ..inference.html_pages import Drawing
    from ..inference.reader import FoundAnswer

# Endings of SQuAD's JSON; other files are lines of a question and its context.
_SQUAD_FILES = tuple(f".json{packed}" for packed in ("", ".gz", ".bz2", ".xz", ".zst"))
_LONGEST_SHOWN = 100


class _Asked(NamedTuple):
    id: str
    question: str
    context: str


_Answered = tuple["FoundAnswer", _Asked]


def predict_answers(arguments: PredictionArguments) -> None:
    """Show or write the answer to each question.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..inference.reader import ElmoQuestionReader

    for name in ("convert_scheme", "text_is_tokenized"):
        if getattr(arguments, name):
            raise ValueError(f"{name} is set, but the checkpoint answers questions from raw text; leave it out.")
    asked = _questions(arguments)
    reader = ElmoQuestionReader(
        arguments.model_name_or_path, arguments.device, arguments.max_words_per_batch, arguments.pre_tokenizer
    )
    kept, read = itertools.tee(asked)
    # The answers first: the questions are those that have been answered.
    found = zip(reader.answer((one.question, one.context) for one in read), kept, strict=False)
    deliver(arguments, found, "questions", _show, partial(_write, arguments), _draw)


def _show(answered: _Answered) -> list[str]:
    answer, one = answered
    return [f"{answer.text!r} {answer.score:.3f} [{answer.start}:{answer.end}]  {one.question[:_LONGEST_SHOWN]}"]


def _write(arguments: PredictionArguments, file: IO[str], found: Iterable[_Answered]) -> str:
    answers, lines = {}, []
    for answer, one in found:
        answers[one.id] = answer.text
        record = {"id": one.id, "question": one.question, "answer": answer.text}
        lines.append({**record, "start": answer.start, "end": answer.end, "score": round(answer.score, 6)})
    if not answers:
        raise ValueError(f"input_file {arguments.input_file!r} holds no questions; give one with questions in it.")
    if arguments.output_ending == ".jsonl":
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    else:
        file.write(json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
    return f"{len(answers):,} questions with their answers"


def _draw(found: Sequence[_Answered]) -> Drawing:
    from ..inference.html_pages import draw_answers

    return draw_answers([(one.question, one.context, answer) for answer, one in found])


def _questions(arguments: PredictionArguments) -> Iterator[_Asked]:
    """The questions of SQuAD's JSON, or of lines, whose numbers from 0 are their ids."""
    file = arguments.input_file
    if file is not None and file.endswith(_SQUAD_FILES):
        from ..tasks.readers.questions import read_questions

        if arguments.text_pair is not None:
            raise ValueError("text_pair is given, but the questions of input_file have contexts there; leave it out.")
        read = read_questions(file, "input_file", keeps_unanswered=True)
        return iter([_Asked(one.id, one.text, read.contexts[one.context]) for one in read.questions])
    return _questions_of_lines(arguments)


def _questions_of_lines(arguments: PredictionArguments) -> Iterator[_Asked]:
    for number, line in enumerate(arguments.lines()):
        if not line.strip():
            continue
        texts = tuple(line.split("\t")) if arguments.text_pair is None else (line, arguments.text_pair)
        if len(texts) != 2 or not all(map(str.strip, texts)):
            where = f"input_file {arguments.input_file!r}, line" if arguments.text is None else "text"
            raise ValueError(
                f"{where} {number + 1} is {line[:_LONGEST_SHOWN]!r}; the checkpoint answers questions, so wanted a "
                "question and its context with a tab between them, or --text_pair for the context of all questions."
            )
        yield _Asked(str(number), *texts)
