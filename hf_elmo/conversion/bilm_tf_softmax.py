"""The word softmax of a bilm-tf model, an hdf5 and a vocabulary file beside the other two, in and out bit by bit.

Source: bilm-tf, bilm/training.py (the variables softmax/W and softmax/b, one softmax for both directions) and
bilm/data.py (how the vocabulary file is read).

Letters in shapes: V words, P projection.
"""

from __future__ import annotations

import os
import string
from typing import Any, NamedTuple

import numpy as np
import torch

from ..model.configuration_elmo import ElmoConfig
from ..text.vocabulary import SPECIAL_WORDS, WordVocabulary
from .checked_files import (
    ConversionError,
    check_storage,
    dataset_names,
    existing_file,
    is_dataset,
    one_line,
    open_hdf5,
    read_finite,
)

# Each hdf5 key and the parameter of ElmoForPreTraining that holds the same numbers in the same shape.
SOFTMAX_KEYS = {"softmax/W": "word_softmax.weight", "softmax/b": "word_softmax.bias"}

# Closes the lists of words of the One Billion Word benchmark; bilm-tf passes over it, so that it has no row.
_END_OF_LIST = "!!!MAXTERMID"


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


def read_word_softmax(
    softmax_file: str | os.PathLike, vocab_file: str | os.PathLike, config: ElmoConfig
) -> WordSoftmax:
    """Read a word softmax and put its special words first.

    bilm-tf finds `<S>`, `</S>` and `<UNK>` wherever they stand (in the released models' file `</S>` is the first line);
    their rows are moved together with them. Other keys of the hdf5 are passed over: it may be the one of all weights.

    Args:
        softmax_file: The hdf5 with `softmax/W` (V, P) and `softmax/b` (V,).
        vocab_file: The words, one per line, as many as the softmax has rows.
        config: The model's config; gives P.
    Raises: ConversionError naming the file, what was found and what is wanted; FileNotFoundError; ImportError.
    """
    words = _read_words(vocab_file)
    places = _special_words_first(vocab_file, words)
    try:
        vocabulary = WordVocabulary([words[place] for place in places])
    except ValueError as error:
        raise ConversionError(f"vocab_file {str(vocab_file)!r}: {one_line(error)}") from error
    where = f"softmax_file {str(softmax_file)!r}"
    parameters = {}
    with open_hdf5("softmax_file", softmax_file) as file:
        _check_keys(where, file, f"vocab_file {str(vocab_file)!r}", len(words), config.projection_size)
        for key, name in SOFTMAX_KEYS.items():
            array = read_finite(where, key, file[key])
            if places != list(range(len(words))):
                array = array[places]
            parameters[name] = torch.from_numpy(array)
    return WordSoftmax(vocabulary, parameters)


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


def _read_words(vocab_file: str | os.PathLike) -> list[str]:
    where = f"vocab_file {str(vocab_file)!r}"
    try:
        lines = existing_file("vocab_file", vocab_file).read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConversionError(f"{where} is not UTF-8: see line {line}. Convert it first.") from error
    if lines[-1] == "":
        lines.pop()
    # bilm-tf strips white space of any kind. Here only ASCII's: "x" with a no-break space would be a second "x".
    words = [line.strip(string.whitespace) for line in lines]
    return [word for word in words if word != _END_OF_LIST]


def _special_words_first(vocab_file: str | os.PathLike, words: list[str]) -> list[int]:
    """The places of the words in the order that `WordVocabulary` wants; all others keep theirs."""
    missing = [word for word in SPECIAL_WORDS if word not in words]
    if missing:
        raise ConversionError(
            f"vocab_file {str(vocab_file)!r} has no line {missing[0]!r} among its {len(words)} words; bilm-tf's lists "
            f"hold {', '.join(SPECIAL_WORDS)}. Name the file that the softmax was trained with."
        )
    special = [words.index(word) for word in SPECIAL_WORDS]
    return special + [place for place in range(len(words)) if place not in special]


def _check_keys(where: str, file: Any, words_where: str, num_words: int, projection_size: int) -> None:
    # The walk over all keys comes first: it fails on a damaged index, where looking up one key would find it absent.
    dataset_names(where, file)
    for key, shape in (("softmax/W", (num_words, projection_size)), ("softmax/b", (num_words,))):
        dataset = file.get(key)
        if not is_dataset(dataset):
            raise ConversionError(
                f"{where} lacks the key {key!r}, wanted with the shape {shape}. bilm-tf's dump_weights leaves the "
                "softmax out: name the file of softmax weights published with the model, or dump them too."
            )
        if dataset.shape != shape:
            raise ConversionError(
                f"{where}: the key {key!r} has the shape {dataset.shape}, wanted {shape}: {num_words} words in "
                f"{words_where}, and a projection of {projection_size} (lstm.projection_dim in options_file). Name the "
                "files of one model."
            )
        check_storage(where, key, dataset)


def encode_words(vocabulary: WordVocabulary) -> bytes:
    """A vocabulary as bilm-tf's file, one word per line."""
    return "".join(f"{word}\n" for word in vocabulary.words).encode("utf-8")


def to_arrays(parameters: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """The hdf5's arrays by their keys, from the parameters of ElmoForPreTraining by their names."""
    return {key: parameters[name].contiguous().numpy() for key, name in SOFTMAX_KEYS.items()}
