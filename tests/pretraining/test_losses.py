"""The losses of words: references against sums by hand, then in blocks, and in bounded memory."""

import math
from functools import partial
from itertools import chain
from unittest import mock

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from softmax_cases import LargestTensor, make_softmax, make_vectors
from tolerances import (
    BFLOAT16,
    REORDERED_FLOAT32,
    REORDERED_FLOAT64,
)
from torch import nn

from hf_elmo.kernels import half
from hf_elmo.pretraining import losses
from hf_elmo.pretraining.losses import (
    adaptive_cross_entropy,
    full_cross_entropy,
    full_cross_entropy_in_blocks,
    fused_sampled_cross_entropy,
    sampled_cross_entropy,
    summed_adaptive_cross_entropy,
    summed_cross_entropy,
)
from hf_elmo.pretraining.sampling import LogUniformSampler, NegativeSample

N, P = 7, 6


def make_problem(vocab_size, num_targets=N, scale=1.0):
    """A softmax in float64, vectors and targets."""
    return make_softmax(P, vocab_size), *make_vectors(P, vocab_size, num_targets, scale)


def sampled(softmax, hidden, targets, sample):
    rows = [(softmax.weight[ids], softmax.bias[ids]) for ids in (targets, sample.ids)]
    return sampled_cross_entropy(hidden, targets, rows[0], sample, rows[1])


def gradient(loss, softmax, hidden) -> torch.Tensor:
    """The gradient with respect to the vectors, the weights and the biases, in one row."""
    wanted = (hidden, softmax.weight, softmax.bias)
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, wanted, retain_graph=True)])


def assert_same(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=0, atol=REORDERED_FLOAT64)


# Sampled


def reference_sampled_loss(softmax, vector, target, sample) -> float:
    """One target's loss, word by word, as tf.nn.sampled_softmax_loss has it."""

    def logit(word):
        count = sample.log_expected_counts(torch.tensor(word), torch.float64).item()
        return (softmax.weight[word] @ vector + softmax.bias[word]).item() - count

    true = logit(target)
    others = [logit(word) for word in sample.ids.tolist() if word != target]
    return math.log(sum(map(math.exp, [true, *others]))) - true


@pytest.mark.parametrize("num_samples", [1, 5, 19])
def test_the_sampled_loss_is_tensorflows(num_samples):
    softmax, hidden, _ = make_problem(20, num_targets=20)
    targets = torch.arange(20)
    sample = LogUniformSampler(20, num_samples, seed=4).draw()
    found = sampled(softmax, hidden, targets, sample)
    wanted = [
        reference_sampled_loss(softmax, hidden[row], target, sample) for row, target in enumerate(targets.tolist())
    ]
    assert_same(found, torch.tensor(wanted, dtype=torch.float64))


def test_all_words_as_negatives_are_the_full_softmax():
    """Every word is among the negatives for sure, the targets too: their accidental hits must not count twice."""
    softmax, hidden, targets = make_problem(20)
    sample = NegativeSample(torch.arange(20), num_tries=10**6, vocab_size=20)
    found, wanted = (loss(softmax, hidden, targets) for loss in (partial(sampled, sample=sample), full_cross_entropy))
    assert_same(found, wanted)
    assert_same(gradient(found.sum(), softmax, hidden), gradient(wanted.sum(), softmax, hidden))


# Adaptive


@pytest.mark.parametrize("cutoffs", [[5], [4, 9], [1, 2, 19]])
def test_the_adaptive_loss_is_the_modules_own(cutoffs):
    softmax = nn.AdaptiveLogSoftmaxWithLoss(P, 20, cutoffs, div_value=1.5).double()
    hidden, targets = torch.randn(20, P, dtype=torch.float64, requires_grad=True), torch.randperm(20)
    found = adaptive_cross_entropy(softmax, hidden, targets)
    assert_same(found, -softmax(hidden, targets).output)
    assert_same(found, -softmax.log_prob(hidden)[torch.arange(20), targets])
    wanted = [hidden, *softmax.parameters()]
    for mine, theirs in zip(
        torch.autograd.grad(found.sum(), wanted),
        torch.autograd.grad(-softmax(hidden, targets).output.sum(), wanted),
        strict=True,
    ):
        assert_same(mine, theirs)


# In blocks


def with_gradients(loss, *wanted):
    """A loss and its gradients."""
    return [loss.detach(), *torch.autograd.grad(loss, wanted)]


def assert_all_close(found, wanted, atol):
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=atol, atol=atol)


