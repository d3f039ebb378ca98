"""The parts that the cards of fine-tuned models share: measured scores, seeds, layers, data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from huggingface_hub import EvalResult

from . import card_parts
from .layer_shares_plot import layer_names, mean_shares
from .tables import markdown_table

# What results.json calls each split, the one that no choice was made by first.
SPLITS = {"test": "predict", "validation": "eval"}


def measured(results: Mapping[str, Any], task: str, task_name: str, scores: Sequence[str]) -> Iterator[EvalResult]:
    """The scores as the Hub reads them in the head of a card.

    Args:
        results: As in results.json.
        task: The Hub's name of the task.
        task_name: What people call it.
        scores: The names of the scores; those that were not measured are left out.
    """
    for split, prefix in SPLITS.items():
        for score in scores:
            if f"{prefix}_{score}" in results:
                yield EvalResult(
                    task_type=task,
                    task_name=task_name,
                    dataset_type=split,
                    dataset_name=results["data"][split]["source"] if "data" in results else f"the {split} data",
                    metric_type=score,
                    metric_name=f"{score}, {split}",
                    metric_value=round(results[f"{prefix}_{score}"], 4),
                )


def chosen_by(results: Mapping[str, Any], split: str) -> str:
    """What to say behind the scores of the split that the model was chosen by; nothing behind others."""
    return " The step that was kept is the best of these." if split == "validation" and _kept(results) else ""


def seeds(results: Mapping[str, Any], scores: Sequence[str]) -> Iterator[str]:
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


def layers(results: Mapping[str, Any], plot: str | None = None) -> Iterator[str]:
    """The section on the layers that the task reads, where the results tell them.

    Args:
        results: As in results.json.
        plot: Name of their picture, beside the card.
    """
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


def data_and_settings(
    fields: Mapping[str, Any], results: Mapping[str, Any], counted: Sequence[str], more: Mapping[str, str | None]
) -> str:
    """The section on the data, the head and the settings.

    Args:
        fields: Fields of the config.
        results: As in results.json.
        counted: What is counted of each split, the key of its number and what people call it.
        more: What else is said of the head.
    """
    data = {
        f"{split} data": f"{text['source']}{_share(text)}: {', '.join(f'{text[what]:,} {what}' for what in counted)}"
        for split, text in results.get("data", {}).items()
    }
    table = card_parts.key_value_table(
        {
            **data,
            "reads of each word": describe_inputs(fields.get("head") or {}),
            **more,
            "settings": card_parts.list_settings(results.get("settings", {})),
            "step that was kept": f"{_kept(results):,}" if _kept(results) else None,
        }
    )
    return f"## Data and settings\n\n{table}"


def _share(text: Mapping[str, Any]) -> str:
    return f", a share of {text['share']:g}" if "share" in text else ""


def _kept(results: Mapping[str, Any]) -> int | None:
    return results.get("kept_step")
