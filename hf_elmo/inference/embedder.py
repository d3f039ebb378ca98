"""Word vectors of a checkpoint as NumPy arrays, in two lines of a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch

from ..hub.loading import load_model, load_tokenizer
from ..model.modeling_elmo import ElmoModel
from .devices import usable_device
from .embedding import embed

Sentence = str | Sequence[str]


class ElmoEmbedder:
    """Sentences in, NumPy arrays out, by any ELMo checkpoint.

    A sentence is a list of words, taken as they are, or a string, which the checkpoint's tokenizer cuts. Its vectors
    depend on it alone. D is twice the projection; the special tokens `<S>` and `</S>` have no vectors in the arrays.

    docs/notebooks.md has examples.

    Wherever `layers` is asked for: "mix" is the scalar mix of a task (in a checkpoint that has seen none, the layers'
    mean), "all" are the L + 1 layers, "top" is the last of them, "average" their mean, "token" layer 0, which knows no
    context; a number is a layer's, from 0 or, backwards, from -1.

    Args:
        model_name_or_path: The checkpoint, a directory or a name on the Hub; of one with a head, the base is used.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        dtype: Precision of the weights. The arrays are float32.
        limits: max_words_per_batch, max_words_per_chunk and max_words_per_buffer, as of `embed`.
    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, the device, or the limit.
    """

    def __init__(
        self,
        model_name_or_path: str,
        device: str | None = None,
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        **limits: int,
    ):
        if dtype not in ("float32", "bfloat16", "float16"):
            raise ValueError(f"dtype is {dtype!r}; it must be 'float32', 'bfloat16' or 'float16'.")
        self.name = str(model_name_or_path)
        self.device = usable_device(device)
        self.model = load_model(ElmoModel, self.name, getattr(torch, dtype)).to(self.device).eval()  # type: ignore[arg-type]
        self.tokenizer = load_tokenizer(self.name, self.model.config)
        self._limits: dict[str, Any] = dict(limits)
        # Raises what is wrong with the limits now.
        self.stream([])

    @property
    def num_layers(self) -> int:
        return self.model.config.num_hidden_layers + 1

    @property
    def vector_size(self) -> int:
        return 2 * self.model.config.projection_size

    def tokenize(self, text: str) -> list[str]:
        return self.tokenizer.tokenize(text)

    def embed_sentence(self, sentence: Sentence, layers: str | int = "mix") -> np.ndarray:
        """The vectors of one sentence's words, (words, D), or (L + 1, words, D) with layers="all"."""
        (array,) = self.stream([sentence], layers)
        return array

    def embed_sentences(
        self, sentences: Iterable[Sentence], layers: str | int = "mix", carry_state: bool = False
    ) -> list[np.ndarray]:
        """An array as of `embed_sentence` for each sentence; `carry_state` reads them as one text."""
        return list(self.stream(sentences, layers, carry_state))

    def average_words(self, sentences: Iterable[Sentence], layers: str | int = "mix") -> np.ndarray:
        """The mean of each sentence's words, zeros where it has none: (sentences, D), or (sentences, L + 1, D)."""
        means = [pool_words(array, "mean") for array in self.stream(sentences, layers)]
        shape = (self.num_layers, self.vector_size) if layers == "all" else (self.vector_size,)
        return np.array(means, np.float32).reshape(-1, *shape)

    def stream(
        self,
        sentences: Iterable[Sentence],
        layers: str | int = "mix",
        carry_state: bool = False,
        keep_special_tokens: bool = False,
    ) -> Iterator[np.ndarray]:
        """The arrays of `embed_sentences` one after another, with those of `<S>` and `</S>` where asked for."""
        how: dict[str, Any] = {"layers": layers, "carry_state": carry_state, "keep_special_tokens": keep_special_tokens}
        return embed(self.model, self.tokenizer, sentences, **how, **self._limits)


def pool_words(vectors: np.ndarray, pooling: str) -> np.ndarray:
    """Pool the vectors of a sentence's words, (..., words, D), to (..., D), zeros for a sentence without words.

    "mean" and "max" go number by number. "first-last" is what each direction has read of the whole sentence: the
    forward half of the last word's vector and the backward half of the first word's. "none" leaves all as it is.
    """
    if pooling == "none":
        return vectors
    if not vectors.shape[-2]:
        return np.zeros((*vectors.shape[:-2], vectors.shape[-1]), vectors.dtype)
    if pooling == "mean":
        return vectors.mean(axis=-2)
    if pooling == "max":
        return vectors.max(axis=-2)
    half = vectors.shape[-1] // 2
    return np.concatenate([vectors[..., -1, :half], vectors[..., 0, half:]], axis=-1)
