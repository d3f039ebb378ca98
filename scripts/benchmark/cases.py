"""What is checked and timed: words to vectors, the biLM alone and a training step of it, by every implementation.

Letters in shapes: B sentences, T words, P projection.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hf_elmo import kernels
from hf_elmo.model.modeling_elmo import ElmoBiLM, ElmoModel, ElmoProjectedLSTM
from hf_elmo.model.tokenization_elmo import ElmoCharTokenizer

from .allennlp_peer import AllenNLPPeer
from .floor import matrix_product, read_recurrent_weights
from .sentences import describe_batch, pick_batch
from .sizes import build_model
from .torch_peer import TorchBiLM

WORDS_TO_VECTORS, BILM, TRAINING_STEP = "words to vectors", "biLM alone", "training step of the biLM"

ALLENNLP, TORCH_PADDED, TORCH_PACKED = "AllenNLP", "nn.LSTM padded", "nn.LSTM packed"
AUTO, READABLE, PLAIN, COMPILED, INT8 = "auto", "readable", "plain", "compiled", "int8"
BFLOAT16, AUTOCAST = "bf16", "bf16 autocast"
# The whole model in the rounds of its biLM.
WHOLE_MODEL = "whole model, auto"
MATRIX_PRODUCT, READING = "matrix product", "reading of recurrent weights"

BACKENDS = (READABLE, PLAIN, COMPILED, INT8)

TRAINING_LANES, TRAINING_WORDS = 32, 20

# Our backends from the readable scan, float32, at the published sizes.
FLOAT32_BOUND = 5e-6
# Other implementations, and sums of products as long as a gradient's: enough to see that the same thing is computed.
LOOSE_BOUND = 1e-4


@dataclass(frozen=True)
class Case:
    """One piece of work and the functions that do it.

    Args:
        name: What is done.
        size: Of the model.
        batch_size: Sentences or lanes.
        words: Real words of the batch, sentence markers included.
        batch: More about the batch, for the report.
        functions: By name; the readable scan's is always among them.
        bounds: For each function with a result to compare, the largest difference allowed from the readable one's;
            None where the difference is only reported.
        references: What a function is compared with where that is not the readable one.
        pick: The tensor of a result that is compared.
        rows: Sentences that have a word at each step, where the floors are wanted.
    """

    name: str
    size: str
    batch_size: int
    words: int
    batch: dict[str, Any]
    functions: dict[str, Callable[[], Any]]
    bounds: dict[str, float | None]
    references: dict[str, Callable[[], Any]] = field(default_factory=dict)
    pick: Callable[[Any], Tensor] = field(default=lambda result: result)
    rows: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.name}, {self.size}, {self.batch_size}"


class Contestants:
    """The implementations of one size, all with the same random weights."""

    def __init__(self, size: str, backends: Sequence[str], allennlp: str | None = None, seed: int = 0):
        """Build the models.

        Args:
            size: A key of `SIZES`.
            backends: Ours to take part, the readable one among them.
            allennlp: The folder that holds AllenNLP's files; None leaves it out.
            seed: Of the weights.
        """
        self.size = size
        self.backends = tuple(backends)
        self.model = build_model(size, seed)
        self.bfloat16_model = copy.deepcopy(self.model).to(torch.bfloat16)
        self.torch_bilm = TorchBiLM(self.model)
        self.allennlp = None if allennlp is None else AllenNLPPeer(allennlp, self.model)

    def trained_bilm(self) -> ElmoBiLM:
        """A copy of the biLM whose weights want gradients, in training mode."""
        model = copy.deepcopy(self.model)
        model.freeze_bilm(False)
        return model.train().bilm


def words_to_vectors(contestants: Contestants, sentences: list[list[str]], batch_size: int) -> Case:
    """The whole model: rows of character ids to mixed vectors, the sentence markers' too."""
    batch, tokenizer = pick_batch(sentences, batch_size), make_tokenizer()
    inputs = tokenizer(_join(batch), padding=True, return_tensors="pt")
    mask = inputs["attention_mask"].bool()
    model = contestants.model
    functions = {name: with_backend(name, _mix, model, inputs) for name in contestants.backends}
    functions[BFLOAT16] = with_backend(AUTO, _mix, contestants.bfloat16_model, inputs)
    functions[AUTOCAST] = with_backend(AUTO, _mix_under_autocast, model, inputs)
    if contestants.allennlp is not None:
        # AllenNLP puts the markers around a sentence itself.
        bare = tokenizer(_join(batch), padding=True, add_special_tokens=False, return_tensors="pt")["input_ids"]
        functions[ALLENNLP] = partial(infer, contestants.allennlp.mix, bare)
    return Case(
        name=WORDS_TO_VECTORS,
        size=contestants.size,
        batch_size=batch_size,
        words=int(mask.sum()),
        batch=describe_batch(batch),
        functions=functions,
        bounds=_bounds(functions),
        pick=lambda vectors: vectors[mask],
    )


