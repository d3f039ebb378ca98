"""Matrices that align the layers of one language's ELMo with those of another's, from the files they are published in.

Source: Schuster et al. (2019, "Cross-Lingual Alignment of Contextual Word Embeddings"), whose program multiplies a
layer's vectors by the transposed matrix of a file, one file a layer.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..given.bounded_files import MEBIBYTE, quoted, read_file
from ..given.reasons import UNREADABLE, reason
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel, ElmoScalarMix
from .checked_files import ConversionError, check_storage, dataset_names, existing_file, open_hdf5

# Stands for a layer without a matrix, which stays as it is.
NO_MATRIX = "-"

# A number written in digits takes no more.
_BYTES_A_NUMBER = 40
_LAST_NUMBER = re.compile(r"(?<!\d)(\d{1,9})\D*$")


def align_layers(model: ElmoPreTrainedModel, files: str | os.PathLike | Sequence[str | os.PathLike]) -> None:
    """Give a model's mixes a matrix for each layer, which its vectors h go through as h A^T before they are mixed.

    They are saved with the model, whose config then says `align_layers`.

    Args:
        model: Any ELMo model.
        files: A file for each layer, the token encoder's first, "-" where it has none; or one for all of them. A
            file is text (a row of numbers a line), npy, npz, hdf5 or torch's (pth), and holds a matrix (2P, 2P);
            or, for all layers, one array (L + 1, 2P, 2P), or a matrix under each of several keys that end in the
            number of a layer, from 0 on. Layers that it lacks stay as they are.
    Raises: ConversionError naming the file, the shape found and the shape wanted; FileNotFoundError.
    """
    config = model.config
    matrices = read_matrices(listed(files), config.num_hidden_layers + 1, 2 * config.projection_size)
    config.align_layers = True
    for mix in cast("Iterable[ElmoScalarMix]", cast("ElmoModel", model.base_model).mixes):
        mix.alignment = nn.Parameter(matrices.clone().to(mix.weight), requires_grad=False)


def listed(files: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str | os.PathLike]:
    """The files where one may be named by itself."""
    return [files] if isinstance(files, (str, os.PathLike)) else list(files)


def read_matrices(files: Sequence[str | os.PathLike], num_layers: int, size: int) -> Tensor:
    """The matrices of files, (layers, size, size), the identity for layers that have none.

    Args:
        files: As `align_layers`.
        num_layers: Layers, the token encoder's among them.
        size: Numbers of a layer's vector.
    Raises: ConversionError; FileNotFoundError.
    """
    if len(files) not in (1, num_layers):
        raise ConversionError(
            f"alignment_files names {len(files)} files; this model wants one for each of its {num_layers} layers, the "
            f"token encoder's first and {NO_MATRIX!r} for a layer without one, or one file for all of them."
        )
    matrices = torch.eye(size).repeat(num_layers, 1, 1)
    for place, file in enumerate(files):
        if file == NO_MATRIX:
            continue
        where = f"alignment_files {str(file)!r}"
        arrays = _read_arrays(file, where, num_layers * size * size)
        found = _by_layer(arrays, where, num_layers) if len(files) == 1 else {place: _only(arrays, where)}
        for layer, array in found.items():
            if array.shape != (size, size) or array.dtype.kind != "f":
                raise ConversionError(
                    f"{where} has a matrix of shape {array.shape} and dtype {array.dtype} for layer {layer}, wanted "
                    f"numbers of shape {(size, size)}. Name the matrices that belong to this model."
                )
            if not np.isfinite(array).all():
                raise ConversionError(f"{where} holds values that are infinite or not a number; get it again.")
            matrices[layer] = torch.from_numpy(array.astype(np.float32))
    return matrices


def _only(arrays: Mapping[str, np.ndarray], where: str) -> np.ndarray:
    if len(arrays) != 1:
        raise ConversionError(
            f"{where} holds {len(arrays)} arrays ({', '.join(map(quoted, list(arrays)[:3]))}), wanted the matrix of "
            "one layer; or name it alone, as the file of all layers."
        )
    return next(iter(arrays.values()))


def _by_layer(arrays: Mapping[str, np.ndarray], where: str, num_layers: int) -> dict[int, np.ndarray]:
    """The matrices of a file of all layers, by layer."""
    if len(arrays) == 1:
        array = next(iter(arrays.values()))
        if array.ndim == 3 and len(array) == num_layers:
            return dict(enumerate(array))
    found: dict[int, np.ndarray] = {}
    for key, array in arrays.items():
        number = _LAST_NUMBER.search(key)
        layer = -1 if number is None else int(number[1])
        if not 0 <= layer < num_layers or layer in found:
            raise ConversionError(
                f"{where} holds an array of shape {array.shape} under {quoted(key)}; wanted one array of {num_layers} "
                f"matrices, or keys that end in the number of a layer, 0 to {num_layers - 1}, each once. For the "
                f"matrix of one layer name a file for each, {NO_MATRIX!r} for those without."
            )
        found[layer] = array
    return found


def _read_arrays(file: str | os.PathLike, where: str, most_numbers: int) -> dict[str, np.ndarray]:
    """The arrays of a file of any of the kinds, by their keys; that of a file without keys has the empty one."""
    path = existing_file("alignment_files", file)
    with path.open("rb") as stream:
        start = stream.read(8)
    if start.startswith(b"\x89HDF"):
        return _read_hdf5(path, where, most_numbers)
    try:
        content = read_file(path, _BYTES_A_NUMBER * most_numbers + MEBIBYTE, where)
        if start.startswith(b"\x93NUMPY"):
            return {"": np.load(io.BytesIO(content), allow_pickle=False)}
        if start.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                names = archive.namelist()
                unpacked = sum(info.file_size for info in archive.infolist())
            if unpacked > 8 * most_numbers + MEBIBYTE:
                raise ConversionError(f"{where} unpacks to {unpacked:,} bytes, more than its matrices can have.")
            if all(name.endswith(".npy") for name in names):
                with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                    # What does not begin as an array does is given as bytes.
                    return {name: np.asarray(array) for name, array in arrays.items()}
        if start.startswith((b"PK", b"\x80")):
            return dict(_torch_arrays(content))
        text = content.decode("utf-8")
        if not text.strip():
            raise ConversionError(f"{where} is empty, wanted a matrix; get it again.")
        return {"": np.loadtxt(io.StringIO(text), dtype=np.float64, comments=None, ndmin=2)}
    except ConversionError:
        raise
    except (OSError, zipfile.BadZipFile, *UNREADABLE) as error:
        raise ConversionError(
            f"{where} is no matrix that can be read ({reason(error)}): wanted text of a row a line, npy, npz, hdf5 "
            "or torch's. It is damaged, or of another kind."
        ) from error


def _torch_arrays(content: bytes) -> Iterator[tuple[str, np.ndarray]]:
    """What torch has pickled, tensors or NumPy's arrays, whose plain forms are all that is let through."""
    rebuild = np.zeros(1).__reduce__()[0]
    names = [f"{module}._reconstruct" for module in ("numpy.core.multiarray", "numpy._core.multiarray")]
    dtypes = [type(np.dtype(kind)) for kind in (np.float32, np.float64)]
    allowed: list[Any] = [*((rebuild, name) for name in names), np.ndarray, np.dtype, *dtypes, codecs.encode]
    with torch.serialization.safe_globals([*allowed, (codecs.encode, "_codecs.encode")]):
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    for key, value in found.items() if isinstance(found, Mapping) else [("", found)]:
        yield str(key), value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _read_hdf5(path: Path, where: str, most_numbers: int) -> dict[str, np.ndarray]:
    with open_hdf5("alignment_files", path) as file:
        names = dataset_names(where, file)
        for name in names:
            check_storage(where, name, file[name])
        if sum(file[name].size for name in names) > most_numbers:
            raise ConversionError(f"{where} holds more numbers than the {most_numbers:,} of its matrices.")
        return {name: file[name][()].astype(np.float32) for name in names}
