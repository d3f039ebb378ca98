"""The card of a pre-trained checkpoint: its sizes, its held-out perplexities beside baselines, and its run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from huggingface_hub import EvalResult

from . import card_parts
from .facts import Facts
from .tables import markdown_table

_USE = ("To give word vectors to a task that trains its own layers on top.",)
_LIMIT = "It knows the language, the domain and the biases of its training text and no others."
_COMPARABLE = (
    "Its perplexity and its bits per character compare only with figures over the same vocabulary and the same "
    "held-out text: words outside of the vocabulary are scored as `<UNK>`."
)
_SOFTMAXES = {
    "full": "the full softmax",
    "sampled": "the full softmax (trained by the sampled one)",
    "adaptive": "the adaptive softmax that was trained",
}
_DIRECTIONS = ("forward", "backward", "mean")


def render_model_card(
    name: str,
    fields: Mapping[str, Any],
    results: Mapping[str, Any],
    facts: Facts | None = None,
    plot: str | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    layers: str | None = None,
) -> str:
    """The card of a pre-trained checkpoint, in Markdown.

    Args:
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config.
        results: What the run measured, as in results.json.
        facts: What else is known; None leaves the card with what the results say.
        plot: Name of the run's plot, beside the card.
        tokenizer: Fields of tokenizer_config.json, for how text is cut.
        layers: The section on what each layer knows.
    Raises: ValueError naming the figure that the results or the config lack.
    """
    with card_parts.only_what_was_measured(name, "Make the results anew with hf-elmo pretrain."):
        parts = [
            card_parts.front_matter(
                name,
                facts,
                "feature-extraction",
                ["feature-extraction", "contextual-word-embeddings"],
                list(_measured(results, facts)),
            ),
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            f"{card_parts.WHAT_ELMO_IS} Pre-trained with hf_elmo.",
            f"## Use\n\n{card_parts.vectors_snippet(name)}\n\n{card_parts.describe_cutting(tokenizer)}",
            card_parts.uses_and_limits(facts, _USE, (_LIMIT, card_parts.NO_FACTS_YET), (_COMPARABLE,)),
            *([card_parts.training_data(facts)] if facts else []),
            f"## What it is\n\n{_sizes(fields, results)}",
            f"## Held-out perplexity\n\n{_perplexities(results)}",
            *([f"![perplexity, learning rate and speed over the words trained on]({plot})"] if plot else []),
            *([layers] if layers else []),
            card_parts.origin(results, "The figures and the whole history are in `results.json`."),
            *card_parts.citation(facts),
        ]
    return "\n\n".join(parts) + "\n"


def _measured(results: Mapping[str, Any], facts: Facts | None) -> Iterator[EvalResult]:
    text = " and ".join(text.name for text in facts.training_data) if facts else "the run's text"
    task: dict[str, Any] = {
        "task_type": "text-generation",
        "task_name": "Language modelling",
        "dataset_type": "held-out",
        "dataset_name": f"held-out part of {text}",
    }
    for key, state in (("perplexity", "carried state"), ("perplexity_cold", "cold state")):
        if results.get(key):
            for kind, title, figure in _metrics(results[key]):
                yield EvalResult(**task, metric_type=kind, metric_name=f"{title}, {state}", metric_value=figure)


def _metrics(perplexity: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """The kind, the title and the value of each figure of one evaluation, rounded as in the card's table."""
    for direction in _DIRECTIONS:
        yield "perplexity", f"perplexity, {direction}", round(perplexity[direction], 1)
    # Withheld where too many words are unknown.
    if perplexity.get("bits_per_character") is not None:
        yield "bits_per_character", "bits per character", round(perplexity["bits_per_character"], 3)


