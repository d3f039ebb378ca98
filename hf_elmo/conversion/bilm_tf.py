"""bilm-tf checkpoints (the released ELMo models: options.json and weights.hdf5) to ElmoModel and back, bit by bit.

No number is computed: values are copied, and only their places change. The forget gate's constant 1, which bilm-tf adds
while it runs, is `ElmoConfig.forget_bias` here.

Letters in shapes: D character embedding, N filters of one width W, P projection, H cell.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor
from torch.nn import functional as F

from ..checkpoint_files import check_keeps_inputs, check_output_directory, files_written_aside, written_aside
from ..configuration_elmo import ElmoConfig
from ..modeling_elmo import ElmoModel, ElmoPreTrainedModel
from ..tokenization_elmo import ElmoCharTokenizer
from .bilm_tf_keys import (
    CHARACTERS_OPTION,
    FORGET_BIAS,
    INFERENCE_CHARACTERS,
    OPTION_RULES,
    REQUIRED,
    STACK,
    TRAINING_CHARACTERS,
    OptionRule,
    WeightRule,
    expand_weight_rules,
)

logger = logging.getLogger(__name__)

# What `_find_option` gives for an option that is not there; null is a value.
_ABSENT = object()


class ConversionError(ValueError):
    """A checkpoint that cannot be converted: the message names the file, the key, what it holds and the way out."""


class _Layout(NamedTuple):
    """How the numbers of one hdf5 key lie in our parameters; each function undoes the other."""

    to_ours: Callable[[Tensor], tuple[Tensor, ...]]
    to_theirs: Callable[..., Tensor]


def _swap_middle_gates(rows: Tensor) -> Tensor:
    """Rows of gates in the order i, j, f, o to i, f, j, o, and back; (4H, ...)."""
    first, second, third, last = rows.chunk(4)
    return torch.cat([first, third, second, last])


_LAYOUTS = {
    "same": _Layout(lambda theirs: (theirs,), lambda ours: ours),
    "transposed": _Layout(lambda theirs: (theirs.T,), lambda ours: ours.T),
    # (261, D) to (262, D): the padding id 0 has a row of zeros here and none there.
    "without padding row": _Layout(lambda theirs: (F.pad(theirs, (0, 0, 1, 0)),), lambda ours: ours[1:]),
    # (1, W, D, N) to (N, D, W).
    "convolution": _Layout(lambda theirs: (theirs[0].permute(2, 1, 0),), lambda ours: ours.permute(2, 1, 0)[None]),
    # (P + P, 4H), inputs above recurrent, to (4H, P) and (4H, P).
    "gate weights": _Layout(
        lambda theirs: _swap_middle_gates(theirs.T).chunk(2, dim=1),
        lambda inputs, recurrent: _swap_middle_gates(torch.cat([inputs, recurrent], dim=1)).T,
    ),
    "gate bias": _Layout(lambda theirs: (_swap_middle_gates(theirs),), _swap_middle_gates),
}


def _is_integer(value: Any, smallest: int, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and smallest <= value <= largest


def _is_clip(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _is_filters(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
        and all(_is_integer(number, 1, 1_000_000) for pair in value for number in pair)
    )


# What an option must be, in words and as a test. The upper bounds keep a slip of the pen from eating all memory.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "size": ("an integer from 1 to 1000000", lambda value: _is_integer(value, 1, 1_000_000)),
    "row": ("an integer from 3 to 1000000", lambda value: _is_integer(value, 3, 1_000_000)),
    "layers": ("an integer from 1 to 1000", lambda value: _is_integer(value, 1, 1000)),
    "optional layers": ("an integer from 0 to 1000", lambda value: _is_integer(value, 0, 1000)),
    "clip": ("a number > 0, or null for no clipping", _is_clip),
    "activation": ('"relu" or "tanh"', lambda value: value in ("relu", "tanh")),
    "filters": ("a list of [width, count] pairs of integers >= 1", _is_filters),
}


# Their files to ours


def convert_bilm_tf(
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    output_dir: str | os.PathLike,
    overwrite: bool = False,
) -> ElmoModel:
    """Write a directory that AutoModel and AutoTokenizer load from a bilm-tf checkpoint.

    The tokenizer cuts text at white space, as the corpus of the released models was cut beforehand.

    Args:
        options_file: options.json, in its training or its inference form.
        weight_file: The hdf5 of weights.
        output_dir: The directory to write; on any error it is left as it was.
        overwrite: Whether a full output_dir may be replaced.
    Returns: The model that was saved.
    Raises:
        ConversionError: As `load_bilm_tf`; also when output_dir holds one of the two files, which would be lost.
        FileExistsError: output_dir is not empty and `overwrite` is not set.
        FileNotFoundError: A file is missing.
        ImportError: h5py is missing.
    """
    try:
        check_keeps_inputs(output_dir, [("options_file", options_file), ("weight_file", weight_file)])
    except ValueError as error:
        raise ConversionError(str(error)) from error
    _require_h5py()
    check_output_directory(output_dir, overwrite)
    model = load_bilm_tf(options_file, weight_file)
    tokenizer = ElmoCharTokenizer(
        pre_tokenizer="whitespace", max_characters_per_word=model.config.max_characters_per_word
    )
    with written_aside(output_dir, overwrite) as directory:
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
    return model


def load_bilm_tf(options_file: str | os.PathLike, weight_file: str | os.PathLike) -> ElmoModel:
    """Read a bilm-tf checkpoint into an ElmoModel in evaluation mode; the scalar mixes keep their starting values.

    Raises:
        ConversionError: The options are not JSON, lack a key or hold a wrong value, or the hdf5 is damaged or does not
            agree with them.
        FileNotFoundError: A file is missing.
        ImportError: h5py is missing.
    """
    config = read_config(options_file)
    weights = read_weights(weight_file, config)
    model = ElmoModel(config)
    for name in ("token_encoder", "bilm"):
        prefix = f"{name}."
        part = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
        getattr(model, name).load_state_dict(part)
    return model.eval()


def read_config(options_file: str | os.PathLike) -> ElmoConfig:
    """Turn bilm-tf's options.json into a config.

    Settings of the training run (batch size, learning rate and so on) say nothing about the weights and are left out.

    Raises: ConversionError naming the option, its value and the value wanted; FileNotFoundError.
    """
    where = f"options_file {str(options_file)!r}"
    options = _read_json(options_file)
    if "char_cnn" not in options:
        raise ConversionError(
            f"{where} lacks the key 'char_cnn': a model with word embeddings in place of characters, or not an ELMo "
            "model. Only character models can be converted; use the options.json published with such a one."
        )
    if options.get("bidirectional") is False:
        raise ConversionError(
            f"{where}: 'bidirectional' is false, but ElmoModel has both directions. Convert a bidirectional model."
        )
    _check_characters(where, _find_option(where, options, CHARACTERS_OPTION))
    fields = {rule.field: _read_option(where, options, rule) for rule in OPTION_RULES}
    try:
        return ElmoConfig(vocab_size=INFERENCE_CHARACTERS, forget_bias=FORGET_BIAS, **fields)
    except (ValueError, StrictDataclassError) as error:
        names = ", ".join(f"{rule.field} is {rule.path}" for rule in OPTION_RULES)
        raise ConversionError(f"{where} describes no valid model: {_one_line(error)} (There, {names}.)") from error


def read_weights(weight_file: str | os.PathLike, config: ElmoConfig) -> dict[str, Tensor]:
    """Read the token encoder and the biLM out of bilm-tf's hdf5.

    Of a one-layer model both forms are read: without a MultiRNNCell level, as bilm-tf's training code writes it, and
    with one, as its inference code wants it.

    Args:
        weight_file: The hdf5.
        config: The model that the options describe; every key is checked against it.
    Returns: Parameters by their names in ElmoModel, float32.
    Raises: ConversionError naming the key, what was found and what is wanted; FileNotFoundError; ImportError.
    """
    h5py = _require_h5py()
    path = _existing_file("weight_file", weight_file)
    where = f"weight_file {str(weight_file)!r}"
    try:
        with h5py.File(path, "r") as file:
            stacked = config.num_hidden_layers > 1 or STACK.format(number=0) in file
            rules = expand_weight_rules(config, stacked)
            _check_keys(where, file, rules, _wanted_shapes(config, rules))
            return {name: tensor for rule in rules for name, tensor in _read_key(where, file, rule).items()}
    # What h5py raises on a damaged file depends on where the damage lies.
    except (OSError, RuntimeError, KeyError) as error:
        raise ConversionError(
            f"{where} is not a readable hdf5 file ({_one_line(error)}): it is truncated or damaged, or of another "
            "kind. Compare its size with the published one and get it again."
        ) from error


def _require_h5py() -> ModuleType:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            "bilm-tf weights are hdf5 files, and h5py is not installed; run: pip install 'hf_elmo[conversion]'"
        ) from error
    return h5py


def _existing_file(name: str, file: str | os.PathLike) -> Path:
    path = Path(file)
    if not path.is_file():
        found = "a directory" if path.is_dir() else "not there"
        raise FileNotFoundError(f"{name} {str(file)!r} is {found}; name an existing file.")
    return path


def _read_json(options_file: str | os.PathLike) -> dict[str, Any]:
    where = f"options_file {str(options_file)!r}"
    try:
        options = json.loads(_existing_file("options_file", options_file).read_bytes())
    except ValueError as error:
        raise ConversionError(
            f"{where} is not JSON ({_one_line(error)}); name the options.json published with the weights."
        ) from error
    if not isinstance(options, dict):
        raise ConversionError(
            f"{where} holds a {type(options).__name__}, wanted an object with the keys 'lstm' and 'char_cnn'; name the "
            "options.json published with the weights."
        )
    return options


def _find_option(where: str, options: dict[str, Any], path: str) -> Any:
    """The value at a dotted path, or `_ABSENT`."""
    value: Any = options
    names = path.split(".")
    for depth, name in enumerate(names):
        if not isinstance(value, dict):
            raise ConversionError(
                f"{where}: {'.'.join(names[:depth])!r} is {value!r}; wanted an object with the key {name!r}. Correct "
                "it, or use the options.json published with the weights."
            )
        if name not in value:
            return _ABSENT
        value = value[name]
    return value


def _read_option(where: str, options: dict[str, Any], rule: OptionRule) -> Any:
    value = _find_option(where, options, rule.path)
    if rule.default is not REQUIRED and (value is _ABSENT or value is None):
        return rule.default
    wanted, is_valid = _KINDS[rule.kind]
    if value is _ABSENT:
        raise ConversionError(
            f"{where} lacks the key {rule.path!r}; wanted {wanted}. Add it, or use the options.json published with the "
            "weights."
        )
    if not is_valid(value):
        raise ConversionError(
            f"{where}: {rule.path!r} is {value!r}; wanted {wanted}. Correct it, or use the options.json published with "
            "the weights."
        )
    return value


def _check_characters(where: str, value: Any) -> None:
    if not _is_integer(value, TRAINING_CHARACTERS, INFERENCE_CHARACTERS):
        found = f"lacks the key {CHARACTERS_OPTION!r}" if value is _ABSENT else f"has {CHARACTERS_OPTION!r} {value!r}"
        raise ConversionError(
            f"{where} {found}; wanted {TRAINING_CHARACTERS} (options for training) or {INFERENCE_CHARACTERS} (options "
            "for inference), the byte scheme of the released models. Models with other characters cannot be converted."
        )


def _wanted_shapes(config: ElmoConfig, rules: list[WeightRule]) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        parameters = ElmoModel(config).state_dict()
    return {rule.key: tuple(_to_theirs(rule, parameters).shape) for rule in rules}


def _to_theirs(rule: WeightRule, parameters: dict[str, Tensor]) -> Tensor:
    return _LAYOUTS[rule.layout].to_theirs(*(parameters[name] for name in rule.parameters))


def _check_keys(where: str, file: Any, rules: list[WeightRule], shapes: dict[str, tuple[int, ...]]) -> None:
    """Check that an open hdf5 file holds exactly the keys wanted, in the shapes wanted, as written float32 arrays."""
    # First, because this walk trips over a damaged index, and looking up one key takes it for an absent key.
    found = _dataset_names(file)
    datasets = {rule.key: file.get(rule.key) for rule in rules}
    missing = [rule for rule in rules if not _is_dataset(datasets[rule.key])]
    if missing:
        reason = f" ({missing[0].absent})" if missing[0].absent else ""
        raise ConversionError(
            f"{where} lacks the key {missing[0].key!r}, wanted with the shape {shapes[missing[0].key]}"
            f"{_and_more(missing)}{reason}. It is half-written, or the weights of another model: check lstm.n_layers, "
            "char_cnn.n_highway and char_cnn.filters in options_file, or get both files again."
        )
    misshapen = [rule for rule in rules if datasets[rule.key].shape != shapes[rule.key]]
    if misshapen:
        rule = misshapen[0]
        raise ConversionError(
            f"{where}: the key {rule.key!r} has the shape {datasets[rule.key].shape}, wanted {shapes[rule.key]}"
            f"{_and_more(misshapen)}. The shape follows from {rule.options} in options_file: use the options.json "
            "published with these weights."
        )
    extra = [key for key in found if key not in shapes]
    if extra:
        raise ConversionError(
            f"{where} holds the key {extra[0]!r} of shape {file[extra[0]].shape}, for which options_file has no "
            f"place{_and_more(extra)}. Check lstm.n_layers, char_cnn.n_highway and char_cnn.filters there; if the key "
            "is no part of the model, delete it from a copy with h5py (del file[key])."
        )
    for key, dataset in datasets.items():
        if dataset.dtype.kind != "f" or dataset.dtype.itemsize != 4:
            raise ConversionError(
                f"{where}: the key {key!r} has the dtype {dataset.dtype}, wanted float32: values are copied bit by "
                "bit. Store it as float32 first."
            )
        if not _is_written(dataset):
            raise ConversionError(
                f"{where}: the key {key!r} of shape {dataset.shape} was made but never filled, wanted its values. The "
                "file is half-written; get it again."
            )


def _dataset_names(file: Any) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if _is_dataset(item) else None)
    return names


def _is_dataset(item: Any) -> bool:
    return hasattr(item, "shape")


def _is_written(dataset: Any) -> bool:
    """Whether storage was ever given to all of an hdf5 dataset; what has none reads as zeros."""
    if dataset.chunks is None:
        return dataset.id.get_storage_size() > 0
    wanted = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    return dataset.id.get_num_chunks() == wanted


def _read_key(where: str, file: Any, rule: WeightRule) -> dict[str, Tensor]:
    array = file[rule.key][()].astype(np.float32, copy=False)
    broken = array.size - int(np.isfinite(array).sum())
    if broken:
        raise ConversionError(
            f"{where}: the key {rule.key!r} holds {broken} values that are infinite or not a number, wanted finite "
            "ones. The file is damaged or its training had diverged; get it again."
        )
    return dict(zip(rule.parameters, _LAYOUTS[rule.layout].to_ours(torch.from_numpy(array)), strict=True))


def _and_more(things: Sequence[Any]) -> str:
    return f" (and {len(things) - 1} more like it)" if len(things) > 1 else ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


# Our files to theirs


def export_bilm_tf(
    model_dir: str | os.PathLike,
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    overwrite: bool = False,
) -> ElmoModel:
    """Write the biLM of a saved checkpoint as bilm-tf's two files.

    Args:
        model_dir: A directory saved by ElmoModel, ElmoForPreTraining or ElmoForTokenClassification.
        options_file: The options.json to write.
        weight_file: The hdf5 to write.
        overwrite: Whether files of these names may be replaced.
    Returns: The model that was exported.
    Raises:
        ConversionError: model_dir holds no whole ELMo checkpoint, or one that the format cannot hold (see
            `save_bilm_tf`).
        FileExistsError: A file of these names is there and `overwrite` is not set.
        FileNotFoundError: model_dir holds no config.json.
        ImportError: h5py is missing.
    """
    _require_h5py()
    _check_output_files(options_file, weight_file, overwrite)
    model = _load_checkpoint(model_dir)
    save_bilm_tf(model, options_file, weight_file, overwrite)
    return model


def save_bilm_tf(
    model: ElmoPreTrainedModel,
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    overwrite: bool = False,
) -> None:
    """Write a model's token encoder and biLM as bilm-tf's options.json (inference form) and hdf5.

    The format has no place for scalar mixes, the word softmax or a task's layers; they are left out. A one-layer model
    is written without the MultiRNNCell level, as bilm-tf's training code does. Both files are written aside and renamed
    at the end.

    Args:
        model: Any ELMo model; half-precision weights are written as the same numbers in float32.
        options_file, weight_file: The files to write.
        overwrite: Whether files of these names may be replaced.
    Raises:
        ConversionError: The format cannot hold the model exactly: forget_bias other than 1, other than 262 character
            ids, a padding character with a vector of its own, or float64 weights.
        FileExistsError: A file of these names is there and `overwrite` is not set.
        ImportError: h5py is missing.
    """
    h5py = _require_h5py()
    targets = _check_output_files(options_file, weight_file, overwrite)
    config = model.config
    _check_exportable(config)
    parameters = _float32_parameters(model.base_model)
    _warn_of_sizes_bilm_tf_skips(config)
    with files_written_aside(*targets) as (options_aside, weights_aside):
        options_aside.write_text(json.dumps(options_from_config(config), indent=2) + "\n", encoding="utf-8")
        with h5py.File(weights_aside, "w") as file:
            for rule in expand_weight_rules(config, stacked=config.num_hidden_layers > 1):
                file.create_dataset(rule.key, data=_to_theirs(rule, parameters).contiguous().numpy())


def options_from_config(config: ElmoConfig) -> dict[str, Any]:
    """The options.json of a config, in the form for inference; undoes `read_config`."""
    options: dict[str, Any] = {"lstm": {}, "char_cnn": {}}
    values = {rule.path: getattr(config, rule.field) for rule in OPTION_RULES}
    for path, value in {**values, CHARACTERS_OPTION: config.vocab_size}.items():
        *sections, name = path.split(".")
        section = options
        for level in sections:
            section = section.setdefault(level, {})
        section[name] = value
    return options


def _load_checkpoint(model_dir: str | os.PathLike) -> ElmoModel:
    where = f"model_dir {str(model_dir)!r}"
    _check_model_type(where, Path(model_dir) / "config.json")
    try:
        model, loading = ElmoModel.from_pretrained(model_dir, local_files_only=True, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, StrictDataclassError, SafetensorError) as error:
        raise ConversionError(
            f"{where} cannot be loaded ({_one_line(error)}); name a directory that AutoModel.from_pretrained loads."
        ) from error
    missing = sorted(key for key in loading["missing_keys"] if not key.startswith("mixes."))
    if missing:
        raise ConversionError(
            f"{where} lacks the weights {missing[0]!r}{_and_more(missing)}, wanted those of the whole biLM; name the "
            "directory of a complete checkpoint."
        )
    return model


def _check_model_type(where: str, config_file: Path) -> None:
    # from_pretrained takes any model's config for its own, and fails later with less to say.
    if not config_file.is_file():
        raise FileNotFoundError(f"{where} holds no config.json; name a directory written by save_pretrained.")
    try:
        config = json.loads(config_file.read_bytes())
    except ValueError as error:
        raise ConversionError(
            f"{where}: config.json is not JSON ({_one_line(error)}); name a directory written by save_pretrained."
        ) from error
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if model_type != ElmoConfig.model_type:
        raise ConversionError(
            f"{where} holds a checkpoint of model_type {model_type!r}, wanted {ElmoConfig.model_type!r}; name the "
            "directory of an ELMo model."
        )


def _check_exportable(config: ElmoConfig) -> None:
    if config.forget_bias != FORGET_BIAS:
        raise ConversionError(
            f"forget_bias is {config.forget_bias}; bilm-tf always adds {FORGET_BIAS}, and folding the difference into "
            "the learned bias would round it. Only models with forget_bias=1.0 can be exported."
        )
    if config.vocab_size != INFERENCE_CHARACTERS:
        raise ConversionError(
            f"vocab_size is {config.vocab_size}; bilm-tf's byte scheme has {INFERENCE_CHARACTERS} character ids. Only "
            "models with these can be exported."
        )


def _float32_parameters(model: ElmoModel) -> dict[str, Tensor]:
    parameters = {}
    for name, tensor in model.state_dict().items():
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise ConversionError(
                f"the parameter {name!r} has the dtype {tensor.dtype}; bilm-tf's files hold float32, and narrowing "
                "would round it. Call model.float() first if that is wanted."
            )
        parameters[name] = tensor.detach().to("cpu", torch.float32)
    if parameters["token_encoder.character_embedding.weight"][0].any():
        raise ConversionError(
            "row 0 of token_encoder.character_embedding.weight, the padding id, is not zero; bilm-tf's files have no "
            "place for it. Set that row to zeros first."
        )
    return parameters


def _warn_of_sizes_bilm_tf_skips(config: ElmoConfig) -> None:
    num_filters = sum(count for _, count in config.filters)
    if config.projection_size >= min(config.cell_size, num_filters):
        logger.warning(
            f"projection_size is {config.projection_size}, with cell_size {config.cell_size} and {num_filters} filters "
            "in all. Where it is not less than both, bilm-tf itself leaves projections out: the exported files give "
            "the same vectors here and in AllenNLP, but not in bilm-tf."
        )


def _check_output_files(
    options_file: str | os.PathLike, weight_file: str | os.PathLike, overwrite: bool
) -> tuple[Path, Path]:
    # Through a link to the file it names, which is the one to replace.
    targets = Path(options_file).resolve(), Path(weight_file).resolve()
    if targets[0] == targets[1]:
        raise ConversionError(
            f"options_file and weight_file are both {str(options_file)!r}; give the two files a name each."
        )
    for name, target in zip(("options_file", "weight_file"), targets, strict=True):
        if target.is_dir():
            raise FileExistsError(f"{name} {str(target)!r} is a directory; name a file to write.")
        if target.exists() and not overwrite:
            raise FileExistsError(
                f"{name} {str(target)!r} is there already; name another one, or pass --overwrite_output_dir to replace "
                "it."
            )
    return targets
