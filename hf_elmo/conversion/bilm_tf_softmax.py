"""The word softmax of a bilm-tf model, an hdf5 and a vocabulary file beside the other two, in and out bit by bit.

Source: bilm-tf, bilm/training.py (the variables softmax/W and softmax/b, one softmax for both directions).

Letters in shapes: V words, P projection.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from ..model.configuration_elmo import ElmoConfig
from ..text.vocabulary import WordVocabulary
from .arrays import Arrays, open_hdf5_arrays
from .bilm_tf_vocabulary import ForeignWords
from .checked_files import ConversionError

# Each hdf5 key and the parameter of ElmoForPreTraining that holds the same numbers in the same shape.
SOFTMAX_KEYS = {"softmax/W": "word_softmax.weight", "softmax/b": "word_softmax.bias"}


class WordSoftmax(NamedTuple):
    """What the two files hold.

    Args:
        vocabulary: The words, the special ones first.
        parameters: Weights (V, P) and biases (V,) in the order of the words, by their names in ElmoForPreTraining.
    """

    vocabulary: WordVocabulary
    parameters: dict[str, torch.Tensor]


def check_files_together(softmax_file: str | os.PathLike | None, vocab_file: str | os.PathLike | None) -> None:
    """Check that both files are named, or neither: weights without words are of no use, nor words without weights.

    Raises: ConversionError naming the one that is missing.
    """
    files = {"softmax_file": softmax_file, "vocab_file": vocab_file}
    missing = [name for name, file in files.items() if file is None]
    if len(missing) == 1:
        (given,) = files.keys() - set(missing)
        raise ConversionError(
            f"{given} is {str(files[given])!r}, but {missing[0]} is left out; a word softmax is its weights and its "
            "words. Name both files, or neither."
        )


def read_word_softmax(softmax_file: str | os.PathLike, words: ForeignWords, config: ElmoConfig) -> WordSoftmax:
    """Read a word softmax and put its rows in the order of our vocabulary, whose special words come first.

    Other keys of the hdf5 are passed over: it may be the one of all weights.

    Args:
        softmax_file: The hdf5 with `softmax/W` (V, P) and `softmax/b` (V,).
        words: The words of its rows.
        config: The model's config; gives P.
    Raises: ConversionError naming the file, what was found and what is wanted; FileNotFoundError; ImportError.
    """
    with open_hdf5_arrays("softmax_file", softmax_file) as arrays:
        return softmax_of(arrays, words, config, SOFTMAX_KEYS)


def softmax_of(arrays: Arrays, words: ForeignWords, config: ElmoConfig, keys: Mapping[str, str]) -> WordSoftmax:
    """The word softmax among the arrays of a file.

    Args:
        arrays: Of the file.
        words: The words of its rows.
        config: The model's config; gives P.
        keys: The parameter of ElmoForPreTraining that each key holds, as in `SOFTMAX_KEYS`.
    Raises: ConversionError naming the file, what was found and what is wanted.
    """
    shapes = {"word_softmax.weight": (len(words), config.projection_size), "word_softmax.bias": (len(words),)}
    for key, name in keys.items():
        found, wanted = arrays.shape(key), shapes[name]
        if found is None:
            raise ConversionError(
                f"{arrays.where} lacks the key {key!r}, wanted with the shape {wanted}. bilm-tf's dump_weights leaves "
                "the softmax out: name the file of softmax weights published with the model, or dump them too."
            )
        if found != wanted:
            raise ConversionError(
                f"{arrays.where}: the key {key!r} has the shape {found}, wanted {wanted}: {len(words)} words in "
                f"{words.where}, and a projection of {config.projection_size} (lstm.projection_dim in options_file). "
                "Name the files of one model."
            )
        arrays.check(key)
    parameters = {name: torch.from_numpy(words.reorder(arrays.read(key))) for key, name in keys.items()}
    return WordSoftmax(words.vocabulary, parameters)


def check_exportable_softmax(config: ElmoConfig, vocabulary: WordVocabulary | None) -> None:
    """Check that bilm-tf's files can hold a model's word softmax, and that its words are there.

    Raises: ConversionError naming what does not fit.
    """
    if config.word_vocab_size is None:
        raise ConversionError(
            "word_vocab_size is None: the model has no word softmax for softmax_file. Leave softmax_file and "
            "vocab_file out, or name a checkpoint of ElmoForPreTraining."
        )
    if config.softmax_type != "full" or not config.share_word_softmax:
        raise ConversionError(
            f"softmax_type is {config.softmax_type!r} and share_word_softmax is {config.share_word_softmax}; bilm-tf's "
            "files hold one full softmax for both directions. Leave softmax_file and vocab_file out."
        )
    if vocabulary is None or len(vocabulary) != config.word_vocab_size:
        found = "None" if vocabulary is None else f"of {len(vocabulary)} words"
        raise ConversionError(
            f"vocabulary is {found}, wanted the {config.word_vocab_size} words of the model's softmax; give those that "
            "it was trained with."
        )


def to_arrays(parameters: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """The hdf5's arrays by their keys, from the parameters of ElmoForPreTraining by their names."""
    return {key: parameters[name].contiguous().numpy() for key, name in SOFTMAX_KEYS.items()}
