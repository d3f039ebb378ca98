"""Whether the numbers of a tensor are still those that they were: seen by reading all of them.

Many things change a weight: optimizers, `load_state_dict`, `weight.data.copy_` (averaging, quantizing and merging
tools), `weight.data = other`, a NumPy array or another process that shares the memory, a library's own C++. PyTorch's
version counter sees some of them, hooks on modules and optimizers some others, and no set of them is ever complete:
a write through `.data` or a NumPy array leaves no trace but the numbers themselves. So these are what is looked at, all
of them, at each use of what was made from them. That costs one reading of the weight where a scan reads it at every
step, and training, which changes its weights between any two uses, keeps no copies at all.

Where the compiled library is there, a digest of 64 bits stands for the numbers: changes go unseen once in 10^19, unless
somebody makes them to be. Elsewhere a copy is kept, and nothing goes unseen.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from . import library

# Bits as integers, so that a NaN is equal to itself and 0.0 differs from -0.0.
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Witness:
    """What is remembered of a tensor to see that it has changed since.

    Args:
        tensor: On any device that holds numbers.
    """

    def __init__(self, tensor: Tensor):
        self._form = _form(tensor)
        bits = _bits(tensor)
        self._digest = _digest(bits) if _has_digests(bits) else None
        self._copy = bits.clone() if self._digest is None else None

    def holds(self, tensor: Tensor) -> bool:
        """Whether `tensor` has the dtype, shape, device and numbers, bit by bit, that it had."""
        if _form(tensor) != self._form:
            return False
        bits = _bits(tensor)
        if self._copy is None:
            return _digest(bits) == self._digest
        return _are_equal(bits, self._copy)


def _form(tensor: Tensor) -> tuple[torch.dtype, torch.Size, torch.device]:
    return tensor.dtype, tensor.shape, tensor.device


def _bits(tensor: Tensor) -> Tensor:
    """All numbers of a tensor as integers in one row, which is a view where its memory allows."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(_INTEGERS[flat.element_size()])


def _has_digests(bits: Tensor) -> bool:
    return bits.device.type == "cpu" and library.is_ready()


def _digest(bits: Tensor) -> int:
    return torch.ops.hf_elmo_kernels.digest(bits)


def _are_equal(bits: Tensor, others: Tensor) -> bool:
    if bits.device.type != "cpu":
        return torch.equal(bits, others)
    # Eight bytes at a time, by NumPy: several times faster than torch.equal.
    found, wanted = (tensor.numpy().view(np.uint8) for tensor in (bits, others))
    whole = len(found) // 8 * 8
    return np.array_equal(found[:whole].view(np.int64), wanted[:whole].view(np.int64)) and np.array_equal(
        found[whole:], wanted[whole:]
    )
