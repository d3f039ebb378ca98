"""Weight matrices in the layout in which many small products with them are fastest, kept as long as they do not change.

A scan multiplies by the same two matrices at every step, and a general matrix product packs its operands anew in
every call: for the 32 MiB of the Original size that costs more than the product. Letters in shapes: M rows of a
product, I inputs, O outputs.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.weak import WeakIdKeyDictionary

from . import library
from .witness import Witness

# Below this size (bytes) a transposed copy, which stays in the caches, beats a packed one.
_SMALL = 4 * 2**20
# oneDNN packs for a number of rows; with this one the layout is good from two rows to hundreds.
_TYPICAL_ROWS = 32
_MANY_ROWS = 96


_Copy = TypeVar("_Copy")


class Prepared(Protocol):
    """The product with one weight matrix, (O, I): x (M, I) to x W^T (M, O)."""

    nbytes: int

    def multiply(self, x: Tensor, out: Tensor) -> None:
        """Write x W^T into `out`, (M, O)."""

    def accumulate(self, x: Tensor, total: Tensor) -> None:
        """Add x W^T to `total`, (M, O), in place."""

    def linear(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x W^T + bias, (M, O), in the weight's dtype."""


class DenseWeight:
    """The weight as it is, for a general matrix product: no copy."""

    nbytes = 0

    def __init__(self, weight: Tensor):
        self.weight = weight
        self.transposed = weight.t()

    def linear(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x.to(self.transposed.dtype), self.transposed.t(), bias)

    def multiply(self, x: Tensor, out: Tensor) -> None:
        if x.dtype == self.transposed.dtype == out.dtype:
            torch.mm(x, self.transposed, out=out)
        else:
            out.copy_(x.to(self.transposed.dtype) @ self.transposed)

    def accumulate(self, x: Tensor, total: Tensor) -> None:
        if x.dtype == self.transposed.dtype == total.dtype:
            total.addmm_(x, self.transposed)
        else:
            total.add_(x.to(self.transposed.dtype) @ self.transposed)


class TransposedWeight(DenseWeight):
    """A transposed copy: the layout in which a general product of few rows runs along the outputs."""

    def __init__(self, weight: Tensor):
        self.weight = weight
        self.transposed = weight.t().contiguous()
        self.nbytes = self.transposed.nbytes


class PackedWeight:
    """A copy in oneDNN's blocked layout, by PyTorch's private operators (behind `why_not_packed`)."""

    def __init__(self, weight: Tensor):
        self.weight = weight
        self.dtype = weight.dtype
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, _TYPICAL_ROWS)
        # The layout may be padded; a little more than the weight then.
        self.nbytes = weight.nbytes

    def linear(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x.to(self.dtype), self.packed, bias, "none", [], "")

    def multiply(self, x: Tensor, out: Tensor) -> None:
        out.copy_(self.linear(x, None))

    def accumulate(self, x: Tensor, total: Tensor) -> None:
        total.add_(self.linear(x, None))


# What holds the weight itself beside its layout.
FloatWeight = DenseWeight | PackedWeight


