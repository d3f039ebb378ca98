"""Models of the published sizes with random weights that resemble trained ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from hf_elmo.model.configuration_elmo import ElmoConfig
from hf_elmo.model.modeling_elmo import ElmoCarryGate, ElmoModel, ElmoProjectedLSTM


def _tiny(**overrides) -> ElmoConfig:
    sizes = {"projection_size": 12, "cell_size": 40, "num_highway_layers": 1, "filters": [[1, 8], [2, 8], [3, 16]]}
    return ElmoConfig(**{**sizes, "character_embedding_size": 4, "adaptive_softmax_div_value": 2, **overrides})


# "tiny" is nobody's model: it is there to try the benchmark in seconds.
SIZES: dict[str, Callable[..., ElmoConfig]] = {
    "tiny": _tiny,
    "small": ElmoConfig.small,
    "medium": ElmoConfig.medium,
    "original": ElmoConfig.original,
}


def build_model(size: str, seed: int = 0) -> ElmoModel:
    """A model in evaluation mode, without dropout, whose weights depend on the size and the seed alone.

    Raises: ValueError where there is no such size.
    """
    if size not in SIZES:
        raise ValueError(f"--sizes holds {size!r}; the sizes are {', '.join(SIZES)}.")
    model = ElmoModel(SIZES[size](dropout=0.0)).eval()
    _draw_weights(model, torch.Generator().manual_seed(seed))
    return model


@torch.no_grad()
def _draw_weights(model: ElmoModel, generator: torch.Generator) -> None:
    """Normal weights of variance 1 / fan-in and small biases: the states move, but the published clips rest."""
    for module in model.modules():
        if isinstance(module, ElmoProjectedLSTM):
            projection_size, cell_size = module.weight_hr.shape
            for weight in (module.weight_ih, module.weight_hh):
                # A gate reads its input and the state before it.
                weight.normal_(std=(2 * projection_size) ** -0.5, generator=generator)
            module.weight_hr.normal_(std=cell_size**-0.5, generator=generator)
            module.bias.normal_(std=0.1, generator=generator)
        elif isinstance(module, nn.Embedding):
            module.weight.uniform_(-1, 1, generator=generator)
            module.weight[module.padding_idx] = 0
        elif isinstance(module, (nn.Conv1d, nn.Linear)):
            fan_in = module.weight[0].numel()
            module.weight.normal_(std=fan_in**-0.5, generator=generator)
            module.bias.normal_(std=0.1, generator=generator)
            if isinstance(module, ElmoCarryGate):
                module.bias.sub_(2)
