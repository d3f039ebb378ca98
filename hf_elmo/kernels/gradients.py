"""What every backward pass that is written by hand refuses."""

from __future__ import annotations

import torch


def refuse_create_graph(what: str) -> None:
    """Refuse to go back through `what` where gradients of the gradients are asked for.

    Raises: RuntimeError naming `what` and the way that has them.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(
            f"create_graph=True asks for the gradient of a gradient, which the hand-written backward of {what} does "
            'not have. Run forward and backward under hf_elmo.kernels.use_backend("readable").'
        )
