"""AllenNLP's archives of trained models, 0.x to 2.x: the biLM inside them with its learned mixes, or a whole tagger.

What is read is `weights.th`: where a task fine-tuned the biLM, the hdf5 that lies in the archive beside it is the one
from before. Numbers are copied; only the gates of the highway layers, which say the opposite here, change their sign,
and a linear map between a tagger's mix and its LSTM is multiplied into the LSTM's weights.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from ..given.bounded_files import MEBIBYTE, quoted
from ..given.bounded_json import read_json
from ..model.configuration_elmo import ElmoConfig, EmbeddingsHead, TokenClassificationHead
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from ..model.modeling_elmo_tasks import ElmoForTokenClassification
from ..model.tokenization_elmo import ElmoCharTokenizer
from .allennlp_keys import FORGET_BIAS, KeyRule, bilm_rules, encoder_rules, parameter_shapes, take, wanted_shapes
from .allennlp_tagger import NotHeld, load_tagger
from .bilm_tf_options import read_config, read_options
from .checked_files import ConversionError
from .foreign import ForeignFormat, ForeignModel
from .torch_weights import TorchWeights

_CONFIG, _WEIGHTS = "config.json", ("weights.th", "best.th")
_OPTIONS = "options_file"
_BELOW = "_elmo_lstm._token_embedder."
_CHARACTERS = f"{_BELOW}_char_embedding_weights"
_LSTM = "_elmo_lstm._elmo_lstm."
# Of the words of `vocab_to_cache`: vectors that were computed, no weights.
_CACHE = "_elmo_lstm._word_embedding.weight"
# Fixed in the program, whatever the options say.
_CHARACTERS_PER_WORD = 50


def load_source(
    source: Path,
    *,
    options_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> ForeignModel:
    """Read the ELMo of an AllenNLP archive.

    Args:
        source: The directory of an archive's files.
        options_file: options.json of its biLM. Archives of 0.x hold it; later ones do not, and the clips that it says
            are nowhere else.
        tokenizer_options: How the tokenizer cuts text: arguments of `ElmoCharTokenizer`.
    Raises: ConversionError naming the file, what was found and what is wanted; FileNotFoundError.
    """
    experiment = _read_experiment(source)
    path = next((source / name for name in _WEIGHTS if (source / name).is_file()), source / _WEIGHTS[0])
    options_path = _find_options(source, experiment, options_file)
    weights = TorchWeights("the weights", path, f"{_OPTIONS} {str(options_path)!r}")
    prefix = _find_elmo(weights)
    settings = _elmo_settings(experiment)
    config = _config(options_path, settings, weights, prefix)
    model: ElmoPreTrainedModel
    elmo = model = _load_elmo(config, weights, prefix)
    notes = _notes(settings)
    try:
        model = load_tagger(source, experiment, weights, prefix, elmo)
        notes += _tagger_notes(model)
    except NotHeld as reason:
        notes += _left_out(weights, prefix, settings, str(reason))
    tokenizer = ElmoCharTokenizer(
        **{"pre_tokenizer": "whitespace", **(tokenizer_options or {})}, max_characters_per_word=_CHARACTERS_PER_WORD
    )
    files = {path.name: path, _CONFIG: source / _CONFIG, _OPTIONS: options_path}
    return ForeignModel(model, tokenizer, files, read_options(options_path), tuple(notes))


ALLENNLP = ForeignFormat(
    name="allennlp",
    files="an AllenNLP archive (model.tar.gz, or its directory) with config.json and weights.th",
    licence="AllenNLP is under Apache-2.0; the weights have the licence of whoever published them.",
    recognises=lambda source: (source / _CONFIG).is_file() and any((source / name).is_file() for name in _WEIGHTS),
    load=load_source,
)


def _read_experiment(source: Path) -> dict[str, Any]:
    path = source / _CONFIG
    if not path.is_file():
        raise ConversionError(f"source {str(source)!r} holds no {_CONFIG}; name a whole archive, or its directory.")
    where = f"the experiment {str(path)!r}"
    try:
        content = read_json(path, where, MEBIBYTE)
    except ValueError as error:
        raise ConversionError(str(error)) from error
    if not isinstance(content, dict):
        raise ConversionError(f"{where} holds a {type(content).__name__}, wanted an object.")
    return content


def _find_options(source: Path, experiment: dict[str, Any], given: str | os.PathLike | None) -> Path:
    """The options of the biLM: those given, or the archive's own."""
    if given is not None:
        return Path(given)
    folder = source / "fta"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path for path in found if path.is_file() and path.name.endswith(_OPTIONS)]
    if len({path.read_bytes() for path in found if path.stat().st_size <= MEBIBYTE}) == 1:
        return found[0]
    named = [node[_OPTIONS] for node in _elmo_nodes(experiment)]
    said = f"{_CONFIG} names {', '.join(map(quoted, named[:3]))}" if named else f"{_CONFIG} names none"
    raise ConversionError(
        f"source {str(source)!r} holds {len(found) or 'no'} options of a biLM ({said}), and of its clips the weights "
        "say nothing. Name the options.json of the biLM that it was trained with by options_file: that of the "
        "published model, or one with lstm.cell_clip and lstm.proj_clip as they were."
    )


def _elmo_nodes(node: Any) -> Iterator[dict[str, Any]]:
    """The parts of an experiment's settings that are an ELMo's."""
    if isinstance(node, dict) and isinstance(node.get(_OPTIONS), str):
        yield node
    elif isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _elmo_nodes(value)


