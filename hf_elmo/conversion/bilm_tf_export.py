"""Saved ELMo checkpoints to bilm-tf's files (options.json, weights.hdf5 and those of a word softmax), bit by bit."""

from __future__ import annotations

import itertools
import json
import logging
import os
from pathlib import Path
from typing import TypeVar

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn

from ..checkpoints.hdf5 import require_h5py
from ..checkpoints.loading import find_file, load_config, load_what_is_there
from ..checkpoints.writing import check_output_file, files_written_aside
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel, ElmoPreTrainedModel
from ..text.vocabulary import VOCABULARY_FILE, WordVocabulary
from .bilm_tf_keys import FORGET_BIAS, INFERENCE_CHARACTERS, expand_weight_rules
from .bilm_tf_layouts import to_theirs
from .bilm_tf_options import options_from_config
from .bilm_tf_softmax import SOFTMAX_KEYS, check_exportable_softmax, check_files_together, to_arrays
from .bilm_tf_vocabulary import encode_words
from .bilm_tf_words import WORD_TABLE, vectors_in_order
from .checked_files import ConversionError, and_more, one_line

Model = TypeVar("Model", bound=ElmoPreTrainedModel)

logger = logging.getLogger(__name__)


def export_bilm_tf(
    model_name_or_path: str | os.PathLike,
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    overwrite: bool = False,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
) -> ElmoPreTrainedModel:
    """Write the biLM of a saved checkpoint, and its word softmax if wanted, as bilm-tf's files.

    Args:
        model_name_or_path: A checkpoint of ElmoModel, ElmoForPreTraining or ElmoForTokenClassification; the softmax
            wants one of ElmoForPreTraining that holds its words.
        options_file: The options.json to write.
        weight_file: The hdf5 to write.
        overwrite: Whether files of these names may be replaced.
        softmax_file, vocab_file: The hdf5 and the list of words to write for the softmax; both or neither. A model that
            reads words in place of characters always wants the list.
    Returns: The model that was exported.
    Raises:
        ConversionError: It is no whole ELMo checkpoint, or one that the format cannot hold (see `save_bilm_tf`).
        FileExistsError: A file of these names is there and `overwrite` is not set.
        FileNotFoundError: There is no checkpoint of that name.
        ImportError: h5py is missing.
    """
    require_h5py("bilm-tf weights")
    _check_output_files(options_file, weight_file, softmax_file, vocab_file, overwrite=overwrite)
    name = os.fspath(model_name_or_path)
    config = _load_config(name)
    _check_word_files(config, softmax_file, vocab_file)
    vocabulary = None if vocab_file is None else _load_vocabulary(name, config)
    model_class: type[ElmoPreTrainedModel] = ElmoModel if softmax_file is None else ElmoForPreTraining
    model = _load_checkpoint(model_class, name, config)
    save_bilm_tf(model, options_file, weight_file, overwrite, softmax_file, vocab_file, vocabulary)
    return model


def save_bilm_tf(
    model: ElmoPreTrainedModel,
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    overwrite: bool = False,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
    vocabulary: WordVocabulary | None = None,
) -> None:
    """Write a model's token encoder and biLM as bilm-tf's options.json (inference form) and hdf5.

    The format has no place for scalar mixes or a task's layers; they are left out, and so is a word softmax unless its
    own two files are named. A one-layer model is written without the MultiRNNCell level, as bilm-tf's training code
    does. All files are written aside and renamed at the end.

    Args:
        model: Any ELMo model; half-precision weights are written as the same numbers in float32.
        options_file, weight_file: The files to write.
        overwrite: Whether files of these names may be replaced.
        softmax_file, vocab_file: The files to write for the word softmax of an ElmoForPreTraining; both or neither. A
            model that reads words in place of characters always wants the latter.
        vocabulary: The words of that softmax, or of the table.
    Raises:
        ConversionError: The format cannot hold the model exactly: forget_bias other than 1, other than 262 character
            ids, a padding character with a vector of its own, a table of word vectors beside characters or projected,
            or float64 weights; and a softmax that is adaptive, or not one for both directions.
        FileExistsError: A file of these names is there and `overwrite` is not set.
        ImportError: h5py is missing.
    """
    h5py = require_h5py("bilm-tf weights")
    targets = _check_output_files(options_file, weight_file, softmax_file, vocab_file, overwrite=overwrite)
    config = model.config
    _check_exportable(config)
    _check_word_files(config, softmax_file, vocab_file)
    softmax = {}
    if softmax_file is not None:
        check_exportable_softmax(config, vocabulary)
        softmax = to_arrays({name: _as_float32(name, model.get_parameter(name)) for name in SOFTMAX_KEYS.values()})
    parameters = _float32_parameters(model.base_model)
    if config.token_inputs == "words":
        parameters[WORD_TABLE] = vectors_in_order(parameters, config, vocabulary)
    _warn_of_sizes_bilm_tf_skips(config)
    with files_written_aside(*targets.values()) as paths:
        aside = dict(zip(targets, paths, strict=True))
        aside["options_file"].write_text(json.dumps(options_from_config(config), indent=2) + "\n", encoding="utf-8")
        with h5py.File(aside["weight_file"], "w") as file:
            for rule in expand_weight_rules(config, stacked=config.num_hidden_layers > 1):
                file.create_dataset(rule.key, data=to_theirs(rule, parameters).contiguous().numpy())
        if softmax:
            with h5py.File(aside["softmax_file"], "w") as file:
                for key, array in softmax.items():
                    file.create_dataset(key, data=array)
        if vocab_file is not None and vocabulary is not None:
            aside["vocab_file"].write_bytes(encode_words(vocabulary))


