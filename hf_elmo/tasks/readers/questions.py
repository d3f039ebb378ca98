"""Questions with answers in a context: the JSON of SQuAD 1.1 (Rajpurkar et al. 2016)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...given import parse_json, quoted
from ...text.files import check_characters, numbered_lines
from . import Examples


class Answer(NamedTuple):
    """What a right answer says, and at which character of the context it begins, from 0."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about a context, given by its number among those of the file, with its right answers."""

    id: str
    text: str
    context: int
    answers: tuple[Answer, ...]


@dataclass
class Questions(Examples):
    """One part of a corpus of questions, in the order of the file."""

    contexts: tuple[str, ...]  # each text of the file that is asked about
    titles: tuple[str, ...]  # of the article that each context is from
    questions: list[Question]
    num_unanswerable: int = 0  # how many were left out because they have no answer, as SQuAD 2.0 has them

    def text(self, index: int) -> str:
        """The article of a question: all that are about one stay together."""
        context = self.questions[index].context
        return self.titles[context] or self.contexts[context]

    def answers(self) -> dict[str, list[str]]:
        """The right answers by the question's id, for `score_answers`."""
        return {question.id: [answer.text for answer in question.answers] for question in self.questions}


def read_questions(path: str | os.PathLike, name: str = "file", keeps_unanswered: bool = False) -> Questions:
    """Read SQuAD's JSON, `data[].paragraphs[].{context, qas[].{id, question, answers[].{text, answer_start}}}`.

    Args:
        path: The file, compressed or not.
        name: The argument that named the file, for errors.
        keeps_unanswered: Whether questions without answers, or without a list of them, are kept: to answer them.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the place in it of whatever is not as it
        should be, an answer that does not stand where it is said to stand among it.
    """
    place = source = f"{name} {str(path)!r}"
    content = parse_json(b"".join(line for _, line in numbered_lines(path, name)), source)
    contexts, titles = [], []
    questions: dict[str, Question] = {}
    try:
        for article_number, article in enumerate(content["data"]):
            for paragraph_number, paragraph in enumerate(article["paragraphs"]):
                place = inside = f"{source}, data[{article_number}], paragraphs[{paragraph_number}]"
                contexts.append(_text(paragraph["context"], place))
                titles.append(str(article.get("title") or ""))
                for number, entry in enumerate(paragraph["qas"]):
                    place = f"{inside}, qas[{number}]"
                    id_, text = _text(str(entry["id"]), place), _text(entry["question"], place)
                    if id_ in questions:
                        raise ValueError(f"{place}: the id {quoted(id_)} stands twice in the file; each wants its own.")
                    listed = entry.get("answers", []) if keeps_unanswered else entry["answers"]
                    answers = tuple(_read_answer(each, contexts[-1], place) for each in listed)
                    questions[id_] = Question(id_, text, len(contexts) - 1, answers)
    except (AttributeError, KeyError, TypeError) as error:
        # What is no object, or lacks a key, raises them above.
        raise ValueError(f"{place}: at or behind it something is not as in SQuAD 1.1 ({error}); mend it.") from error
    kept = [question for question in questions.values() if question.answers or keeps_unanswered]
    if not kept:
        raise ValueError(f"{source} holds no questions with answers; give another file, or leave it out.")
    left_out = len(questions) - len(kept)
    note = f"{source}: {left_out:,} questions without an answer left out" if left_out else None
    return Questions(source, tuple(contexts), tuple(titles), kept, left_out, note=note)


def _read_answer(answer: Any, context: str, place: str) -> Answer:
    text, start = _text(answer["text"], place), answer["answer_start"]
    if type(start) is not int or start < 0 or context[start : start + len(text)] != text or not text.strip():
        raise ValueError(
            f"{place}: the answer {quoted(text)} does not begin at character {quoted(start)} of the context; count "
            "characters from 0, or mend the text."
        )
    return Answer(text, start)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{quoted(value)} in place of text")
    check_characters(value, place)
    return value
