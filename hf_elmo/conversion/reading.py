"""What the readers of all formats share: files as mappings of keys to tensors, one check, and rules from key to key."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import PreTrainedTokenizer

from ..given.bounded_files import MEBIBYTE, quoted
from ..hub.hdf5 import require_h5py
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import WordVocabulary

# Trained weights look like noise: hardly smaller compressed than not.
_MOST_COMPRESSION = 16


class ConversionError(ValueError):
    """A checkpoint that cannot be converted; the message names the file, what was found and what was expected."""


@dataclass(frozen=True)
class Converted:
    """A checkpoint of another program, read.

    Args:
        model: In evaluation mode.
        tokenizer: Turns text into the model's inputs as the other program did.
        files: The files that were read, by what they are: "weight_file" for example.
        options: The other program's settings, for the model card.
        notes: What a user of the model has to know, a sentence each: what was left out, what differs.
        words: The words of the model's table or softmax in the order of the other program's vocabulary.
    """

    model: ElmoPreTrainedModel
    tokenizer: PreTrainedTokenizer
    files: Mapping[str, Path]
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    words: WordVocabulary | None = None


class Weights(dict[str, Tensor]):
    """The tensors of a file by their keys.

    Args:
        where: The file in errors: the argument that names it and its value.
        tensors: By their keys.
    """

    def __init__(self, where: str, tensors: Mapping[str, Tensor]):
        super().__init__(tensors)
        self.where = where

    def check(
        self, expected: Mapping[str, Sequence[int]], settings: str, ignored: Callable[[str], bool] = lambda key: False
    ) -> None:
        """Check that there are exactly the expected keys, in their shapes, finite and in float32.

        Args:
            expected: The shape of each key.
            settings: The file that the shapes follow from, for errors.
            ignored: Whether a key that is not expected may be there.
        Raises: ConversionError naming the first key that is wrong.
        """
        missing = [key for key in expected if key not in self]
        if missing:
            raise ConversionError(
                f"{self.where} lacks the key {missing[0]!r} of shape {tuple(expected[missing[0]])}{and_more(missing)}, "
                f"expected according to {settings}. It is incomplete, or of another model: get both files again."
            )
        misshapen = [key for key, shape in expected.items() if tuple(self[key].shape) != tuple(shape)]
        if misshapen:
            key = misshapen[0]
            raise ConversionError(
                f"{self.where}: the key {key!r} has the shape {tuple(self[key].shape)}, expected "
                f"{tuple(expected[key])} according to {settings}{and_more(misshapen)}. Use the files of one model."
            )
        extra = [key for key in self if key not in expected and not ignored(key)]
        if extra:
            raise ConversionError(
                f"{self.where} holds the key {quoted(extra[0])} of shape {tuple(self[extra[0]].shape)}, not expected "
                f"according to {settings}{and_more(extra)}. Use the files of one model."
            )
        for key in expected:
            tensor = self[key]
            if tensor.dtype != torch.float32 or tensor.layout != torch.strided:
                raise ConversionError(
                    f"{self.where}: the key {key!r} is {tensor.dtype}, {tensor.layout}; expected dense float32, since "
                    "values are copied bit by bit. Store it as float32 first."
                )
            if num_broken := tensor.numel() - int(tensor.isfinite().sum()):
                raise ConversionError(
                    f"{self.where}: the key {key!r} holds {num_broken} values that are infinite or not a number. The "
                    "file is damaged, or its training had diverged: get it again."
                )


class Layout(NamedTuple):
    """How the numbers under one key lie in our parameters; each function undoes the other bit by bit."""

    to_ours: Callable[[Tensor], Sequence[Tensor]]
    to_theirs: Callable[..., Tensor]


SAME = Layout(lambda theirs: (theirs,), lambda ours: ours)


class Rule(NamedTuple):
    """A key of another program's and the parameters of ElmoModel that hold the same numbers."""

    key: str
    parameters: tuple[str, ...]
    layout: Layout = SAME


def expected_shapes(rules: Iterable[Rule], config: ElmoConfig, where: str) -> dict[str, tuple[int, ...]]:
    """The shape under each key; no memory is taken for them.

    Args:
        rules: Of the keys.
        config: Of the model.
        where: The file with the sizes, in errors.
    Raises: ConversionError for sizes that no machine holds.
    """
    try:
        with torch.device("meta"):
            ours = ElmoModel(config).state_dict()
        return {rule.key: tuple(rule.layout.to_theirs(*map(ours.get, rule.parameters)).shape) for rule in rules}
    except (RuntimeError, OverflowError, TypeError) as error:
        raise ConversionError(f"{where} asks for sizes that are too large ({one_line(error)}).") from error