def bilm_alone(contestants: Contestants, sentences: list[list[str]], batch_size: int) -> Case:
    """The biLM over given token vectors; ours clips as published, torch's cannot and computes the same without."""
    batch, model = pick_batch(sentences, batch_size), contestants.model
    inputs = make_tokenizer()(_join(batch), padding=True, return_tensors="pt")
    with torch.inference_mode(), kernels.use_backend(READABLE):
        real, layers, _ = model.run_layers(**inputs)
    vectors = layers[0][..., : model.config.projection_size].contiguous()
    mask = None if bool(real.all()) else real
    functions = {name: with_backend(name, infer, run_bilm, model.bilm, vectors, mask) for name in contestants.backends}
    functions[TORCH_PADDED] = partial(infer, contestants.torch_bilm, vectors, mask)
    if mask is not None:
        functions[TORCH_PACKED] = partial(infer, contestants.torch_bilm, vectors, mask, True)
    functions[WHOLE_MODEL] = with_backend(AUTO, _mix, model, inputs)
    functions[MATRIX_PRODUCT] = matrix_product(vectors.device)
    functions[READING] = read_recurrent_weights(model.config, vectors.device)
    return Case(
        name=BILM,
        size=contestants.size,
        batch_size=batch_size,
        words=int(real.sum()),
        batch=describe_batch(batch),
        functions=functions,
        bounds=_bounds(functions),
        references=dict.fromkeys(
            (TORCH_PADDED, TORCH_PACKED), without_clips(model.bilm, infer, run_bilm, model.bilm, vectors, mask)
        ),
        pick=lambda vectors: vectors[real],
        rows=tuple(int((real.sum(dim=1) > step).sum()) for step in range(int(real.sum(dim=1).max()))),
    )


def training_step(contestants: Contestants, lanes: int = TRAINING_LANES, length: int = TRAINING_WORDS) -> Case:
    """Forward and backward of the biLM over full lanes, to the token vectors and all LSTM weights; no dropout."""
    projection_size = contestants.model.config.projection_size
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(lanes, length, projection_size, generator=generator).requires_grad_()
    coefficients = torch.randn(lanes, length, 2 * projection_size, generator=generator)
    bilm = contestants.trained_bilm()
    functions = {
        name: with_backend(name, train_bilm, bilm, vectors, coefficients)
        for name in contestants.backends
        if name != INT8
    }
    functions[TORCH_PADDED] = partial(contestants.torch_bilm.train_step, vectors, coefficients)
    if contestants.allennlp is not None:
        functions[ALLENNLP] = partial(contestants.allennlp.train_step, vectors, coefficients)
    return Case(
        name=TRAINING_STEP,
        size=contestants.size,
        batch_size=lanes,
        words=lanes * length,
        batch={"lanes": lanes, "words_per_lane": length},
        functions=functions,
        bounds={name: LOOSE_BOUND for name in functions if name != READABLE},
        references={TORCH_PADDED: without_clips(bilm, train_bilm, bilm, vectors, coefficients)},
        pick=flatten,
    )


def train_bilm(bilm: ElmoBiLM, vectors: Tensor, coefficients: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a weighted sum of the top layer by the vectors and by all weights of a biLM of ours.

    Args:
        bilm: In training mode.
        vectors: Token vectors that want gradients, (B, T, P).
        coefficients: The weights of the sum, (B, T, 2P).
    """
    loss = (run_bilm(bilm, vectors, None) * coefficients).sum()
    return torch.autograd.grad(loss, [vectors, *bilm.parameters()])


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """All numbers of some tensors in one row."""
    return torch.cat([tensor.flatten() for tensor in tensors])


def run_bilm(bilm: ElmoBiLM, vectors: Tensor, mask: Tensor | None) -> Tensor:
    """The top layer of a biLM of ours, (B, T, 2P), over token vectors (B, T, P) under a mask (B, T) or None."""
    return torch.cat(bilm(vectors, vectors, mask)[0][-1], dim=-1)


def with_backend(backend: str, function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """The call of a function under a backend of ours."""

    def call() -> Any:
        with kernels.use_backend(backend):
            return function(*arguments)

    return call


@torch.inference_mode()
def infer(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Call a function without any thought of gradients."""
    return function(*arguments)


def without_clips(bilm: ElmoBiLM, function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """The call of a function by the readable scan while a biLM does not clip, for peers that cannot."""
    lstms = [module for module in bilm.modules() if isinstance(module, ElmoProjectedLSTM)]
    clips = [(lstm.cell_clip, lstm.projection_clip) for lstm in lstms]

    def call() -> Any:
        try:
            for lstm in lstms:
                lstm.cell_clip = lstm.projection_clip = None
            return with_backend(READABLE, function, *arguments)()
        finally:
            for lstm, (cell_clip, projection_clip) in zip(lstms, clips, strict=True):
                lstm.cell_clip, lstm.projection_clip = cell_clip, projection_clip

    return call


def make_tokenizer() -> ElmoCharTokenizer:
    """Cuts at white space, where the sentences were cut."""
    return ElmoCharTokenizer(pre_tokenizer="whitespace")


@torch.inference_mode()
def _mix(model: ElmoModel, inputs: Mapping[str, Tensor]) -> Tensor:
    return model(**inputs).last_hidden_state


def _mix_under_autocast(model: ElmoModel, inputs: Mapping[str, Tensor]) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return _mix(model, inputs)


def _join(batch: list[list[str]]) -> list[str]:
    return [" ".join(sentence) for sentence in batch]


def _bounds(functions: dict[str, Callable[[], Tensor]]) -> dict[str, float | None]:
    exact = {PLAIN: FLOAT32_BOUND, COMPILED: FLOAT32_BOUND}
    exact |= dict.fromkeys((ALLENNLP, TORCH_PADDED, TORCH_PACKED), LOOSE_BOUND)
    not_compared = (READABLE, WHOLE_MODEL, MATRIX_PRODUCT, READING)
    return {name: exact.get(name) for name in functions if name not in not_compared}
