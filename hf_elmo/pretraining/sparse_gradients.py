"""Clipping the norm of gradients of which some are sparse, which torch's own function refuses."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def clip_gradient_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients so that the norm of them together is at most `max_norm`; sparse ones become coalesced.

    As torch.nn.utils.clip_grad_norm_, which knows no sparse gradients.

    Returns: The norm before.
    """
    values = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            # Repeated rows add up before they are squared.
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        elif parameter.grad is not None:
            values.append(parameter.grad)
    norm = torch.nn.utils.get_total_norm(values)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(scale)
    return norm