def _sizes(fields: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    text = results["training_text"]
    rows = {
        "parameters, softmax included": f"{results['parameters']:,}",
        "layers, cells, projection": ", ".join(
            str(fields[name]) for name in ("num_hidden_layers", "cell_size", "projection_size")
        ),
        "filters (width, count)": ", ".join(f"({width}, {count})" for width, count in fields["filters"]),
        "words of the softmax": f"{results['vocabulary_size']:,}",
        "training text": f"{text['words']:,} words, {text['sentences']:,} sentences",
        "words trained on": f"{results['words_trained']:,} in {results['seconds']:,.0f} s "
        f"({results['words_per_second']:,.0f} words/s)",
        # Earlier versions counted the steps alone.
        "hours, all that the run did": f"{results['hours']:.2f}" if "hours" in results else None,
        "recipe": results.get("recipe"),
        "objective": f"{results['objective']} softmax" if "objective" in results else None,
        "settings": card_parts.list_settings(results.get("settings", {})),
        "weights": _describe_kept(results),
        "stopped, and resumed at step": ", ".join(f"{step:,}" for step in results.get("resumed_from_steps", ())),
    }
    return card_parts.key_value_table(rows)


def _describe_kept(results: Mapping[str, Any]) -> str | None:
    """Which step the weights are of; None for runs of earlier versions, which kept the last."""
    if results.get("kept_step") is None:
        return None
    kept, last = results["kept_step"], results["evaluations"][-1]
    line = f"those of step {kept:,}"
    if kept == last["step"]:
        return f"{line}, the last"
    return (
        f"{line}, the best on the held-out text; after the last, {last['step']:,}, perplexity was {last['mean']:,.1f}"
    )


def _perplexities(results: Mapping[str, Any]) -> str:
    perplexity, baselines = results["perplexity"], results["baselines"]
    resets = (
        ", and back to them at each document" if results.get("settings", {}).get("reset_state") == "document" else ""
    )
    spaces = " Characters are those of the words and one behind each." if perplexity.get("bits_per_character") else ""
    parts = [
        *(f"> **Beware:** {caveat}" for caveat in results.get("caveats", ())),
        *([_share_of_bigram(perplexity["mean"], baselines["bigram"])] if baselines is not None else []),
        f"By {_SOFTMAXES[results.get('objective', 'full')]} over the vocabulary; every word and closing marker of the "
        f"held-out text, {perplexity['num_targets']:,} in each direction, is scored once. Carried state goes along the "
        f"lanes from zeros{resets}.{spaces}",
        _perplexity_table(results),
    ]
    if baselines is not None:
        parts.append(
            f"{baselines['unknown_rate']:.1%} of the held-out words are unknown to the softmax and scored as `<UNK>`, "
            "in the model and in the baselines alike. The bigram's interpolation is the best one on the held-out text."
        )
    gaps = [entry for entry in results.get("history", ()) if "sampled_loss" in entry]
    if gaps:
        parts.append(
            f"The sampled loss is no perplexity: on a training window of step {gaps[-1]['step']:,} it is "
            f"{gaps[-1]['sampled_loss']:.2f} nats per word, that of the full softmax {gaps[-1]['full_loss']:.2f}."
        )
    return "\n\n".join(parts)


def _share_of_bigram(perplexity: float, bigram: float) -> str:
    return (
        f"**{perplexity / bigram:.2f} of the bigram's perplexity**: {perplexity:,.1f} with carried state, where a "
        f"bigram model of the same training text has {bigram:,.1f}. Compare that fraction: the perplexity itself "
        "depends on the held-out text, and on other text of the same kind it can be far higher at the same fraction."
    )


def _perplexity_table(results: Mapping[str, Any]) -> str:
    evaluations, baselines = results["evaluations"], results["baselines"]
    rows = {}
    if evaluations and evaluations[0].get("step", 0) == 0:
        rows["before training, state carried"] = evaluations[0]
    rows["state carried"] = results["perplexity"]
    if results.get("perplexity_cold"):
        rows["each sentence alone, state from zeros"] = results["perplexity_cold"]
    if baselines is not None:
        directions = (baselines["bigram_forward"], baselines["bigram_backward"], baselines["bigram"])
        rows["bigram baseline"] = dict(zip(_DIRECTIONS, directions, strict=True))
        rows["unigram baseline"] = dict.fromkeys(_DIRECTIONS, baselines["unigram"])
    head = ["", *_DIRECTIONS]
    lines = [[what, *(f"{row[direction]:,.1f}" for direction in _DIRECTIONS)] for what, row in rows.items()]
    if any(row.get("bits_per_character") for row in rows.values()):
        head.append("bits per character")
        for line, row in zip(lines, rows.values(), strict=True):
            # Of the baselines they are not measured.
            line.append(f"{row['bits_per_character']:.3f}" if row.get("bits_per_character") else "-")
    return markdown_table(head, lines)