def _load_checkpoint(model_class: type[Model], name: str, config: ElmoConfig) -> Model:
    where = f"model_name_or_path {name!r}"
    try:
        # In the precision it has: float64 is refused, not rounded.
        model, lacking = load_what_is_there(model_class, name, config, dtype="auto")
    except (OSError, ValueError, RuntimeError) as error:
        raise ConversionError(
            f"{where} cannot be loaded ({one_line(error)}); name a directory that AutoModel.from_pretrained loads."
        ) from error
    missing = [key for key in lacking if not key.removeprefix("elmo.").startswith("mixes.")]
    if missing:
        wanted = "the whole biLM" if model_class is ElmoModel else "the whole biLM and its word softmax"
        raise ConversionError(
            f"{where} lacks the weights {missing[0]!r}{and_more(missing)}, wanted those of {wanted}; name a complete "
            "checkpoint."
        )
    return model


def _load_config(name: str) -> ElmoConfig:
    try:
        return load_config(name)
    except (ValueError, StrictDataclassError) as error:
        raise ConversionError(one_line(error)) from error


def _load_vocabulary(name: str, config: ElmoConfig) -> WordVocabulary:
    where = f"model_name_or_path {name!r}"
    try:
        file = find_file(name, VOCABULARY_FILE)
        if file is None:
            raise FileNotFoundError("it is not there")
        vocabulary = WordVocabulary.load(file)
    except (OSError, ValueError) as error:
        raise ConversionError(
            f"{where} holds no usable {VOCABULARY_FILE}, the words of the softmax ({one_line(error)}); leave "
            "softmax_file and vocab_file out, or name a checkpoint of hf-elmo pretrain."
        ) from error
    if config.word_vocab_size not in (None, len(vocabulary)):
        raise ConversionError(
            f"{where} has a softmax over {config.word_vocab_size} words, but its {VOCABULARY_FILE} has "
            f"{len(vocabulary)}; put the file there that was saved with the model."
        )
    return vocabulary


def _check_exportable(config: ElmoConfig) -> None:
    if config.token_inputs != "characters" and (config.token_inputs == "both" or config.project_tokens):
        raise ConversionError(
            f"token_inputs is {config.token_inputs!r} and project_tokens is {config.project_tokens}; bilm-tf's models "
            "read characters alone, or words alone by a table whose vectors are not projected. Only models with "
            "token_inputs='characters', or 'words' and project_tokens=False, can be exported."
        )
    if config.forget_bias != FORGET_BIAS:
        raise ConversionError(
            f"forget_bias is {config.forget_bias}; bilm-tf always adds {FORGET_BIAS}, and folding the difference into "
            "the learned bias would round it. Only models with forget_bias=1.0 can be exported."
        )
    if config.character_scheme != "bytes" or config.vocab_size != INFERENCE_CHARACTERS:
        raise ConversionError(
            f"vocab_size is {config.vocab_size} and character_scheme {config.character_scheme!r}; bilm-tf has bytes, "
            f"with {INFERENCE_CHARACTERS} ids. Only models with these can be exported."
        )


def _float32_parameters(model: nn.Module) -> dict[str, Tensor]:
    # What is not floating-point, the hashes of a table, is looked at and not written.
    parameters = {
        name: _as_float32(name, tensor) if tensor.is_floating_point() else tensor.detach().cpu()
        for name, tensor in model.state_dict().items()
    }
    characters = parameters.get("token_encoder.character_embedding.weight")
    if characters is not None and characters[0].any():
        raise ConversionError(
            "row 0 of token_encoder.character_embedding.weight, the padding id, is not zero; bilm-tf's files have no "
            "place for it. Set that row to zeros first."
        )
    return parameters


def _as_float32(name: str, tensor: Tensor) -> Tensor:
    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ConversionError(
            f"the parameter {name!r} has the dtype {tensor.dtype}; bilm-tf's files hold float32, and narrowing would "
            "round it. Call model.float() first if that is wanted."
        )
    return tensor.detach().to("cpu", torch.float32)


def _warn_of_sizes_bilm_tf_skips(config: ElmoConfig) -> None:
    num_filters = sum(count for _, count in config.filters)
    projects_for_nothing = config.project_tokens and config.projection_size >= num_filters
    if projects_for_nothing or (config.project_hidden and config.projection_size >= config.cell_size):
        logger.warning(
            f"projection_size is {config.projection_size}, with cell_size {config.cell_size} and {num_filters} filters "
            "in all. Where it is not less than both, bilm-tf itself leaves projections out: the exported files give "
            "the same vectors here and in AllenNLP, but not in bilm-tf."
        )


def _check_output_files(
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    softmax_file: str | os.PathLike | None,
    vocab_file: str | os.PathLike | None,
    overwrite: bool,
) -> dict[str, Path]:
    files = {"options_file": options_file, "weight_file": weight_file}
    files |= {"softmax_file": softmax_file} if softmax_file is not None else {}
    files |= {"vocab_file": vocab_file} if vocab_file is not None else {}
    targets = {name: check_output_file(file, overwrite, name, "--overwrite_output_dir") for name, file in files.items()}
    for (first, target), (second, other) in itertools.combinations(targets.items(), 2):
        if target == other:
            raise ConversionError(
                f"{first} and {second} are both {str(files[first])!r}; give the two files a name each."
            )
    return targets


def _check_word_files(
    config: ElmoConfig, softmax_file: str | os.PathLike | None, vocab_file: str | os.PathLike | None
) -> None:
    if config.token_inputs != "words":
        check_files_together(softmax_file, vocab_file)
    elif vocab_file is None:
        raise ConversionError(
            "vocab_file is left out, but the model reads words: its table is nothing without them. Name the file to "
            "write them to."
        )
