"""bilm-tf checkpoints (the released ELMo models: options.json and weights.hdf5) to ElmoModel, bit by bit.

No number is computed: values are copied, and only their places change. The forget gate's constant 1, which bilm-tf adds
while it runs, is `ElmoConfig.forget_bias` here. A word softmax comes in two files more: see `bilm_tf_softmax`. The way
back is `bilm_tf_export`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.hdf5 import require_h5py
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .arrays import Arrays, open_hdf5_arrays
from .bilm_tf_files import candidates, find
from .bilm_tf_keys import STACK, WeightRule, expand_weight_rules, without_missing_projections
from .bilm_tf_layouts import to_ours, to_theirs
from .bilm_tf_options import ONE_DIRECTION, read_config, read_options, reads_words
from .bilm_tf_softmax import SOFTMAX_KEYS, WordSoftmax, check_files_together, read_word_softmax
from .bilm_tf_vocabulary import ForeignWords, read_vocabulary
from .bilm_tf_words import WORD_TABLE, fill_table
from .checked_files import ConversionError, and_more, check_total_size
from .foreign import ForeignFormat, ForeignModel, check_output, save_foreign

# What the cells of a model of one direction begin with; both directions' begin with RNN_0 and RNN_1.
_ONE_DIRECTION = "rnn/"


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
        softmax_file, vocab_file, tokenizer_options: As for `convert_bilm_tf`.
    Raises: ConversionError, also where source does not say which file is meant; as `convert_bilm_tf`.
    """
    return _load_files(
        find(source, "options_file") if options_file is None else options_file,
        find(source, "weight_file") if weight_file is None else weight_file,
        softmax_file,
        vocab_file,
        tokenizer_options,
    )


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
            that reads words in place of characters always wants them.
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
    tokenizer = ElmoCharTokenizer(
        **{"pre_tokenizer": "whitespace", **(tokenizer_options or {})},
        max_characters_per_word=model.config.max_characters_per_word,
    )
    files = _inputs(options_file, weight_file, softmax_file, vocab_file)
    return ForeignModel(model, tokenizer, files, options, words=None if words is None else words.vocabulary)


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


def build_model(arrays: Arrays, config: ElmoConfig, options_where: str, words: ForeignWords | None) -> ElmoModel:
    """The model whose token encoder and biLM are among the arrays of a file, in evaluation mode.

    Args:
        arrays: By the keys of bilm-tf's hdf5.
        config: As the options describe the model.
        options_where: What errors call them: which of two files that disagree is wrong, neither can say.
        words: Those that a model reads in place of characters.
    Raises: ConversionError naming the key, what was found and what is wanted.
    """
    config = without_missing_projections(config, arrays.keys)
    weights = weights_of(arrays, config, options_where)
    model = ElmoModel(config)
    if words is not None:
        fill_table(model, words, weights.pop(WORD_TABLE).numpy())
    for name in ("token_encoder", "bilm"):
        prefix = f"{name}."
        part = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
        # Of a model that reads words nothing is left for the token encoder.
        if part:
            getattr(model, name).load_state_dict(part)
    return model.eval()


def add_word_softmax(model: ElmoModel, softmax: WordSoftmax) -> ElmoForPreTraining:
    """The model with a word softmax on top, both sharing their parameters with what is given."""
    config = ElmoConfig.from_dict({**model.config.to_dict(), "word_vocab_size": len(softmax.vocabulary)})
    # Without memory of its own and without drawing weights: the largest softmax takes 1.6 GB and seconds to draw.
    with torch.device("meta"):
        whole = ElmoForPreTraining(config)
    base = {f"{whole.base_model_prefix}.{name}": tensor for name, tensor in model.state_dict().items()}
    whole.load_state_dict({**base, **softmax.parameters}, assign=True)
    whole.words = softmax.vocabulary.words
    return whole.eval()


