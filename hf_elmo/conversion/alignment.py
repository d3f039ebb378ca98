"""Matrices that align the layers of one language's ELMo with those of another's.

Source: Schuster et al. (2019, "Cross-Lingual Alignment of Contextual Word Embeddings"), whose program multiplies a
layer's vectors by the transposed matrix of a file, one file a layer.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..given import reason
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel, ElmoScalarMix
from .reading import existing_file

# Stands for a layer without a matrix.
NO_MATRIX = "-"


def align_layers(model: ElmoPreTrainedModel, files: Sequence[str | os.PathLike]) -> None:
    """Give a model's mixes a matrix A for each layer: the layer's vectors h go through h A^T before they are mixed.

    The matrices are saved with the model, whose config then says `align_layers`.

    Args:
        files: One for each layer, the token encoder's first, "-" for a layer without one: a matrix (2P, 2P) as text (a
            row of numbers a line), npy, or what `torch.save` wrote (pth).
    Raises: ValueError naming the file, the shape found and the shape expected; FileNotFoundError.
    """
    config = model.config
    num_layers, size = config.num_hidden_layers + 1, 2 * config.projection_size
    if len(files) != num_layers:
        raise ValueError(
            f"alignment_files names {len(files)} files, expected one for each of the {num_layers} layers, the token "
            f"encoder's first and {NO_MATRIX!r} for a layer without one."
        )
    identity = torch.eye(size)
    matrices = torch.stack([identity if file == NO_MATRIX else _read_matrix(file, size) for file in files])
    config.align_layers = True
    for mix in cast("Iterable[ElmoScalarMix]", cast("ElmoModel", model.base_model).mixes):
        mix.alignment = nn.Parameter(matrices.clone().to(mix.weight), requires_grad=False)


def _read_matrix(file: str | os.PathLike, size: int) -> Tensor:
    path = existing_file("alignment_files", file)
    where = f"alignment_files {str(file)!r}"
    try:
        array = np.asarray(_load(path))
    except Exception as error:  # what the libraries raise depends on where the damage lies
        raise ValueError(f"{where} is not a readable matrix, as text, npy or pth ({reason(error)}).") from error
    if array.shape != (size, size) or array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ValueError(
            f"{where} holds an array of shape {array.shape} and dtype {array.dtype}, expected finite numbers of shape "
            f"{(size, size)}. Name the matrices that belong to this model."
        )
    return torch.from_numpy(array.astype(np.float32))


def _load(path: Path) -> Any:
    with path.open("rb") as stream:
        start = stream.read(2)
    if start == b"\x93N":
        return np.load(path, allow_pickle=False)
    if start in (b"PK", b"\x80\x02"):
        # Published matrices are NumPy's arrays, whose plain form is all that is let through besides tensors.
        rebuild = np.zeros(1).__reduce__()[0]
        allowed: list[Any] = [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
        allowed += [np.ndarray, np.dtype, *(type(np.dtype(kind)) for kind in (np.float32, np.float64))]
        with torch.serialization.safe_globals([*allowed, (codecs.encode, "_codecs.encode")]):
            found = torch.load(path, map_location="cpu", weights_only=True)
        return found.detach() if isinstance(found, Tensor) else found
    return np.loadtxt(path, ndmin=2)
