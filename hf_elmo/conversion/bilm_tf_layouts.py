"""How the numbers of each key of bilm-tf's hdf5 lie in our parameters, both ways; none of them changes.

Letters in shapes: D character embedding, N filters of one width W, P projection, H cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .bilm_tf_keys import WeightRule


class _Layout(NamedTuple):
    """How the numbers of one hdf5 key lie in our parameters; each function undoes the other."""

    to_ours: Callable[[Tensor], tuple[Tensor, ...]]
    to_theirs: Callable[..., Tensor]


def _swap_middle_gates(rows: Tensor) -> Tensor:
    """Rows of gates in the order i, j, f, o to i, f, j, o, and back; (4H, ...)."""
    first, second, third, last = rows.chunk(4)
    return torch.cat([first, third, second, last])


_LAYOUTS = {
    "same": _Layout(lambda theirs: (theirs,), lambda ours: ours),
    "transposed": _Layout(lambda theirs: (theirs.T,), lambda ours: ours.T),
    # (261, D) to (262, D): the padding id 0 has a row of zeros here and none there.
    "without padding row": _Layout(lambda theirs: (F.pad(theirs, (0, 0, 1, 0)),), lambda ours: ours[1:]),
    # (1, W, D, N) to (N, D, W).
    "convolution": _Layout(lambda theirs: (theirs[0].permute(2, 1, 0),), lambda ours: ours.permute(2, 1, 0)[None]),
    # (P + P, 4H), inputs above recurrent, to (4H, P) and (4H, P).
    "gate weights": _Layout(
        lambda theirs: _swap_middle_gates(theirs.T).chunk(2, dim=1),
        lambda inputs, recurrent: _swap_middle_gates(torch.cat([inputs, recurrent], dim=1)).T,
    ),
    "gate bias": _Layout(lambda theirs: (_swap_middle_gates(theirs),), _swap_middle_gates),
}


def to_ours(rule: WeightRule, theirs: Tensor) -> dict[str, Tensor]:
    """Our parameters, by name, from the array under their key."""
    return dict(zip(rule.parameters, _LAYOUTS[rule.layout].to_ours(theirs), strict=True))


def to_theirs(rule: WeightRule, parameters: dict[str, Tensor]) -> Tensor:
    """The array under their key from our parameters by name; undoes `to_ours`."""
    return _LAYOUTS[rule.layout].to_theirs(*(parameters[name] for name in rule.parameters))
