"""The card of a reader that answers questions: its scores, its data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import card_parts, task_card_parts
from .facts import Facts
from .tables import markdown_table

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
_COUNTED = ("questions", "contexts", "words")


def render_reader_card(
    name: str,
    fields: Mapping[str, Any],
    results: Mapping[str, Any],
    facts: Facts | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    shares_plot: str | None = None,
) -> str:
    """The card of a reader, in Markdown; arguments as `render_classifier_card`'s.

    Raises: ValueError naming the figure that the results lack.
    """
    with card_parts.only_what_was_measured(name, "Make the results anew with hf-elmo train-question-answering."):
        scores = task_card_parts.measured(results, TASK, "Question answering", _SCORES)
        parts = [
            card_parts.front_matter(name, facts, TASK, [TASK], list(scores)),
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            f"A reader that answers questions on ELMo, made with hf_elmo: {results['model']}",
            f"## Use\n\n{_SNIPPET.format(name=name)}\n\n{card_parts.describe_cutting(tokenizer)}",
            card_parts.uses_and_limits(facts, (_USE,), (*_LIMITS, card_parts.NO_FACTS_YET)),
            *([card_parts.training_data(facts)] if facts else []),
            *_scores(results),
            *task_card_parts.seeds(results, _SCORES),
            *task_card_parts.layers(results, shares_plot),
            task_card_parts.data_and_settings(fields, results, _COUNTED, _reader(fields, results)),
            card_parts.origin(results, "All figures are in `results.json`."),
            *card_parts.citation(facts),
        ]
    return "\n\n".join(parts) + "\n"


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    rows, notes = [], ""
    for split, prefix in task_card_parts.SPLITS.items():
        if f"{prefix}_f1" in results:
            rows.append([split, *(f"{100 * results[f'{prefix}_{score}']:.2f}" for score in _SCORES)])
            notes += task_card_parts.chosen_by(results, split)
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
