"""bilm-tf's training checkpoints (TensorFlow's index and data, options.json, vocab.txt): biLM and word softmax.

The softmax makes of it an ElmoForPreTraining, which scores text and can be trained on. What belongs to that training
alone stays behind: Adagrad's sums, counters, the state of the lanes.

Source: bilm-tf, bilm/training.py (the variables below `lm/`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model.modeling_elmo import ElmoPreTrainedModel
from .bilm_tf import make_tokenizer
from .bilm_tf_files import candidates, find
from .bilm_tf_keys import VARIABLE_NAMES
from .bilm_tf_options import read_config, read_options, reads_words
from .bilm_tf_softmax import SOFTMAX_KEYS, softmax_of
from .bilm_tf_vocabulary import read_vocabulary
from .bilm_tf_weights import add_word_softmax, build_model
from .checked_files import ConversionError
from .foreign import ForeignFormat, ForeignModel
from .tensor_bundle import TensorBundle, find_index

_WITHOUT_WORDS = (
    "The word softmax was left out, as there was no vocabulary to say whose rows it has: name it by --vocab_file, or "
    "vocab_file in Python, to score text and to train on."
)
_SHARED = (
    "Its softmax and its table of words were one there (share_embedding_softmax); here they are two, equal until they "
    "are trained."
)
_LEFT_BEHIND = "Adagrad's sums and the state of the training lanes were left behind: training goes on without them."


def recognises(source: Path) -> bool:
    """Whether a source is a checkpoint's index or data with options beside it, or a directory that holds them."""
    return find_index(source) is not None and bool(candidates(_directory(source), "options_file"))


def load_source(
    source: Path,
    *,
    options_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> ForeignModel:
    """Read a training checkpoint of bilm-tf.

    Args:
        source: The directory that holds it; or its `.index` or `.data-00000-of-00001`, where there are several.
        options_file, vocab_file: Where they are not to be looked for.
        tokenizer_options: Arguments of `ElmoCharTokenizer`.
    Returns: An ElmoForPreTraining; an ElmoModel where no vocabulary says which words the softmax has.
    Raises: ConversionError naming what was found and what is wanted; FileNotFoundError; ImportError.
    """
    index_file = find_index(source)
    if index_file is None:
        raise ConversionError(
            f"source {str(source)!r} has not one TensorFlow checkpoint, wanted an .index with its data beside it, or a "
            "file `checkpoint` that names one of several; name the .index itself."
        )
    files = {"index_file": index_file}
    files["options_file"] = find(_directory(source), "options_file") if options_file is None else Path(options_file)
    if vocab_file is not None or candidates(_directory(source), "vocab_file"):
        files["vocab_file"] = find(_directory(source), "vocab_file") if vocab_file is None else Path(vocab_file)
    options = read_options(files["options_file"])
    words = read_vocabulary(files["vocab_file"]) if "vocab_file" in files else None
    config = read_config(files["options_file"], None if words is None else words.vocabulary, in_training=True)
    bundle = TensorBundle("source", index_file)
    files["data_file"] = bundle.data_file
    options_where = f"options_file {str(files['options_file'])!r}"
    bilm = build_model(bundle, config, options_where, words if reads_words(options) else None, VARIABLE_NAMES)
    model: ElmoPreTrainedModel = bilm
    notes = [_LEFT_BEHIND]
    if words is None:
        notes.append(_WITHOUT_WORDS)
    else:
        # The table of words where the softmax has no matrix of its own.
        is_shared = options.get("share_embedding_softmax") is True
        theirs = {"softmax/W": "embedding"} if is_shared else {}
        keys = {VARIABLE_NAMES.of_key(theirs.get(key, key)): name for key, name in SOFTMAX_KEYS.items()}
        model = add_word_softmax(bilm, softmax_of(bundle, words, bilm.config, keys))
        notes += [_SHARED] * is_shared
    tokenizer = make_tokenizer(model.config, tokenizer_options)
    return ForeignModel(model, tokenizer, files, options, tuple(notes), None if words is None else words.vocabulary)


def _directory(source: Path) -> Path:
    return source if source.is_dir() else source.parent


BILM_TF_TRAINING = ForeignFormat(
    name="bilm-tf-training",
    files="a training checkpoint of bilm-tf, TensorFlow's .index and .data with options.json and vocab.txt",
    licence="bilm-tf, which makes such files, is under Apache-2.0; the weights have the licence of whoever published "
    "them.",
    recognises=recognises,
    load=load_source,
)
