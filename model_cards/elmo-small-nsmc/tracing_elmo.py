"""Whether PyTorch is recording the model rather than running it: what reads a tensor's values then gives way."""

from __future__ import annotations

import torch


def is_traced() -> bool:
    """True under torch.compile, torch.export and torch.jit.trace, where a tensor's values are not there to be read.

    Under torch.func too: older versions (torch 2.6) cannot read them all there.
    """
    recorded = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return recorded or torch._C._are_functorch_transforms_active()


def is_exported() -> bool:
    """True while torch.export records the model, whose sentences may then be of any length; never before torch 2.7."""
    is_exporting = getattr(torch.compiler, "is_exporting", None)
    return is_exporting is not None and is_exporting()
