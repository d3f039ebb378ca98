"""The model whose weights are among the arrays of a file, in bilm-tf's layouts; no number is computed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel
from .arrays import Arrays
from .bilm_tf_keys import HDF5_NAMES, Names, WeightRule, expand_weight_rules, is_stacked, without_missing_projections
from .bilm_tf_layouts import to_ours, to_theirs
from .bilm_tf_options import ONE_DIRECTION
from .bilm_tf_softmax import WordSoftmax
from .bilm_tf_vocabulary import ForeignWords
from .bilm_tf_words import WORD_TABLE, fill_table
from .checked_files import ConversionError, and_more, check_total_size


def build_model(
    arrays: Arrays, config: ElmoConfig, options_where: str, words: ForeignWords | None, names: Names = HDF5_NAMES
) -> ElmoModel:
    """The model whose token encoder and biLM are among the arrays of a file, in evaluation mode.

    Args:
        arrays: Those of the file.
        config: As the options describe the model.
        options_where: What errors call them: which of two files that disagree is wrong, neither can say.
        words: Those that a model reads in place of characters.
        names: What the arrays are called.
    Raises: ConversionError naming the key, what was found and what is wanted.
    """
    config = without_missing_projections(config, arrays.keys, names)
    weights = weights_of(arrays, config, options_where, names)
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


def weights_of(arrays: Arrays, config: ElmoConfig, options_where: str, names: Names = HDF5_NAMES) -> dict[str, Tensor]:
    """The parameters of the token encoder and the biLM among the arrays of a file, by their names in ElmoModel.

    Of a one-layer model both forms are read: without a MultiRNNCell level, as bilm-tf's training code writes it, and
    with one, as its inference code wants it. Arguments as for `build_model`.

    Raises: ConversionError naming the key, what was found and what is wanted.
    """
    rules = expand_weight_rules(config, is_stacked(config, arrays.keys, names), names)
    shapes = _wanted_shapes(config, rules)
    check_total_size(arrays.where, arrays.most_bytes, 4 * sum(map(math.prod, shapes.values())), f"{options_where} asks")
    _check_keys(arrays, options_where, rules, shapes, names)
    parameters: dict[str, Tensor] = {}
    for rule in rules:
        parameters |= to_ours(rule, torch.from_numpy(arrays.read(rule.key)))
    return parameters


def _wanted_shapes(config: ElmoConfig, rules: list[WeightRule]) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        parameters = ElmoModel(config).state_dict()
    return {rule.key: tuple(to_theirs(rule, parameters).shape) for rule in rules}


def _check_keys(
    arrays: Arrays, options_where: str, rules: list[WeightRule], shapes: dict[str, tuple[int, ...]], names: Names
) -> None:
    """Check that a file holds exactly the keys wanted, in the shapes wanted, as written float32 arrays."""
    where, found = arrays.where, {key: arrays.shape(key) for key in shapes}
    forwards = [key for key in arrays.keys if key.startswith(names.one_direction)]
    if forwards:
        raise ConversionError(
            f"{where} holds the key {forwards[0]!r}, as bilm-tf writes it for a model that reads forwards only. "
            f"{ONE_DIRECTION}"
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
    extra = [key for key in arrays.keys if key not in shapes and not names.is_apart(key, arrays.keys)]
    if extra:
        raise ConversionError(
            f"{where} holds the key {extra[0]!r} of shape {arrays.shape(extra[0])}, for which {options_where} has "
            f"no place{and_more(extra)}. Check lstm.n_layers, char_cnn.n_highway and char_cnn.filters there; if the "
            "key is no part of the model, leave it out of a copy of the file (with h5py: del file[key])."
        )
    for key in shapes:
        arrays.check(key)
