"""Each way to a word's cross entropy: against the plain one, its gradient in expectation, and its memory."""

import math
from dataclasses import replace

import pytest
import torch
from softmax_cases import make_softmax, make_vectors
from tolerances import (
    MEAN_SQUARE_OF_STANDARD_ERRORS,
    REORDERED_FLOAT64,
    STANDARD_ERRORS,
)
from torch import nn

from hf_elmo.pretraining.sampling import LogUniformSampler, NegativeSample
from hf_elmo.pretraining.softmax_losses import (
    adaptive_cross_entropy,
    full_cross_entropy,
    sampled_cross_entropy,
)

N, P = 7, 6


def make_problem(vocab_size, num_targets=N, scale=1.0):
    """A softmax in float64, vectors and targets."""
    return make_softmax(P, vocab_size), *make_vectors(P, vocab_size, num_targets, scale)


def sampled(softmax, hidden, targets, sample, correct_targets=True):
    rows = [(softmax.weight[ids], softmax.bias[ids]) for ids in (targets, sample.ids)]
    return sampled_cross_entropy(hidden, targets, rows[0], sample, rows[1], correct_targets)


def gradient(loss, softmax, hidden) -> torch.Tensor:
    """The gradient with respect to the vectors, the weights and the biases, in one row."""
    wanted = (hidden, softmax.weight, softmax.bias)
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, wanted, retain_graph=True)])


def assert_same(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=0, atol=REORDERED_FLOAT64)


# Sampled


def reference_sampled_loss(softmax, vector, target, sample, correct_targets) -> float:
    """One target's loss, word by word, as tf.nn.sampled_softmax_loss has it."""

    def logit(word, correct):
        count = sample.log_expected_counts(torch.tensor(word), torch.float64).item()
        return (softmax.weight[word] @ vector + softmax.bias[word]).item() - (count if correct else 0.0)

    true = logit(target, correct_targets)
    others = [logit(word, True) for word in sample.ids.tolist() if word != target]
    return math.log(sum(map(math.exp, [true, *others]))) - true


@pytest.mark.parametrize("correct_targets", [True, False])
@pytest.mark.parametrize("num_samples", [1, 5, 19])
def test_the_sampled_loss_is_tensorflows(num_samples, correct_targets):
    softmax, hidden, _ = make_problem(20, num_targets=20)
    targets = torch.arange(20)
    sample = LogUniformSampler(20, num_samples, seed=4).draw()
    found = sampled(softmax, hidden, targets, sample, correct_targets)
    wanted = [
        reference_sampled_loss(softmax, hidden[row], target, sample, correct_targets)
        for row, target in enumerate(targets.tolist())
    ]
    assert_same(found, torch.tensor(wanted, dtype=torch.float64))


@pytest.mark.parametrize("correct_targets", [True, False])
def test_all_words_as_negatives_are_the_full_softmax(correct_targets):
    """Every word is among the negatives for sure, the targets too: their accidental hits must not count twice."""
    softmax, hidden, targets = make_problem(20)
    sample = NegativeSample(torch.arange(20), num_tries=10**6, vocab_size=20)
    found, wanted = (
        sampled(softmax, hidden, targets, sample, correct_targets),
        full_cross_entropy(softmax, hidden, targets),
    )
    assert_same(found, wanted)
    assert_same(gradient(found.sum(), softmax, hidden), gradient(wanted.sum(), softmax, hidden))


def test_a_draw_that_hits_nothing_but_the_target_costs_nothing():
    softmax, hidden, _ = make_problem(20)
    sample = NegativeSample(torch.tensor([3]), num_tries=1, vocab_size=20)
    with torch.autograd.set_detect_anomaly(True):
        loss = sampled(softmax, hidden, torch.full((N,), 3), sample, correct_targets=False)
        assert not loss.any()
        assert not gradient(loss.sum(), softmax, hidden).any()


def sampled_gradients(loss_of, softmax, hidden, sampler, number=400):
    """Mean gradient of `loss_of(sample)` over draws, and the standard error of that mean."""
    rows = torch.stack([gradient(loss_of(sampler.draw()), softmax, hidden) for _ in range(number)])
    return rows.mean(0), rows.std(0) / math.sqrt(number)


def test_the_sampled_gradient_is_the_full_softmaxs_in_expectation():
    softmax, hidden, targets = make_problem(300)
    expected = gradient(full_cross_entropy(softmax, hidden, targets).sum(), softmax, hidden)

    def differences(loss_of):
        mean, error = sampled_gradients(loss_of, softmax, hidden, LogUniformSampler(300, 100))
        return (mean - expected) / error

    found = differences(lambda sample: sampled(softmax, hidden, targets, sample, correct_targets=False).sum())
    assert found.square().mean() < MEAN_SQUARE_OF_STANDARD_ERRORS
    assert found.abs().max() < STANDARD_ERRORS
    # And not so without the expected counts.
    found = differences(
        lambda sample: sampled(softmax, hidden, targets, replace(sample, num_tries=10**9), correct_targets=False).sum()
    )
    assert found.square().mean() > 100 * MEAN_SQUARE_OF_STANDARD_ERRORS


def test_tensorflows_gradient_is_zero_in_expectation_where_the_full_softmaxs_is():
    """Where targets come from the model's own distribution there is nothing to learn, by either softmax."""
    softmax, hidden, _ = make_problem(200, num_targets=1)
    shares = softmax(hidden).softmax(-1).flatten().detach()

    def loss_of(sample):
        return shares @ sampled(softmax, hidden.expand(200, P), torch.arange(200), sample, correct_targets=True)

    mean, error = sampled_gradients(loss_of, softmax, hidden, LogUniformSampler(200, 40))
    assert (mean / error).square().mean() < MEAN_SQUARE_OF_STANDARD_ERRORS
    assert (mean / error).abs().max() < STANDARD_ERRORS


@pytest.mark.parametrize("correct_targets", [True, False])
def test_the_bias_of_the_sampled_gradient_falls_with_the_number_of_negatives(correct_targets):
    softmax, hidden, targets = make_problem(300, scale=2.0)
    expected = gradient(full_cross_entropy(softmax, hidden, targets).sum(), softmax, hidden)
    distances = []
    for num_samples in (20, 100, 280):
        mean, _ = sampled_gradients(
            lambda sample: sampled(softmax, hidden, targets, sample, correct_targets).sum(),
            softmax,
            hidden,
            LogUniformSampler(300, num_samples),
        )
        distances.append((mean - expected).norm().item())
    assert distances[0] > 2 * distances[1] > 4 * distances[2]


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


@pytest.mark.parametrize("targets", [[], [0, 3]])
def test_clusters_without_targets_have_gradients_of_zero_rather_than_none(targets):
    """Distributed training waits for a gradient of every parameter."""
    softmax = nn.AdaptiveLogSoftmaxWithLoss(P, 20, [5, 9], div_value=1.5)
    targets = torch.tensor(targets, dtype=torch.long)
    adaptive_cross_entropy(softmax, torch.randn(len(targets), P), targets).sum().backward()
    assert not any(parameter.grad is None for parameter in softmax.parameters())
    assert not any(parameter.grad.any() for parameter in softmax.tail.parameters())


def test_the_adaptive_loss_runs_in_mixed_precision():
    softmax = nn.AdaptiveLogSoftmaxWithLoss(P, 20, [5, 9], div_value=1.5)
    hidden, targets = torch.randn(20, P), torch.randperm(20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = adaptive_cross_entropy(softmax, hidden.bfloat16(), targets)
    assert loss.dtype == torch.float32 and loss.isfinite().all()
