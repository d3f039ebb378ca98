"""bilm-tf's models: the released ELMo models, those of simple_elmo and the NLPL repository, and training checkpoints.

Values are copied bit by bit and none is computed: the constant 1 that bilm-tf adds to the forget gate while it runs is
`ElmoConfig.forget_bias` here, and they go back bit by bit.

Source: bilm-tf, bilm/training.py (`dump_weights` writes the hdf5) and bilm/model.py (reads it for inference).

Letters in shapes: D character embedding, N filters of one width W, P projection, H cell, V words.
"""

from __future__ import annotations

import json
import os
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from ..given import reason, require
from ..hub.loading import find_file, load_config, load_what_is_there
from ..hub.writing import check_keeps_inputs, check_output_directory, written_aside
from ..model.configuration_elmo import MAX_CHARACTERS_PER_WORD, ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel, ElmoPreTrainedModel, ElmoWordTable
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.files import decoded_lines
from ..text.vocabulary import SPECIAL_WORDS, VOCABULARY_FILE, WordVocabulary
from . import reading
from .reading import Converted, Layout, Rule, Weights
from .tensor_bundle import INDEX_SUFFIX, data_file_of, find_index, read_bundle

# What is written.
OPTIONS_FILE, WEIGHT_FILE, SOFTMAX_FILE, VOCAB_FILE = "options.json", "weights.hdf5", "softmax.hdf5", "vocab.txt"
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
# The 261 characters of the byte scheme; inference adds the padding id 0, for which the hdf5 holds no row.
TRAINING_CHARACTERS, INFERENCE_CHARACTERS = 261, 262
CHARACTERS_OPTION = "char_cnn.n_characters"
# Of models that read words.
WORDS_OPTION = "n_tokens_vocab"

# bilm-tf leaves it at the default of TensorFlow's LSTMCell, which adds it while it runs: files hold the learned bias.
FORGET_BIAS = 1.0

# Marks an option without a default.
REQUIRED: Any = object()
# Each option, levels joined by dots, the field of `ElmoConfig` of the same value, and the value where it is not given.
OPTIONS = {
    "lstm.use_skip_connections": ("use_skip_connections", REQUIRED),
    "lstm.projection_dim": ("projection_size", REQUIRED),
    "lstm.cell_clip": ("cell_clip", None),
    "lstm.proj_clip": ("projection_clip", None),
    "lstm.dim": ("cell_size", REQUIRED),
    "lstm.n_layers": ("num_hidden_layers", 1),
    "char_cnn.activation": ("filter_activation", REQUIRED),
    "char_cnn.filters": ("filters", REQUIRED),
    "char_cnn.n_highway": ("num_highway_layers", 0),
    "char_cnn.embedding.dim": ("character_embedding_size", REQUIRED),
    "char_cnn.max_characters_per_token": ("max_characters_per_word", REQUIRED),
}

WORD_TABLE = "token_encoder.word_table.weight"
# The softmax of both directions: (V, P) and (V,), as `word_softmax` has them in ElmoForPreTraining.
SOFTMAX_KEYS = {"softmax/W": "word_softmax.weight", "softmax/b": "word_softmax.bias"}


def _swap_gates(rows: Tensor) -> Tensor:
    """Rows of gates in the order i, j, f, o to i, f, j, o, and back; (4H, ...)."""
    first, second, third, last = rows.chunk(4)
    return torch.cat([first, third, second, last])


_TRANSPOSED = Layout(lambda theirs: (theirs.T,), lambda ours: ours.T)
# (261, D) to (262, D): the padding id 0 has a row of zeros here and none there.
_WITHOUT_PADDING_ROW = Layout(lambda theirs: (F.pad(theirs, (0, 0, 1, 0)),), lambda ours: ours[1:])
# (1, W, D, N) to (N, D, W).
_CONVOLUTION = Layout(lambda theirs: (theirs[0].permute(2, 1, 0),), lambda ours: ours.permute(2, 1, 0)[None])
# (P + P, 4H), inputs above recurrent, to (4H, P) and (4H, P).
_GATE_WEIGHTS = Layout(
    lambda theirs: _swap_gates(theirs.T).chunk(2, dim=1),
    lambda inputs, recurrent: _swap_gates(torch.cat([inputs, recurrent], dim=1)).T,
)
_GATE_BIAS = Layout(lambda theirs: (_swap_gates(theirs),), _swap_gates)


