"""The card of a token classifier: its labels, its scores on held-out and test sentences, its data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import card_parts, task_card_parts
from .facts import Facts
from .tables import markdown_table

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
_SCORES = ("precision", "recall", "f1")


def render_tagger_card(
    name: str,
    fields: Mapping[str, Any],
    results: Mapping[str, Any],
    facts: Facts | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    shares_plot: str | None = None,
) -> str:
    """The card of a token classifier, in Markdown.

    Args:
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config, `id2label` among them.
        results: What training, evaluation and prediction gave, as in results.json.
        facts: What else is known.
        tokenizer: Fields of tokenizer_config.json, for how text is cut.
        shares_plot: Name of the picture of the layers' shares, beside the card.
    Raises: ValueError naming the figure that the results or the config lack.
    """
    with card_parts.only_what_was_measured(name, "Make the results anew with hf-elmo train-tagger."):
        id2label = fields.get("id2label") or _UNNAMED_LABELS
        labels = [label for _, label in sorted(id2label.items(), key=lambda item: int(item[0]))]
        strategy = "simple" if results["tag_scheme"] == "spans" else "none"
        measured = task_card_parts.measured(results, TASK, "Token classification", (*_SCORES, "accuracy"))
        parts = [
            card_parts.front_matter(name, facts, TASK, [TASK], list(measured)),
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            f"A token classifier on ELMo, made with hf_elmo: {results['model']}",
            f"## Use\n\n{_SNIPPET.format(name=name, strategy=strategy)}\n\n{card_parts.describe_cutting(tokenizer)}",
            card_parts.uses_and_limits(facts, (_USE,), (_LIMIT, card_parts.NO_FACTS_YET)),
            *([card_parts.training_data(facts)] if facts else []),
            "## Labels\n\n" + ", ".join(f"`{label}`" for label in labels),
            *_scores(results),
            *task_card_parts.seeds(results, ("f1", "accuracy")),
            *task_card_parts.layers(results, shares_plot),
            task_card_parts.data_and_settings(fields, results, ("sentences", "words"), _head(fields)),
            card_parts.origin(results, "All figures are in `results.json`."),
            *card_parts.citation(facts),
        ]
    return "\n\n".join(parts) + "\n"


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    for split, prefix in task_card_parts.SPLITS.items():
        if f"{prefix}_f1" in results:
            entities = results[f"{prefix}_entities"]
            rows = [
                [f"`{kind}`", *(f"{100 * row[score]:.2f}" for score in _SCORES), f"{row['number']:,}"]
                for kind, row in entities.items()
            ]
            total = sum(row["number"] for row in entities.values())
            overall = (f"{100 * results[f'{prefix}_{score}']:.2f}" for score in _SCORES)
            rows.append(["all", *overall, f"{total:,}"])
            table = markdown_table([f"{split}, in percent", "precision", "recall", "F1", "number"], rows)
            chosen = task_card_parts.chosen_by(results, split)
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
