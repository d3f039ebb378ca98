"""AllenNLP's archives of trained models, 0.x to 2.x: the biLM inside of them with the mixes that the task learned.

What is read is `weights.th`: where a task fine-tuned the biLM, the hdf5 in the archive is the one from before. Numbers
are copied; only the gates of the highway layers, which mean the opposite here, change their sign.

A task's own layers are left out. The one tagger with ELMo that AllenNLP published (ner-model-2018.12.18) also reads
characters, by a convolution over code points of its own vocabulary, padded to the longest word of the batch: no model
here gives its numbers.

Source: allennlp/modules/elmo.py, elmo_lstm.py, highway.py and lstm_cell_with_projection.py, the same from 0.9 to 2.10.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ..given import quoted
from ..model.configuration_elmo import ElmoConfig, EmbeddingsHead
from ..model.modeling_elmo import ElmoModel
from . import reading
from .bilm_tf import read_config
from .reading import Converted, Layout, Rule, Weights

_CONFIG, _WEIGHTS = "config.json", ("weights.th", "best.th")
_OPTIONS = "options_file"
_TOKENS = "_elmo_lstm._token_embedder."
_CHARACTERS = f"{_TOKENS}_char_embedding_weights"
# Vectors of the words of `vocab_to_cache`, which were computed.
_CACHE = "_elmo_lstm._word_embedding.weight"
FILES = "an archive of AllenNLP with config.json and weights.th"
LICENSE = "AllenNLP is under Apache-2.0"
# Fixed in the program, whatever the options say.
_CHARACTERS_PER_WORD = 50
# All of the forget gates' bias is in the weights.
FORGET_BIAS = 0.0
CARRIED_STATES = (
    "The other program carries the LSTM states from batch to batch, so that its vectors of a sentence depend on what "
    "was read before; here they start from zeros unless a state is given."
)

# A highway layer's map and gate are the halves of one matrix. Their gate says how much is carried, ours how much is
# mapped.
_HIGHWAY = Layout(
    lambda theirs: (theirs.chunk(2)[0], -theirs.chunk(2)[1]), lambda transform, carry: torch.cat([transform, -carry])
)
_CELL_PARTS = {
    "input_linearity.weight": "weight_ih",
    "state_linearity.weight": "weight_hh",
    "state_linearity.bias": "bias",
    "state_projection.weight": "weight_hr",
}


def recognizes(source: Path) -> bool:
    """Whether a directory holds the files of an archive."""
    return (source / _CONFIG).is_file() and any((source / name).is_file() for name in _WEIGHTS)


def read(
    source: Path,
    *,
    options_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> Converted:
    """Read the ELMo of an archive's directory; those of 1.0 and later hold no options of the biLM."""
    experiment = reading.read_object("file", source / _CONFIG)
    path = next((source / name for name in _WEIGHTS if (source / name).is_file()), source / _WEIGHTS[0])
    options_path = _find_options(source, experiment) if options_file is None else Path(options_file)
    options, where = reading.read_object(_OPTIONS, options_path), f"{_OPTIONS} {str(options_path)!r}"
    weights = reading.read_torch("file", path)
    found = [key.removesuffix(_CHARACTERS) for key in weights if key.endswith(_CHARACTERS)]
    if len(found) != 1:
        named = ", ".join(map(quoted, found[:3]))
        raise ValueError(f"{weights.where} has {len(found)} keys ...{_CHARACTERS} ({named}), expected one ELMo's.")
    settings = {"do_layer_norm": False, "dropout": 0.5, "requires_grad": False, **next(_elmo_settings(experiment), {})}
    model = _build(options, where, weights, found[0], settings)
    notes = [CARRIED_STATES]
    if not model.config.freeze_bilm:
        notes.append("The task fine-tuned the biLM: its vectors are not those of the model that the task began with.")
    left_out = dict.fromkeys(_module_of(key) for key in weights if not key.startswith(found[0]))
    if left_out:
        notes.append(
            f"The layers of the task were left out: {', '.join(left_out)}. `ElmoEmbeddings` gives the mixes with their "
            f"dropout, {settings['dropout']}."
        )
    tokenizer = reading.make_tokenizer(tokenizer_options, max_characters_per_word=_CHARACTERS_PER_WORD)
    files = {path.name: path, _CONFIG: source / _CONFIG, _OPTIONS: options_path}
    return Converted(model, tokenizer, files, options, tuple(notes))