def sampled_results(loss_of, softmax, hidden, targets, sample):
    """Losses by the reference or in blocks, and gradients of their sum by weights that differ."""
    rows = [(softmax.weight[ids], softmax.bias[ids]) for ids in (targets, sample.ids)]
    found = loss_of(hidden, targets, rows[0], sample, rows[1])
    weights = torch.linspace(0.5, 2, len(targets), dtype=found.dtype)
    return [found.detach(), *with_gradients(found @ weights, hidden, softmax.weight, softmax.bias)]


def summed_results(softmax, hidden, targets):
    """Twice the loss, so that a gradient comes in, and gradients."""
    loss = summed_cross_entropy(softmax.weight, softmax.bias, hidden, targets)
    return with_gradients(2 * loss, hidden, softmax.weight, softmax.bias)


@examples(30)
@given(
    num_targets=st.integers(0, 9),
    vocab_size=st.integers(2, 40),
    num_samples=st.integers(1, 39),
    block_logits=st.integers(1, 100),
)
def test_the_sampled_loss_in_blocks_is_its_reference(num_targets, vocab_size, num_samples, block_logits):
    # So few words that many negatives are targets.
    softmax, hidden, targets = make_softmax(P, vocab_size), *make_vectors(P, vocab_size, num_targets)
    sample = LogUniformSampler(vocab_size, min(num_samples, vocab_size - 1), seed=1).draw()
    problem = softmax, hidden, targets, sample
    with mock.patch.object(losses, "SAMPLED_BLOCK_LOGITS", block_logits):
        found = sampled_results(fused_sampled_cross_entropy, *problem)
    assert_all_close(found, sampled_results(sampled_cross_entropy, *problem), REORDERED_FLOAT64)


def test_a_draw_that_hits_nothing_but_the_target_costs_nothing():
    softmax, hidden, _ = make_softmax(P, 20), *make_vectors(P, 20, 7)
    sample = NegativeSample(torch.tensor([3]), num_tries=1, vocab_size=20)
    targets = torch.full((7,), 3)
    with torch.autograd.set_detect_anomaly(True):
        results = sampled_results(fused_sampled_cross_entropy, softmax, hidden, targets, sample)
    assert not any(part.any() for part in results)


def test_without_gradients_the_sampled_loss_is_the_same():
    softmax, hidden, targets = make_softmax(P, 20), *make_vectors(P, 20, 7)
    sample = LogUniformSampler(20, 5).draw()
    rows = [(softmax.weight[ids], softmax.bias[ids]) for ids in (targets, sample.ids)]
    found = fused_sampled_cross_entropy(hidden, targets, rows[0], sample, rows[1])
    with torch.no_grad():
        assert torch.equal(found, fused_sampled_cross_entropy(hidden, targets, rows[0], sample, rows[1]))


@examples(30)
@given(
    num_targets=st.integers(0, 9),
    vocab_size=st.integers(2, 40),
    block_logits=st.integers(1, 100),
    scale=st.sampled_from([1, 30]),
)
def test_the_summed_loss_in_blocks_is_its_references(num_targets, vocab_size, block_logits, scale):
    softmax, hidden, targets = make_softmax(P, vocab_size), *make_vectors(P, vocab_size, num_targets, scale)
    with mock.patch.object(losses, "FULL_BLOCK_LOGITS", block_logits):
        found = summed_results(softmax, hidden, targets)
    reference = 2 * full_cross_entropy(softmax, hidden, targets).sum()
    wanted = with_gradients(reference, hidden, softmax.weight, softmax.bias)
    assert_all_close(found, wanted, 100 * REORDERED_FLOAT64)


@pytest.mark.parametrize("cutoffs", [[5], [4, 9], [1, 2, 19]])
@pytest.mark.parametrize("head_bias", [False, True])
@pytest.mark.parametrize("targets", [[], [0, 3], range(20)])
def test_the_summed_adaptive_loss_is_its_references(cutoffs, head_bias, targets):
    softmax = nn.AdaptiveLogSoftmaxWithLoss(P, 20, cutoffs, div_value=1.5, head_bias=head_bias).double()
    targets = torch.tensor(targets, dtype=torch.long)
    hidden = torch.randn(len(targets), P, dtype=torch.float64, requires_grad=True)
    wanted = hidden, *softmax.parameters()
    # Each has a gradient, those of clusters without targets too: distributed training waits for them.
    found = with_gradients(summed_adaptive_cross_entropy(softmax, hidden, targets), *wanted)
    reference = with_gradients(adaptive_cross_entropy(softmax, hidden, targets).sum(), *wanted)
    assert_all_close(found, reference, REORDERED_FLOAT64)


