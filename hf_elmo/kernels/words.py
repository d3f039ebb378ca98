"""Vectors of words kept from batch to batch, for token encoders that are not being trained.

Letters in shapes: N words, C characters per word, P projection.
"""

from __future__ import annotations

import threading
import weakref

import torch
from torch import Tensor, nn

from .backends import build_on_first_use
from .half_precision import product_dtype
from .witness import Witness


class WordCache:
    """The vectors of the words that one token encoder has met, of the last `max_words` at most.

    Args:
        encoder: Maps rows of character ids, (N, C), to vectors, (N, P).
        max_words: Words kept; when there would be more, all are forgotten. A word takes 4 P bytes in float32 and
            about 300 bytes for its row.
    """

    def __init__(self, encoder: nn.Module, max_words: int):
        self._reference = weakref.ref(encoder)
        self.max_words = max_words
        self._lock = threading.Lock()
        self._places: dict[bytes, int] = {}
        self._vectors = torch.empty(0, 0)
        self._witnesses: list[Witness] = []
        self._precision: tuple[torch.dtype | None, torch.dtype] | None = None

    @property
    def _encoder(self) -> nn.Module:
        encoder = self._reference()
        assert encoder is not None, "a cache is asked by its encoder alone"
        return encoder

    def look_up(self, rows: Tensor) -> Tensor | None:
        """The vectors of `rows` (N, C), computing those of new words; None where more are new than may be kept."""
        keys = keys_of(rows)
        with self._lock:
            if not self._is_valid():
                self._forget()
            new = self._new(keys)
            if len(self._places) + len(new) > self.max_words:
                if len(set(keys)) > self.max_words:
                    return None
                self._forget()
                new = self._new(keys)
            if new or not len(self._vectors):
                self._add(rows, new)
            places = torch.tensor([self._places[key] for key in keys], dtype=torch.long)
            return self._vectors[places.to(self._vectors.device)]

    def _new(self, keys: list[bytes]) -> dict[bytes, int]:
        """The place in the batch of one of each new word's rows."""
        return {key: place for place, key in enumerate(keys) if key not in self._places}

    def _add(self, rows: Tensor, new: dict[bytes, int]) -> None:
        vectors = self._encoder(rows[torch.tensor(list(new.values()), dtype=torch.long, device=rows.device)])
        used = len(self._places)
        if not self._witnesses:
            self._witnesses = self._witness()
        if not len(self._vectors) or used + len(new) > len(self._vectors):
            self._grow(used, vectors)
        self._vectors[used : used + len(new)] = vectors
        self._places.update(zip(new, range(used, used + len(new)), strict=True))

    def _grow(self, used: int, vectors: Tensor) -> None:
        size = min(self.max_words, max(1024, 2 * (used + len(vectors))))
        # A tensor of inference mode could not be written to outside of it.
        with torch.inference_mode(False):
            larger = torch.empty(size, vectors.shape[1], dtype=vectors.dtype, device=vectors.device)
        if used:
            larger[:used] = self._vectors[:used]
        self._vectors = larger

    def _forget(self) -> None:
        self._places, self._vectors, self._witnesses, self._precision = {}, torch.empty(0, 0), [], None

    def _is_valid(self) -> bool:
        tensors = _tensors(self._encoder)
        if len(tensors) != len(self._witnesses) or _precision(tensors) != self._precision:
            return False
        return all(witness.holds(tensor) for tensor, witness in zip(tensors, self._witnesses, strict=True))

    def _witness(self) -> list[Witness]:
        tensors = _tensors(self._encoder)
        self._precision = _precision(tensors)
        return [Witness(tensor) for tensor in tensors]


def _tensors(encoder: nn.Module) -> list[Tensor]:
    """All that an encoder computes with, a word table's hashes among it."""
    return [*encoder.parameters(), *encoder.buffers()]


def _precision(tensors: list[Tensor]) -> tuple[torch.dtype | None, torch.dtype]:
    """The dtype of results and of products, which autocast and `half_products` choose."""
    kind = tensors[0].device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    return dtype, product_dtype(dtype or tensors[0].dtype, kind)


def keys_of(rows: Tensor) -> list[bytes]:
    """A key for each row of integers, (N, C), the same for the same row."""
    array = rows.to("cpu", torch.int32).contiguous().numpy()
    content, width = array.tobytes(), array.shape[1] * array.itemsize
    return [content[start : start + width] for start in range(0, len(content), width)]


_CACHES: weakref.WeakKeyDictionary[nn.Module, WordCache] = weakref.WeakKeyDictionary()


def cache_words(encoder: nn.Module, max_words: int | None) -> None:
    """Keep the vectors of words that `encoder` has met from batch to batch, while its weights do not change.

    Used wherever no gradients of the encoder are wanted: in inference, and in training beside a frozen biLM. Every
    change of the encoder's numbers is seen, by reading them at each call (`hf_elmo/kernels/witness.py`).

    Args:
        encoder: A model's `token_encoder`.
        max_words: How many words to keep at most; None keeps none and frees the memory.
    Raises: ValueError where max_words is less than 1.
    """
    if max_words is None:
        _CACHES.pop(encoder, None)
    elif max_words < 1:
        raise ValueError(f"max_words is {max_words}; it must be at least 1, or None to keep nothing.")
    else:
        _CACHES[encoder] = WordCache(encoder, max_words)


def cached_words(encoder: nn.Module, rows: Tensor) -> Tensor | None:
    """The vectors (N, P) of `rows` (N, C) with the help of the encoder's cache; None where it has none to use."""
    # Here as a model's words come in: its filters and its scans run by one backend.
    build_on_first_use(*encoder.parameters())
    if encoder not in _CACHES:
        return None
    if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in encoder.parameters()):
        return None
    return _CACHES[encoder].look_up(rows)
