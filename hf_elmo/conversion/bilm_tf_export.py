"""Saved ELMo checkpoints as bilm-tf's files, bit by bit: options.json, weights.hdf5, and those of a word softmax."""

from __future__ import annotations

import json
import os
from typing import Any, cast

import torch
from torch import Tensor

from ..hub.extras import require
from ..hub.loading import find_file, load_config, load_what_is_there
from ..hub.writing import check_keeps_inputs, check_output_directory, written_aside
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel, ElmoWordTable
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import VOCABULARY_FILE, WordVocabulary
from .bilm_tf import (
    CHARACTERS_OPTION,
    FORGET_BIAS,
    INFERENCE_CHARACTERS,
    OPTIONS,
    SOFTMAX_KEYS,
    WORD_TABLE,
    WORDS_OPTION,
    weight_rules,
)

OPTIONS_FILE, WEIGHT_FILE, SOFTMAX_FILE, VOCAB_FILE = "options.json", "weights.hdf5", "softmax.hdf5", "vocab.txt"


def export_bilm_tf(
    model_name_or_path: str | os.PathLike, output_dir: str | os.PathLike, overwrite: bool = False
) -> list[str]:
    """Write a checkpoint, a directory or a name on the Hub, as bilm-tf's files: the biLM, and a word softmax.

    A one-layer model is written without the MultiRNNCell level, as bilm-tf's training code does; half precision as the
    same numbers in float32.

    Returns: What was left out and what to know of the files, a sentence each.
    Raises: ValueError where the format cannot hold the biLM exactly, or it is no whole ELMo checkpoint;
        FileExistsError; FileNotFoundError; ImportError.
    """
    h5py = require("h5py", "bilm-tf's weights", "conversion")
    name = os.fspath(model_name_or_path)
    check_output_directory(output_dir, overwrite)
    check_keeps_inputs(output_dir, [("model_name_or_path", name)])
    config = load_config(name)
    _check_can_be_held(config)
    file = find_file(name, VOCABULARY_FILE)
    vocabulary = None if file is None else WordVocabulary.load(file)
    model_class: Any = ElmoModel if config.word_vocab_size is None else ElmoForPreTraining
    # In the precision that it has: float64 is refused, not rounded.
    model, lacking = load_what_is_there(model_class, name, config, dtype="auto")
    missing = [key for key in lacking if key.removeprefix("elmo.").startswith(("token_encoder.", "bilm."))]
    if missing:
        raise ValueError(
            f"model_name_or_path {name!r} lacks weights, {missing[0]!r} first; name a complete checkpoint."
        )
    elmo: ElmoModel = model.base_model
    parameters = {name: _as_float32(name, tensor) for name, tensor in elmo.state_dict().items()}
    if config.token_inputs == "words":
        parameters[WORD_TABLE] = _vectors_in_order(parameters[WORD_TABLE], elmo, vocabulary)
    elif parameters["token_encoder.character_embedding.weight"][0].any():
        raise ValueError(
            "row 0 of token_encoder.character_embedding.weight, the padding id, is not zero; bilm-tf's files have no "
            "place for it. Set that row to zeros first."
        )
    arrays = {
        rule.key: rule.layout.to_theirs(*map(parameters.get, rule.parameters))
        for rule in weight_rules(config, is_stacked=config.num_hidden_layers > 1)
    }
    files = {WEIGHT_FILE: arrays}
    has_words = vocabulary is not None and len(vocabulary) == config.word_vocab_size
    is_one_matrix = config.softmax_type == "full" and config.share_word_softmax
    has_softmax = has_words and is_one_matrix and not any(key.startswith("word_softmax") for key in lacking)
    if has_softmax:
        files[SOFTMAX_FILE] = {key: _as_float32(name, model.get_parameter(name)) for key, name in SOFTMAX_KEYS.items()}
    with written_aside(output_dir, overwrite) as directory:
        (directory / OPTIONS_FILE).write_text(json.dumps(_options(config), indent=2) + "\n", encoding="utf-8")
        for name, tensors in files.items():
            with h5py.File(directory / name, "w") as file:
                for key, tensor in tensors.items():
                    file.create_dataset(key, data=tensor.contiguous().numpy())
        if vocabulary is not None and (has_softmax or config.token_inputs == "words"):
            lines = "".join(f"{word}\n" for word in vocabulary.words)
            (directory / VOCAB_FILE).write_bytes(lines.encode("utf-8"))
    notes = ["Scalar mixes and the layers of a task have no place in bilm-tf's files."]
    if config.word_vocab_size is not None and not has_softmax:
        notes.append("The word softmax was left out: bilm-tf has a full one for both directions, with all its words.")
    return notes


def _check_can_be_held(config: ElmoConfig) -> None:
    for field, value, reasons in (
        ("forget_bias", FORGET_BIAS, "as bilm-tf always adds it, and moving a difference into the learned bias rounds"),
        ("character_scheme", "bytes", "as characters of bilm-tf are bytes"),
        ("vocab_size", INFERENCE_CHARACTERS, "as characters of bilm-tf are bytes"),
    ):
        if getattr(config, field) != value:
            raise ValueError(f"{field} is {getattr(config, field)!r}, expected {value!r}, {reasons}.")
    if config.token_inputs == "both" or (config.token_inputs == "words" and config.project_tokens):
        raise ValueError(
            f"token_inputs is {config.token_inputs!r} and project_tokens is {config.project_tokens}; models of bilm-tf "
            "read characters alone, or words alone without a projection."
        )


def _options(config: ElmoConfig) -> dict[str, Any]:
    """The options.json of a config, in the form for inference."""
    values = {path: getattr(config, name) for path, (name, _) in OPTIONS.items()}
    values[CHARACTERS_OPTION] = config.vocab_size
    if config.word_table_size is not None:
        values = {path: value for path, value in values.items() if not path.startswith("char_cnn.")}
        values[WORDS_OPTION] = config.word_table_size + 1
    options: dict[str, Any] = {}
    for path, value in values.items():
        *sections, name = path.split(".")
        section = options
        for level in sections:
            section = section.setdefault(level, {})
        section[name] = value
    return options


def _as_float32(name: str, tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        # The hashes of a word table, which are read and not written.
        return tensor.detach().cpu()
    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(
            f"the parameter {name!r} has the dtype {tensor.dtype}; bilm-tf's files hold float32, and narrowing would "
            "round it. Call model.float() first if that is wanted."
        )
    return tensor.detach().to("cpu", torch.float32)


def _vectors_in_order(vectors: Tensor, model: ElmoModel, vocabulary: WordVocabulary | None) -> Tensor:
    """The vectors of a vocabulary's words in its order, (V, P), out of a model's word table."""
    config, words = model.config, [] if vocabulary is None else vocabulary.words
    tokenizer = ElmoCharTokenizer(max_characters_per_word=config.max_characters_per_word)
    characters = torch.from_numpy(tokenizer.encode_words(words)).to(model.device)
    rows = cast("ElmoWordTable", model.token_encoder.word_table).indices(characters).cpu()
    num_known = len(rows[rows > 0].unique())
    if vocabulary is None or num_known != config.word_table_size or int(rows[vocabulary.unk_id]) != 0:
        raise ValueError(
            f"{VOCABULARY_FILE} has {num_known} of the {config.word_table_size} words that the model reads, expected "
            "all of them, in whose order bilm-tf's table is; put the one there that was saved with the model."
        )
    return vectors[rows]