def _elmo_settings(experiment: dict[str, Any]) -> dict[str, Any]:
    """What the experiment says of its ELMo, with the program's defaults."""
    defaults = {"do_layer_norm": False, "dropout": 0.5, "requires_grad": False}
    found = [{name: node.get(name, value) for name, value in defaults.items()} for node in _elmo_nodes(experiment)]
    settings = found[0] if found else defaults
    for name, value in settings.items():
        fits = isinstance(value, (int, float)) and 0 <= value < 1 if name == "dropout" else isinstance(value, bool)
        if not fits or any(other[name] != value for other in found):
            values = ", ".join(quoted(other[name]) for other in found[:3])
            wanted = "a number from 0 to less than 1" if name == "dropout" else "true or false"
            raise ConversionError(f"{_CONFIG}: {name!r} of its ELMo is {values}; wanted {wanted}, and one alone.")
    return settings


def _find_elmo(weights: TorchWeights) -> str:
    """What the keys of the ELMo begin with."""
    found = [key.removesuffix(_CHARACTERS) for key in weights.keys if key.endswith(_CHARACTERS)]
    if len(found) != 1:
        have = f"those of {len(found)}, {', '.join(map(quoted, found[:3]))}" if found else f"no key ...{_CHARACTERS!r}"
        raise ConversionError(f"{weights.where} holds {have}; wanted the weights of one ELMo.")
    return found[0]


def _config(options_path: Path, settings: dict[str, Any], weights: TorchWeights, prefix: str) -> ElmoConfig:
    num_mixes = sum(key.startswith(f"{prefix}scalar_mix_") and key.endswith(".gamma") for key in weights.keys)
    fields = read_config(options_path).to_dict() | {
        "forget_bias": FORGET_BIAS,
        "max_characters_per_word": _CHARACTERS_PER_WORD,
        # A biLM inside of a task has none there.
        "dropout": 0.0,
        "num_mixes": max(1, num_mixes),
        "mix_normalization": "batch" if settings["do_layer_norm"] else "none",
        "freeze_bilm": not settings["requires_grad"],
        "head": EmbeddingsHead(dropout=settings["dropout"]).to_dict(),
    }
    return ElmoConfig.from_dict(fields)


def _load_elmo(config: ElmoConfig, weights: TorchWeights, prefix: str) -> ElmoModel:
    rules = [
        KeyRule(f"{prefix}{_CHARACTERS}", ("token_encoder.character_embedding.weight",)),
        *encoder_rules(config, f"{prefix}{_BELOW}char_conv_#", f"{prefix}{_BELOW}_"),
        *bilm_rules(config, f"{prefix}{_LSTM}"),
    ]
    mixes = _mix_keys(config, weights, prefix)
    wanted = wanted_shapes(rules, parameter_shapes(config)) | {key: (1,) for keys in mixes for key in keys}
    # The rest of the archive is the task's.
    others = [key for key in weights.keys if not key.startswith(prefix)]
    weights.check(wanted, ignored=[*others, f"{prefix}{_CACHE}"] if prefix else ["*"])
    model = ElmoModel(config)
    parameters: dict[str, Tensor] = take(rules, weights)
    for index, (scale, *shares) in enumerate(mixes):
        parameters[f"mixes.{index}.scale"] = weights[scale]
        parameters[f"mixes.{index}.weight"] = torch.cat([weights[key] for key in shares])
    model.load_state_dict({**model.state_dict(), **parameters})
    return model.eval()


def _mix_keys(config: ElmoConfig, weights: TorchWeights, prefix: str) -> list[list[str]]:
    """For each learned mix the keys of its scale and of the layers' weights; none where the archive has none."""
    if not any(key.startswith(f"{prefix}scalar_mix_") for key in weights.keys):
        return []
    return [
        [
            f"{prefix}scalar_mix_{index}.gamma",
            *(f"{prefix}scalar_mix_{index}.scalar_parameters.{layer}" for layer in range(config.num_hidden_layers + 1)),
        ]
        for index in range(config.num_mixes)
    ]


def _notes(settings: dict[str, Any]) -> list[str]:
    notes = [
        "Its program carries the LSTMs' states from batch to batch, so that a sentence's vectors depended on what was "
        "read before; here they start from zeros unless a state is given.",
    ]
    if settings["requires_grad"]:
        notes.append("The task fine-tuned the biLM: its vectors are not those of the model that the task began with.")
    return notes


def _tagger_notes(model: ElmoForTokenClassification) -> list[str]:
    head = cast("TokenClassificationHead", model.config.head)
    notes = [
        f"It is the task's whole tagger, of {model.num_labels} labels: AutoModelForTokenClassification loads it, and "
        "hf-elmo predict labels the words of a text."
    ]
    if head.lower_case_words:
        notes.append(
            "Words are looked up with their letters A to Z lowered; its program lowers those of all alphabets."
        )
    if head.scheme == "BIOES":
        notes.append(
            "Labels of BIOUL have the letters of BIOES: E for L, the end of a span, and S for U, a single word."
        )
    return notes


def _left_out(weights: TorchWeights, prefix: str, settings: dict[str, Any], reason: str) -> list[str]:
    left = dict.fromkeys(_part_of(key) for key in weights.keys if not key.startswith(prefix))
    if not left:
        return []
    return [
        f"Of the task's model the ELMo alone is here, because {reason}. Left out: {', '.join(left)}. "
        f"`ElmoEmbeddings` gives its mixes with their dropout, {settings['dropout']}."
    ]


def _part_of(key: str) -> str:
    """The module of a key that is named in a list of what was left out."""
    names = key.split(".")[:-1]
    return ".".join(name for name in names[:2] if not name.startswith("_module"))
