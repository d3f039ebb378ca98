"""From questions to rows for the model and back: which words an answer covers, and which characters some words do.

Letters in shapes: V words of a context or of a window of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset, Features, Value
from datasets import Sequence as ListOf

from ..model.modeling_elmo import IGNORED_LABEL
from ..model.tokenization_elmo import ElmoCharTokenizer
from .mapping import map_once
from .readers.questions import Answer, Questions

# Rows of characters are most of a data set; all ids are below 2^15 but for the largest dictionaries.
_SMALL_IDS = 2**15


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
        max_length: Rows of a window, markers and question included; None for whole contexts.
        stride: Words that two windows share.
        only_answerable: Whether rows without the answer, or with no part of it, are left out: to train on.

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
    ):
        self.questions = questions
        self._tokenizer = tokenizer
        self._windows: dict[str, Any] = {}
        if max_length is not None:
            # The question and its markers, those of the context, and a word of that.
            longest = max(len(tokenizer.tokenize(question.text)) for question in questions.questions) + 5
            stride = max_length // 2 if stride is None else stride
            if max_length < longest + stride:
                raise ValueError(
                    f"max_length is {max_length} and stride {stride}, but the longest question and its markers take "
                    f"{longest - 1} words of a window; take a larger max_length, or a smaller stride."
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
        rows = map_once(
            places,
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
        self.dataset = rows if only_answerable else rows.add_column("row", np.arange(len(rows)))

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

    def answers(self, predictions: np.ndarray, rows: np.ndarray) -> dict[str, str]:
        """The answer to each question by its id, from the best span of each row.

        Args:
            predictions: Of each row the rows of the answer's first and last word, and the score by which the windows
                of a question are compared, (rows, 3).
            rows: The number of each of these rows, (rows,); they may stand in any order.
        """
        best: dict[int, tuple[float, str]] = {}
        for row, (first, last, score) in sorted(zip(rows.tolist(), predictions.tolist(), strict=True)):
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
