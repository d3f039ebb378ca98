"""Token encoders at speed: filters by tables, products of few words, and vectors of words kept from batch to batch.

Letters in shapes: N words, C characters per word, I inputs, O outputs, F filters, P projection.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .backends import get_backend, supports, takes_compiled
from .products import pad_rows

# The index of a window is kept in a byte.
_MOST_CHARACTERS = 256
# Words up to which a product reads its weight once, in place, and the columns from which that pays.
_SMALL_BATCH, _LONG_ROW = 48, 512


def encode_words(encoder: Any, char_ids: Tensor) -> Tensor | None:
    """Words, (N, C) with N at least 1, to (N, P); None if the reference, `encoder.encode`, is to run."""
    if get_backend() == "reference" or not supports(char_ids, *encoder.parameters()):
        return None
    # Before the first vector of a model, so that its filters and its scans run by one backend.
    is_compiled = takes_compiled(char_ids, *encoder.parameters())
    encode = functools.partial(_encode, encoder, is_compiled)
    cache, vectors = _CACHES.get(encoder), None
    if cache is not None and not _needs_gradients(*encoder.parameters()):
        vectors = cache.look_up(char_ids, encode, _state_of(encoder))
    return encode(char_ids) if vectors is None else vectors


def _encode(encoder: Any, is_compiled: bool, char_ids: Tensor) -> Tensor:
    """As `ElmoTokenEncoder.encode`, whose modules run themselves if nothing here is faster."""
    # Padding costs a word's first windows only, and nobody reads the vectors of words that are nothing else.
    padded, parts = pad_rows(char_ids, encoder.dtype, encoder.padding), []
    if encoder.word_table is not None:
        parts.append(encoder.word_table(padded))
    if encoder.character_embedding is not None:
        vectors = encoder.activation(encoder.filter_characters(padded))
        for highway in encoder.highways:
            vectors = _run_highway(encoder, highway, vectors, is_compiled)
        parts.append(vectors)
    features = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
    if encoder.projection is not None:
        features = _run_linear(encoder, encoder.projection, features, is_compiled)
    return features[: len(char_ids)]


def _run_highway(encoder: Any, highway: Any, vectors: Tensor, is_compiled: bool) -> Tensor:
    if not _is_as_built(encoder, highway, highway.carry, highway.transform):
        return highway(vectors)
    gate = _run_linear(encoder, highway.carry, vectors, is_compiled).sigmoid_()
    return torch.lerp(vectors, _run_linear(encoder, highway.transform, vectors, is_compiled).relu_(), gate)


def _run_linear(encoder: Any, linear: Any, x: Tensor, is_compiled: bool) -> Tensor:
    """A linear map, (N, I) to (N, O); in inference of few words by a product that reads the weight once, in place."""
    is_small_batch = is_compiled and len(x) <= _SMALL_BATCH and x.shape[1] >= _LONG_ROW
    if not is_small_batch or not _is_as_built(encoder, linear):
        return linear(x)
    weight, bias = linear.weight, linear.bias
    is_readable = weight.dtype in (torch.float32, torch.float64) and weight.is_contiguous()
    if not is_readable or _needs_gradients(x, weight, bias):
        return linear(x)
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    with torch.autocast("cpu", enabled=False):
        # Autocast would round all of the weight in every call.
        product = torch.ops.hf_elmo_kernels.multiply_small_batch(x.to(weight.dtype), weight.detach())
        return (product + bias).to(dtype)


def _is_as_built(encoder: Any, *modules: nn.Module) -> bool:
    """Whether modules are of the encoder's own classes, and nobody hooked into them."""
    return all(
        type(module) in encoder.module_classes
        # Where accelerate fetches weights for each call, it sets a forward of its own.
        and "forward" not in vars(module)
        and not (module._forward_hooks or module._forward_pre_hooks)
        and not (module._backward_hooks or module._backward_pre_hooks)
        for module in modules
    )


