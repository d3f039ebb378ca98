"""Dropout whose draws are quick on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .tracing_elmo import is_traced

# Below, the calls take longer than the draws.
_LEAST_NUMBERS = 4096
_STEPS = 2**16


class ElmoDropout(nn.Dropout):
    """As `nn.Dropout`, which on a CPU draws one number after another from a generator of 64 bits each.

    There each draw serves four numbers here, so that the rate is rounded to the next 65,536th. `torch.manual_seed`
    seeds it. Small tensors, other devices and what PyTorch traces have torch's own.
    """

    def forward(self, input: Tensor) -> Tensor:
        dropped = round(self.p * _STEPS)
        is_here = input.device.type == "cpu" and input.numel() >= _LEAST_NUMBERS
        if not self.training or not is_here or not 0 < dropped < _STEPS or is_traced():
            return super().forward(input)
        draws = torch.empty((input.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        numbers = draws.view(torch.int16)[: input.numel()].view(input.shape)
        kept = numbers >= dropped - _STEPS // 2
        return (input * kept).mul_(_STEPS / (_STEPS - dropped))
