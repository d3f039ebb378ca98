"""bilm-tf's models: the released ELMo models, those of simple_elmo and the NLPL repository, and training checkpoints.

Values are copied bit by bit and none is computed: the constant 1 that bilm-tf adds to the forget gate while it runs is
`ElmoConfig.forget_bias` here. The way back is `bilm_tf_export`.
"""

from __future__ import annotations

import os
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..given.reasons import reason
from ..hub.extras import require
from ..model.configuration_elmo import MAX_CHARACTERS_PER_WORD, ElmoConfig
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.files import decoded_lines
from ..text.vocabulary import SPECIAL_WORDS, WordVocabulary
from .bilm_tf_keys import (
    CHARACTERS_OPTION,
    FORGET_BIAS,
    INFERENCE_CHARACTERS,
    OPTIONS,
    REQUIRED,
    SOFTMAX_KEYS,
    TRAINING_CHARACTERS,
    WORD_TABLE,
    key_of_variable,
    missing_projections,
    weight_rules,
)
from .reading import (
    Converted,
    Weights,
    add_word_softmax,
    existing_file,
    make_config,
    make_model,
    make_tokenizer,
    read_hdf5,
    read_object,
    take_parameters,
)
from .tensor_bundle import INDEX_SUFFIX, data_file_of, find_index, read_bundle

FILES = "an hdf5 of weights, or a training checkpoint of TensorFlow, with options.json"
LICENSE = "bilm-tf, which makes such files, is under Apache-2.0"
# At the top of an hdf5 of weights: those of both directions, and of a model that reads forwards only.
_BILM_GROUPS = ("RNN_0", "rnn")
# Closes the word lists of the One Billion Word benchmark; bilm-tf passes over it, so it has no row.
_END_OF_LIST = "!!!MAXTERMID"
_ONE_DIRECTION = (
    "is of a model that reads forwards only. An ELMo vector joins both directions, and bilm-tf itself cannot read such "
    "files: convert a bidirectional model."
)
_ADAGRAD = "Adagrad's sums and the training's carried states were left out: training on starts without them."
_NO_WORDS = (
    "The word softmax was left out, since no vocabulary says which words its rows stand for: name it by vocab_file."
)
_SHARED = (
    "The model shared one matrix between word table and softmax (share_embedding_softmax); here they are two, equal "
    "until they are trained."
)


class Words(NamedTuple):
    """The words of a vocabulary file, special ones first, and the line of each there, which is its row of weights."""

    where: str
    vocabulary: WordVocabulary
    order: list[int]


def recognizes(source: Path) -> bool:
    """Whether a file or directory holds weights of bilm-tf, by the names of files alone."""
    return bool(_hdf5_files(source)) or find_index(source) is not None or any(source.glob(f"*{INDEX_SUFFIX}"))


