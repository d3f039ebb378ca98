"""What a scan is told beside its tensors, whichever way it is run."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import torch

from .plain import Clips
from .steps import Steps


class ScanSettings(NamedTuple):
    """All of a scan that is not a tensor."""

    steps: Steps
    clips: Clips
    matmul_dtype: torch.dtype  # of the factors of matrix products
    dtype: torch.dtype  # of everything between them
    backend: ModuleType  # plain or compiled
    int8: bool