def weight_rules(config: ElmoConfig, is_stacked: bool) -> Iterator[Rule]:
    """The rules of a model's keys; `is_stacked`: LSTM cells are below a MultiRNNCell."""
    if config.token_inputs == "words":
        # There in the order of the vocabulary, here in that of hashes.
        yield Rule("embedding", (WORD_TABLE,))
    else:
        yield Rule("char_embed", ("token_encoder.character_embedding.weight",), _WITHOUT_PADDING_ROW)
        for index in range(len(config.filters)):
            yield Rule(f"CNN/W_cnn_{index}", (f"token_encoder.convolutions.{index}.weight",), _CONVOLUTION)
            yield Rule(f"CNN/b_cnn_{index}", (f"token_encoder.convolutions.{index}.bias",))
        for index in range(config.num_highway_layers):
            for part in ("carry", "transform"):
                ours = f"token_encoder.highways.{index}.{part}"
                yield Rule(f"CNN_high_{index}/W_{part}", (f"{ours}.weight",), _TRANSPOSED)
                yield Rule(f"CNN_high_{index}/b_{part}", (f"{ours}.bias",))
    if config.project_tokens:
        yield Rule("CNN_proj/W_proj", ("token_encoder.projection.weight",), _TRANSPOSED)
        yield Rule("CNN_proj/b_proj", ("token_encoder.projection.bias",))
    for number, direction in enumerate(("forward", "backward")):
        for layer in range(config.num_hidden_layers):
            stack = f"MultiRNNCell/Cell{layer}/" if is_stacked else ""
            theirs, ours = f"RNN_{number}/RNN/{stack}LSTMCell", f"bilm.layers.{layer}.{direction}_lstm"
            yield Rule(f"{theirs}/W_0", (f"{ours}.weight_ih", f"{ours}.weight_hh"), _GATE_WEIGHTS)
            yield Rule(f"{theirs}/B", (f"{ours}.bias",), _GATE_BIAS)
            if config.project_hidden:
                yield Rule(f"{theirs}/W_P_0", (f"{ours}.weight_hr",), _TRANSPOSED)


def missing_projections(config: ElmoConfig, keys: Iterable[str]) -> dict[str, bool]:
    """The fields for projections, which bilm-tf leaves out between equal sizes, and this package does not."""
    names = {key.rpartition("/")[2] for key in keys}
    num_filters = sum(count for _, count in config.filters)
    sizes = (("project_tokens", num_filters, "W_proj"), ("project_hidden", config.cell_size, "W_P_0"))
    return {field: key in names for field, size, key in sizes if size == config.projection_size}


# As `dump_weights` renames the variables of a training checkpoint, in this order.
_RENAMED = (
    ("/rnn/multi_rnn_cell/cell_", "/RNN/MultiRNNCell/Cell"),
    ("/rnn/lstm_cell/", "/RNN/lstm_cell/"),
    ("/lstm_cell/projection/kernel", "/LSTMCell/W_P_0"),
    ("/lstm_cell/kernel", "/LSTMCell/W_0"),
    ("/lstm_cell/bias", "/LSTMCell/B"),
)


def key_of_variable(name: str) -> str | None:
    """The key of a training checkpoint's variable in the hdf5; None for counters and an optimizer's variables."""
    if not name.startswith("lm/") or name.endswith("/Adagrad"):
        return None
    for theirs, key in _RENAMED:
        name = name.replace(theirs, key)
    return name.removeprefix("lm/")


class Words(NamedTuple):
    """The words of a vocabulary file, special ones first, and the line of each there, which is its row of weights."""

    where: str
    vocabulary: WordVocabulary
    order: list[int]


def recognizes(source: Path) -> bool:
    """Whether a source holds weights of bilm-tf, by the names of files alone."""
    return bool(_hdf5_files(source)) or find_index(source) is not None or any(source.glob(f"*{INDEX_SUFFIX}"))


