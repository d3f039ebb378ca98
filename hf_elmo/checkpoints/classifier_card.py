"""The card of a classifier of texts or of pairs: its labels, its scores class by class, its data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import card_parts, task_card_parts
from .facts import Facts
from .tables import markdown_table

# The Hub's name of the task.
TASK = "text-classification"

_SNIPPET = """\
```python
import hf_elmo
from transformers import pipeline

classifier = pipeline("text-classification", model="{name}")
print(classifier({example}))
```"""
_EXAMPLES = {
    "sentiment": '"A sentence of words ."',
    "entailment": '{"text": "A man sleeps .", "text_pair": "Nobody is awake ."}',
}
# What results.json calls these tasks.
CLASSIFIERS = tuple(_EXAMPLES)
_USE = "To give {what} one of the labels below, in text like that it was trained on."
_WHAT = {"sentiment": "a text", "entailment": "a pair of texts"}
_ZERO_SHOT = """\
Any labels can be told apart by it, as far as it has learned what follows from what:

```python
classifier = pipeline("zero-shot-classification", model="{name}")
print(classifier("A sentence of words .", ["sport", "music"], hypothesis_template="This is about {{}} ."))
```"""
_LIMIT = "It knows the labels, the language, the domain and the biases of its training texts and no others."
_BY_CLASS = ("precision", "recall", "f1")


def render_classifier_card(
    name: str,
    fields: Mapping[str, Any],
    results: Mapping[str, Any],
    facts: Facts | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    shares_plot: str | None = None,
) -> str:
    """The card of a classifier of texts or pairs, in Markdown.

    Args:
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config.
        results: What training, evaluation and prediction gave, as in results.json; `task` and `labels` among them.
        facts: What else is known.
        tokenizer: Fields of tokenizer_config.json, for how text is cut.
        shares_plot: Name of the picture of the layers' shares, beside the card.
    Raises: ValueError naming the figure that the results lack.
    """
    with card_parts.only_what_was_measured(name, f"Make the results anew with hf-elmo train-{results['task']}."):
        task, labels = results["task"], results["labels"]
        scores = task_card_parts.measured(results, TASK, "Text classification", ("accuracy", "macro_f1"))
        use = _SNIPPET.format(name=name, example=_EXAMPLES[task])
        if any(label.lower().startswith("entail") for label in labels):
            use += "\n\n" + _ZERO_SHOT.format(name=name)
        parts = [
            card_parts.front_matter(name, facts, TASK, [TASK, task], list(scores)),
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            f"A classifier of {_WHAT[task].removeprefix('a ')}s on ELMo, made with hf_elmo: {results['model']}",
            f"## Use\n\n{use}\n\n{card_parts.describe_cutting(tokenizer)}",
            card_parts.uses_and_limits(facts, (_USE.format(what=_WHAT[task]),), (_LIMIT, card_parts.NO_FACTS_YET)),
            *([card_parts.training_data(facts)] if facts else []),
            "## Labels\n\n" + ", ".join(f"`{label}`" for label in labels),
            *_scores(results),
            *task_card_parts.seeds(results, ("accuracy", "macro_f1")),
            *task_card_parts.layers(results, shares_plot),
            task_card_parts.data_and_settings(fields, results, ("texts", "words"), _encoder(fields)),
            card_parts.origin(results, "All figures are in `results.json`."),
            *card_parts.citation(facts),
        ]
    return "\n\n".join(parts) + "\n"


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    labels = results["labels"]
    for split, prefix in task_card_parts.SPLITS.items():
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
                f"{100 * max(numbers) / sum(numbers):.2f}.{task_card_parts.chosen_by(results, split)}\n\n{table}\n\n"
                "The last columns count what the texts of each label were taken for."
            )


def _encoder(fields: Mapping[str, Any]) -> dict[str, str | None]:
    head = fields.get("head") or {}
    return {"encoder": head.get("encoder")}