class Int8Weight:
    """Weights in eight bits with a scale for each output, inputs rounded to eight bits row by row as they come."""

    def __init__(self, weight: Tensor):
        scales = (weight.abs().amax(dim=1).double() / 127).clamp(min=torch.finfo(torch.float32).tiny)
        zeros = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():
            # PyTorch means to move these operators; `why_not_int8` says so where they are gone.
            warnings.simplefilter("ignore", UserWarning)
            quantized = torch.quantize_per_channel(weight.float(), scales, zeros, axis=0, dtype=torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(quantized, None)
        self.nbytes = weight.numel()

    def linear(self, x: Tensor, bias: Tensor | None) -> Tensor:
        product = torch.ops.quantized.linear_dynamic(x.float(), self.packed, reduce_range=False)
        return product if bias is None else product + bias

    def multiply(self, x: Tensor, out: Tensor) -> None:
        out.copy_(self.linear(x, None))

    def accumulate(self, x: Tensor, total: Tensor) -> None:
        total.add_(self.linear(x, None))


def why_not_packed(dtype: torch.dtype) -> str | None:
    """Why weights of `dtype` cannot be packed by oneDNN here; None where they can."""
    if not torch.backends.mkldnn.is_available() or not torch.backends.mkldnn.enabled:
        return "this PyTorch runs without oneDNN (torch.backends.mkldnn)"
    operators = torch.ops.mkldnn
    if not hasattr(operators, "_reorder_linear_weight") or not hasattr(operators, "_linear_pointwise"):
        return f"PyTorch {torch.__version__} has no mkldnn::_reorder_linear_weight or no mkldnn::_linear_pointwise"
    supported = {
        torch.float32: lambda: True,
        torch.bfloat16: lambda: operators._is_mkldnn_bf16_supported(),
        torch.float16: lambda: operators._is_mkldnn_fp16_supported(),
    }
    if dtype not in supported or not supported[dtype]():
        return f"oneDNN does not multiply {str(dtype).removeprefix('torch.')} on this processor"
    return None


def is_small(weight: Tensor) -> bool:
    """Whether the numbers of `weight` stay in a processor's caches from step to step, in float32."""
    return weight.numel() * 4 <= _SMALL


def prepare(weight: Tensor, dtype: torch.dtype, rows: int, int8: bool = False) -> Prepared:
    """The best layout of `weight` (O, I) for products of up to `rows` rows with inputs cast to `dtype`."""
    make = _choose(weight, dtype, rows, int8)
    return make(weight.detach().to(dtype))


def prepare_cached(weight: Tensor, dtype: torch.dtype, rows: int, int8: bool = False) -> Prepared:
    """As `prepare`, kept until the weight changes or is gone."""
    make = _choose(weight, dtype, rows, int8)
    # On a GPU a look at all numbers would have to wait for it, and to cast them takes less than one step.
    if weight.device.type != "cpu" or (make is DenseWeight and dtype == weight.dtype):
        return make(weight.detach().to(dtype))
    return lay_out_cached(weight, dtype, make)


def lay_out_cached(weight: Tensor, dtype: torch.dtype, make: Callable[[Tensor], _Copy]) -> _Copy:
    """What `make` makes of `weight` in `dtype`, kept until the weight changes or is gone."""
    return _CACHE.get(weight, (make, dtype))


def cast_cached(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """`weight` in another dtype, kept until it changes or is gone."""
    # A view is another tensor at each call: nobody would find what was kept of it.
    if weight.device.type != "cpu" or dtype == weight.dtype or weight._is_view():
        return weight.detach().to(dtype)
    return lay_out_cached(weight, dtype, DenseWeight).weight


def _choose(weight: Tensor, dtype: torch.dtype, rows: int, int8: bool) -> Callable[[Tensor], Prepared]:
    if int8:
        return Int8Weight
    if weight.device.type != "cpu" or not dtype.is_floating_point:
        return DenseWeight
    if dtype == torch.float32 and is_small(weight):
        return TransposedWeight
    # A single row waits for the weight to be read, whatever its layout; many rows pay for the packing by themselves.
    # A view such as a transpose takes longer to pack than it saves.
    gains = dtype != torch.float32 or 1 < rows <= _MANY_ROWS
    if not gains or not weight.is_contiguous() or why_not_packed(dtype) is not None:
        return DenseWeight
    return PackedWeight


class PreparedCache:
    """Prepared copies of weights that are alive and unchanged.

    It holds weights by identity and weakly, outside of every module: a copy never reaches a state dict, a pickle, a
    deep copy or shared memory, and goes with its weight. Whether a weight has changed is seen by reading all its
    numbers at each use (`witness.py`): whatever wrote them, the next use makes the copy anew.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def get(self, weight: Tensor, key: tuple[Callable[[Tensor], Any], torch.dtype]) -> Any:
        with self._lock:
            witness, copies = self._entries.get(weight, (None, None))
        # A copy made under inference_mode could not take part in what is trained later.
        with torch.inference_mode(False), torch.no_grad():
            # Outside of the lock: other weights' readers need not wait.
            if witness is None or not witness.holds(weight):
                witness, copies = Witness(weight), {}
            if key not in copies:
                make, dtype = key
                copy = make(weight.detach().to(dtype))
                if dtype != weight.dtype and make is not Int8Weight:
                    copy.nbytes += copy.weight.nbytes
                copies = {**copies, key: copy}
                with self._lock:
                    self._entries[weight] = (witness, copies)
        return copies[key]

    def clear(self) -> None:
        """Forget all copies."""
        with self._lock:
            self._entries.clear()

    def nbytes(self) -> int:
        """Memory of all copies, in bytes."""
        with self._lock:
            return sum(copy.nbytes for _, copies in self._entries.values() for copy in copies.values())


_CACHE = PreparedCache()


def clear_packed() -> None:
    """Free the prepared copies of weights, and the memory that training steps left for the next; both come again."""
    _CACHE.clear()
    if library.is_ready():
        torch.ops.hf_elmo_kernels.trim_rooms(0)


def packed_bytes() -> int:
    """Memory that prepared copies of weights take, in bytes: for float32 at most about that of the biLM's weights.

    Where the compiled backend is not built, what changes are seen by takes as much as the copied weights once more.
    """
    return _CACHE.nbytes()