def read_weights(
    weight_file: str | os.PathLike, config: ElmoConfig, options_file: str | os.PathLike
) -> dict[str, Tensor]:
    """Read the token encoder and the biLM out of bilm-tf's hdf5.

    Args:
        weight_file: The hdf5.
        config: The model that the options describe; every key is checked against it.
        options_file: Where they stand, for the messages.
    Returns: Parameters by their names in ElmoModel, float32.
    Raises: ConversionError naming the key, what was found and what is wanted; FileNotFoundError; ImportError.
    """
    with open_hdf5_arrays("weight_file", weight_file) as arrays:
        return weights_of(arrays, config, f"options_file {str(options_file)!r}")


def weights_of(arrays: Arrays, config: ElmoConfig, options_where: str) -> dict[str, Tensor]:
    """The parameters of the token encoder and the biLM among the arrays of a file, by their names in ElmoModel.

    Of a one-layer model both forms are read: without a MultiRNNCell level, as bilm-tf's training code writes it, and
    with one, as its inference code wants it. Arguments as for `build_model`.

    Raises: ConversionError naming the key, what was found and what is wanted.
    """
    stack = STACK.format(number=0)
    stacked = config.num_hidden_layers > 1 or any(key.startswith(f"{stack}/") for key in arrays.keys)
    rules = expand_weight_rules(config, stacked)
    shapes = _wanted_shapes(config, rules)
    check_total_size(arrays.where, arrays.most_bytes, 4 * sum(map(math.prod, shapes.values())), f"{options_where} asks")
    _check_keys(arrays, options_where, rules, shapes)
    parameters: dict[str, Tensor] = {}
    for rule in rules:
        parameters |= to_ours(rule, torch.from_numpy(arrays.read(rule.key)))
    return parameters


def _wanted_shapes(config: ElmoConfig, rules: list[WeightRule]) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        parameters = ElmoModel(config).state_dict()
    return {rule.key: tuple(to_theirs(rule, parameters).shape) for rule in rules}


def _check_keys(
    arrays: Arrays, options_where: str, rules: list[WeightRule], shapes: dict[str, tuple[int, ...]]
) -> None:
    """Check that a file holds exactly the keys wanted, in the shapes wanted, as written float32 arrays."""
    where, found = arrays.where, {key: arrays.shape(key) for key in shapes}
    if any(key.startswith(_ONE_DIRECTION) for key in arrays.keys):
        key = next(key for key in arrays.keys if key.startswith(_ONE_DIRECTION))
        raise ConversionError(
            f"{where} holds the key {key!r}, as bilm-tf writes it for a model that reads forwards only. {ONE_DIRECTION}"
        )
    missing = [rule for rule in rules if found[rule.key] is None]
    if missing:
        reason = f" ({missing[0].absent})" if missing[0].absent else ""
        raise ConversionError(
            f"{where} lacks the key {missing[0].key!r}, wanted with the shape {shapes[missing[0].key]}"
            f"{and_more(missing)}{reason}. It is half-written, or the weights of another model: check lstm.n_layers, "
            f"char_cnn.n_highway and char_cnn.filters in {options_where}, or get both files again."
        )
    misshapen = [rule for rule in rules if found[rule.key] != shapes[rule.key]]
    if misshapen:
        rule = misshapen[0]
        raise ConversionError(
            f"{where}: the key {rule.key!r} has the shape {found[rule.key]}, wanted {shapes[rule.key]}"
            f"{and_more(misshapen)}. The shape follows from {rule.options} in {options_where}: use the "
            "options.json published with these weights."
        )
    extra = [key for key in arrays.keys if key not in shapes and key not in SOFTMAX_KEYS]
    if extra:
        raise ConversionError(
            f"{where} holds the key {extra[0]!r} of shape {arrays.shape(extra[0])}, for which {options_where} has "
            f"no place{and_more(extra)}. Check lstm.n_layers, char_cnn.n_highway and char_cnn.filters there; if the "
            "key is no part of the model, delete it from a copy with h5py (del file[key])."
        )
    for key in shapes:
        arrays.check(key)
