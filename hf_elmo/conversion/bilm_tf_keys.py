"""bilm-tf's names and layouts beside ours: each key of its hdf5 and each option of its JSON, for both directions.

Source: bilm-tf, bilm/training.py (`dump_weights` writes the hdf5) and bilm/model.py (reads it for inference).

Letters in shapes: D character embedding, N filters of one width W, P projection, H cell, V words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..model.configuration_elmo import ElmoConfig
from .reading import SAME, Layout, Rule

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
    """The rules of a model's keys; LSTM cells are below a MultiRNNCell where TensorFlow has stacked them."""
    if config.token_inputs == "words":
        # There in the order of the vocabulary, here in that of hashes.
        yield Rule("embedding", (WORD_TABLE,), SAME)
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
    """The fields of a config for projections that weights may lack.

    bilm-tf makes none where sizes are equal before and after it. Such sizes alone do not tell: this package writes
    projections of equal sizes too.
    """
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