def _needs_gradients(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def filter_characters(
    owner: Any, char_ids: Tensor, embedding: nn.Embedding, filters: Sequence[Any], padding: int
) -> Tensor | None:
    """Words, (N, C) with N at least 1, to the filters' maxima over their windows, (N, F), by `csrc/filters.h`.

    The sums are in float32 at least. Of equal windows the first gets the gradient.

    Args:
        owner: The module that has the embedding and the filters; its `module_classes` are theirs.
    Returns: None if the reference is to run, in which hooked or replaced modules run themselves.
    Raises: IndexError for unknown characters.
    """
    if char_ids.shape[1] > _MOST_CHARACTERS or not _is_as_built(owner, embedding, *filters):
        return None
    tensors = [embedding.weight, *(each.weight for each in filters), *(each.bias for each in filters)]
    if not supports(char_ids, *tensors) or not takes_compiled(char_ids, *tensors):
        return None
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else embedding.weight.dtype
    wide = torch.promote_types(embedding.weight.dtype, torch.float32)
    char_ids = char_ids.long().contiguous()
    vectors, *weights = (tensor.to(wide).contiguous() for tensor in tensors)
    if _needs_gradients(*tensors):
        maxima = _FilterMaxima.apply(char_ids, padding, embedding.padding_idx, vectors, *weights)
    else:
        maxima, _ = torch.ops.hf_elmo_kernels.filter_maxima(char_ids, padding, vectors, weights, False)
    return cast("Tensor", maxima).to(dtype)


class _FilterMaxima(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, char_ids: Tensor, padding: int, padding_idx: int | None, embedding: Tensor, *filters: Tensor
    ) -> Tensor:
        run = torch.ops.hf_elmo_kernels.filter_maxima
        maxima, winners = run(char_ids, padding, embedding, filters, True)
        ctx.padding, ctx.padding_idx = padding, padding_idx
        ctx.save_for_backward(winners, char_ids, embedding, *filters)
        return maxima

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        winners, char_ids, embedding, *filters = ctx.saved_tensors
        gradients = torch.ops.hf_elmo_kernels.filter_maxima_backward(
            gradient.contiguous(), winners, char_ids, ctx.padding, embedding, filters
        )
        if ctx.padding_idx is not None:
            gradients[0][ctx.padding_idx] = 0
        return None, None, None, *gradients


def cache_words(encoder: nn.Module, max_words: int | None) -> None:
    """Keep the vectors of up to `max_words` words from batch to batch, as long as the encoder's weights do not change.

    Used wherever no gradients of the encoder are wanted. PyTorch's version counters show changes of weights; after one
    that goes past them (`weight.data.copy_`), call this again. None keeps none and frees the memory.

    Raises: ValueError if max_words is less than 1.
    """
    if max_words is None:
        _CACHES.pop(encoder, None)
    elif max_words < 1:
        raise ValueError(f"max_words is {max_words}; it must be at least 1, or None to keep nothing.")
    else:
        _CACHES[encoder] = _WordCache(max_words)


class _WordCache:
    """The vectors of the last `max_words` words at most, each with about 300 bytes for its characters.

    When there would be more, all are forgotten.
    """

    def __init__(self, max_words: int):
        self.max_words = max_words
        self.lock = threading.Lock()
        self.vectors: dict[bytes, Tensor] = {}
        self.state: list[Any] = []

    def look_up(self, char_ids: Tensor, encode: Callable[[Tensor], Tensor], state: list[Any]) -> Tensor | None:
        """The vectors of words (N, C), new ones by `encode`; None where more are new than may be kept."""
        keys = [row.tobytes() for row in char_ids.to("cpu", torch.int32).numpy()]
        with self.lock:
            new = {key: row for row, key in enumerate(keys) if key not in self.vectors}
            if state != self.state or len(self.vectors) + len(new) > self.max_words:
                new = {key: row for row, key in enumerate(keys)}
                if len(new) > self.max_words:
                    return None
                self.vectors, self.state = {}, state
            if new:
                vectors = encode(char_ids[torch.tensor(list(new.values()), device=char_ids.device)])
                self.vectors.update(zip(new, vectors, strict=True))
            return torch.stack([self.vectors[key] for key in keys])


def _state_of(encoder: nn.Module) -> list[Any]:
    """What changes with a weight of the encoder, or with the dtype of its products."""
    tensors = [*encoder.parameters(), *encoder.buffers()]
    kind = tensors[0].device.type
    versions = [(t.data_ptr(), t.dtype, -1 if t.is_inference() else t._version) for t in tensors]
    return [*versions, torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None, get_backend()]


_CACHES: weakref.WeakKeyDictionary[nn.Module, _WordCache] = weakref.WeakKeyDictionary()
