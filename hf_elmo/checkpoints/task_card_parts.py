"""The card of a task's model: what all of them have, around what the card of each task says of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from huggingface_hub import EvalResult

from . import card_parts
from .facts import Facts
from .layer_shares_plot import layer_names, mean_shares
from .tables import markdown_table

# What results.json calls each split, the one that no choice was made by first.
SPLITS = {"test": "predict", "validation": "eval"}


@dataclass(frozen=True)
class TaskCard:
    """What the card of a task's model says that those of other tasks do not.

    Args:
        tags: Words to find it by, the first of them what the Hub, or where it has no name for the task results.json,
            calls the task.
        task_name: What people call it.
        measured: The names of the scores that stand in the head of the card, where they were measured.
        what: What the model is, before "on ELMo".
        snippet: How it is used, in Markdown.
        intended_use: What it is for, in a sentence.
        limits: What it cannot do, a sentence each.
        sections: Its labels and scores.
        seed_scores: The names of the scores whose mean and deviation over seeds are shown.
        counted: What is counted of each split, the key of its number and what people call it.
        settings: What else is said of the head.
        is_on_the_hub: Whether the Hub has a name for the task.
    """

    tags: Sequence[str]
    task_name: str
    measured: Sequence[str]
    what: str
    snippet: str
    intended_use: str
    limits: Sequence[str]
    sections: Sequence[str]
    seed_scores: Sequence[str]
    counted: Sequence[str]
    settings: Mapping[str, str | None] = field(default_factory=dict)
    is_on_the_hub: bool = True


def render_task_card(
    describe: Callable[[str, Mapping[str, Any], Mapping[str, Any]], TaskCard],
    name: str,
    fields: Mapping[str, Any],
    results: Mapping[str, Any],
    facts: Facts | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    shares_plot: str | None = None,
) -> str:
    """The card of a task's model, in Markdown.

    Args:
        describe: Makes the task's part of it from the name, the fields and the results.
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config.
        results: What training, evaluation and prediction gave, as in results.json.
        facts: What else is known.
        tokenizer: Fields of tokenizer_config.json, for how text is cut.
        shares_plot: Name of the picture of the layers' shares, beside the card.
    Raises: ValueError naming the figure that the results or the config lack.
    """
    with card_parts.only_what_was_measured(name, f"Make the results anew with hf-elmo train {results.get('task')}."):
        card = describe(name, fields, results)
        pipeline_tag = card.tags[0] if card.is_on_the_hub else None
        parts = [
            card_parts.front_matter(name, facts, pipeline_tag, card.tags, list(_measured(results, card))),
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            f"{card.what} on ELMo, made with hf_elmo: {results['model']}",
            f"## Use\n\n{card.snippet}\n\n{card_parts.describe_cutting(tokenizer)}",
            card_parts.uses_and_limits(facts, (card.intended_use,), (*card.limits, card_parts.NO_FACTS_YET)),
            *([card_parts.training_data(facts)] if facts else []),
            *card.sections,
            *_seeds(results, card.seed_scores),
            *_layers(results, shares_plot),
            _data_and_settings(fields, results, card),
            card_parts.origin(results, "All figures are in `results.json`."),
            *card_parts.citation(facts),
        ]
    return "\n\n".join(parts) + "\n"


def list_names(title: str, names: Sequence[str]) -> str:
    """The section that lists the labels that a model knows."""
    return f"## {title}\n\n" + ", ".join(f"`{name}`" for name in names)


def table_by_type(split: str, rows: Mapping[str, Mapping[str, float]], results: Mapping[str, Any], prefix: str) -> str:
    """Precision, recall and F1 of each type of span, its number, and those of all of them.

    Args:
        split: What the table is called.
        rows: The scores of each type.
        results: As in results.json, with the scores of all of them.
        prefix: What their names there begin with.
    """
    scores = ("precision", "recall", "f1")
    lines = [
        [f"`{type_}`", *(f"{100 * row[score]:.2f}" for score in scores), f"{row['number']:,}"]
        for type_, row in rows.items()
    ]
    overall = (f"{100 * results[f'{prefix}_{score}']:.2f}" for score in scores)
    lines.append(["all", *overall, f"{sum(row['number'] for row in rows.values()):,}"])
    return markdown_table([f"{split}, in percent", "precision", "recall", "F1", "number"], lines)


def chosen_by(results: Mapping[str, Any], split: str) -> str:
    """What to say behind the scores of the split that the model was chosen by; nothing behind others."""
    return " The step that was kept is the best of these." if split == "validation" and _kept(results) else ""


def _seeds(results: Mapping[str, Any], scores: Sequence[str]) -> Iterator[str]:
    """The section on several seeds, where there were several."""
    if "mean" not in results:
        return
    mean, deviation = results["mean"], results["deviation"]
    rows = []
    for split, prefix in SPLITS.items():
        keys = [f"{prefix}_{score}" for score in scores]
        if keys[0] in mean:
            rows.append([split, *(f"{100 * mean[key]:.2f} ± {100 * deviation[key]:.2f}" for key in keys)])
    if rows:
        number, table = len(results["seeds"]), markdown_table(["in percent", *scores], rows)
        yield (
            f"## Seeds\n\nMean and deviation of {number} trainings that differ by their seed. This model is of seed "
            f"{results['kept_seed']}, the best on the validation data or else the first.\n\n{table}"
        )


def _layers(results: Mapping[str, Any], plot: str | None = None) -> Iterator[str]:
    """The section on the layers that the task reads, where the results tell them."""
    if not results.get("layer_shares"):
        return
    mean, deviation = mean_shares(results)
    rows = []
    for number, shares in enumerate(mean, start=1):
        cells = [f"{share:.1%}" for share in shares]
        if deviation is not None:
            cells = [f"{cell} ± {spread:.1%}" for cell, spread in zip(cells, deviation[number - 1], strict=True)]
        rows.append([f"mix {number}", *cells])
    table = markdown_table(["", *layer_names(mean.shape[1])], rows)
    of_seeds = "" if deviation is None else f", mean and deviation of {len(results['seeds'])} seeds"
    picture = f"\n\n![shares of the layers]({plot})" if plot else ""
    yield f"## Layers\n\nWhat the mix takes of each layer of the biLM{of_seeds}.\n\n{table}{picture}"


def describe_inputs(head: Mapping[str, Any]) -> str:
    """What a task reads of each word, in some words.

    Args:
        head: The settings of its head, as in config.json; those of earlier versions say nothing of it.
    """
    parts = ["ELMo"] if head.get("use_elmo", True) else []
    if head.get("word_table_size"):
        trained = "trained" if head["train_word_vectors"] else "fixed"
        parts.append(f"{trained} vectors of {head['word_table_size']:,} words")
    if head.get("character_filters"):
        parts.append(f"{sum(count for _, count in head['character_filters']):,} features of characters")
    at_output = ", and ELMo again at the output of its lowest LSTM" if head.get("mix_at_output") else ""
    return " + ".join(parts) + at_output


def _measured(results: Mapping[str, Any], card: TaskCard) -> Iterator[EvalResult]:
    """The scores as the Hub reads them in the head of a card."""
    for split, prefix in SPLITS.items():
        for score in card.measured:
            if f"{prefix}_{score}" in results:
                yield EvalResult(
                    task_type=card.tags[0],
                    task_name=card.task_name,
                    dataset_type=split,
                    dataset_name=results["data"][split]["source"] if "data" in results else f"the {split} data",
                    metric_type=score,
                    metric_name=f"{score}, {split}",
                    metric_value=round(results[f"{prefix}_{score}"], 4),
                )


def _data_and_settings(fields: Mapping[str, Any], results: Mapping[str, Any], card: TaskCard) -> str:
    """The section on the data, the head and the settings."""
    data = {}
    for split, text in results.get("data", {}).items():
        numbers = ", ".join(f"{text[what]:,} {what}" for what in card.counted)
        data[f"{split} data"] = f"{text['source']}{_share(text)}: {numbers}"
    table = card_parts.key_value_table(
        {
            **data,
            "reads of each word": describe_inputs(fields.get("head") or {}),
            **card.settings,
            "settings": card_parts.list_settings(results.get("settings", {})),
            "step that was kept": f"{_kept(results):,}" if _kept(results) else None,
        }
    )
    return f"## Data and settings\n\n{table}"


def _share(text: Mapping[str, Any]) -> str:
    return f", a share of {text['share']:g}" if "share" in text else ""


def _kept(results: Mapping[str, Any]) -> int | None:
    return results.get("kept_step")
