"""The loss of a window of lanes in both directions, by a full, a sampled or an adaptive softmax.

Cross entropies go block by block of targets, with gradients by matrix products alone. A block of logits stays in the
processor's cache while it becomes probabilities, which are all that a gradient needs. Under autocast the products run
in its dtype; logits, probabilities and sums are float32 at least, whatever the factors.

Letters in shapes: B lanes, T words, N targets of one direction, P projection, V words of the softmax, S negatives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ..kernels import pad_rows, product_dtype, round_rows
from ..model.modeling_elmo import ElmoForPreTraining, ElmoState
from ..text.vocabulary import log_uniform_probabilities
from .lanes import NO_TARGET, LaneWindow

# Most logits of a block: few enough for a core's cache where a block only becomes probabilities, more where each block
# also adds to a gradient as large as all weights.
SAMPLED_BLOCK_LOGITS = 2**19
FULL_BLOCK_LOGITS = 2**23
# Targets and words of a block where nothing is trained.
SCORED_TARGETS = SCORED_WORDS = 1024
# Elsewhere: 1 GiB of float32, of which there are two, the logits and their probabilities.
MOST_BLOCK_LOGITS = 2**28


class LaneObjective(nn.Module):
    """The biLM over windows of lanes, and the loss of its words by the model's softmax or a sample of it.

    The gradient of a sampled softmax's weights is dense by default, V x P numbers of which few are not zero; at 800,000
    words of 512 that is 1.6 GB. With `sparse_gradients` it holds the looked-up rows alone. That is for
    torch.optim.Adagrad (AdamW refuses it, weight decay too), for `optim.clip_gradient_norm` in place of torch's, and
    for one process.

    Args:
        model: The model to train; its biLM sees the two streams of the lanes.
        sparse_gradients: Whether the gradient of a sampled softmax's weights is a sparse tensor.
    """

    def __init__(self, model: ElmoForPreTraining, sparse_gradients: bool = False):
        super().__init__()
        self.model = model
        self.sparse_gradients = sparse_gradients

    def forward(
        self,
        window: LaneWindow,
        state: ElmoState | None = None,
        negatives: tuple[NegativeSample, NegativeSample] | None = None,
    ) -> tuple[Tensor, ElmoState]:
        """Run one window.

        Args:
            window: Of B lanes.
            state: LSTM states before it; None starts from zeros.
            negatives: Of each direction, shared by its lanes and words (`LogUniformSampler`), for the sampled
                loss; None for that of the whole softmax.
        Returns: The sum of -log p over the targets of each direction, in nats, (2,), and the LSTM states at the end.
        """
        vectors = self.model.elmo.token_encoder(window.rows)
        # Looked up as embeddings: index_put's backward is not deterministic on CPU, F.embedding's is.
        forward_vectors, backward_vectors = (F.embedding(words, vectors) for words in window.words)
        # The backward direction scans from the last word to the first, and its lane is in reading order: turn it round.
        outputs, state = self.model.elmo.bilm(forward_vectors, backward_vectors.flip(1), state=state)
        forward_output, backward_output = outputs[-1]
        has_target = window.targets != NO_TARGET
        hidden = [forward_output[has_target[0]], backward_output.flip(1)[has_target[1]]]
        targets = [window.targets[0][has_target[0]], window.targets[1][has_target[1]]]
        softmaxes = self.model.word_softmaxes
        if negatives is None:
            sums = [summed_cross_entropy(*each) for each in zip(softmaxes, hidden, targets, strict=True)]
        else:
            samples = [sample.to(vectors.device) for sample in negatives]
            ids = [targets[0], samples[0].ids, targets[1], samples[1].ids]
            if softmaxes[0] is softmaxes[1]:
                # One look-up, so that backward makes one gradient of the weights' size and not four.
                rows = self._look_up(softmaxes[0], ids)
            else:
                rows = self._look_up(softmaxes[0], ids[:2]) + self._look_up(softmaxes[1], ids[2:])
            sums = [
                sampled_cross_entropy(*each).sum()
                for each in zip(hidden, targets, rows[::2], samples, rows[1::2], strict=True)
            ]
        return torch.stack(sums), state

    def _look_up(self, softmax: Any, ids: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Weights (M, P) and biases (M,) of each list of M words."""
        lengths = [len(part) for part in ids]
        joined = torch.cat(ids)
        weights = F.embedding(joined, softmax.weight, sparse=self.sparse_gradients).split(lengths)
        biases = F.embedding(joined, softmax.bias[:, None]).squeeze(1).split(lengths)
        return list(zip(weights, biases, strict=True))


