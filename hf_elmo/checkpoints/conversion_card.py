"""The card of a converted checkpoint: the files it was made from, by name, size and digest; it has no figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import card_parts
from .facts import Facts
from .tables import markdown_table

_USE = ("To give word vectors to a task that trains its own layers on top, as the model it was made from does.",)
_LIMITS = (
    "It knows what the model it was made from knows, and has its biases; see that model's own description and licence.",
    "Nothing was measured in converting it: numbers were moved and none computed.",
)


def render_conversion_card(
    name: str,
    fields: Mapping[str, Any],
    conversion: Mapping[str, Any],
    facts: Facts | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    layers: str | None = None,
) -> str:
    """The card of a converted checkpoint, in Markdown.

    Args:
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config.
        conversion: What it was made from, as in conversion.json.
        facts: What else is known.
        tokenizer: Fields of tokenizer_config.json, for how text is cut.
        layers: The section on what each layer knows.
    Raises: ValueError naming what conversion.json or the config lack.
    """
    with card_parts.only_what_was_measured(name, "Convert the files anew with hf-elmo convert."):
        files = [
            [argument, f"`{file['name']}`", f"{file['bytes']:,}", f"`{file['sha256']}`"]
            for argument, file in conversion["files"].items()
        ]
        parts = [
            card_parts.front_matter(
                name, facts, "feature-extraction", ["feature-extraction", "contextual-word-embeddings"]
            ),
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            f"{card_parts.WHAT_ELMO_IS} Converted with hf_elmo from {conversion['format']} files.",
            f"## Use\n\n{card_parts.vectors_snippet(name)}\n\n{card_parts.describe_cutting(tokenizer)}",
            card_parts.uses_and_limits(facts, _USE, _LIMITS),
            *([card_parts.training_data(facts)] if facts else []),
            f"## What it is\n\n{_sizes(fields)}",
            "## Made from\n\n" + markdown_table(["", "file", "bytes", "SHA-256"], files, align="llrl"),
            *([conversion["licence"]] if "licence" in conversion else []),
            *(["\n".join(f"- {note}" for note in conversion["notes"])] if "notes" in conversion else []),
            *_options(conversion),
            *([layers] if layers else []),
            card_parts.origin(conversion, "All of this is in `conversion.json`."),
            *card_parts.citation(facts),
        ]
    return "\n\n".join(parts) + "\n"


def _sizes(fields: Mapping[str, Any]) -> str:
    sizes = ("num_hidden_layers", "cell_size", "projection_size")
    words = fields.get("word_vocab_size")
    return card_parts.key_value_table(
        {
            "layers, cells, projection": ", ".join(str(fields[name]) for name in sizes),
            **_token_inputs(fields),
            "words of the softmax": f"{words:,}" if words else "none: it gives vectors and no probabilities",
        }
    )


def _token_inputs(fields: Mapping[str, Any]) -> dict[str, str]:
    """What words are read by; configs from before there was a choice read characters."""
    kind = fields.get("token_inputs", "characters")
    words = {} if kind == "characters" else {"words of its table": f"{fields['word_table_size']:,}"}
    filters = ", ".join(f"({width}, {count})" for width, count in fields["filters"])
    return words if kind == "words" else {**words, "filters (width, count)": filters}


def _options(conversion: Mapping[str, Any]) -> list[str]:
    if not conversion.get("options"):
        return []
    return [
        f"Its options file says:\n\n```json\n{json.dumps(conversion['options'], indent=2, ensure_ascii=False)}\n```"
    ]
