"""Questions with answers in a context: the JSON of SQuAD 1.1 (Rajpurkar et al. 2016)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...given.bounded_files import quoted
from ...given.bounded_json import parse_json
from ...text.files import check_characters, numbered_lines
from .examples import Examples

_KINDS = {str: "a string", int: "a whole number", list: "a list of objects, as SQuAD 1.1 has it"}


class Answer(NamedTuple):
    """What a right answer says, and at which character of the context it begins, from 0."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about a context, with its right answers.

    Args:
        id: As the file calls it.
        text: The question.
        context: The number of its context among those of the file.
        answers: Those that are right, at least one.
    """

    id: str
    text: str
    context: int
    answers: tuple[Answer, ...]


@dataclass
class Questions(Examples):
    """One part of a corpus of questions.

    Args:
        contexts: Each text of the file that is asked about.
        titles: The title of the article that each context is from.
        questions: In the order of the file.
        num_unanswerable: How many were left out because they have no answer, as SQuAD 2.0 has them.
    """

    contexts: tuple[str, ...]
    titles: tuple[str, ...]
    questions: list[Question]
    num_unanswerable: int = 0

    def __getitem__(self, index: int) -> Question:
        return self.questions[index]

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
    source = f"{name} {str(path)!r}"
    content = parse_json(b"".join(line for _, line in numbered_lines(path, name)), source)
    contexts, titles = [], []
    questions: dict[str, Question] = {}
    for article_place, article in _objects(content, "data", source):
        title = article.get("title")
        for paragraph_place, paragraph in _objects(article, "paragraphs", article_place):
            contexts.append(_value(paragraph, "context", str, paragraph_place))
            titles.append(title if isinstance(title, str) else "")
            for place, entry in _objects(paragraph, "qas", paragraph_place):
                if keeps_unanswered and "answers" not in entry:
                    entry = {**entry, "answers": []}
                id_ = str(entry["id"]) if isinstance(entry.get("id"), int) else _value(entry, "id", str, place)
                if id_ in questions:
                    raise ValueError(f"{place}: the id {quoted(id_)} stands twice in the file; each wants its own.")
                answers = tuple(_read_answer(*each, contexts[-1]) for each in _objects(entry, "answers", place))
                questions[id_] = Question(id_, _value(entry, "question", str, place), len(contexts) - 1, answers)
    kept = [question for question in questions.values() if question.answers or keeps_unanswered]
    if not kept:
        raise ValueError(f"{source} holds no questions with answers; give another file, or leave it out.")
    return Questions(source, tuple(contexts), tuple(titles), kept, len(questions) - len(kept))


def _read_answer(place: str, answer: dict[str, Any], context: str) -> Answer:
    text, start = _value(answer, "text", str, place), _value(answer, "answer_start", int, place)
    there = context[max(0, start) : max(0, start) + len(text)]
    if start < 0 or there != text or not text.strip():
        raise ValueError(
            f"{place}: the answer {quoted(text)} is said to begin at character {quoted(start)} of the context, where "
            f"{quoted(there)} stands; count characters from 0, or mend the text."
        )
    return Answer(text, start)


def _objects(owner: Any, key: str, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a list, each with its place."""
    values = _value(owner if isinstance(owner, dict) else {}, key, list, place)
    for number, value in enumerate(values):
        yield f"{place}, {key}[{number}]", value


def _value(owner: dict[str, Any], key: str, kind: type, place: str) -> Any:
    value = owner.get(key)
    is_right = isinstance(value, kind) and not isinstance(value, bool)
    if not is_right or (isinstance(value, list) and not all(isinstance(entry, dict) for entry in value)):
        raise ValueError(f"{place}: {key} is {quoted(value)}; wanted {_KINDS[kind]}.")
    if isinstance(value, str):
        check_characters(value, place)
    return value
