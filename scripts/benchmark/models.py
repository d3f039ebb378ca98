"""What is timed: models of the published sizes, batches of real sentences, our backends, and the floor under them.

Only names that stay from commit to commit are taken from the package, so that two checkouts can be compared.

Letters in shapes: B sentences, T words, P projection.
"""

from __future__ import annotations

import contextlib
import random
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from hf_elmo import ElmoCharTokenizer, ElmoConfig, ElmoModel, kernels

SIZES = ("small", "medium", "original", "tiny")
# Nobody's model, to try the benchmark in seconds.
TINY = {
    "projection_size": 32,
    "cell_size": 64,
    "num_highway_layers": 1,
    "filters": [[1, 8], [2, 8], [3, 16]],
    "character_embedding_size": 4,
}
# Sentences of ordinary length; a single one of the same length every time, so that single ones compare.
SHORTEST, LONGEST, SINGLE = 10, 40, 27
REFERENCE, BFLOAT16, AUTOCAST, ALLENNLP = "reference", "bf16", "bf16 autocast", "AllenNLP"

# Largest difference from the reference relative to its largest number, at the published sizes.
FLOAT32_BOUND, BFLOAT16_BOUND = 1e-5, 0.05

_MATRIX_SIZE, _READINGS = 2048, 8
MATRIX_PRODUCT, READING, FLOOR = "matrix product", "reading of weights", "floor"


def build_model(size: str, device: str) -> ElmoModel:
    """A model without dropout in evaluation mode, whose weights are drawn as for pre-training."""
    torch.manual_seed(0)
    make, changes = (ElmoConfig.small, TINY) if size == "tiny" else (getattr(ElmoConfig, size), {})
    return ElmoModel(make(dropout=0.0, **changes)).eval().to(device)


def find_backends(device: str) -> list[str]:
    """Our exact backends that run on a device."""
    if device != "cpu":
        return [REFERENCE, "plain"]
    with contextlib.suppress(RuntimeError):
        kernels.build()
        return [REFERENCE, "plain", "compiled"]
    return [REFERENCE, "plain"]


def read_sentences(text_file: str | None) -> list[list[str]]:
    """Different sentences of 10 to 40 words, cut at white space, in a random order that is always the same.

    `text_file` has one or more sentences per line; None takes the help texts of CPython.
    """
    if text_file is not None:
        lines = Path(text_file).read_text(encoding="utf-8").splitlines()
    else:
        lines = [" ".join(block.split()) for name in sorted(topics) for block in topics[name].split("\n\n")]
    found = dict.fromkeys(sentence for line in lines for sentence in re.split(r"(?<=[.!?])\s+", line.strip()))
    sentences = [words for words in map(str.split, found) if SHORTEST <= len(words) <= LONGEST]
    random.Random(0).shuffle(sentences)
    return sentences


def pick_batch(sentences: list[list[str]], batch_size: int) -> list[list[str]]:
    """The first sentences; as a single one the first whose length is nearest to 27 words.

    Raises: SystemExit where there are fewer sentences.
    """
    if batch_size > len(sentences):
        raise SystemExit(
            f"--text_file has {len(sentences)} sentences of {SHORTEST} to {LONGEST} words, but a batch has "
            f"{batch_size}; name longer text, or give smaller --batch_sizes."
        )
    if batch_size == 1:
        return [min(sentences, key=lambda words: abs(len(words) - SINGLE))]
    return sentences[:batch_size]


def encode(batch: list[list[str]], device: str, **flags: Any) -> dict[str, Tensor]:
    """What a model reads of a batch."""
    tokenizer = ElmoCharTokenizer(pre_tokenizer="whitespace")
    return dict(tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt", **flags).to(device))


def encode_words(model: ElmoModel, inputs: Mapping[str, Tensor]) -> Tensor:
    """What the biLM reads, (B, T, P): the first half of layer 0, which has each vector twice."""
    with torch.no_grad():
        layers = model(**inputs, output_hidden_states=True).hidden_states
    return layers[0][..., : model.config.projection_size].contiguous()


def with_backend(backend: str, function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """The call of a function under one of our backends."""

    def call() -> Any:
        with kernels.use_backend(backend):
            return function(*arguments)

    return call


def under_autocast(device: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """A function's result with products of bf16."""
    with torch.autocast(device, torch.bfloat16):
        return function(*arguments)


def tensors_in(value: Any) -> list[Tensor]:
    """All floating-point tensors of a nested result."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def flatten(value: Any) -> Tensor:
    """All numbers of a nested result in one row."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors_in(value)])


def check(name: str, found: Tensor, expected: Tensor) -> float:
    """The largest difference relative to the largest expected number: what computes something else is not timed.

    Raises: SystemExit where it is above the bound.
    """
    deviation = float((found - expected).abs().max() / expected.abs().max())
    bound = BFLOAT16_BOUND if name in (BFLOAT16, AUTOCAST) else FLOAT32_BOUND
    # Not the other way round: nan is within no bound.
    if not deviation <= bound:
        raise SystemExit(
            f"{name!r} differs from the reference by {deviation:.3g}, more than {bound:g}; nothing was timed."
        )
    return deviation


def synchronizer(device: str) -> Callable[[], None]:
    """What waits for the device; nothing where calls return when their work is done."""
    return torch.cuda.synchronize if device == "cuda" else lambda: None


def probes(config: ElmoConfig, device: str) -> dict[str, Callable[[], Any]]:
    """What the floor is made of, to be timed in the same rounds: a large product, and reading a layer's weights."""
    left, right = torch.randn(2, _MATRIX_SIZE, _MATRIX_SIZE, device=device).unbind()
    numbers = torch.randn(_recurrent_weights(config), device=device)
    return {
        MATRIX_PRODUCT: lambda: left @ right,
        # A scan comes back to its weights at every step, when the caches hold what they can of them.
        READING: lambda: [numbers.sum() for _ in range(_READINGS)],
    }


def floor_seconds(
    seconds: dict[str, list[float]], config: ElmoConfig, rows: Sequence[int], distinct_words: int = 0
) -> float:
    """What the matrix products take at the rate of a large one, where no step is faster than reading its weights.

    With few rows the processor waits for the weights: they do not fit into its own caches and are read at each step.

    Args:
        seconds: Of the `probes`, among others; they are taken out.
        config: The sizes of the model.
        rows: How many sentences have a word at each step.
        distinct_words: Words for which the token encoder's highway layers and projection are counted; its filters are
            look-ups in tables.
    """
    operation = statistics.median(seconds.pop(MATRIX_PRODUCT)) / (2 * _MATRIX_SIZE**3)
    reading = statistics.median(seconds.pop(READING)) / _READINGS
    features = sum(count for _, count in config.filters)
    encoder = 2 * config.num_highway_layers * features**2 + features * config.projection_size
    inputs = 4 * config.projection_size * config.cell_size
    steps = sum(max(2 * count * _recurrent_weights(config) * operation, reading) for count in rows)
    bilm = 2 * config.num_hidden_layers * (2 * sum(rows) * inputs * operation + steps)
    return bilm + 2 * distinct_words * encoder * operation


def rows_per_step(mask: Tensor) -> list[int]:
    """How many sentences of a mask, (B, T), have a word at each step; padding is on the right."""
    return mask.sum(dim=0).tolist()


def _recurrent_weights(config: ElmoConfig) -> int:
    """Weights that wait for the step before, in one direction of one layer: recurrent ones and projection."""
    return (4 + 1) * config.projection_size * config.cell_size
