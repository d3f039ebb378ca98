"""How commands that use a checkpoint begin: a complete model or a clear refusal, a device, the lines of a text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from transformers import PreTrainedConfig

from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoPreTrainedModel

Model = TypeVar("Model", bound=ElmoPreTrainedModel)


def load_config(name: str) -> ElmoConfig:
    """The config of an ELMo checkpoint, a directory or a name on the Hub.

    Raises: FileNotFoundError where there is no checkpoint, ValueError where it is another kind of model's.
    """
    if os.path.isdir(name) and not (Path(name) / "config.json").is_file():
        raise FileNotFoundError(
            f"model_name_or_path {name!r} holds no config.json; name a checkpoint directory, or convert the old files "
            "with scripts/convert_checkpoint.py."
        )
    with _clear_about(name):
        model_type = PreTrainedConfig.get_config_dict(name)[0].get("model_type")
        if model_type != ElmoConfig.model_type:
            raise ValueError(
                f"model_name_or_path {name!r} has the model_type {model_type!r}; wanted {ElmoConfig.model_type!r}."
            )
        return ElmoConfig.from_pretrained(name)


def load_model(model_class: type[Model], name: str, dtype: torch.dtype = torch.float32) -> Model:
    """Load a checkpoint that has all weights of `model_class`.

    Args:
        model_class: The class to load.
        name: A directory, or a name on the Hub.
        dtype: Precision of the weights.
    Raises: FileNotFoundError where there is no checkpoint, ValueError where it is not ELMo's or not complete.
    """
    load_config(name)
    with _clear_about(name):
        model, report = model_class.from_pretrained(
            name, dtype=dtype, ignore_mismatched_sizes=True, output_loading_info=True
        )
    new = sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])})
    if new:
        raise ValueError(
            f"model_name_or_path {name!r} has no weights, or weights of another shape, for {new[0]!r} and "
            f"{len(new) - 1} more parameters; name a complete checkpoint of {model_class.__name__}."
        )
    return model


@contextmanager
def _clear_about(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileNotFoundError(
            f"model_name_or_path {name!r} is neither a complete checkpoint directory nor a model on the Hub that can "
            f"be reached; check the path. ({str(error).splitlines()[0]})"
        ) from error