@pytest.mark.parametrize("reason", [None, "no instructions"], ids=["native", "float32"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_in_mixed_precision_are_near_and_have_the_weights_dtype(dtype, reason, monkeypatch):
    monkeypatch.setattr(half, "native_unavailable_reason", lambda dtype: reason)
    softmax, hidden, targets = make_softmax(P, 300).float(), *make_vectors(P, 300, 50)
    sample = LogUniformSampler(300, 100).draw()
    narrow = hidden.detach().to(dtype).requires_grad_()
    wide = narrow.detach().float().requires_grad_()
    wanted = [
        summed_results(softmax, wide, targets),
        sampled_results(fused_sampled_cross_entropy, softmax, wide, targets, sample),
    ]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = [
            summed_results(softmax, narrow, targets),
            sampled_results(fused_sampled_cross_entropy, softmax, narrow, targets, sample),
        ]
    for mine, theirs in zip(chain(*found), chain(*wanted), strict=True):
        torch.testing.assert_close(mine.float(), theirs, rtol=BFLOAT16, atol=BFLOAT16)
    assert [part.dtype for part in found[0]] == [torch.float32, dtype, torch.float32, torch.float32]


def test_biases_and_expected_counts_are_not_rounded_by_mixed_precision():
    """They lie by several nats apart, of which bf16 keeps two digits."""
    softmax, (_, targets) = make_softmax(P, 300).float(), make_vectors(P, 300, 50)
    hidden = torch.zeros(50, P, requires_grad=True)
    sample = LogUniformSampler(300, 100).draw()
    wanted = sampled_results(sampled_cross_entropy, softmax, hidden, targets, sample)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = sampled_results(fused_sampled_cross_entropy, softmax, hidden, targets, sample)[0]
        summed = summed_cross_entropy(softmax.weight, softmax.bias, hidden, targets)
    torch.testing.assert_close(found, wanted, rtol=0, atol=10 * REORDERED_FLOAT32)
    torch.testing.assert_close(
        summed, full_cross_entropy(softmax, hidden, targets).sum(), rtol=10 * REORDERED_FLOAT32, atol=0
    )


def test_a_vocabulary_of_800000_words_is_trained_in_bounded_memory():
    vocab_size, num_targets = 800_000, 100
    weight, bias = torch.randn(vocab_size, 1, requires_grad=True), torch.zeros(vocab_size, requires_grad=True)
    hidden, targets = torch.randn(num_targets, 1, requires_grad=True), torch.randint(vocab_size, (num_targets,))
    with LargestTensor() as largest:
        summed_cross_entropy(weight, bias, hidden, targets).backward()
    # Logits and probabilities of a block together.
    assert largest.numel <= 2 * losses.FULL_BLOCK_LOGITS < vocab_size * num_targets / 4
    assert all(part.grad.isfinite().all() for part in (weight, bias, hidden))


@examples(30)
@given(
    vocab_size=st.integers(1, 40),
    num_targets=st.integers(0, 9),
    chunk_size=st.integers(1, 10),
    block_size=st.integers(1, 45),
)
def test_blocks_give_the_plain_cross_entropy(vocab_size, num_targets, chunk_size, block_size):
    softmax = make_softmax(P, vocab_size)
    hidden = 30 * torch.randn(num_targets, P, dtype=torch.float64)
    targets = torch.randint(vocab_size, (num_targets,))
    with torch.no_grad():
        found = full_cross_entropy_in_blocks(softmax, hidden, targets, chunk_size, block_size)
        wanted = full_cross_entropy(softmax, hidden, targets)
    assert_all_close([found], [wanted], REORDERED_FLOAT64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_summed_in_float32_at_least(dtype):
    softmax, (_, targets) = make_softmax(P, 30).to(dtype), make_vectors(P, 30, 7)
    # The logits are the biases, which no product rounds.
    hidden = torch.zeros(7, P, dtype=dtype)
    found = full_cross_entropy_in_blocks(softmax, hidden, targets, 4, 11)
    wanted = full_cross_entropy(softmax, hidden, targets)
    assert found.dtype == wanted.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=0, atol=10 * REORDERED_FLOAT32)


def test_a_vocabulary_of_800000_words_is_scored_in_bounded_memory():
    # Beside the loss of each target in each block.
    vocab_size, chunk_size, block_size = 800_000, 64, 8_192
    softmax, hidden = nn.Linear(1, vocab_size), torch.randn(100, 1)
    targets = torch.randint(vocab_size, (100,))
    with torch.no_grad(), LargestTensor() as largest:
        found = full_cross_entropy_in_blocks(softmax, hidden, targets, chunk_size, block_size)
    # Logits and probabilities of a block together.
    assert largest.numel == 2 * chunk_size * block_size
    assert found.isfinite().all()