def _find_options(source: Path, experiment: dict[str, Any]) -> Path:
    """The archive's own options of its biLM; several that are equal are one."""
    found = sorted(path for path in (source / "fta").glob(f"*{_OPTIONS}") if path.is_file())
    if len({path.read_bytes() for path in found}) == 1:
        return found[0]
    named = ", ".join(quoted(node[_OPTIONS]) for node in _elmo_settings(experiment)) or "none"
    raise ValueError(
        f"source {str(source)!r} holds {len(found) or 'no'} options of a biLM ({_CONFIG} names {named}), without which "
        "its lstm.cell_clip and lstm.proj_clip are unknown. Name the options.json of the biLM that the task began with "
        "by options_file."
    )


def _elmo_settings(node: Any) -> Iterator[dict[str, Any]]:
    """The parts of an experiment's settings that are an ELMo's."""
    if isinstance(node, dict) and isinstance(node.get(_OPTIONS), str):
        yield node
    elif isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _elmo_settings(value)


def _build(
    options: Mapping[str, Any], where: str, weights: Weights, prefix: str, settings: Mapping[str, Any]
) -> ElmoModel:
    """The model whose weights have a prefix, with its learned mixes; even ones where the archive has none."""
    num_mixes = sum(key.startswith(f"{prefix}scalar_mix_") and key.endswith(".gamma") for key in weights)
    own = {"dropout": "dropout", "mix_normalization": "do_layer_norm", "freeze_bilm": "requires_grad"}
    fields = read_config(options, where, words=None).to_dict() | {
        "forget_bias": FORGET_BIAS,
        "max_characters_per_word": _CHARACTERS_PER_WORD,
        # A biLM inside of a task has none there.
        "dropout": 0.0,
        "num_mixes": max(1, num_mixes),
        "mix_normalization": "batch" if settings["do_layer_norm"] is True else "none",
        "freeze_bilm": settings["requires_grad"] is not True,
        "head": {"type": EmbeddingsHead.type, "dropout": settings["dropout"]},
    }
    config = reading.make_config(f"{_CONFIG} of the archive", own, fields)
    rules = [
        Rule(f"{prefix}{_CHARACTERS}", ("token_encoder.character_embedding.weight",)),
        *encoder_rules(config, f"{prefix}{_TOKENS}char_conv_", f"{prefix}{_TOKENS}_"),
        *bilm_rules(config, f"{prefix}_elmo_lstm._elmo_lstm."),
    ]
    rules += [Rule(f"{prefix}scalar_mix_{index}.gamma", (f"mixes.{index}.scale",)) for index in range(num_mixes)]
    mixed = {
        f"mixes.{index}.weight": [
            f"{prefix}scalar_mix_{index}.scalar_parameters.{layer}" for layer in range(config.num_hidden_layers + 1)
        ]
        for index in range(num_mixes)
    }
    others = {key: (1,) for keys in mixed.values() for key in keys}
    # What lies outside of the prefix is the task's.
    ignored = {key for key in weights if not (prefix and key.startswith(prefix)) or key == f"{prefix}{_CACHE}"}
    parameters = reading.take_parameters(weights, rules, config, where, others, ignored)
    parameters |= {name: torch.cat([weights[key] for key in keys]) for name, keys in mixed.items()}
    return reading.make_model(config, parameters)


def encoder_rules(config: ElmoConfig, convolutions: str, rest: str = "") -> Iterator[Rule]:
    """The rules of a token encoder, for keys that begin with `convolutions`, up to a number, and with `rest`."""
    for part in ("weight", "bias"):
        if config.token_inputs != "words":
            for index in range(len(config.filters)):
                yield Rule(f"{convolutions}{index}.{part}", (f"token_encoder.convolutions.{index}.{part}",))
            for index in range(config.num_highway_layers):
                ours = tuple(f"token_encoder.highways.{index}.{half}.{part}" for half in ("transform", "carry"))
                yield Rule(f"{rest}highways._layers.{index}.{part}", ours, _HIGHWAY)
        yield Rule(f"{rest}projection.{part}", (f"token_encoder.projection.{part}",))


def bilm_rules(config: ElmoConfig, prefix: str = "") -> Iterator[Rule]:
    """The rules of the LSTM cells, whose gates stand in our order (i, f, g, o); keys begin with the prefix."""
    for layer in range(config.num_hidden_layers):
        for direction in ("forward", "backward"):
            cell, lstm = f"{prefix}{direction}_layer_{layer}", f"bilm.layers.{layer}.{direction}_lstm"
            yield from (Rule(f"{cell}.{theirs}", (f"{lstm}.{ours}",)) for theirs, ours in _CELL_PARTS.items())


def _module_of(key: str) -> str:
    """The module of a key, as far as it says what the module is for."""
    return ".".join(name for name in key.split(".")[:-1][:2] if not name.startswith("_module"))