def read(
    source: Path,
    *,
    options_file: str | os.PathLike | None = None,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> Converted:
    """Read a bilm-tf model with what is there of its word softmax.

    The source is the hdf5 of weights, a training checkpoint's .index or .data, or the directory of either, where the
    other files are looked for too if they are not named.
    """
    index_file = find_index(source)
    weight_file = _find_weights(source) if index_file is None else index_file
    files = {"weight_file": weight_file, "options_file": Path(options_file or _find_options(weight_file))}
    options, where = read_object("options_file", files["options_file"]), f"options_file {str(files['options_file'])!r}"
    softmax_path = None if softmax_file is None else Path(softmax_file)
    if index_file is None:
        weights = read_hdf5("weight_file", weight_file)
        softmax_path = softmax_path or _find_softmax(source)
    else:
        weights = read_bundle(index_file, key_of_variable)
        files["data_file"] = data_file_of(index_file)
    softmax = weights
    if softmax_path is not None:
        softmax = read_hdf5("softmax_file", softmax_path)
        files["softmax_file"] = softmax_path
    has_softmax = softmax_path is not None or any(key in weights for key in SOFTMAX_KEYS)
    words = None
    if reads_words(options) or has_softmax:
        vocab_path = _find_vocabulary(weight_file) if vocab_file is None else Path(vocab_file)
        if vocab_path is not None:
            files["vocab_file"] = vocab_path
            words = read_vocabulary(vocab_path)
    elif vocab_file is not None:
        raise ValueError(f"vocab_file {str(vocab_file)!r} has no use without a word softmax: name softmax_file too.")
    model: ElmoPreTrainedModel
    model = bilm = _build_model(
        weights, options, where, words if reads_words(options) else None, index_file is not None
    )
    notes = [] if index_file is None else [_ADAGRAD]
    if has_softmax and words is not None:
        is_shared = options.get("share_embedding_softmax") is True and "softmax/W" not in softmax
        matrix, bias = "embedding" if is_shared else "softmax/W", "softmax/b"
        shapes = {matrix: (len(words.order), bilm.config.projection_size), bias: (len(words.order),)}
        softmax.check(shapes, f"{words.where} and {where}", softmax.keys())
        model = add_word_softmax(bilm, words.vocabulary, *(softmax[key][words.order] for key in (matrix, bias)))
        notes += [_SHARED] * is_shared
    elif softmax_file is not None:
        raise ValueError(f"softmax_file {str(softmax_file)!r} wants its words: name vocab_file too.")
    elif has_softmax:
        notes.append(_NO_WORDS)
    tokenizer = make_tokenizer(tokenizer_options, max_characters_per_word=model.config.max_characters_per_word)
    return Converted(model, tokenizer, files, options, tuple(notes), None if words is None else words.vocabulary)


def _build_model(
    weights: Weights, options: Mapping[str, Any], where: str, words: Words | None, is_training: bool
) -> ElmoModel:
    """The model of checked weights; words are those that it reads in place of characters."""
    if options.get("bidirectional") is False or any(key.startswith("rnn/") for key in weights):
        raise ValueError(f"{where if options.get('bidirectional') is False else weights.where} {_ONE_DIRECTION}")
    config = read_config(options, where, words, is_training)
    config = ElmoConfig.from_dict({**config.to_dict(), **missing_projections(config, weights)})
    # A single layer is below a MultiRNNCell too in what bilm-tf's inference and AllenNLP read.
    is_stacked = config.num_hidden_layers > 1 or any("/MultiRNNCell/" in key for key in weights)
    rules = weight_rules(config, is_stacked)
    parameters = take_parameters(weights, rules, config, where, ignored=SOFTMAX_KEYS)
    vectors = parameters.pop(WORD_TABLE, None)
    model = make_model(config, parameters)
    if words is not None and vectors is not None:
        _fill_table(model, words, vectors[words.order])
    return model


def reads_words(options: Mapping[str, Any]) -> bool:
    """Whether options are of a model with a table of word vectors in place of characters."""
    return "char_cnn" not in options and "lstm" in options


def read_config(options: Mapping[str, Any], where: str, words: Words | None, is_training: bool = False) -> ElmoConfig:
    """The config of a model with all projections (see `missing_projections`); `words` are what it reads, if it does.

    bilm-tf's trainer, whose options these are where `is_training`, takes a missing `use_skip_connections` for false.
    """
    if words is None and reads_words(options):
        raise ValueError(f"{where} has no char_cnn: the model reads words. Name its vocabulary by vocab_file.")
    fields: dict[str, Any] = {"vocab_size": INFERENCE_CHARACTERS, "forget_bias": FORGET_BIAS}
    for path, (name, default) in OPTIONS.items():
        if words is None or not path.startswith("char_cnn."):
            is_optional = is_training and name == "use_skip_connections"
            fields[name] = _option(options, where, path, False if is_optional else default)
    if words is not None:
        # Rows that hold every word whole, and one byte more, so that no longer word is taken for one.
        longest = max(len(word.encode("utf-8", "ignore")) for word in words.vocabulary.words)
        fields |= {
            "token_inputs": "words",
            "word_table_size": len(words.order) - 1,  # all but <UNK>, which stands for whatever is not in the table
            "word_vector_size": fields["projection_size"],
            "project_tokens": False,
            "max_characters_per_word": min(
                max(ElmoConfig.max_characters_per_word, longest + 3), MAX_CHARACTERS_PER_WORD
            ),
        }
    elif (count := _option(options, where, CHARACTERS_OPTION)) not in (TRAINING_CHARACTERS, INFERENCE_CHARACTERS):
        raise ValueError(
            f"{where}: {CHARACTERS_OPTION} is {count!r}, expected {TRAINING_CHARACTERS} (in training) or "
            f"{INFERENCE_CHARACTERS} (in inference): models with other characters than bytes cannot be converted."
        )
    return make_config(where, {name: path for path, (name, _) in OPTIONS.items()}, fields)


def _option(options: Mapping[str, Any], where: str, path: str, default: Any = REQUIRED) -> Any:
    value: Any = options
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None and default is REQUIRED:
        raise ValueError(f"{where} lacks the option {path}; use the options.json published with the weights.")
    return default if value is None else value


def _fill_table(model: ElmoModel, words: Words, vectors: torch.Tensor) -> None:
    """Fill the word table: there rows stand in the order of the vocabulary, here a word is found by its characters."""
    table, unknown = model.token_encoder.word_table, words.vocabulary.unk_id
    tokenizer = ElmoCharTokenizer(max_characters_per_word=model.config.max_characters_per_word)
    rows = torch.from_numpy(tokenizer.encode_words(words.vocabulary.words))
    is_known = torch.arange(len(rows)) != unknown
    try:
        table.fill(rows[is_known], vectors[is_known], vectors[unknown])  # type: ignore[union-attr]
    except ValueError as error:
        raise ValueError(f"{words.where}: {error}") from error


def read_vocabulary(vocab_file: str | os.PathLike) -> Words:
    """Read a vocabulary file, one word per line, decompressed where its name ends in .gz.

    bilm-tf finds `<S>`, `</S>` and `<UNK>` wherever they stand (in the released models' file `</S>` is the first line);
    here they come first.

    Raises: ValueError naming the file and what is wrong; FileNotFoundError.
    """
    where = f"vocab_file {str(vocab_file)!r}"
    text = "".join(line for _, line in decoded_lines(existing_file("vocab_file", vocab_file), "vocab_file"))
    # bilm-tf strips white space of any kind. Here only ASCII's: "x" with a no-break space would be a second "x".
    lines = (line.strip(string.whitespace) for line in text.removesuffix("\n").split("\n"))
    words = [line for line in lines if line != _END_OF_LIST]
    missing = [word for word in SPECIAL_WORDS if word not in words]
    if missing:
        raise ValueError(f"{where} lacks the line {missing[0]}; name the vocabulary that the model was trained with.")
    special = [words.index(word) for word in SPECIAL_WORDS]
    order = special + [line for line in range(len(words)) if line not in special]
    try:
        return Words(where, WordVocabulary([words[line] for line in order]), order)
    except ValueError as error:
        raise ValueError(f"{where}: {reason(error)}") from error


def _find_weights(source: Path) -> Path:
    """The hdf5 of a biLM's weights: a source itself, or the one of a directory that holds a biLM's keys."""
    files = [source] if source.is_file() else _hdf5_files(source)
    # A single file is read whatever it holds: the error says what is wrong with it.
    found = [file for file in files if len(files) == 1 or _holds(file, *_BILM_GROUPS)]
    chosen = _choose(found, "weights.hdf5", "model.hdf5")
    if chosen is None:
        names = ", ".join(file.name for file in found or [*files, *source.glob(f"*{INDEX_SUFFIX}")]) or "no such files"
        raise ValueError(
            f"source {str(source)!r} holds {len(found)} hdf5 with the key 'RNN_0' and not one training checkpoint "
            f"({names[:200]}); name the file of the weights in place of the directory."
        )
    return chosen


def _find_softmax(source: Path) -> Path | None:
    """The hdf5 of a directory that holds a word softmax and no biLM; None where there is not exactly one."""
    files = [] if source.is_file() else _hdf5_files(source)
    return _choose([file for file in files if _holds(file, "softmax") and not _holds(file, *_BILM_GROUPS)])


def _find_options(weight_file: Path) -> Path:
    found = sorted(weight_file.parent.glob("*options*.json"))
    # The released models' files: ..._weights.hdf5 beside ..._options.json.
    chosen = _choose(found, f"{weight_file.stem.replace('weights', 'options')}.json", "options.json")
    if chosen is None:
        held = ", ".join(file.name for file in found[:5]) or "no options.json"
        raise ValueError(f"{str(weight_file)!r} has {held} beside it; name the model's by options_file.")
    return chosen


def _find_vocabulary(weight_file: Path) -> Path | None:
    return _choose(sorted(weight_file.parent.glob("vocab*.txt*")), "vocab.txt.gz", "vocab.txt")


def _choose(files: Sequence[Path], *preferred: str) -> Path | None:
    """The file that has the first of the preferred names, or else the only one."""
    found = [file for name in preferred for file in files if file.name == name]
    return found[0] if found else files[0] if len(files) == 1 else None


def _hdf5_files(source: Path) -> list[Path]:
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    return [file for file in files if file.name.endswith((".hdf5", ".h5")) and file.is_file()]


def _holds(file: Path, *keys: str) -> bool:
    """Whether an hdf5 can be read and has one of these keys at its top."""
    h5py = require("h5py", "bilm-tf's weights", "conversion")
    try:
        with h5py.File(file, "r") as opened:
            return any(key in opened for key in keys)
    except Exception:  # what h5py raises depends on where the damage lies
        return False
