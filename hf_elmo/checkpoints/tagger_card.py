"""The card of a token classifier: its labels, its scores on held-out and test sentences, its data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from huggingface_hub import EvalResult

from . import card_parts
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
# What results.json calls each split, the one that no choice was made by first.
_SPLITS = {"test": "predict", "validation": "eval"}


def render_tagger_card(
    name: str,
    fields: Mapping[str, Any],
    results: Mapping[str, Any],
    facts: Facts | None = None,
    tokenizer: Mapping[str, Any] | None = None,
) -> str:
    """The card of a token classifier, in Markdown.

    Args:
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config, `id2label` among them.
        results: What training, evaluation and prediction gave, as in results.json.
        facts: What else is known.
        tokenizer: Fields of tokenizer_config.json, for how text is cut.
    Raises: ValueError naming the figure that the results or the config lack.
    """
    with card_parts.only_what_was_measured(name, "Make the results anew with hf-elmo train-tagger."):
        id2label = fields.get("id2label") or _UNNAMED_LABELS
        labels = [label for _, label in sorted(id2label.items(), key=lambda item: int(item[0]))]
        strategy = "simple" if results["tag_scheme"] == "spans" else "none"
        parts = [
            card_parts.front_matter(name, facts, TASK, [TASK], list(_measured(results))),
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            f"A token classifier on ELMo, made with hf_elmo: {results['model']}",
            f"## Use\n\n{_SNIPPET.format(name=name, strategy=strategy)}\n\n{card_parts.describe_cutting(tokenizer)}",
            card_parts.uses_and_limits(facts, (_USE,), (_LIMIT, card_parts.NO_FACTS_YET)),
            *([card_parts.training_data(facts)] if facts else []),
            "## Labels\n\n" + ", ".join(f"`{label}`" for label in labels),
            *_scores(results),
            f"## Data and settings\n\n{_settings(results)}",
            card_parts.origin(results, "All figures are in `results.json`."),
            *card_parts.citation(facts),
        ]
    return "\n\n".join(parts) + "\n"


def _measured(results: Mapping[str, Any]) -> Iterator[EvalResult]:
    for split, prefix in _SPLITS.items():
        for score in (*_SCORES, "accuracy"):
            if f"{prefix}_{score}" in results:
                yield EvalResult(
                    task_type=TASK,
                    task_name="Token classification",
                    dataset_type=split,
                    dataset_name=results["data"][split]["source"] if "data" in results else f"the {split} sentences",
                    metric_type=score,
                    metric_name=f"{score}, {split}",
                    metric_value=round(results[f"{prefix}_{score}"], 4),
                )


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    for split, prefix in _SPLITS.items():
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
            chosen = " The step that was kept is the best of these." if split == "validation" and _kept(results) else ""
            accuracy = f"Accuracy by word: {100 * results[f'{prefix}_accuracy']:.2f}. "
            yield f"## Scores, {split}\n\n{table}\n\n{accuracy}{_of_what(results['tag_scheme'])}{chosen}"


def _of_what(tag_scheme: str) -> str:
    if tag_scheme == "spans":
        return "An entity counts where its type and both its ends are right, as conlleval counts."
    return "Each word counts by itself."


def _kept(results: Mapping[str, Any]) -> int | None:
    return results.get("kept_step")


def _settings(results: Mapping[str, Any]) -> str:
    data = {
        f"{split} data": f"{text['source']}: {text['sentences']:,} sentences, {text['words']:,} words"
        for split, text in results.get("data", {}).items()
    }
    return card_parts.key_value_table(
        {
            **data,
            "settings": card_parts.list_settings(results.get("settings", {})),
            "step that was kept": f"{_kept(results):,}" if _kept(results) else None,
        }
    )
