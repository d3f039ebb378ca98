"""The parts that the cards of fine-tuned models share: measured scores, seeds, layers, data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from huggingface_hub import EvalResult

from . import card_parts
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


def layers(results: Mapping[str, Any]) -> Iterator[str]:
    """The section on the layers that the task reads, where the results tell them."""
    shares = results.get("layer_shares")
    if shares:
        names = ["token encoder", *(f"layer {number}" for number in range(1, len(shares[0])))]
        places = [f"mix {number}" for number in range(1, len(shares) + 1)]
        rows = [[place, *(f"{share:.1%}" for share in its)] for place, its in zip(places, shares, strict=True)]
        yield f"## Layers\n\nWhat the mix takes of each layer of the biLM.\n\n{markdown_table(['', *names], rows)}"


def data_and_settings(results: Mapping[str, Any], counted: Sequence[str]) -> str:
    """The section on the data and the settings.

    Args:
        results: As in results.json.
        counted: What is counted of each split, the key of its number and what people call it.
    """
    data = {
        f"{split} data": f"{text['source']}: {', '.join(f'{text[what]:,} {what}' for what in counted)}"
        for split, text in results.get("data", {}).items()
    }
    table = card_parts.key_value_table(
        {
            **data,
            "settings": card_parts.list_settings(results.get("settings", {})),
            "step that was kept": f"{_kept(results):,}" if _kept(results) else None,
        }
    )
    return f"## Data and settings\n\n{table}"


def _kept(results: Mapping[str, Any]) -> int | None:
    return results.get("kept_step")
