"""What AllenNLP calls the parts of a biLM, and how their numbers lie in ours; ELMoForManyLangs has taken them over.

Source: allennlp/modules/elmo.py, elmo_lstm.py, highway.py and lstm_cell_with_projection.py, the same from 0.9 to 2.10.

Letters in shapes: F filters of all widths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoModel
from .torch_weights import TorchWeights

# Their forget gates have all of their bias in the weights.
FORGET_BIAS = 0.0

_CELL = "{direction}_layer_{layer}"
_OURS = "bilm.layers.{layer}.{direction}_lstm"
_CELL_PARTS = {
    "input_linearity.weight": "weight_ih",
    "state_linearity.weight": "weight_hh",
    "state_linearity.bias": "bias",
    "state_projection.weight": "weight_hr",
}


@dataclass(frozen=True)
class KeyRule:
    """One of their keys and the parameters of `ElmoModel` that hold the same numbers.

    Args:
        key: Their key.
        parameters: Ours. Two of them are the halves of the rows: those of a highway layer's map and, with the other
            sign, of its gate, for their gate says how much is carried and ours how much is mapped.
    """

    key: str
    parameters: tuple[str, ...]

    def shape(self, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
        """The shape under their key from the shapes of our parameters."""
        first, *rest = shapes[self.parameters[0]]
        return (first * len(self.parameters), *rest)

    def to_ours(self, theirs: Tensor) -> dict[str, Tensor]:
        """Our parameters by name."""
        if len(self.parameters) == 1:
            return {self.parameters[0]: theirs}
        mapped, carried = theirs.chunk(2)
        return dict(zip(self.parameters, (mapped, -carried), strict=True))


def encoder_rules(config: ElmoConfig, convolution: str, prefix: str = "") -> list[KeyRule]:
    """The rules of the token encoder's convolutions, highway layers and projection.

    Args:
        config: Says how many there are.
        convolution: What they call a convolution, `#` standing for its number.
        prefix: Before the names of highway layers and projection.
    """
    has_characters = config.token_inputs != "words"
    names: list[tuple[str, tuple[str, ...]]] = [
        (f"{convolution.replace('#', str(index))}.{part}", (f"token_encoder.convolutions.{index}.{part}",))
        for index in range(len(config.filters) * has_characters)
        for part in ("weight", "bias")
    ]
    for index in range(config.num_highway_layers * has_characters):
        ours = f"token_encoder.highways.{index}"
        names += [
            (f"{prefix}highways._layers.{index}.{part}", (f"{ours}.transform.{part}", f"{ours}.carry.{part}"))
            for part in ("weight", "bias")
        ]
    names += [(f"{prefix}projection.{part}", (f"token_encoder.projection.{part}",)) for part in ("weight", "bias")]
    return [KeyRule(*pair) for pair in names]


def bilm_rules(config: ElmoConfig, prefix: str = "") -> list[KeyRule]:
    """The rules of the LSTM cells, whose gates stand in our order (i, f, g, o)."""
    return [
        KeyRule(f"{prefix}{_CELL.format(**names)}.{theirs}", (f"{_OURS.format(**names)}.{ours}",))
        for layer in range(config.num_hidden_layers)
        for direction in ("forward", "backward")
        for names in ({"layer": layer, "direction": direction},)
        for theirs, ours in _CELL_PARTS.items()
    ]


def parameter_shapes(config: ElmoConfig) -> dict[str, tuple[int, ...]]:
    """The shape of each of our parameters, for which no memory is taken."""
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in ElmoModel(config).state_dict().items()}


def wanted_shapes(rules: Sequence[KeyRule], shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shape of each of their keys."""
    return {rule.key: rule.shape(shapes) for rule in rules}


def take(rules: Sequence[KeyRule], weights: TorchWeights) -> dict[str, Tensor]:
    """Our parameters by name, out of checked weights."""
    return {name: tensor for rule in rules for name, tensor in rule.to_ours(weights[rule.key]).items()}
