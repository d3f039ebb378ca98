"""The card of a token classifier: its labels, its scores on held-out and test sentences, its data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .task_card_parts import SPLITS, TaskCard, chosen_by, list_names, table_by_type

# The name that results.json gives to this task.
TASK = "token-classification"

_SNIPPET = """\
```python
import hf_elmo
from transformers import pipeline

tagger = pipeline("token-classification", model="{name}", aggregation_strategy="{strategy}")
for entity in tagger("A sentence of words ."):
    print(entity)
```"""
_USE = "To mark the words of sentences with the labels below, in text like that it was trained on."
_LIMIT = "It knows the labels, the language, the domain and the biases of its training sentences and no others."
# What a config leaves out.
_UNNAMED_LABELS = {"0": "LABEL_0", "1": "LABEL_1"}


def describe_tagger(name: str, fields: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    """What the card of a token classifier says of its own; arguments as of `render_task_card`."""
    id2label = fields.get("id2label") or _UNNAMED_LABELS
    labels = [label for _, label in sorted(id2label.items(), key=lambda item: int(item[0]))]
    return TaskCard(
        tags=[TASK],
        task_name="Token classification",
        measured=("precision", "recall", "f1", "accuracy"),
        what="A token classifier",
        snippet=_SNIPPET.format(name=name, strategy="simple" if results["tag_scheme"] == "spans" else "none"),
        intended_use=_USE,
        limits=[_LIMIT],
        sections=[list_names("Labels", labels), *_scores(results)],
        seed_scores=("f1", "accuracy"),
        counted=("sentences", "words"),
        settings=_head(fields),
    )


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    for split, prefix in SPLITS.items():
        if f"{prefix}_f1" in results:
            table = table_by_type(split, results[f"{prefix}_entities"], results, prefix)
            chosen = chosen_by(results, split)
            accuracy = f"Accuracy by word: {100 * results[f'{prefix}_accuracy']:.2f}. "
            yield f"## Scores, {split}\n\n{table}\n\n{accuracy}{_of_what(results['tag_scheme'])}{chosen}"


def _head(fields: Mapping[str, Any]) -> dict[str, str | None]:
    """What stands behind what is read; the configs of earlier versions say nothing of it."""
    head = fields.get("head") or {}
    output_layer = "CRF" if head.get("output_layer") == "crf" else "softmax"
    return {
        "biLSTM": f"{head['lstm_layers']} x {head['lstm_size']}" if head.get("lstm_layers") else None,
        "output layer": f"{output_layer}, labels in {head['scheme']}" if head.get("scheme") else output_layer,
    }


def _of_what(tag_scheme: str) -> str:
    if tag_scheme == "spans":
        return "An entity counts where its type and both its ends are right, as conlleval counts."
    return "Each word counts by itself."
