"""Model cards from measured results: no figure stands in a card that is not in a results file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_FRONT_MATTER = """\
---
library_name: transformers
tags:
- elmo
- feature-extraction
- contextual-word-embeddings
---
"""

_USE = """\
```python
import hf_elmo  # or pass trust_remote_code=True below
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModel.from_pretrained("{name}")
vectors = model(**tokenizer("a sentence of words", return_tensors="pt")).last_hidden_state
```
"""


def render_model_card(name: str, fields: dict[str, Any], results: dict[str, Any]) -> str:
    """A model card in Markdown.

    Args:
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config.
        results: What the run measured, as in results.json.
    """
    perplexity, baselines = results["perplexity"], results["baselines"]
    text, machine = results["training_text"], results["machine"]
    rows = [("before training", results["evaluations"][0]), ("after training", perplexity)]
    lines = [
        _FRONT_MATTER,
        f"# {name}",
        "",
        "An ELMo (Peters et al. 2018): two independent LSTM language models over character-based word vectors, whose "
        "layers a task mixes. Pre-trained with hf_elmo.",
        "",
        "## Use",
        "",
        _USE.format(name=name),
        "## What it is",
        "",
        "| | |",
        "| --- | --- |",
        f"| parameters, softmax included | {results['parameters']:,} |",
        f"| layers, cells, projection | {fields['num_hidden_layers']}, {fields['cell_size']}, "
        f"{fields['projection_size']} |",
        f"| filters (width, count) | {', '.join(f'({w}, {n})' for w, n in fields['filters'])} |",
        f"| words of the softmax | {results['vocabulary_size']:,} |",
        f"| training text | {text['words']:,} words, {text['sentences']:,} sentences |",
        f"| words trained on | {results['words_trained']:,} in {results['seconds']:,.0f} s "
        f"({results['words_per_second']:,.0f} words/s) |",
        "",
        "## Held-out perplexity",
        "",
        "Full softmax over the vocabulary, every word and closing marker of the held-out text scored once, LSTM state "
        "carried along the lanes from zeros.",
        "",
        "| | forward | backward | mean |",
        "| --- | ---: | ---: | ---: |",
    ]
    lines += [f"| {when} | {row['forward']:,.1f} | {row['backward']:,.1f} | {row['mean']:,.1f} |" for when, row in rows]
    if baselines is not None:
        lines += [
            f"| bigram baseline | {baselines['bigram_forward']:,.1f} | {baselines['bigram_backward']:,.1f} "
            f"| {baselines['bigram']:,.1f} |",
            f"| unigram baseline | {baselines['unigram']:,.1f} | {baselines['unigram']:,.1f} "
            f"| {baselines['unigram']:,.1f} |",
            "",
            f"{baselines['unknown_rate']:.1%} of the held-out words are unknown to the softmax and scored as `<UNK>`, "
            "in the model and in the baselines alike. The bigram's interpolation is the best one on the held-out text.",
        ]
    lines += [
        "",
        "## Limits and intended use",
        "",
        "Made to give word vectors to a task that trains its own layers on top. It knows the language, the domain and "
        "the biases of its training text and no others; its perplexity compares only with figures over the same "
        "vocabulary and the same held-out text.",
        "",
        "## How it was made",
        "",
        "```",
        results["command"],
        "```",
        "",
        f"On {results['date']}, {machine['accelerator'] or machine['processor']}, {machine['threads']} threads, torch "
        f"{results['versions']['torch']}, transformers {results['versions']['transformers']}, commit "
        f"{results['commit'] or 'unknown'}. The figures and the whole history are in `results.json`.",
        "",
    ]
    return "\n".join(lines)


def write_model_card(
    directory: str | os.PathLike, config: Any, results: dict[str, Any], name: str | None = None
) -> None:
    """Render the card of a checkpoint into its directory."""
    directory = Path(directory)
    card = render_model_card(name or "path/to/this/checkpoint", config.to_dict(), results)
    (directory / "README.md").write_text(card, encoding="utf-8")


def write_recipe(checkpoint: str | os.PathLike, recipe: str | os.PathLike, name: str) -> None:
    """Keep what a run measured, its config and its card in a folder of its own, without the weights.

    Args:
        checkpoint: A directory that pre-training wrote.
        recipe: The folder, `model_cards/NAME` for example; made if it is not there.
        name: The name of the checkpoint in the card.
    """
    checkpoint, recipe = Path(checkpoint), Path(recipe)
    recipe.mkdir(parents=True, exist_ok=True)
    for file in ("config.json", "results.json"):
        (recipe / file).write_bytes((checkpoint / file).read_bytes())
    (recipe / "README.md").write_text(render_recipe(recipe, name), encoding="utf-8")


def render_recipe(recipe: str | os.PathLike, name: str) -> str:
    """The card of a recipe folder, from its config.json and results.json."""
    fields, results = (
        json.loads((Path(recipe) / file).read_text(encoding="utf-8")) for file in ("config.json", "results.json")
    )
    return render_model_card(name, fields, results)
