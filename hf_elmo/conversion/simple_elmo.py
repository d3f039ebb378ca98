"""Models as simple_elmo and the NLPL repository have them: bilm-tf's files under fixed names, in a directory or zip.

What that program does otherwise while it runs is no part of the files, and is not done here: see the notes.

Source: simple_elmo 0.9 (which files are read); the vectors that it computes are in the tests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import bilm_tf
from .bilm_tf_files import candidates
from .foreign import ForeignFormat, ForeignModel

_OPTIONS, _WEIGHTS = "options.json", "model.hdf5"
_NOTES = (
    "simple_elmo carries its LSTM state from batch to batch of a call, and first runs the first batch for its state "
    "alone (warmup); here every sentence starts from zeros, and `state=output.state` carries it on where one wants it.",
    "simple_elmo gives padding the vector of no word, and takes it into its means of sentences; here padding is zero "
    "and left out.",
)
_VOCABULARY = (
    "The vocabulary beside the weights was not read: simple_elmo keeps the characters of its first words at hand, and "
    "the model reads every word by its characters."
)


def recognises(source: Path) -> bool:
    """Whether a directory has the names that simple_elmo reads, and not only those of any bilm-tf model."""
    if not source.is_dir() or not (source / _OPTIONS).is_file():
        return False
    return (source / _WEIGHTS).is_file() or bool(candidates(source, "weight_file") and candidates(source, "vocab_file"))


def load_source(
    source: Path,
    *,
    options_file: str | os.PathLike | None = None,
    weight_file: str | os.PathLike | None = None,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> ForeignModel:
    """Read a directory of simple_elmo's; arguments and errors are those of `bilm_tf.load_source`."""
    if weight_file is None and (source / _WEIGHTS).is_file():
        weight_file = source / _WEIGHTS
    foreign = bilm_tf.load_source(
        source,
        options_file=options_file,
        weight_file=weight_file,
        softmax_file=softmax_file,
        vocab_file=vocab_file,
        tokenizer_options=tokenizer_options,
    )
    notes = [*_NOTES]
    if "vocab_file" not in foreign.files and candidates(source, "vocab_file"):
        notes.append(_VOCABULARY)
    return replace(foreign, notes=tuple(notes))


SIMPLE_ELMO = ForeignFormat(
    name="simple-elmo",
    files="a directory or zip of simple_elmo's and the NLPL repository's, options.json, model.hdf5 and vocab.txt",
    licence="bilm-tf, which makes such files, is under Apache-2.0, simple_elmo, which reads them, under GPL-3.0; the "
    "weights have the licence of whoever published them, which the repository tells with each model.",
    recognises=recognises,
    load=load_source,
)
