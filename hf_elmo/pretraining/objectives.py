"""What pre-training minimises: cross entropies of both directions of a window of lanes, by one of three softmaxes.

Letters in shapes: B lanes, T words, N targets of one direction, P projection, V words of the softmax.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional as F

from ..kernels import cached_words
from ..model.modeling_elmo import ElmoForPreTraining, ElmoState
from .fused_losses import (
    full_cross_entropy_in_blocks,
    fused_sampled_cross_entropy,
    summed_adaptive_cross_entropy,
    summed_cross_entropy,
)
from .lanes import NO_TARGET, LaneWindow
from .recipes import OBJECTIVES
from .sampling import LogUniformSampler
from .softmax_losses import adaptive_cross_entropy
from .sparse_gradients import clip_gradient_norm

# Most logits held at a time where no gradients are wanted: 64 MiB of float32.
MAX_LOGITS = 2**24


@dataclass
class LaneLoss:
    """Sums over one window, so that figures over many windows can be put together exactly.

    Args:
        forward_sum, backward_sum: Sum of -log p over the targets of each direction, in nats.
        num_targets: Targets of each direction.
        state: LSTM states at the end of the window.
    """

    forward_sum: Tensor
    backward_sum: Tensor
    num_targets: int
    state: ElmoState

    @property
    def mean(self) -> Tensor:
        """The mean of both directions' mean losses, in nats per word: what is minimised."""
        return (self.forward_sum + self.backward_sum) / (2 * max(self.num_targets, 1))


class Direction(NamedTuple):
    """What one direction has to predict, and from what.

    Args:
        softmax: The softmax of the direction, a linear layer or an adaptive one.
        hidden: The biLM's vectors at the positions that have a target, (N, P).
        targets: Word ids, (N,).
    """

    softmax: Any
    hidden: Tensor
    targets: Tensor


class LaneObjective(nn.Module):
    """The biLM over windows of lanes; a subclass says what its words' losses are.

    Args:
        model: The model to train; its biLM sees the two streams of the lanes.
    Raises: ValueError when the model's softmax is of another type.
    """

    softmax_type = "full"

    def __init__(self, model: ElmoForPreTraining):
        super().__init__()
        if model.config.softmax_type != self.softmax_type:
            raise ValueError(
                f"the config's softmax_type is {model.config.softmax_type!r}; this objective wants "
                f"{self.softmax_type!r}. Set it before the model is built, or use another --objective."
            )
        self.model = model

    def forward(self, window: LaneWindow, state: ElmoState | None = None) -> LaneLoss:
        """Run one window from `state` and sum its losses."""
        directions, state = self.run_bilm(window, state)
        forward_sum, backward_sum = self.sum_losses(directions)
        return LaneLoss(forward_sum, backward_sum, len(directions[0].targets), state)

    def run_bilm(
        self, window: LaneWindow, state: ElmoState | None = None
    ) -> tuple[tuple[Direction, Direction], ElmoState]:
        """Run one window from `state`, up to the softmax: what each direction has to predict, and the new states."""
        encoder = self.model.elmo.token_encoder
        vectors = cached_words(encoder, window.rows)
        return self.run_lstms(encoder(window.rows) if vectors is None else vectors, window, state)

    def run_lstms(
        self, vectors: Tensor, window: LaneWindow, state: ElmoState | None = None
    ) -> tuple[tuple[Direction, Direction], ElmoState]:
        """As `run_bilm`, from the vectors of the window's distinct words on."""
        # The backward direction scans from the last word to the first, and its lane is in reading order: turn it round.
        # Looked up as embeddings: the gradients of an indexed tensor are added up in the order in which threads come
        # by, and no two runs would have the same weights.
        forward_vectors = F.embedding(window.forward_words, vectors)
        backward_vectors = F.embedding(window.backward_words, vectors).flip(1)
        outputs, state = self.model.elmo.bilm(forward_vectors, backward_vectors, state=state)
        forward_output, backward_output = outputs[-1]
        directions = []
        for softmax, hidden, targets in zip(
            self.model.word_softmaxes,
            (forward_output, backward_output.flip(1)),
            (window.forward_targets, window.backward_targets),
            strict=True,
        ):
            has_target = targets != NO_TARGET
            directions.append(Direction(softmax, hidden[has_target], targets[has_target]))
        return (directions[0], directions[1]), state

    def sum_losses(self, directions: tuple[Direction, Direction]) -> tuple[Tensor, Tensor]:
        """Sum of -log p over the targets of each direction, in nats."""
        raise NotImplementedError

    def clip_gradients(self, max_norm: float, accelerator: Accelerator) -> float:
        """Scale all gradients so that the norm of them together is at most `max_norm`; the norm before."""
        return float(accelerator.clip_grad_norm_(self.parameters(), max_norm))

    def log_entry(self, window: LaneWindow, state: ElmoState | None = None) -> dict[str, float]:
        """What an entry of the history says of a window beside its training loss."""
        return {}

    def run_state(self) -> dict[str, Any] | None:
        """What decides on the next steps beside the weights, for torch.save; None for nothing.

        Not `state_dict`, which is that of the weights in every module.
        """
        return None

    def load_run_state(self, state: dict[str, Any] | None) -> None:
        """Go on from a `run_state`."""


