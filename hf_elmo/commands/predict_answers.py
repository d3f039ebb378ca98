"""What `hf-elmo predict` does with a reader of questions: an answer to each, from its context."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import NamedTuple

from .prediction_arguments import PredictionArguments

# Endings of SQuAD's JSON; other files are lines of a question and its context.
_SQUAD_FILES = tuple(f".json{packed}" for packed in ("", ".gz", ".bz2", ".xz", ".zst"))
_LONGEST_SHOWN = 100


class _Asked(NamedTuple):
    id: str
    question: str
    context: str


def predict_answers(arguments: PredictionArguments) -> None:
    """Show or write the answer to each question.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..checkpoints.writing import check_output_file, files_written_aside
    from ..inference.reader import ElmoQuestionReader
    from ..text.progress import track

    for name in ("convert_scheme", "text_is_tokenized"):
        if getattr(arguments, name):
            raise ValueError(f"{name} is set, but the checkpoint answers questions from raw text; leave it out.")
    target = None
    if arguments.output_file is not None:
        target = check_output_file(arguments.output_file, arguments.overwrite_output_file)
    asked = _questions(arguments)
    reader = ElmoQuestionReader(
        arguments.model_name_or_path, arguments.device, arguments.max_words_per_batch, arguments.pre_tokenizer
    )
    kept, read = itertools.tee(asked)
    found = zip(reader.answer((one.question, one.context) for one in read), kept, strict=False)
    if target is None:
        for answer, one in found:
            print(f"{answer.text!r} {answer.score:.3f} [{answer.start}:{answer.end}]  {one.question[:_LONGEST_SHOWN]}")
        return
    answers, lines = {}, []
    for answer, one in track(found, "predicting", "questions"):
        answers[one.id] = answer.text
        record = {"id": one.id, "question": one.question, "answer": answer.text}
        lines.append({**record, "start": answer.start, "end": answer.end, "score": round(answer.score, 6)})
    if not answers:
        raise ValueError(f"input_file {arguments.input_file!r} holds no questions; give one with questions in it.")
    with files_written_aside(target) as (aside,), open(aside, "w", encoding="utf-8", newline="\n") as file:
        if target.suffix == ".jsonl":
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        else:
            file.write(json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
    print(f"Wrote {arguments.output_file}: {len(answers):,} questions with their answers.")


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
