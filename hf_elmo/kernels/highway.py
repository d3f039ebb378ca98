"""A highway layer at speed, in training and in inference on the CPU: two products, and one pass for all the rest.

Letters in shapes: N words, F features.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from . import library
from .backends import get_backend, reads_rows, takes
from .gradients import refuse_create_graph
from .half_precision import HALVES, product_dtype
from .prepared import cast_cached


def highway(x: Tensor, carry: Tensor, carry_bias: Tensor, transform: Tensor, transform_bias: Tensor) -> Tensor | None:
    """y = g relu(W_t x + b_t) + (1 - g) x with g = sigmoid(W_c x + b_c), (N, F) to (N, F).

    Factors of products and what is kept for the gradients are in the dtype of autocast, or of x; all else is in float32
    at least.

    Args:
        x: Features, (N, F).
        carry, transform: W_c and W_t, (F, F).
        carry_bias, transform_bias: b_c and b_t, (F,).
    Returns: None where the compiled library is not there or not wanted, on a GPU, and while somebody traces.
    """
    tensors = (x, carry, transform, carry_bias, transform_bias)
    if get_backend() not in ("auto", "compiled", "int8") or not takes(*tensors) or x.ndim != 2 or not len(x):
        return None
    if x.device.type != "cpu" or len({weight.dtype for weight in tensors[1:]}) > 1 or not library.is_ready():
        return None
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    wide, kind = product_dtype(dtype), torch.promote_types(dtype, x.dtype)
    needs_gradients = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    with torch.autocast("cpu", enabled=False):
        # Autocast would round all of a weight anew in every call; as it lies it is read once, and not rounded.
        between = wide if carry.dtype in HALVES else carry.dtype
        if not needs_gradients and reads_rows(x, carry, between) and transform.is_contiguous():
            features, first, second = (tensor.to(between).contiguous() for tensor in (x, carry_bias, transform_bias))
            return torch.ops.hf_elmo_kernels.highway_of_few(features, carry, first, transform, second).to(kind)
        biases = torch.stack([carry_bias, transform_bias]).to(torch.float32 if wide in HALVES else wide)
        x = x.to(wide).contiguous()
        if needs_gradients:
            found = cast("Tensor", _Highway.apply(x, carry.to(wide), transform.to(wide), biases))
        else:
            weights = cast_cached(carry, wide), cast_cached(transform, wide)
            found = torch.ops.hf_elmo_kernels.mix_highway(_multiply(x, *weights), biases, x)
        return found.to(kind)


def _multiply(x: Tensor, *weights: Tensor) -> Tensor:
    """The products with each weight, (number of weights, N, F)."""
    products = x.new_empty(len(weights), *x.shape)
    for product, weight in zip(products, weights, strict=True):
        torch.mm(x, weight.t(), out=product)
    return products


class _Highway(torch.autograd.Function):
    """The layer in one dtype, with a backward that computes its gates again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, carry: Tensor, transform: Tensor, biases: Tensor) -> Tensor:
        products = _multiply(x, carry, transform)
        ctx.save_for_backward(x, carry, transform, biases, products)
        return torch.ops.hf_elmo_kernels.mix_highway(products, biases, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        refuse_create_graph("the fast highway layer")
        x, carry, transform, biases, products = ctx.saved_tensors
        of_products, of_biases, of_x = torch.ops.hf_elmo_kernels.mix_highway_back(
            gradient.contiguous(), products, biases, x
        )
        needs_x, *needs_weights, _ = ctx.needs_input_grad
        of_weights = [
            product.t() @ x if needed else None for product, needed in zip(of_products, needs_weights, strict=True)
        ]
        if needs_x:
            for product, weight in zip(of_products, (carry, transform), strict=True):
                of_x.addmm_(product, weight)
        return of_x, *of_weights, of_biases
