"""What a bilm-tf checkpoint is made of: each hdf5 key and each option beside its name here, for both directions.

Source: bilm-tf, bilm/training.py (`dump_weights` writes the hdf5) and bilm/model.py (reads it for inference). The names
of the layouts and kinds are explained where they are carried out, in `bilm_tf_layouts` and `bilm_tf_options`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ..model.configuration_elmo import ElmoConfig

# The 261 characters of the byte scheme; inference adds the padding id 0, for which the hdf5 holds no row.
TRAINING_CHARACTERS = 261
INFERENCE_CHARACTERS = 262

# The only one there is: bilm-tf leaves it at the default of TensorFlow's LSTMCell, so the hdf5 holds the learned bias.
FORGET_BIAS = 1.0

# Marks an option that must be given.
REQUIRED = object()


@dataclass(frozen=True)
class OptionRule:
    """One key of options.json and the field of `ElmoConfig` that holds the same value.

    Args:
        path: Where it stands in the JSON, levels joined by dots.
        field: The field of `ElmoConfig`.
        kind: What a valid value is.
        default: The value that bilm-tf takes where the key is absent or null; `REQUIRED` where it cannot do without.
    """

    path: str
    field: str
    kind: str
    default: Any = REQUIRED


OPTION_RULES = (
    OptionRule("lstm.use_skip_connections", "use_skip_connections", "flag"),
    OptionRule("lstm.projection_dim", "projection_size", "size"),
    OptionRule("lstm.cell_clip", "cell_clip", "clip", default=None),
    OptionRule("lstm.proj_clip", "projection_clip", "clip", default=None),
    OptionRule("lstm.dim", "cell_size", "size"),
    OptionRule("lstm.n_layers", "num_hidden_layers", "layers", default=1),
    OptionRule("char_cnn.activation", "filter_activation", "activation"),
    OptionRule("char_cnn.filters", "filters", "filters"),
    OptionRule("char_cnn.n_highway", "num_highway_layers", "optional layers", default=0),
    OptionRule("char_cnn.embedding.dim", "character_embedding_size", "size"),
    OptionRule("char_cnn.max_characters_per_token", "max_characters_per_word", "row"),
)

CHARACTERS_OPTION = "char_cnn.n_characters"
# Of models that read words.
WORDS_OPTION = "n_tokens_vocab"


@dataclass(frozen=True)
class WeightRule:
    """One hdf5 key and the parameters of `ElmoModel` that hold the same numbers.

    Args:
        key: The hdf5 key; names in braces are filled in for each repetition.
        parameters: The parameters, named as in the model's state dict.
        layout: How the numbers lie in the one and in the other.
        repeat: What there is one of each of: "words", "characters", "filter", "highway", "token projection", "cell" (a
            layer's direction) or "projected cell".
        options: The options that fix the shape.
        absent: When bilm-tf itself writes no such key.
    """

    key: str
    parameters: tuple[str, ...]
    layout: str
    repeat: str
    options: str
    absent: str = ""


_NO_TOKEN_PROJECTION = "bilm-tf writes none only where the filters already add up to lstm.projection_dim"
_NO_CELL_PROJECTION = "bilm-tf writes none only where lstm.dim is lstm.projection_dim"
_CELL = "bilm.layers.{layer}.{direction}_lstm"

WEIGHT_RULES = (
    # In the order of the vocabulary file; see `bilm_tf_words`.
    WeightRule(
        "embedding",
        ("token_encoder.word_table.weight",),
        "same",
        "words",
        "the words of vocab_file and lstm.projection_dim",
    ),
    WeightRule(
        "char_embed",
        ("token_encoder.character_embedding.weight",),
        "without padding row",
        "characters",
        "char_cnn.embedding.dim",
    ),
    WeightRule(
        "CNN/W_cnn_{filter}",
        ("token_encoder.convolutions.{filter}.weight",),
        "convolution",
        "filter",
        "char_cnn.filters and char_cnn.embedding.dim",
    ),
    WeightRule(
        "CNN/b_cnn_{filter}",
        ("token_encoder.convolutions.{filter}.bias",),
        "same",
        "filter",
        "char_cnn.filters",
    ),
    WeightRule(
        "CNN_high_{highway}/W_carry",
        ("token_encoder.highways.{highway}.carry.weight",),
        "transposed",
        "highway",
        "char_cnn.filters",
    ),
    WeightRule(
        "CNN_high_{highway}/b_carry",
        ("token_encoder.highways.{highway}.carry.bias",),
        "same",
        "highway",
        "char_cnn.filters",
    ),
    WeightRule(
        "CNN_high_{highway}/W_transform",
        ("token_encoder.highways.{highway}.transform.weight",),
        "transposed",
        "highway",
        "char_cnn.filters",
    ),
    WeightRule(
        "CNN_high_{highway}/b_transform",
        ("token_encoder.highways.{highway}.transform.bias",),
        "same",
        "highway",
        "char_cnn.filters",
    ),
    WeightRule(
        "CNN_proj/W_proj",
        ("token_encoder.projection.weight",),
        "transposed",
        "token projection",
        "char_cnn.filters and lstm.projection_dim",
        absent=_NO_TOKEN_PROJECTION,
    ),
    WeightRule(
        "CNN_proj/b_proj",
        ("token_encoder.projection.bias",),
        "same",
        "token projection",
        "lstm.projection_dim",
        absent=_NO_TOKEN_PROJECTION,
    ),
    WeightRule(
        "{cell}/LSTMCell/W_0",
        (f"{_CELL}.weight_ih", f"{_CELL}.weight_hh"),
        "gate weights",
        "cell",
        "lstm.projection_dim and lstm.dim",
    ),
    WeightRule(
        "{cell}/LSTMCell/B",
        (f"{_CELL}.bias",),
        "gate bias",
        "cell",
        "lstm.dim",
    ),
    WeightRule(
        "{cell}/LSTMCell/W_P_0",
        (f"{_CELL}.weight_hr",),
        "transposed",
        "projected cell",
        "lstm.projection_dim and lstm.dim",
        absent=_NO_CELL_PROJECTION,
    ),
)

# TensorFlow stacks layers in a MultiRNNCell only where there are several.
STACK = "RNN_{number}/RNN/MultiRNNCell"
STACKED_CELL = STACK + "/Cell{layer}"
SINGLE_CELL = "RNN_{number}/RNN"

# The number of a direction in the hdf5 and its name here.
DIRECTIONS = {0: "forward", 1: "backward"}


@dataclass(frozen=True)
class Names:
    """What arrays are called in one kind of file.

    Args:
        of_key: The name of what stands under a key of the hdf5.
        one_direction: What names begin with in models that read forwards only; both directions' have RNN_0 and RNN_1.
        is_apart: Whether a name, of all those in the file, is of something that a model is read without.
    """

    of_key: Callable[[str], str]
    one_direction: str
    is_apart: Callable[[str, Collection[str]], bool]


def _is_apart_from_weights(key: str, keys: Collection[str]) -> bool:
    return key in ("softmax/W", "softmax/b")


HDF5_NAMES = Names(lambda key: key, "rnn/", _is_apart_from_weights)


def _variable(key: str) -> str:
    """The variable of a training checkpoint that `dump_weights` writes under a key of the hdf5."""
    for theirs, variable in _RENAMED:
        key = key.replace(theirs, variable)
    return f"{_SCOPE}{key}"


def _is_apart_from_variables(name: str, names: Collection[str]) -> bool:
    """Whether a variable is of the training alone: counters, sums that an optimizer keeps of another, the softmax."""
    of_model = name.startswith(_SCOPE) and name.rpartition("/")[0] not in names
    return not of_model or _is_apart_from_weights(name.removeprefix(_SCOPE), names)


# In the order in which they are replaced.
_SCOPE = "lm/"
_RENAMED = (
    ("/RNN/MultiRNNCell/Cell", "/rnn/multi_rnn_cell/cell_"),
    ("/RNN/", "/rnn/"),
    ("/LSTMCell/W_P_0", "/lstm_cell/projection/kernel"),
    ("/LSTMCell/W_0", "/lstm_cell/kernel"),
    ("/LSTMCell/B", "/lstm_cell/bias"),
)
VARIABLE_NAMES = Names(_variable, f"{_SCOPE}rnn/", _is_apart_from_variables)


def expand_weight_rules(config: ElmoConfig, stacked: bool, names: Names = HDF5_NAMES) -> list[WeightRule]:
    """The rules of one model, the repetitions written out.

    Args:
        config: Says how many filters, highway layers and biLM layers there are.
        stacked: Whether the LSTM cells stand below a MultiRNNCell.
        names: What the arrays are called.
    """
    cell = STACKED_CELL if stacked else SINGLE_CELL
    cells = [
        {"cell": cell.format(number=number, layer=layer), "direction": direction, "layer": layer}
        for number, direction in DIRECTIONS.items()
        for layer in range(config.num_hidden_layers)
    ]
    reads_words = config.token_inputs == "words"
    repetitions: dict[str, list[dict[str, Any]]] = {
        "words": [{}] * reads_words,
        "characters": [{}] * (not reads_words),
        "filter": [] if reads_words else [{"filter": index} for index in range(len(config.filters))],
        "highway": [] if reads_words else [{"highway": index} for index in range(config.num_highway_layers)],
        "token projection": [{}] * config.project_tokens,
        "cell": cells,
        "projected cell": cells if config.project_hidden else [],
    }
    return [
        WeightRule(
            key=names.of_key(rule.key.format(**numbers)),
            parameters=tuple(parameter.format(**numbers) for parameter in rule.parameters),
            layout=rule.layout,
            repeat=rule.repeat,
            options=rule.options,
            absent=rule.absent,
        )
        for rule in WEIGHT_RULES
        for numbers in repetitions[rule.repeat]
    ]


def is_stacked(config: ElmoConfig, keys: Iterable[str], names: Names = HDF5_NAMES) -> bool:
    """Whether LSTM cells stand below a MultiRNNCell: always where there are several layers, and at times a single one.

    Args:
        config: Says how many layers there are.
        keys: The names of all arrays of the file.
        names: How they are made.
    """
    stack = names.of_key(f"{STACK.format(number=0)}/Cell")
    return config.num_hidden_layers > 1 or any(key.startswith(stack) for key in keys)


def without_missing_projections(config: ElmoConfig, keys: Collection[str], names: Names = HDF5_NAMES) -> ElmoConfig:
    """The config of weights that lack a projection where bilm-tf makes none: where sizes are equal before and after it.

    Such sizes alone do not tell: this package writes projections of these sizes too.

    Args:
        config: As the options describe the model.
        keys: The names of all arrays of the file.
        names: How they are made.
    """
    rules = expand_weight_rules(config, is_stacked(config, keys, names), names)
    there = {rule.repeat for rule in rules if rule.key in keys}
    num_filters = sum(count for _, count in config.filters)
    changes = {}
    if config.project_tokens and num_filters == config.projection_size:
        changes["project_tokens"] = "token projection" in there
    if config.cell_size == config.projection_size:
        changes["project_hidden"] = "projected cell" in there
    return ElmoConfig.from_dict({**config.to_dict(), **changes})
