"""The card of a classifier of texts or of pairs: its labels, its scores class by class, its data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .tables import markdown_table
from .task_card_parts import SPLITS, TaskCard, chosen_by, list_names

# The name that results.json and the Hub give to this task.
TASK = "text-classification"
_PAIRS = "text-pair-classification"

_SNIPPET = """\
```python
import hf_elmo
from transformers import pipeline

classifier = pipeline("text-classification", model="{name}")
print(classifier({example}))
```"""
_EXAMPLE = '"A sentence of words ."'
_EXAMPLE_OF_PAIRS = '{"text": "A man sleeps .", "text_pair": "Nobody is awake ."}'
_USE = "To give {what} one of the labels below, in text like that it was trained on."
_ZERO_SHOT = """\
Any labels can be told apart by it, as far as it has learned what follows from what:

```python
classifier = pipeline("zero-shot-classification", model="{name}")
print(classifier("A sentence of words .", ["sport", "music"], hypothesis_template="This is about {{}} ."))
```"""
_LIMIT = "It knows the labels, the language, the domain and the biases of its training texts and no others."
_SCORES = ("accuracy", "macro_f1")
_BY_CLASS = ("precision", "recall", "f1")


def describe_classifier(name: str, fields: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    """What the card of a classifier of texts or of pairs says of its own; arguments as of `render_task_card`."""
    are_pairs, labels = results["text_pairs"], results["labels"]
    use = _SNIPPET.format(name=name, example=_EXAMPLE_OF_PAIRS if are_pairs else _EXAMPLE)
    if any(label.lower().startswith("entail") for label in labels):
        use += "\n\n" + _ZERO_SHOT.format(name=name)
    return TaskCard(
        tags=[TASK, _PAIRS] if are_pairs else [TASK],
        task_name="Text classification",
        measured=_SCORES,
        what="A classifier of pairs of texts" if are_pairs else "A classifier of texts",
        snippet=use,
        intended_use=_USE.format(what="a pair of texts" if are_pairs else "a text"),
        limits=[_LIMIT],
        sections=[list_names("Labels", labels), *_scores(results)],
        seed_scores=_SCORES,
        counted=("texts", "words"),
        settings={"encoder": (fields.get("head") or {}).get("encoder")},
    )


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    labels = [*results["labels"], *results.get("unseen_labels", ())]
    for split, prefix in SPLITS.items():
        if f"{prefix}_accuracy" in results:
            by_class, confusion = results[f"{prefix}_by_class"], results[f"{prefix}_confusion"]
            rows = [
                [
                    f"`{label}`",
                    *(f"{100 * by_class[label][score]:.2f}" for score in _BY_CLASS),
                    f"{by_class[label]['number']:,}",
                    *(f"{count:,}" for count in counts),
                ]
                for label, counts in zip(labels, confusion, strict=True)
            ]
            titles = ["precision", "recall", "F1", "number", *(f"as `{label}`" for label in labels)]
            table = markdown_table([f"{split}, in percent", *titles], rows)
            numbers = [by_class[label]["number"] for label in labels]
            yield (
                f"## Scores, {split}\n\nAccuracy {100 * results[f'{prefix}_accuracy']:.2f}, macro F1 "
                f"{100 * results[f'{prefix}_macro_f1']:.2f}; always the most frequent label: "
                f"{100 * max(numbers) / sum(numbers):.2f}.{chosen_by(results, split)}\n\n{table}\n\n"
                "The last columns count what the texts of each label were taken for."
            )
