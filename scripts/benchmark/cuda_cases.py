"""What is timed on a GPU: the biLM and a training step of it in three precisions, beside torch's LSTM on cuDNN."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hf_elmo.model.modeling_elmo import ElmoBiLM

from .cases import (
    AUTO,
    BILM,
    LOOSE_BOUND,
    READABLE,
    TRAINING_STEP,
    Case,
    Contestants,
    flatten,
    infer,
    run_bilm,
    train_bilm,
    with_backend,
    without_clips,
)
from .torch_peer import TorchBiLM

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FORWARD_SENTENCES, FORWARD_WORDS = 32, 42
TRAINING_LANES, TRAINING_WORDS = 128, 20
# Gradients of weights are sums over all words, up to about 100 here.
GRADIENT_BOUND = 1e-3


def bilm_in_precisions(
    contestants: Contestants,
    device: torch.device,
    batch_size: int = FORWARD_SENTENCES,
    length: int = FORWARD_WORDS,
) -> Case:
    """The biLM over token vectors without padding, by our fastest backend and torch's LSTM in each precision."""
    (vectors,) = _draw(batch_size, length, contestants.model.config.projection_size)
    functions: dict[str, Callable[[], Any]] = {}
    references: dict[str, Callable[[], Any]] = {}
    for name, dtype in PRECISIONS.items():
        bilm, torch_bilm = _in_precision(contestants, device, dtype, training=False)
        moved = vectors.to(device, dtype)
        if dtype == torch.float32:
            functions[READABLE] = with_backend(READABLE, infer, run_bilm, bilm, moved, None)
            unclipped = without_clips(bilm, infer, run_bilm, bilm, moved, None)
        functions[f"ours {name}"] = with_backend(AUTO, infer, run_bilm, bilm, moved, None)
        references[f"nn.LSTM {name}"] = unclipped
        functions[f"nn.LSTM {name}"] = partial(infer, torch_bilm, moved)
    return _case(contestants, BILM, functions, references, batch_size, length, lambda result: result, LOOSE_BOUND)


def training_step_in_precisions(
    contestants: Contestants,
    device: torch.device,
    lanes: int = TRAINING_LANES,
    length: int = TRAINING_WORDS,
) -> Case:
    """Forward and backward over full lanes, to the token vectors and all LSTM weights; no dropout."""
    projection_size = contestants.model.config.projection_size
    vectors, coefficients = _draw(lanes, length, projection_size, 2 * projection_size)
    functions: dict[str, Callable[[], Any]] = {}
    references: dict[str, Callable[[], Any]] = {}
    for name, dtype in PRECISIONS.items():
        bilm, torch_bilm = _in_precision(contestants, device, dtype, training=True)
        moved = vectors.to(device, dtype).requires_grad_(), coefficients.to(device, dtype)
        if dtype == torch.float32:
            functions[READABLE] = with_backend(READABLE, train_bilm, bilm, *moved)
            unclipped = without_clips(bilm, train_bilm, bilm, *moved)
        functions[f"ours {name}"] = with_backend(AUTO, train_bilm, bilm, *moved)
        references[f"nn.LSTM {name}"] = unclipped
        functions[f"nn.LSTM {name}"] = partial(torch_bilm.train_step, *moved)
    return _case(contestants, TRAINING_STEP, functions, references, lanes, length, flatten, GRADIENT_BOUND)


def _draw(rows: int, length: int, *sizes: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(rows, length, size, generator=generator) for size in sizes]


def _in_precision(
    contestants: Contestants, device: torch.device, dtype: torch.dtype, training: bool
) -> tuple[ElmoBiLM, TorchBiLM]:
    # cuDNN keeps what a backward pass would need while a module is in training mode, and has none in the other.
    ours, theirs = contestants.trained_bilm(), copy.deepcopy(contestants.torch_bilm)
    return ours.train(training).to(device, dtype), theirs.train(training).to(device, dtype)


def _case(
    contestants: Contestants,
    name: str,
    functions: dict[str, Callable[[], Any]],
    references: dict[str, Callable[[], Any]],
    rows: int,
    length: int,
    pick: Callable[[Any], Tensor],
    bound: float,
) -> Case:
    return Case(
        name=name,
        size=contestants.size,
        batch_size=rows,
        words=rows * length,
        batch={"rows": rows, "words_per_row": length},
        functions=functions,
        bounds={
            function: bound if function.endswith("fp32") else None for function in functions if function != READABLE
        },
        references=references,
        pick=pick,
    )