def propose_cutoffs(vocab_size: int) -> list[int]:
    """Cutoffs of an adaptive softmax where none are given: 7.5 % and 20 % of the words.

    Those are the fractions that Baevski and Auli (2019, sec. 4) took for the 800,000 words of the Billion Word
    benchmark.
    """
    first = max(1, round(0.075 * vocab_size))
    return [first, max(first + 1, round(0.2 * vocab_size))]


@dataclass(frozen=True)
class NegativeSample:
    """Distinct words that were drawn together."""

    ids: Tensor  # rising, (S,)
    num_tries: int  # draws, repeats included, that it took to find S distinct words
    vocab_size: int  # words drawn from

    def to(self, device: torch.device) -> NegativeSample:
        """The same sample on another device."""
        return replace(self, ids=self.ids.to(device, non_blocking=True))

    def log_expected_counts(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        """Log of the probability that each word is among the negatives after this many tries, in the shape of `ids`.

        That is log(1 - (1 - p)^tries), as TensorFlow computes it for unique candidates (range_sampler.cc).
        """
        probabilities = log_uniform_probabilities(ids, self.vocab_size, dtype)
        return (-torch.expm1(self.num_tries * torch.log1p(-probabilities))).log()


class LogUniformSampler:
    """Draws distinct words, each try giving word k with probability log((k + 2) / (k + 1)) / log(V + 1).

    That is near the frequencies of words sorted by falling frequency (Zipf's law). The semantics are those of
    TensorFlow's log_uniform_candidate_sampler with unique=True, by which bilm-tf trained the released models.

    Args:
        vocab_size: Words V to draw from.
        num_samples: Distinct words of each draw. The nearer to V, the more tries a draw takes.
        seed: Of the sampler's own random numbers; give each process its own.
    Raises: ValueError when there are not more words than samples.
    """

    def __init__(self, vocab_size: int, num_samples: int, seed: int = 0):
        if not 1 <= num_samples < vocab_size:
            raise ValueError(
                f"num_negative_samples is {num_samples}; it must be >= 1 and < the {vocab_size} words of the "
                "vocabulary. Lower it, or use the full softmax."
            )
        self.vocab_size = vocab_size
        self.num_samples = num_samples
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self) -> NegativeSample:
        """Draw until there are `num_samples` distinct words; on the CPU."""
        tries = self._draw_tries(2 * self.num_samples)
        while len(places := _first_places(tries, self.vocab_size)) < self.num_samples:
            tries = torch.cat([tries, self._draw_tries(len(tries))])
        places = places[: self.num_samples]
        return NegativeSample(tries[places].sort().values, int(places[-1]) + 1, self.vocab_size)

    def draw_pair(self) -> tuple[NegativeSample, NegativeSample]:
        """A draw for each direction."""
        return self.draw(), self.draw()

    def _draw_tries(self, number: int) -> Tensor:
        """Words with repeats, (number,), by the inverse of the distribution function."""
        uniform = torch.rand(number, dtype=torch.float64, generator=self.generator)
        # exp may round up to V + 1 where the uniform number is next to 1.
        return (uniform * math.log1p(self.vocab_size)).exp().long().sub(1).clamp(max=self.vocab_size - 1)


def _first_places(tries: Tensor, vocab_size: int) -> Tensor:
    """Where each distinct word stands for the first time, rising."""
    numbers = torch.arange(len(tries))
    first = torch.full((vocab_size,), len(tries)).scatter_reduce_(0, tries, numbers, "amin")
    return (first[tries] == numbers).nonzero().squeeze(1)


def sampled_cross_entropy(
    hidden: Tensor,
    targets: Tensor,
    target_rows: tuple[Tensor, Tensor],
    sample: NegativeSample,
    sample_rows: tuple[Tensor, Tensor],
) -> Tensor:
    """-log p of each target among itself and the negatives, (N,) (Jean et al. 2015; tf.nn.sampled_softmax_loss).

    The log of a word's expected count is taken off its logit, the target's too, so that the sum over the negatives
    stands for the sum over all words. The loss has its optimum where the full softmax's has, yet lies below it, by up
    to minus the log of the target's expected count (about a nat on average for 8192 of 800,000 words). A negative that
    is the target itself is left out. The gradients have none of their own.

    Args:
        hidden: Vectors that predict the targets, (N, P).
        targets: Word ids, (N,).
        target_rows: Weights (N, P) and biases (N,) of the targets.
        sample: The negatives, shared by all targets.
        sample_rows: Weights (S, P) and biases (S,) of the negatives.
    """
    weights, biases = target_rows
    target_logits = (at_least_float32(hidden) * weights).sum(1) + biases
    target_logits = target_logits - sample.log_expected_counts(targets, target_logits.dtype)
    sample_weights, sample_biases = sample_rows
    sample_biases = at_least_float32(sample_biases)
    sample_biases = sample_biases - sample.log_expected_counts(sample.ids, sample_biases.dtype)
    # The negatives are distinct and rising: each target has one place at most among them.
    places = torch.searchsorted(sample.ids, targets).clamp(max=len(sample.ids) - 1).unsqueeze(1)
    is_hit = sample.ids[places] == targets.unsqueeze(1)
    log_sums = _LogSumOfNegatives.apply(hidden, sample_weights, sample_biases, places, is_hit, _product_dtype(hidden))
    return torch.logaddexp(target_logits, log_sums) - target_logits