class FullSoftmaxObjective(LaneObjective):
    """Cross entropy by the full softmax over the vocabulary (Peters et al. 2018, sec. 3.1).

    Args:
        model: The model to train, its softmax of the type "full".
        chunk_size, block_size: Where no gradients are wanted, the logits of this many targets and of this many words
            are held at a time, whatever the sizes of the window and the vocabulary: as many as caches hold.
    """

    def __init__(self, model: ElmoForPreTraining, chunk_size: int = 1024, block_size: int = 1024):
        super().__init__(model)
        self.chunk_size = chunk_size
        self.block_size = block_size

    def sum_losses(self, directions: tuple[Direction, Direction]) -> tuple[Tensor, Tensor]:
        forward, backward = map(self._sum_direction, directions)
        return forward, backward

    def _sum_direction(self, direction: Direction) -> Tensor:
        softmax, hidden, targets = direction
        if torch.is_grad_enabled():
            return summed_cross_entropy(softmax.weight, softmax.bias, hidden, targets)
        return full_cross_entropy_in_blocks(softmax, hidden, targets, self.chunk_size, self.block_size).sum()


@dataclass
class SampledGap:
    """Mean losses of one window in nats per word, from the same vectors; see `SampledSoftmaxObjective.measure_gap`.

    Args:
        sampled: By one draw of negatives, as in training.
        full: By the full softmax: the honest figure.
    """

    sampled: float
    full: float