def read(
    source: Path,
    *,
    options_file: str | os.PathLike | None = None,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> Converted:
    """Read a model, with its word softmax if that is there, from its hdf5, .index or .data, or their directory."""
    index_file = find_index(source)
    weight_file = index_file or _find_weights(source)
    options_path = Path(options_file or _find_options(weight_file))
    options, where = reading.read_object("options_file", options_path), f"options_file {str(options_path)!r}"
    files, notes = {"weight_file": weight_file, "options_file": options_path}, []
    if index_file is None:
        weights = softmax = reading.read_hdf5("weight_file", weight_file)
        # A directory's hdf5 that holds a word softmax and no biLM.
        apart = [] if source.is_file() else [file for file in _hdf5_files(source) if not _holds(file, *_BILM_GROUPS)]
        softmax_path = softmax_file or _choose([file for file in apart if _holds(file, "softmax")])
    else:
        weights = softmax = read_bundle(index_file, key_of_variable)
        files["data_file"], softmax_path = data_file_of(index_file), softmax_file
        notes.append("Adagrad's sums and the training's carried states were left out: training on starts without them.")
    if softmax_path is not None:
        files["softmax_file"] = Path(softmax_path)
        softmax = reading.read_hdf5("softmax_file", softmax_path)
    has_softmax = softmax is not weights or any(key in weights for key in SOFTMAX_KEYS)
    words = None
    if reads_words(options) or has_softmax:
        listed = sorted(weight_file.parent.glob("vocab*.txt*"))
        vocab_path = vocab_file or _choose(listed, "vocab.txt.gz", "vocab.txt")
        if vocab_path is not None:
            files["vocab_file"], words = Path(vocab_path), read_vocabulary(vocab_path)
    elif vocab_file is not None:
        raise ValueError(f"vocab_file {str(vocab_file)!r} has no use without a word softmax: name softmax_file too.")
    bilm = _build_model(weights, options, where, words if reads_words(options) else None, index_file is not None)
    model: ElmoPreTrainedModel = bilm
    if has_softmax and words is not None:
        is_shared = options.get("share_embedding_softmax") is True and "softmax/W" not in softmax
        matrix, bias = "embedding" if is_shared else "softmax/W", "softmax/b"
        shapes = {matrix: (len(words.order), bilm.config.projection_size), bias: (len(words.order),)}
        softmax.check(shapes, f"{words.where} and {where}", softmax.keys())
        model = reading.add_word_softmax(bilm, words.vocabulary, *(softmax[key][words.order] for key in (matrix, bias)))
        if is_shared:
            notes.append(
                "The model shared one matrix between word table and softmax (share_embedding_softmax); here they are "
                "two, equal until they are trained."
            )
    elif softmax_file is not None:
        raise ValueError(f"softmax_file {str(softmax_file)!r} wants its words: name vocab_file too.")
    elif has_softmax:
        notes.append(
            "The word softmax was left out, since no vocabulary says which words its rows stand for: name it by "
            "vocab_file."
        )
    tokenizer = reading.make_tokenizer(tokenizer_options, max_characters_per_word=model.config.max_characters_per_word)
    return Converted(model, tokenizer, files, options, tuple(notes), None if words is None else words.vocabulary)


def _build_model(
    weights: Weights, options: Mapping[str, Any], where: str, words: Words | None, is_training: bool
) -> ElmoModel:
    if options.get("bidirectional") is False or any(key.startswith("rnn/") for key in weights):
        raise ValueError(f"{where if options.get('bidirectional') is False else weights.where} {_ONE_DIRECTION}")
    config = read_config(options, where, words, is_training)
    config = ElmoConfig.from_dict({**config.to_dict(), **missing_projections(config, weights)})
    # A single layer is below a MultiRNNCell too in what bilm-tf's inference and AllenNLP read.
    is_stacked = config.num_hidden_layers > 1 or any("/MultiRNNCell/" in key for key in weights)
    rules = weight_rules(config, is_stacked)
    where = where if words is None else f"{words.where} and {where}"
    parameters = reading.take_parameters(weights, rules, config, where, ignored=SOFTMAX_KEYS)
    vectors = parameters.pop(WORD_TABLE, None)
    model = reading.make_model(config, parameters)
    if words is not None and vectors is not None:
        _fill_table(model, words, vectors[words.order])
    return model


def reads_words(options: Mapping[str, Any]) -> bool:
    """Whether the model has a table of word vectors in place of characters."""
    return "char_cnn" not in options and "lstm" in options


def read_config(options: Mapping[str, Any], where: str, words: Words | None, is_training: bool = False) -> ElmoConfig:
    """The config of a model with all projections (see `missing_projections`); `words` are what it reads, if it does."""
    if words is None and reads_words(options):
        raise ValueError(f"{where} has no char_cnn: the model reads words. Name its vocabulary by vocab_file.")
    fields: dict[str, Any] = {"vocab_size": INFERENCE_CHARACTERS, "forget_bias": FORGET_BIAS}
    for path, (name, default) in OPTIONS.items():
        if words is None or not path.startswith("char_cnn."):
            # The trainer takes missing skip connections for none.
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
    return reading.make_config(where, {name: path for path, (name, _) in OPTIONS.items()}, fields)


def _option(options: Mapping[str, Any], where: str, path: str, default: Any = REQUIRED) -> Any:
    value: Any = options
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None and default is REQUIRED:
        raise ValueError(f"{where} lacks the option {path}; use the options.json published with the weights.")
    return default if value is None else value


def _fill_table(model: ElmoModel, words: Words, vectors: torch.Tensor) -> None:
    table, unknown = model.token_encoder.word_table, words.vocabulary.unk_id
    tokenizer = ElmoCharTokenizer(max_characters_per_word=model.config.max_characters_per_word)
    rows = torch.from_numpy(tokenizer.encode_words(words.vocabulary.words))
    is_known = torch.arange(len(rows)) != unknown
    try:
        table.fill(rows[is_known], vectors[is_known], vectors[unknown])  # type: ignore[union-attr]
    except ValueError as error:
        raise ValueError(f"{words.where}: {error}") from error


def read_vocabulary(vocab_file: str | os.PathLike) -> Words:
    """Read a vocabulary file, one word per line; special words may stand anywhere there, and come first here."""
    where = f"vocab_file {str(vocab_file)!r}"
    text = "".join(line for _, line in decoded_lines(reading.existing_file("vocab_file", vocab_file), "vocab_file"))
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


def _find_options(weight_file: Path) -> Path:
    found = sorted(weight_file.parent.glob("*options*.json"))
    # The released models' files: ..._weights.hdf5 beside ..._options.json.
    chosen = _choose(found, f"{weight_file.stem.replace('weights', 'options')}.json", "options.json")
    if chosen is None:
        held = ", ".join(file.name for file in found[:5]) or "no options.json"
        raise ValueError(f"{str(weight_file)!r} has {held} beside it; name the model's by options_file.")
    return chosen


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


# The way back


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
