"""The one way to load what a checkpoint holds: its config, its model, its tokenizer, and where to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import torch
from transformers import PreTrainedConfig
from transformers.utils import cached_file

from ..given import MEBIBYTE, UNREADABLE, path_inside, read_json, reason
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from . import CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_INDEX_FILE

Model = TypeVar("Model", bound=ElmoPreTrainedModel)

# What transformers reads of a directory, and those of them that name other files.
_JSON_FILES = (CONFIG_FILE, TOKENIZER_FILE, "special_tokens_map.json", "added_tokens.json", "generation_config.json")
_INDEX_FILES = (WEIGHTS_INDEX_FILE, "pytorch_model.bin.index.json")


def load_config(name: str) -> ElmoConfig:
    """The config of an ELMo checkpoint, a directory or a name on the Hub.

    Raises: FileNotFoundError where there is no checkpoint, ValueError where it is another kind of model's.
    """
    if os.path.isdir(name) and not (Path(name) / CONFIG_FILE).is_file():
        raise FileNotFoundError(
            f"model_name_or_path {name!r} holds no {CONFIG_FILE}; name a checkpoint directory, or convert old "
            "files with hf-elmo convert."
        )
    _check_json_files(name)
    with _refused_by_name(name, f"has a {CONFIG_FILE} that describes no model"):
        model_type = PreTrainedConfig.get_config_dict(name)[0].get("model_type")
        if model_type != ElmoConfig.model_type:
            raise ValueError(f"its model_type is {model_type!r}, expected {ElmoConfig.model_type!r}")
        return ElmoConfig.from_pretrained(name)


def load_model(model_class: type[Model], name: str, dtype: torch.dtype = torch.float32) -> Model:
    """Load a checkpoint, a directory or a name on the Hub, that has all weights of `model_class`.

    Raises: FileNotFoundError where there is none; ValueError where it is not ELMo's or not complete.
    """
    config = load_config(name)
    _check_size(model_class, name, config)
    model, lacking = load_what_is_there(model_class, name, config, dtype)
    if lacking:
        raise ValueError(
            f"model_name_or_path {name!r} has no weights, or weights of another shape, for {lacking[0]!r} and "
            f"{len(lacking) - 1} more parameters; name a complete checkpoint of {model_class.__name__}."
        )
    return model


def load_what_is_there(
    model_class: type[Model], name: str, config: ElmoConfig, dtype: torch.dtype | Literal["auto"] = torch.float32
) -> tuple[Model, list[str]]:
    """A checkpoint's weights in a model that may have parts of its own, as a task's head; "auto" keeps their dtype.

    Returns: The model, and the sorted names of the parameters that had no weights of this shape, drawn at random.
    Raises: FileNotFoundError where there are no weights, ValueError where they are broken.
    """
    _check_size(ElmoModel, name, config)
    with _refused_by_name(name, "has weights that are cut off or no such thing"):
        model, report = model_class.from_pretrained(
            name, config=config, dtype=dtype, ignore_mismatched_sizes=True, output_loading_info=True
        )
    return model, sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])})


def load_tokenizer(name: str, config: ElmoConfig) -> ElmoCharTokenizer:
    """The tokenizer of a checkpoint, which must read characters as its model does.

    Raises: FileNotFoundError where it has none, ValueError where it is another model's.
    """
    if find_file(name, TOKENIZER_FILE) is None:
        raise FileNotFoundError(
            f"model_name_or_path {name!r} holds no {TOKENIZER_FILE}; put the tokenizer there that was saved with the "
            "model."
        )
    with _refused_by_name(name, f"has a {TOKENIZER_FILE} that describes no tokenizer"):
        tokenizer = ElmoCharTokenizer.from_pretrained(name)
    scheme = "bytes" if tokenizer.characters is None else "dictionary"
    for key, found, expected in (
        ("max_characters_per_word", tokenizer.max_characters_per_word, config.max_characters_per_word),
        ("character_scheme", scheme, config.character_scheme),
    ):
        if found != expected:
            raise ValueError(
                f"model_name_or_path {name!r} has {key} {found!r} in {TOKENIZER_FILE}, but its model expects "
                f"{expected!r}; put the tokenizer there that was saved with the model."
            )
    return tokenizer


def usable_device(name: str | None = None) -> torch.device:
    """The device of that name, "cuda:1" for example; None takes a GPU where there is one. ValueError without it."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        # A device can be well named and still be absent, or unable to give anything back.
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device {name!r} cannot be used here ({str(error).splitlines()[0]}); leave it out, or name one that can."
        ) from error
    return torch.device(name)


def find_file(name: str, file: str) -> str | None:
    """The path of a file of a checkpoint, a directory or a name on the Hub; None where it holds none of that name."""
    if os.path.isfile(name):
        # A config.json by itself.
        return None
    with _refused_by_name(name, f"has a {file} that cannot be found"):
        return cached_file(name, file, _raise_exceptions_for_missing_entries=False)


def _check_json_files(name: str) -> None:
    """Check that a directory's files of JSON can be read, and that the files they name lie in it too."""
    files = [Path(name)] if os.path.isfile(name) else [Path(name) / file for file in (*_JSON_FILES, *_INDEX_FILES)]
    for path in filter(Path.is_file, files):
        where = f"model_name_or_path {name!r}, {path.name}"
        content = read_json(path, where)
        if not isinstance(content, dict):
            raise ValueError(f"{where} holds a {type(content).__name__}, expected an object; write it again.")
        if path.name in _INDEX_FILES:
            shards = content.get("weight_map")
            if not isinstance(shards, dict):
                raise ValueError(f"{where} has no weight_map of names of files; write the checkpoint again.")
            for shard in set(map(str, shards.values())):
                path_inside(name, shard, where)


def _check_size(model_class: type[ElmoPreTrainedModel], name: str, config: ElmoConfig) -> None:
    """Check that the weights there can be those of a model, before memory is taken for it."""
    weights = [path for ending in ("safetensors", "bin") for path in Path(name).glob(f"*.{ending}")]
    num_bytes = sum(path.stat().st_size for path in weights)
    with torch.device("meta"), _refused_by_name(name, f"has a {CONFIG_FILE} that describes no such model"):
        num_parameters = sum(parameter.numel() for parameter in model_class(config).parameters())
    # No precision has less than a byte per parameter.
    if weights and num_parameters > num_bytes + MEBIBYTE:
        raise ValueError(
            f"model_name_or_path {name!r} has {num_bytes:,} bytes of weights, too few for the {num_parameters:,} "
            f"parameters that {CONFIG_FILE} asks for: they are cut off, or another model's. Get the checkpoint again."
        )


@contextmanager
def _refused_by_name(name: str, what: str) -> Iterator[None]:
    """Name the checkpoint, on one line, where transformers or torch cannot make sense of a file or find it."""
    try:
        yield
    except UNREADABLE as error:
        raise ValueError(
            f"model_name_or_path {name!r} {what} ({reason(error)}); copy, convert or train it again."
        ) from error
    except OSError as error:
        raise FileNotFoundError(
            f"model_name_or_path {name!r} is neither a complete checkpoint directory nor a model on the Hub that can "
            f"be reached; check the path. ({str(error).splitlines()[0]})"
        ) from error
