"""What the readers of all formats share: files as mappings of keys to tensors, one check, and rules from key to key."""

from __future__ import annotations

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

from ..given import MEBIBYTE, quoted, read_json, reason, require
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import WordVocabulary

# Trained weights look like noise, hardly smaller compressed than not, and text shrinks to a fifth.
MOST_COMPRESSION = 16


@dataclass(frozen=True)
class Converted:
    """A checkpoint of another program, read."""

    model: ElmoPreTrainedModel  # in evaluation mode
    tokenizer: PreTrainedTokenizer
    files: Mapping[str, Path]  # that were read, by what they are: "weight_file" for example
    options: Mapping[str, Any] = field(default_factory=dict)  # the other program's, for the model card
    notes: tuple[str, ...] = ()  # what was left out and what differs, a sentence each
    words: WordVocabulary | None = None  # of the model's table or softmax


class Weights(dict[str, Tensor]):
    """The tensors of a file by their keys; `where` is the file in errors, the argument that names it and its value."""

    def __init__(self, where: str, tensors: Mapping[str, Tensor]):
        super().__init__(tensors)
        self.where = where

    def check(self, expected: Mapping[str, Sequence[int]], settings: str, ignored: Collection[str] = ()) -> None:
        """Check for the expected keys and shapes, and finite float32; ValueError names the first key that is wrong."""
        shapes = {key: tuple(tensor.shape) for key, tensor in self.items() if key in expected or key not in ignored}
        for key in {**expected, **shapes}:
            found, wanted = shapes.get(key), expected.get(key)
            if found is None or wanted is None or found != tuple(wanted):
                is_there = "is not there" if found is None else f"has the shape {found}"
                is_wanted = "no such key" if wanted is None else f"the shape {tuple(wanted)}"
                name = quoted(key) if wanted is None else repr(key)
                raise ValueError(
                    f"{self.where}: the key {name} {is_there}, expected {is_wanted} according to {settings}. Use "
                    "the files of one model, or get them again."
                )
            tensor = self[key]
            if tensor.dtype != torch.float32 or tensor.layout != torch.strided or not tensor.isfinite().all():
                raise ValueError(
                    f"{self.where}: the key {key!r} is {tensor.dtype}, {tensor.layout}, or not finite; expected "
                    "finite, dense float32, since values are copied bit by bit. Get the file again, or store it so."
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


def take_parameters(
    weights: Weights,
    rules: Iterable[Rule],
    config: ElmoConfig,
    where: str,
    others: Mapping[str, Sequence[int]] | None = None,
    ignored: Collection[str] = (),
) -> dict[str, Tensor]:
    """Our parameters out of checked weights; `others` are the shapes of keys without a rule, `where` has the sizes."""
    rules = list(rules)
    try:
        # No memory is taken for them.
        with torch.device("meta"):
            ours = ElmoModel(config).state_dict()
        shapes = {rule.key: rule.layout.to_theirs(*map(ours.get, rule.parameters)).shape for rule in rules}
    except (RuntimeError, OverflowError, TypeError) as error:
        raise ValueError(f"{where} asks for sizes that are too large ({reason(error)}).") from error
    weights.check({**shapes, **(others or {})}, where, ignored)
    return {
        name: tensor
        for rule in rules
        for name, tensor in zip(rule.parameters, rule.layout.to_ours(weights[rule.key]), strict=True)
    }


def make_model(config: ElmoConfig, parameters: Mapping[str, Tensor]) -> ElmoModel:
    """The model of parameters, in evaluation mode; those that it has besides, of its mixes, start as they do."""
    model = ElmoModel(config)
    model.load_state_dict({**model.state_dict(), **parameters})
    return model.eval()


def make_config(where: str, names: Mapping[str, str], fields: Mapping[str, Any]) -> ElmoConfig:
    """The config of another program's settings; errors name them by `where` and by `names`, ours to theirs."""
    try:
        return ElmoConfig(**fields)
    except (ValueError, TypeError, StrictDataclassError) as error:
        told = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), reason(error))
        raise ValueError(f"{where} describes no valid model: {told}") from error


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
    """The path of an input file; FileNotFoundError names the argument `name`."""
    path = Path(file)
    if not path.is_file():
        found = "is a directory" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{name} {str(file)!r} {found}; name an existing file.")
    return path


def read_object(name: str, file: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file; errors name the argument `name`."""
    content = read_json(existing_file(name, file), f"{name} {str(file)!r}")
    if not isinstance(content, dict):
        raise ValueError(f"{name} {str(file)!r} holds a {type(content).__name__}, expected an object of settings.")
    return content


def read_hdf5(name: str, file: str | os.PathLike) -> Weights:
    """The arrays of an hdf5 file by their keys; links are not followed, whether into the file or out of it."""
    h5py = require("h5py", "bilm-tf's weights", "conversion")
    path = existing_file(name, file)
    where, most = f"{name} {str(file)!r}", MOST_COMPRESSION * path.stat().st_size + MEBIBYTE
    arrays: dict[str, Any] = {}

    def collect(key: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            if item.is_virtual or item.external:
                raise ValueError(f"the key {key!r} has its values in another file, which is not read")
            arrays[key] = item

    try:
        with h5py.File(path, "r") as opened:
            opened.visititems(collect)
            if sum(array.nbytes for array in arrays.values()) > most:
                raise ValueError("it asks for more memory than its size can fill")
            # In this machine's byte order.
            values = {key: np.asarray(array[()]) for key, array in arrays.items()}
            values = {key: array.astype(array.dtype.newbyteorder("="), copy=False) for key, array in values.items()}
            return Weights(where, {key: torch.from_numpy(array) for key, array in values.items()})
    except Exception as error:  # what h5py raises depends on where the damage lies
        raise ValueError(f"{where} is not a readable hdf5 file ({reason(error)}); get it again.") from error


def read_torch(name: str, file: str | os.PathLike) -> Weights:
    """A state dict that `torch.save` wrote, by its keys; no code of the pickle runs."""
    where = f"{name} {str(file)!r}"
    path = existing_file(name, file)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        return Weights(where, {str(key): torch.as_tensor(value).detach() for key, value in found.items()})
    except Exception as error:  # what torch raises depends on where the damage lies
        raise ValueError(f"{where} is not a readable state dict of torch ({reason(error)}); get it again.") from error