def summed_cross_entropy(softmax: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    """Sum of -log p over all targets in nats, by a linear or an adaptive softmax (Grave et al. 2017).

    Of an adaptive one every cluster is in the graph, those without targets too: distributed training waits for their
    gradients.

    Args:
        softmax: Weight (V, P) and bias (V,), or an adaptive softmax over P inputs.
        hidden: Vectors that predict the targets, (N, P).
        targets: Word ids, (N,).
    """
    if not isinstance(softmax, nn.AdaptiveLogSoftmaxWithLoss):
        return _sum_linear(softmax, hidden, targets)
    # The head has an output for each frequent word, and behind them one for each cluster.
    cluster = torch.bucketize(targets, targets.new_tensor(softmax.cutoffs[:-1]), right=True)
    places = torch.where(cluster == 0, targets, softmax.shortlist_size - 1 + cluster)
    total = _sum_linear(softmax.head, hidden, places)
    for index, (start, _) in enumerate(itertools.pairwise(softmax.cutoffs)):
        rows = (cluster == index + 1).nonzero().squeeze(1)
        tail: Any = softmax.tail[index]
        projection, words = tail
        vectors = projection(pad_rows(hidden[rows], hidden.dtype))[: len(rows)]
        total = total + _sum_linear(words, vectors, targets[rows] - start)
    return total


def _sum_linear(softmax: Any, hidden: Tensor, targets: Tensor) -> Tensor:
    bias = None if softmax.bias is None else at_least_float32(softmax.bias)
    if torch.is_grad_enabled():
        return _SummedCrossEntropy.apply(hidden, softmax.weight, bias, targets, _product_dtype(hidden))
    return _score_targets(softmax.weight, bias, hidden, targets).sum()


def at_least_float32(tensor: Tensor) -> Tensor:
    """The same numbers in float32, or in float64 where they are."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _score_targets(weight: Tensor, bias: Tensor | None, hidden: Tensor, targets: Tensor) -> Tensor:
    """-log p of each target, (N,), without gradients: blocks of targets and of words, which caches hold."""
    dtype = _product_dtype(hidden)
    hidden, weight = hidden.to(dtype), weight.to(dtype)
    size = round_rows(min(SCORED_TARGETS, len(targets))) * min(SCORED_WORDS, len(weight))
    room = hidden.new_empty(2, size, dtype=torch.promote_types(dtype, torch.float32))
    target_logits = room.new_empty(len(targets))
    log_sums = room.new_empty(-(-len(weight) // SCORED_WORDS), len(targets))
    for chunk in _blocks(len(targets), SCORED_TARGETS):
        vectors, wanted = pad_rows(hidden[chunk], dtype), targets[chunk]
        for log_sum, words in zip(log_sums, _blocks(len(weight), SCORED_WORDS), strict=True):
            shape = len(vectors), words.stop - words.start
            logits, probabilities = room[:, : math.prod(shape)].view(2, *shape)
            _score(vectors, weight[words], None if bias is None else bias[words], logits)
            places = (wanted - words.start).clamp(0, shape[1] - 1)
            found = logits[: len(wanted)].gather(1, places.unsqueeze(1)).squeeze(1)
            # What a block beyond the target's finds stays out; what one before it finds is written over.
            target_logits[chunk] = torch.where(wanted >= words.start, found, target_logits[chunk])
            log_sum[chunk] = _normalize(logits, probabilities)[: len(wanted)]
    return log_sums.logsumexp(0) - target_logits


class _LogSumOfNegatives(torch.autograd.Function):
    """Log of the sum of exp of each target's logits over the negatives, (N,), one place left out where it is a hit."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weights: Tensor,
        biases: Tensor,
        places: Tensor,
        is_hit: Tensor,
        dtype: torch.dtype,
    ) -> Tensor:
        ctx.dtypes = hidden.dtype, weights.dtype
        num_targets, num_negatives = len(hidden), len(weights)
        hidden, weights = pad_rows(hidden.to(dtype), dtype), weights.to(dtype)
        log_sums = biases.new_empty(num_targets)
        rows = _rows_of_blocks(hidden, num_negatives, SAMPLED_BLOCK_LOGITS)
        room = biases.new_empty(2, min(rows, num_targets), num_negatives)
        is_narrow = hidden.dtype != room.dtype
        # In halves all in one product, as those of few rows are slow; the logits make room for probabilities.
        kept = torch.mm(hidden, weights.t()) if is_narrow else hidden.new_empty(num_targets, num_negatives)
        # Finite: where every term of a sum is left out, infinity would put nan into the backward pass.
        lowest = torch.finfo(room.dtype).min
        for block in _blocks(num_targets, rows):
            hits = is_hit[block]
            logits, probabilities = room[:, : len(hits)]
            if is_narrow:
                logits.copy_(kept[block]).add_(biases)
            else:
                _score(hidden[block], weights, biases, logits)
                probabilities = kept[block]
            logits.scatter_(1, places[block], logits.gather(1, places[block]).masked_fill(hits, lowest))
            log_sums[block] = _normalize(logits, probabilities)
            if is_narrow:
                kept[block] = probabilities
        if is_narrow:
            # Of rows behind the targets, which take no part.
            kept[num_targets:] = 0
        ctx.save_for_backward(hidden, weights, kept)
        return log_sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weights, probabilities = ctx.saved_tensors
        hidden_dtype, weights_dtype = ctx.dtypes
        num_targets = len(grad)
        grad = F.pad(grad, (0, len(hidden) - num_targets)).unsqueeze(1)
        grad_hidden = torch.mm(probabilities, weights) * grad
        # The vectors turned round, and not the probabilities, which are many times as large.
        scaled = (hidden * grad).t().to(hidden.dtype).contiguous()
        grad_weights = torch.mm(scaled, probabilities).t()
        grad_biases = torch.mm(grad.t().to(hidden.dtype), probabilities)[0]
        return (
            grad_hidden[:num_targets].to(hidden_dtype),
            grad_weights.to(weights_dtype),
            grad_biases.to(grad.dtype),
            *3 * [None],
        )


