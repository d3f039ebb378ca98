"""Questions with answers in a context: the JSON of SQuAD 1.1 (Rajpurkar et al. 2016)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...given.bounded_files import quoted
from ...given.bounded_json import parse_json
from ...text.files import check_characters, numbered_lines


class Answer(NamedTuple):
    """What a right answer says, and at which character of the context it begins, from 0."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about a context.

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
class Questions:
    """One part of a corpus of questions.

    Args:
        source: What errors call it: the argument that named it and its value.
        contexts: Each text that is asked about.
        titles: The title of the article that each context is from.
        questions: In the order of the file.
        num_unanswerable: How many were left out because they have no answer, as SQuAD 2.0 has them.
    """

    source: str
    contexts: list[str]
    titles: list[str]
    questions: list[Question]
    num_unanswerable: int = 0

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, place: int) -> Question:
        return self.questions[place]

    def text(self, place: int) -> str:
        """What says which share of a corpus a question belongs to: its article, whose questions stay together."""
        context = self.questions[place].context
        return self.titles[context] or self.contexts[context]

    def pick(self, places: Sequence[int]) -> Questions:
        """The questions at these places, with all contexts."""
        return Questions(self.source, self.contexts, self.titles, [self.questions[place] for place in places])

    def answers(self) -> dict[str, list[str]]:
        """The right answers by the question's id, for `score_answers`."""
        return {question.id: [answer.text for answer in question.answers] for question in self.questions}


def read_questions(path: str | os.PathLike, name: str = "file", keeps_unanswered: bool = False) -> Questions:
    """Read SQuAD's JSON, `data[].paragraphs[].{context, qas[].{id, question, answers[].{text, answer_start}}}`.

    Args:
        path: The file; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        name: The argument that named the file, for errors.
        keeps_unanswered: Whether questions without answers, or without a list of them, are kept: to answer them.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the place in it of whatever is not as it
        should be, an answer that does not stand where it is said to stand among it.
    """
    source = f"{name} {str(path)!r}"
    if not Path(path).is_file():
        raise FileNotFoundError(f"{source} is not a file; check the path.")
    content = parse_json(b"".join(line for _, line in numbered_lines(path, name)), source)
    read = Questions(source, [], [], [])
    ids: set[str] = set()
    for article_place, article in _entries(content, "data", source):
        title = article.get("title")
        for paragraph_place, paragraph in _entries(article, "paragraphs", article_place):
            read.contexts.append(_value(paragraph, "context", str, paragraph_place))
            read.titles.append(title if isinstance(title, str) else "")
            for place, entry in _entries(paragraph, "qas", paragraph_place):
                question = _read_question(entry, place, len(read.contexts) - 1, read.contexts[-1], keeps_unanswered)
                if question.id in ids:
                    raise ValueError(
                        f"{place}: the id {quoted(question.id)} stands twice in the file; each wants its own."
                    )
                ids.add(question.id)
                if question.answers or keeps_unanswered:
                    read.questions.append(question)
                else:
                    read.num_unanswerable += 1
    if not read.questions:
        raise ValueError(f"{source} holds no questions with answers; give another file, or leave it out.")
    return read


def _read_question(entry: dict[str, Any], place: str, number: int, context: str, keeps_unanswered: bool) -> Question:
    if keeps_unanswered and "answers" not in entry:
        entry = {**entry, "answers": []}
    id_ = entry.get("id")
    if not isinstance(id_, (str, int)) or isinstance(id_, bool):
        raise ValueError(f"{place}: id is {quoted(id_)}; wanted a string.")
    check_characters(str(id_), place)
    answers = []
    for answer_place, answer in _entries(entry, "answers", place):
        text, start = _value(answer, "text", str, answer_place), _value(answer, "answer_start", int, answer_place)
        if not 0 <= start <= len(context) or context[start : start + len(text)] != text or not text.strip():
            there = context[max(0, start) : max(0, start) + len(text)]
            raise ValueError(
                f"{answer_place} (id {quoted(id_)}): the answer {quoted(text)} is said to begin at character "
                f"{quoted(start)} of the context, where {quoted(there)} stands; count characters from 0, or mend the "
                "text."
            )
        answers.append(Answer(text, start))
    return Question(str(id_), _value(entry, "question", str, place), number, tuple(answers))


def _entries(owner: Any, key: str, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a list, each with its place."""
    values = owner.get(key) if isinstance(owner, dict) else None
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        found = values if isinstance(owner, dict) else owner
        raise ValueError(f"{place}: {key} is {quoted(found)}; wanted a list of objects, as SQuAD 1.1 has it.")
    return ((f"{place}, {key}[{number}]", value) for number, value in enumerate(values))


def _value(owner: dict[str, Any], key: str, kind: type, place: str) -> Any:
    value = owner.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(
            f"{place}: {key} is {quoted(value)}; wanted {'a string' if kind is str else 'a whole number'}."
        )
    if isinstance(value, str):
        check_characters(value, place)
    return value
