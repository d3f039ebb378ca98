"""Weights as panels of 16 outputs, and inference by them: gates where their products leave off (`panel_steps.h`).

Letters in shapes as in `scan.py`; O outputs and I inputs of a weight.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import library
from .plain import Clips
from .prepared import is_small, lay_out_cached
from .scan_settings import ScanSettings

# Outputs of a panel, and rows of a tile.
PANEL = 16
# Rows from which the panels win over weights as they lie, which need no copy.
_ENOUGH_ROWS = 6


def lay_out_panels(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A weight (O, I) as panels of 16 of its outputs: (O / 16, I, 16), of bf16 (O / 16, I / 2, 16, 2)."""
    rows = weight.detach().to(dtype).contiguous()
    # Two numbers of bf16 are moved as one.
    units = rows.view(torch.int32) if dtype == torch.bfloat16 else rows
    panels = units.view(-1, PANEL, units.shape[1]).transpose(1, 2).contiguous()
    return panels.view(dtype)


def by_cells(weight: Tensor) -> Tensor:
    """A weight of gates (4H, I) with the four gates of 16 cells side by side."""
    return weight.view(4, -1, PANEL, weight.shape[1]).transpose(0, 1).reshape(weight.shape)


class OutputPanels:
    """A copy of a weight (O, I) as panels."""

    def __init__(self, weight: Tensor):
        self.weight = weight
        self.panels = lay_out_panels(weight, weight.dtype)
        self.nbytes = self.panels.nbytes


class GatePanels(OutputPanels):
    """A copy of a weight of gates as panels, four of the same cells side by side."""

    def __init__(self, weight: Tensor):
        super().__init__(by_cells(weight.contiguous()))
        self.weight = weight


def suits(settings: ScanSettings, recurrent: Tensor) -> bool:
    """Whether inference by panels runs, and pays: where the weights stay in the caches from step to step."""
    gates, projection_size = recurrent.shape
    return (
        recurrent.device.type == "cpu"
        and settings.matmul_dtype == settings.dtype == torch.float32
        and not settings.int8
        and library.is_ready()
        and projection_size % PANEL == 0
        and gates % (4 * PANEL) == 0
        and max(settings.steps.sizes, default=0) >= _ENOUGH_ROWS
        and is_small(recurrent)
    )


def run_steps(
    inputs: Tensor,
    input_weight: Tensor,
    recurrent: Tensor,
    bias: Tensor,
    projection: Tensor,
    hidden: Tensor,
    cell: Tensor,
    sizes: list[int],
    clips: Clips,
) -> Tensor:
    """As `plain.run_steps`, from words (N, P) and their weight."""
    panels = [lay_out_cached(weight, torch.float32, GatePanels).panels for weight in (input_weight, recurrent)]
    panels.append(lay_out_cached(projection, torch.float32, OutputPanels).panels)
    run = torch.ops.hf_elmo_kernels.run_by_panels
    return run(inputs.contiguous(), panels, bias.contiguous(), hidden.contiguous(), cell, sizes, *clips)