class SampledSoftmaxObjective(FullSoftmaxObjective):
    """In training the sampled softmax with log-uniform negatives, as bilm-tf's; in evaluation the full softmax.

    The negatives are drawn anew for each direction of each window and shared by its lanes and words. The words have to
    stand by falling frequency: see `sampling.check_sorted`.

    The weights' gradient is dense by default, V x P numbers of which few are not zero; at 800,000 words of 512 that is
    1.6 GB. With `sparse_gradients` it holds the looked-up rows alone. That is for torch.optim.Adagrad or SparseAdam
    (AdamW refuses it, weight decay too), for `sparse_gradients.clip_gradient_norm` in place of torch's, and for one
    process.

    Args:
        model: The model to train, its softmax of the type "full".
        num_negative_samples: Distinct negatives of a draw, fewer than the words of the vocabulary.
        seed: Of the draws; give each process its own.
        correct_targets: See `softmax_losses.sampled_cross_entropy`.
        sparse_gradients: Whether the gradient of the softmax's weights is a sparse tensor.
        chunk_size, block_size: As in `FullSoftmaxObjective`.
    """

    def __init__(
        self,
        model: ElmoForPreTraining,
        num_negative_samples: int = 8192,
        seed: int = 0,
        correct_targets: bool = True,
        sparse_gradients: bool = False,
        chunk_size: int = 1024,
        block_size: int = 1024,
    ):
        super().__init__(model, chunk_size, block_size)
        self.sampler = LogUniformSampler(model.config.word_vocab_size or 0, num_negative_samples, seed)
        self.correct_targets = correct_targets
        self.sparse_gradients = sparse_gradients

    def sum_losses(self, directions: tuple[Direction, Direction]) -> tuple[Tensor, Tensor]:
        if self.training:
            return self._sum_sampled_losses(directions)
        return super().sum_losses(directions)

    def clip_gradients(self, max_norm: float, accelerator: Accelerator) -> float:
        if self.sparse_gradients:
            return float(clip_gradient_norm(self.parameters(), max_norm))
        return super().clip_gradients(max_norm, accelerator)

    def log_entry(self, window: LaneWindow, state: ElmoState | None = None) -> dict[str, float]:
        # The sampled loss is no perplexity: beside it, what the full softmax says of the same window.
        gap = self.measure_gap(window, state)
        return {"sampled_loss": round(gap.sampled, 5), "full_loss": round(gap.full, 5)}

    def run_state(self) -> dict[str, Any]:
        return self.sampler.state_dict()

    def load_run_state(self, state: dict[str, Any] | None) -> None:
        self.sampler.load_state_dict(state or {})

    @torch.no_grad()
    def measure_gap(self, window: LaneWindow, state: ElmoState | None = None) -> SampledGap:
        """The sampled and the full loss of one window without dropout; the draws of training go on undisturbed."""
        was_training, sampler_state = self.training, self.sampler.state_dict()
        self.eval()
        directions, _ = self.run_bilm(window, state)
        num_targets = max(sum(len(direction.targets) for direction in directions), 1)
        sampled, full = self._sum_sampled_losses(directions), super().sum_losses(directions)
        self.sampler.load_state_dict(sampler_state)
        self.train(was_training)
        return SampledGap(sampled=float(sum(sampled)) / num_targets, full=float(sum(full)) / num_targets)

    def _sum_sampled_losses(self, directions: tuple[Direction, Direction]) -> tuple[Tensor, Tensor]:
        samples = [self.sampler.draw().to(direction.targets.device) for direction in directions]
        forward_ids, backward_ids = (
            [direction.targets, sample.ids] for direction, sample in zip(directions, samples, strict=True)
        )
        forward, backward = (direction.softmax for direction in directions)
        if forward is backward:
            # One look-up, so that backward makes one gradient of the weights' size and not four.
            rows = self._look_up(forward, forward_ids + backward_ids)
        else:
            rows = self._look_up(forward, forward_ids) + self._look_up(backward, backward_ids)
        forward_sum, backward_sum = (
            fused_sampled_cross_entropy(
                direction.hidden, direction.targets, target_rows, sample, sample_rows, self.correct_targets
            ).sum()
            for direction, sample, target_rows, sample_rows in zip(
                directions, samples, rows[::2], rows[1::2], strict=True
            )
        )
        return forward_sum, backward_sum

    def _look_up(self, softmax: nn.Linear, ids: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Weights (M, P) and biases (M,) of each list of M words."""
        lengths = [len(part) for part in ids]
        joined = torch.cat(ids)
        weights = F.embedding(joined, softmax.weight, sparse=self.sparse_gradients).split(lengths)
        biases = F.embedding(joined, softmax.bias[:, None]).squeeze(1).split(lengths)
        return list(zip(weights, biases, strict=True))


class AdaptiveSoftmaxObjective(LaneObjective):
    """Cross entropy by an adaptive softmax, in training and in evaluation (Grave et al. 2017).

    Args:
        model: The model to train, its softmax of the type "adaptive".
        max_logits: Most logits of one cluster held at a time where no gradients are wanted.
    """

    softmax_type = "adaptive"

    def __init__(self, model: ElmoForPreTraining, max_logits: int = MAX_LOGITS):
        super().__init__(model)
        softmax: Any = model.word_softmax
        widths = [end - start for start, end in itertools.pairwise(softmax.cutoffs)]
        self.chunk_size = max(1, max_logits // max(softmax.head_size, *widths))

    def sum_losses(self, directions: tuple[Direction, Direction]) -> tuple[Tensor, Tensor]:
        forward, backward = map(self._sum_direction, directions)
        return forward, backward

    def _sum_direction(self, direction: Direction) -> Tensor:
        softmax, hidden, targets = direction
        if torch.is_grad_enabled() or not len(targets):
            return summed_adaptive_cross_entropy(softmax, hidden, targets)
        parts = zip(hidden.split(self.chunk_size), targets.split(self.chunk_size), strict=True)
        return torch.stack([adaptive_cross_entropy(softmax, *part).sum() for part in parts]).sum()


def build_objective(
    name: str, model: ElmoForPreTraining, num_negative_samples: int = 8192, seed: int = 0, **options: bool
) -> LaneObjective:
    """The objective of a name.

    Args:
        name: One of OBJECTIVES.
        model: The model to train.
        num_negative_samples, seed: Of the sampled softmax; not read by the others.
        options: Further arguments of `SampledSoftmaxObjective`.
    Raises: ValueError when the name is unknown, the model's softmax is of another type or there are not fewer
        negatives than words.
    """
    if name == "sampled":
        return SampledSoftmaxObjective(model, num_negative_samples, seed, **options)
    if name == "full":
        return FullSoftmaxObjective(model)
    if name == "adaptive":
        return AdaptiveSoftmaxObjective(model)
    raise ValueError(f"objective is {name!r}; it must be one of {', '.join(OBJECTIVES)}.")


def propose_cutoffs(vocab_size: int) -> list[int]:
    """Cutoffs of an adaptive softmax where none are given: 7.5 % and 20 % of the words.

    Those are the shares that Baevski and Auli (2019, sec. 4) took for the 800,000 words of the Billion Word benchmark.
    """
    first = max(1, round(0.075 * vocab_size))
    return [first, max(first + 1, round(0.2 * vocab_size))]
