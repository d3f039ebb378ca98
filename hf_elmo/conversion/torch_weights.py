"""Weights that other programs pickled by torch: read without running a pickle's code, and taken key by key."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from ..given.bounded_files import MEBIBYTE, quoted
from ..given.reasons import UNREADABLE, reason
from .checked_files import ConversionError, and_more, existing_file

# What else lies in such a file: names, sizes and, of torch's zip format, an index.
_NO_WEIGHTS = MEBIBYTE


class TorchWeights:
    """The tensors of one file by their keys, each of which a model's parameters must take.

    Args:
        name: What errors call the file: the argument that names it, or its kind.
        file: A state dict as `torch.save` writes it, in the zip format or the one before.
        options: What errors call the settings that the shapes follow from.
    Raises: ConversionError where it is damaged, or anything else than a dict of float32 tensors; FileNotFoundError.
    """

    def __init__(self, name: str, file: str | os.PathLike, options: str):
        self.where = f"{name} {str(file)!r}"
        self._options = options
        self._tensors = _read(name, file, self.where)
        self.keys = tuple(self._tensors)

    def __contains__(self, key: str) -> bool:
        return key in self._tensors

    def shape(self, key: str) -> tuple[int, ...]:
        """The shape of the tensor under a key.

        Raises: ConversionError where there is none.
        """
        if key not in self._tensors:
            raise ConversionError(f"{self.where} lacks the key {key!r}; it is half-written, or of another model.")
        return tuple(self._tensors[key].shape)

    def size(self, key: str, axis: int) -> int:
        """How many rows, axis 0, or columns, axis -1, the tensor under a key has.

        Raises: ConversionError where there is none, or a single number.
        """
        shape = self.shape(key)
        if not shape:
            raise ConversionError(f"{self.where}: the key {key!r} has the shape (), wanted rows; get it again.")
        return shape[axis]

    def check(self, wanted: Mapping[str, Sequence[int]], ignored: Iterable[str] = ()) -> None:
        """Check that there are exactly the keys wanted, in their shapes, with finite numbers.

        Args:
            wanted: The shape of each key.
            ignored: Keys that may be there too, with `*` for anything.
        Raises: ConversionError naming the key, the shape found and the shape wanted.
        """
        missing = [key for key in wanted if key not in self._tensors]
        if missing:
            raise ConversionError(
                f"{self.where} lacks the key {missing[0]!r}, wanted with the shape {tuple(wanted[missing[0]])}"
                f"{and_more(missing)}. It is half-written, or the weights of another model than {self._options} "
                "describes."
            )
        misshapen = [key for key, shape in wanted.items() if self.shape(key) != tuple(shape)]
        if misshapen:
            key = misshapen[0]
            raise ConversionError(
                f"{self.where}: the key {key!r} has the shape {self.shape(key)}, wanted {tuple(wanted[key])}"
                f"{and_more(misshapen)}, which follows from {self._options}. Use the files of one model."
            )
        ignored = tuple(ignored)
        extra = [key for key in self.keys if key not in wanted and not any(fnmatchcase(key, each) for each in ignored)]
        if extra:
            raise ConversionError(
                f"{self.where} holds the key {quoted(extra[0])} of shape {self.shape(extra[0])}, for which "
                f"{self._options} has no place{and_more(extra)}. Use the files of one model."
            )
        for key in wanted:
            tensor = self._tensors[key]
            if tensor.dtype != torch.float32:
                raise ConversionError(
                    f"{self.where}: the key {key!r} has the dtype {tensor.dtype}, wanted torch.float32: values are "
                    "copied bit by bit. Store it as float32 first."
                )
            broken = tensor.numel() - int(torch.isfinite(tensor).sum())
            if broken:
                raise ConversionError(
                    f"{self.where}: the key {key!r} holds {broken} values that are infinite or not a number, wanted "
                    "finite ones. The file is damaged or its training had diverged; get it again."
                )

    def __getitem__(self, key: str) -> Tensor:
        return self._tensors[key]


def _read(name: str, file: str | os.PathLike, where: str) -> dict[str, Tensor]:
    path = existing_file(name, file)
    advice = "It is truncated or damaged, or of another kind; compare its size with the published one and get it again."
    try:
        size = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as members:
                # torch packs nothing; whoever does may have an end without bounds.
                size_inside = sum(info.file_size for info in members.infolist())
            if size_inside > size:
                raise ConversionError(f"{where} unpacks to {size_inside:,} bytes from {size:,}. {advice}")
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except ConversionError:
        raise
    except (OSError, zipfile.BadZipFile, *UNREADABLE) as error:
        raise ConversionError(
            f"{where} is no file of torch's weights that can be read ({reason(error)}). {advice}"
        ) from error
    if not isinstance(found, Mapping):
        raise ConversionError(f"{where} holds a {type(found).__name__}, wanted a dict of tensors. {advice}")
    for key, value in found.items():
        if not isinstance(key, str) or type(value) not in (Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            raise ConversionError(
                f"{where}: the key {quoted(key)} is a {type(value).__name__}, wanted a dense tensor. {advice}"
            )
    # A few numbers can be a tensor of any size, where each stands for many.
    num_bytes = sum(value.numel() * value.element_size() for value in found.values())
    if num_bytes > size + _NO_WEIGHTS:
        raise ConversionError(f"{where} has tensors of {num_bytes:,} bytes in a file of {size:,}. {advice}")
    return {key: value.detach().contiguous() for key, value in found.items()}
