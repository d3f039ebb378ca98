"""All that an upload has, weights included, beside a recipe's figures; the weights in half precision where wanted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from .cards import KEPT_FILES, recipe_written_aside
from .file_names import CARD_FILE, WEIGHTS_FILE
from .sharing import CODE_FILES, check_checkpoint


def write_image(checkpoint: str | os.PathLike, recipe: str | os.PathLike, name: str, dtype: torch.dtype) -> None:
    """Keep a checkpoint as a recipe folder that is a checkpoint too, which the package loads and can push.

    The code that travels with a checkpoint is left out: the package has it, and puts it beside what it pushes.

    Args:
        checkpoint, recipe, name: As of `write_recipe`.
        dtype: Of the weights' numbers. The config still names the dtype of training, in which they are loaded.
    Raises: As `write_recipe` and `check_checkpoint`; ValueError naming a weight that is too large for the dtype. The
        folder is as it was then.
    """
    with recipe_written_aside(checkpoint, recipe, name) as aside:
        for path in check_checkpoint(checkpoint):
            if path.suffix == Path(WEIGHTS_FILE).suffix:
                _write_rounded(path, aside / path.name, dtype)
            elif path.name not in (*KEPT_FILES, CARD_FILE) and not path.match(CODE_FILES):
                shutil.copyfile(path, aside / path.name)


def _write_rounded(source: Path, target: Path, dtype: torch.dtype) -> None:
    with safe_open(source, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: _round(name, file.get_tensor(name), dtype) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, target, metadata)


def _round(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    rounded = tensor.to(dtype)
    if not rounded.isfinite().all() and tensor.isfinite().all():
        raise ValueError(
            f"the weight {name} goes up to {float(tensor.abs().max()):g}, and {dtype} to {torch.finfo(dtype).max:g}; "
            "take another dtype."
        )
    return rounded