class _SummedCrossEntropy(torch.autograd.Function):
    """The sum of -log p over all targets; its gradients are computed along with it, so that no logits are twice."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, dtype: torch.dtype
    ) -> Tensor:
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
        rows = _rows_of_blocks(hidden, len(weight), FULL_BLOCK_LOGITS)
        shape = 2, round_rows(min(rows, len(hidden))), len(weight)
        room = hidden.new_empty(shape, dtype=torch.promote_types(dtype, torch.float32))
        total = room.new_zeros(())
        for block in _blocks(len(hidden), rows):
            vectors, places = pad_rows(hidden[block], dtype), targets[block].unsqueeze(1)
            logits, probabilities = room[:, : len(vectors)]
            _score(vectors, weight, bias, logits)
            log_sums, number = _normalize(logits, probabilities), len(places)
            total += (log_sums[:number] - logits[:number].gather(1, places).squeeze(1)).sum()
            probabilities[number:] = 0
            # With one less at the target they are the gradients of the logits.
            probabilities.scatter_add_(1, places, probabilities.new_full((number, 1), -1.0))
            if grad_bias is not None:
                grad_bias += probabilities.sum(0)
            factors = probabilities.to(dtype)
            grad_hidden[block] = torch.mm(factors, weight)[:number]
            if grad_weight.dtype == dtype:
                grad_weight.addmm_(factors.t(), vectors)
            else:
                grad_weight += torch.mm(factors.t(), vectors)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if part is None else (part * grad).to(part.dtype) for part in ctx.saved_tensors), None, None


def _product_dtype(hidden: Tensor) -> torch.dtype:
    """Autocast's dtype where it is on, and that of the vectors elsewhere; float32 where the processor has no other."""
    device, dtype = hidden.device.type, hidden.dtype
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    return product_dtype(dtype, device)


def _rows_of_blocks(hidden: Tensor, num_logits: int, block_size: int) -> int:
    """Targets of a block of so many logits; of as many as memory bears where there is no cache to stay in."""
    size = block_size if hidden.device.type == "cpu" else MOST_BLOCK_LOGITS
    return max(1, min(size // num_logits, len(hidden)))


def _blocks(number: int, rows: int) -> Iterator[slice]:
    return (slice(start, min(start + rows, number)) for start in range(0, number, rows))


def _score(hidden: Tensor, weights: Tensor, biases: Tensor | None, logits: Tensor) -> None:
    """Write the logits of some targets."""
    if hidden.dtype == logits.dtype:
        torch.mm(hidden, weights.t(), out=logits)
    else:
        logits.copy_(torch.mm(hidden, weights.t()))
    if biases is not None:
        logits += biases


def _normalize(logits: Tensor, probabilities: Tensor) -> Tensor:
    """Write the probabilities, and give the log of each row's sum of exp: the greatest one's is told by its share."""
    torch.softmax(logits, 1, out=probabilities)
    return logits.amax(1) - probabilities.amax(1).log()
