"""The card of a reader that answers questions: its scores, its data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .tables import markdown_table
from .task_card_parts import SPLITS, TaskCard, chosen_by

# The Hub's name of the task, which is what results.json calls it, too.
TASK = "question-answering"

_SNIPPET = """\
```python
import hf_elmo
from transformers import pipeline

answer = pipeline("extractive-question-answering", model="{name}")
print(answer(question="Who sat on the mat?", context="The cat sat on the mat."))
```

An answer has its place in the context, in characters, and a probability."""
_USE = "To answer questions by pieces of a text that holds the answer, in text like that it was trained on."
_LIMITS = (
    "It always answers, also where the text does not say.",
    "It knows the language, the domain and the biases of its training texts and no others.",
)
_SCORES = ("exact_match", "f1")


def describe_reader(name: str, fields: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    """What the card of a reader that answers questions says of its own; arguments as of `render_task_card`."""
    return TaskCard(
        tags=[TASK],
        task_name="Question answering",
        measured=_SCORES,
        what="A reader that answers questions",
        snippet=_SNIPPET.format(name=name),
        intended_use=_USE,
        limits=_LIMITS,
        sections=[*_scores(results)],
        seed_scores=_SCORES,
        counted=("questions", "contexts", "words"),
        settings=_reader(fields, results),
    )


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    rows, notes = [], ""
    for split, prefix in SPLITS.items():
        if f"{prefix}_f1" in results:
            rows.append([split, *(f"{100 * results[f'{prefix}_{score}']:.2f}" for score in _SCORES)])
            notes += chosen_by(results, split)
    if rows:
        table = markdown_table(["in percent", "exact match", "F1"], rows)
        yield f"## Scores\n\nAs SQuAD 1.1 counts them, the best of several right answers.{notes}\n\n{table}"


def _reader(fields: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, str | None]:
    head = fields.get("head") or {}
    bound = head.get("max_answer_words")
    widened = (f"{text['widened_answers']:,} of {split}" for split, text in results.get("data", {}).items())
    return {
        "reader": f"{head.get('reader')} of {head.get('hidden_size')}",
        "longest answer": f"{bound} words" if bound else None,
        "answers widened to whole words": ", ".join(widened),
    }