def to_ours(rules: Iterable[Rule], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters by their names, from checked weights."""
    return {
        name: tensor
        for rule in rules
        for name, tensor in zip(rule.parameters, rule.layout.to_ours(weights[rule.key]), strict=True)
    }


def make_config(where: str, names: Mapping[str, str], fields: Mapping[str, Any]) -> ElmoConfig:
    """The config of another program's settings.

    Args:
        where: The settings in errors.
        names: What they call a field of `ElmoConfig`.
        fields: Of the config.
    Raises: ConversionError naming the setting, its value and the values allowed.
    """
    try:
        return ElmoConfig(**fields)
    except (ValueError, TypeError, StrictDataclassError) as error:
        told = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), one_line(error)[:400])
        raise ConversionError(f"{where} describes no valid model: {told}") from error


def make_tokenizer(options: Mapping[str, Any] | None, **fixed: Any) -> ElmoCharTokenizer:
    """The tokenizer of a converted model, which splits text at white space unless the options say otherwise."""
    return ElmoCharTokenizer(**{"pre_tokenizer": "whitespace", **(options or {}), **fixed})


def add_word_softmax(model: ElmoModel, words: WordVocabulary, weight: Tensor, bias: Tensor) -> ElmoForPreTraining:
    """The model with a word softmax of weights (V, P) and biases (V,) on top; all share the parameters given."""
    config = ElmoConfig.from_dict({**model.config.to_dict(), "word_vocab_size": len(words)})
    # The largest softmax takes 1.6 GB and seconds to initialize: nothing of it is made twice.
    with torch.device("meta"):
        whole = ElmoForPreTraining(config)
    parameters = {f"{whole.base_model_prefix}.{name}": tensor for name, tensor in model.state_dict().items()}
    parameters |= {"word_softmax.weight": weight, "word_softmax.bias": bias}
    whole.load_state_dict(parameters, assign=True)
    whole.words = words.words
    return whole.eval()


def existing_file(name: str, file: str | os.PathLike) -> Path:
    """The path of an input file.

    Raises: FileNotFoundError naming the argument `name`.
    """
    path = Path(file)
    if not path.is_file():
        found = "is a directory" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{name} {str(file)!r} {found}; name an existing file.")
    return path


def read_object(name: str, file: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file.

    Raises: ConversionError; FileNotFoundError naming the argument `name`.
    """
    path = existing_file(name, file)
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"{name} {str(file)!r} is not JSON ({one_line(error)}); get it again.") from error
    if not isinstance(content, dict):
        raise ConversionError(f"{name} {str(file)!r} holds a {type(content).__name__}, expected an object of settings.")
    return content


def read_lines(name: str, file: str | os.PathLike, content: bytes | None = None) -> list[str]:
    """The lines of a text file in UTF-8, or of its content where that was decompressed.

    Raises: ConversionError naming the first line that is not UTF-8; FileNotFoundError naming the argument `name`.
    """
    content = existing_file(name, file).read_bytes() if content is None else content
    try:
        return content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConversionError(f"{name} {str(file)!r}, line {line} is not UTF-8; convert the file first.") from error


def read_hdf5(name: str, file: str | os.PathLike) -> Weights:
    """The arrays of an hdf5 file by their keys; links are not followed, whether into the file or out of it.

    Raises: ConversionError; FileNotFoundError naming the argument `name`; ImportError.
    """
    h5py = require_h5py("bilm-tf weights")
    path = existing_file(name, file)
    where = f"{name} {str(file)!r}"
    arrays: dict[str, Any] = {}

    def collect(key: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            arrays[key] = item

    try:
        with h5py.File(path, "r") as opened:
            opened.visititems(collect)
            outside = [key for key, array in arrays.items() if array.is_virtual or array.external]
            if outside:
                raise ConversionError(
                    f"{where}: the key {outside[0]!r} has its values in another file, which is not read."
                )
            if sum(array.nbytes for array in arrays.values()) > _MOST_COMPRESSION * path.stat().st_size + MEBIBYTE:
                raise ConversionError(f"{where} asks for more memory than its size can fill; it is damaged.")
            return Weights(where, {key: _to_tensor(array[()]) for key, array in arrays.items()})
    except ConversionError:
        raise
    except Exception as error:  # what h5py raises depends on where the damage lies
        raise ConversionError(f"{where} is not a readable hdf5 file{_damage(error)}") from error


def read_torch(name: str, file: str | os.PathLike) -> Weights:
    """A state dict that `torch.save` wrote, by its keys; no code of the pickle runs.

    Raises: ConversionError; FileNotFoundError naming the argument `name`.
    """
    where = f"{name} {str(file)!r}"
    path = existing_file(name, file)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        return Weights(where, {str(key): torch.as_tensor(value).detach() for key, value in found.items()})
    except Exception as error:  # what torch raises depends on where the damage lies
        raise ConversionError(f"{where} is not a readable state dict of torch{_damage(error)}") from error


def _to_tensor(value: Any) -> Tensor:
    # Of whichever byte order the file has.
    array = np.asarray(value)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def _damage(error: Exception) -> str:
    # torch says on the lines that follow how to run a pickle's code all the same.
    reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
    return f" ({reason}): it is truncated, damaged or of another kind. Compare its size with the published one."


def and_more(things: Collection[Any]) -> str:
    """How many there are beside the first."""
    return f" (and {len(things) - 1} more)" if len(things) > 1 else ""


def one_line(error: Exception) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(error).split())
