"""Weights that are read beside their module's own forward, wherever accelerate keeps them until then."""

from __future__ import annotations

from torch import Tensor, nn


def read_weights(module: nn.Module, *names: str) -> list[Tensor]:
    """The weights of a module by their names, loaded where a device map has them elsewhere until the module is called.

    Args:
        module: Owns the weights.
        names: Of its parameters.
    """
    # Accelerate loads what it keeps on disk or in another memory when `forward` is called, and only then.
    hook = getattr(module, "_hf_hook", None)
    if hook is not None:
        hook.pre_forward(module)
    weights = [getattr(module, name) for name in names]
    if hook is not None:
        hook.post_forward(module, None)
    return weights
