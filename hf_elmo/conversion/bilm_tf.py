"""bilm-tf checkpoints (the released ELMo models: options.json and weights.hdf5) to ElmoModel, bit by bit.

No number is computed: values are copied, and only their places change. The forget gate's constant 1, which bilm-tf adds
while it runs, is `ElmoConfig.forget_bias` here. A word softmax comes in two files more: see `bilm_tf_softmax`. The way
back is `bilm_tf_export`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..checkpoints.hdf5 import require_h5py
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .arrays import open_hdf5_arrays
from .bilm_tf_files import candidates, find
from .bilm_tf_options import read_config, read_options, reads_words
from .bilm_tf_softmax import check_files_together, read_word_softmax
from .bilm_tf_vocabulary import ForeignWords, read_vocabulary
from .bilm_tf_weights import add_word_softmax, build_model
from .foreign import ForeignFormat, ForeignModel, check_output, save_foreign


def recognises(source: Path) -> bool:
    """Whether a source is an hdf5 of weights with its options beside it, or a directory that holds both."""
    return bool(candidates(source, "weight_file") and candidates(source, "options_file"))


def load_source(
    source: Path,
    *,
    options_file: str | os.PathLike | None = None,
    weight_file: str | os.PathLike | None = None,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> ForeignModel:
    """Read a bilm-tf checkpoint out of a directory, or an hdf5 of weights whose options stand beside it.

    Args:
        source: The directory or the hdf5.
        options_file, weight_file: Where they are not to be looked for.
        softmax_file, vocab_file, tokenizer_options: As for `convert_bilm_tf`; a model that reads words finds its words
            in the directory too.
    Raises: ConversionError, also where source does not say which file is meant; as `convert_bilm_tf`.
    """
    options_file = find(source, "options_file") if options_file is None else options_file
    weight_file = find(source, "weight_file") if weight_file is None else weight_file
    if vocab_file is None and reads_words(read_options(options_file)) and candidates(source, "vocab_file"):
        vocab_file = find(source, "vocab_file")
    return _load_files(options_file, weight_file, softmax_file, vocab_file, tokenizer_options)


BILM_TF = ForeignFormat(
    name="bilm-tf",
    files="an hdf5 of weights with its options.json, the released models' and AllenNLP's",
    licence="bilm-tf, which makes such files, is under Apache-2.0; the weights have the licence of whoever published "
    "them.",
    recognises=recognises,
    load=load_source,
)


def convert_bilm_tf(
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    output_dir: str | os.PathLike,
    overwrite: bool = False,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> ElmoPreTrainedModel:
    """Write a directory that AutoModel and AutoTokenizer load from a bilm-tf checkpoint, with a model card.

    Unless the options say otherwise, the tokenizer cuts text at white space, as the corpus of the released models was
    cut beforehand. With the files of the word softmax the directory is one of ElmoForPreTraining and holds its words:
    it can score text, and be trained on.

    Args:
        options_file: options.json, in its training or its inference form.
        weight_file: The hdf5 of weights.
        output_dir: The directory to write; on any error it is left as it was.
        overwrite: Whether a full output_dir may be replaced.
        softmax_file, vocab_file: The hdf5 of the word softmax and its words, one per line; both or neither. A model
            that reads words in place of characters wants its words in each case.
        tokenizer_options: How the tokenizer cuts text and reads words: arguments of `ElmoCharTokenizer` such as
            `pre_tokenizer` and `do_lower_case`.
    Returns: The model that was saved.
    Raises:
        ConversionError: As `load_bilm_tf`; also when output_dir holds one of the files, which would be lost.
        FileExistsError: output_dir is not empty and `overwrite` is not set.
        FileNotFoundError: A file is missing.
        ImportError: h5py is missing.
        TypeError, ValueError: A tokenizer option is wrong.
    """
    check_output(output_dir, overwrite, _inputs(options_file, weight_file, softmax_file, vocab_file))
    foreign = _load_files(options_file, weight_file, softmax_file, vocab_file, tokenizer_options)
    save_foreign(foreign, BILM_TF, output_dir, overwrite)
    return foreign.model


def _load_files(
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    softmax_file: str | os.PathLike | None,
    vocab_file: str | os.PathLike | None,
    tokenizer_options: Mapping[str, Any] | None,
) -> ForeignModel:
    require_h5py("bilm-tf weights")
    options = read_options(options_file)
    if not reads_words(options):
        check_files_together(softmax_file, vocab_file)
    words = None if vocab_file is None else read_vocabulary(vocab_file)
    bilm = _load_model(options_file, weight_file, words if reads_words(options) else None)
    model: ElmoPreTrainedModel = bilm
    if softmax_file is not None and words is not None:
        model = add_word_softmax(bilm, read_word_softmax(softmax_file, words, bilm.config))
    tokenizer = make_tokenizer(model.config, tokenizer_options)
    files = _inputs(options_file, weight_file, softmax_file, vocab_file)
    return ForeignModel(model, tokenizer, files, options, words=None if words is None else words.vocabulary)


def make_tokenizer(config: ElmoConfig, options: Mapping[str, Any] | None = None) -> ElmoCharTokenizer:
    """The tokenizer of a converted model, which cuts at white space unless the options say otherwise."""
    return ElmoCharTokenizer(
        **{"pre_tokenizer": "whitespace", **(options or {})}, max_characters_per_word=config.max_characters_per_word
    )


def _inputs(
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    softmax_file: str | os.PathLike | None,
    vocab_file: str | os.PathLike | None,
) -> dict[str, Path]:
    """The files that are read, by the arguments that name them."""
    files = {
        "options_file": options_file,
        "weight_file": weight_file,
        "softmax_file": softmax_file,
        "vocab_file": vocab_file,
    }
    return {name: Path(file) for name, file in files.items() if file is not None}


def load_bilm_tf(
    options_file: str | os.PathLike, weight_file: str | os.PathLike, vocab_file: str | os.PathLike | None = None
) -> ElmoModel:
    """Read a bilm-tf checkpoint into an ElmoModel in evaluation mode; the scalar mixes keep their starting values.

    A word softmax in the hdf5 of weights is passed over: it is nothing without its words (see `read_word_softmax`).

    Args:
        options_file: options.json, in its training or its inference form.
        weight_file: The hdf5 of weights.
        vocab_file: The words, one per line, of a model that reads words; others have no use for it.
    Raises:
        ConversionError: The options are not JSON, lack a key or hold a wrong value, or the hdf5 is damaged or does not
            agree with them.
        FileNotFoundError: A file is missing.
        ImportError: h5py is missing.
    """
    words = read_vocabulary(vocab_file) if vocab_file is not None and reads_words(read_options(options_file)) else None
    return _load_model(options_file, weight_file, words)


def _load_model(
    options_file: str | os.PathLike, weight_file: str | os.PathLike, words: ForeignWords | None
) -> ElmoModel:
    config = read_config(options_file, None if words is None else words.vocabulary)
    with open_hdf5_arrays("weight_file", weight_file) as arrays:
        return build_model(arrays, config, f"options_file {str(options_file)!r}", words)
