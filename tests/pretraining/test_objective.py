"""The loss over lanes is the sentence model's, losses in blocks are their definitions', and negatives TensorFlow's."""

import copy
import math
from unittest import mock

import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import BFLOAT16, LOSS_FLOAT32, REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.kernels import products
from hf_elmo.pretraining import objective as module
from hf_elmo.pretraining.lanes import fill_lanes
from hf_elmo.pretraining.objective import (
    LaneObjective,
    LogUniformSampler,
    NegativeSample,
    propose_cutoffs,
    sampled_cross_entropy,
    summed_cross_entropy,
)
from hf_elmo.pretraining.optim import clip_gradient_norm
from hf_elmo.text.vocabulary import WordVocabulary, log_uniform_probabilities

VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
TOKENIZER = ElmoCharTokenizer()
TWO = {"share_word_softmax": False}
ADAPTIVE = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [2, 4], "adaptive_softmax_div_value": 2}
SOFTMAXES = {"shared": {}, "two": TWO, "adaptive": ADAPTIVE, "two adaptive": ADAPTIVE | TWO}


def make_model(**fields):
    return ElmoForPreTraining(make_tiny_config(word_vocab_size=len(VOCABULARY), **fields)).double().eval()


def make_window(lanes=("abcabc", "cab"), unroll_steps=8):
    return next(fill_lanes(map(list, lanes), TOKENIZER, VOCABULARY, len(lanes), unroll_steps))


@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_one_sentence_in_a_lane_is_the_sentence_itself(softmax):
    words = list("abcax")
    (window,) = fill_lanes([words], TOKENIZER, VOCABULARY, 1, len(words) + 2)
    objective = LaneObjective(make_model(**SOFTMAXES[softmax]))
    model, (sums, _) = objective.model, objective(window)
    batch = TOKENIZER(words, is_split_into_words=True, return_tensors="pt")
    labels = torch.tensor([VOCABULARY.encode(["<S>", *words, "</S>"])])
    expected = model(**batch, labels=labels)
    assert window.num_targets == len(words) + 1
    wanted = torch.stack([expected.forward_loss, expected.backward_loss])
    torch.testing.assert_close(sums / window.num_targets, wanted.double(), rtol=LOSS_FLOAT32, atol=0)


@pytest.mark.parametrize("unroll_steps", [1, 3, 4, 7])
def test_windows_with_carried_state_are_one_long_window(unroll_steps):
    sentences = [list("abc"), list("x"), list("ccba"), list("ab")]
    (whole,) = fill_lanes(sentences, TOKENIZER, VOCABULARY, 1, sum(len(words) + 2 for words in sentences))
    objective = LaneObjective(make_model())
    expected, _ = objective(whole)
    total, state = 0.0, None
    for window in fill_lanes(sentences, TOKENIZER, VOCABULARY, 1, unroll_steps):
        sums, state = objective(window, state)
        total = total + sums
    torch.testing.assert_close(total, expected, atol=REORDERED_FLOAT64, rtol=0)


@pytest.mark.parametrize(
    ("softmax", "is_sampled"), [*((name, False) for name in SOFTMAXES), ("shared", True), ("two", True)]
)
def test_every_trained_parameter_gets_a_gradient(softmax, is_sampled):
    objective = LaneObjective(make_model(**SOFTMAXES[softmax])).train()
    negatives = LogUniformSampler(len(VOCABULARY), 3).draw_pair() if is_sampled else None
    # One word, so that an adaptive softmax has clusters without a target.
    objective(make_window(["a"], 3), negatives=negatives)[0].sum().backward()
    without = [name for name, parameter in objective.model.named_parameters() if parameter.grad is None]
    assert without and all(".mixes." in name for name in without)


# Sampled


def make_large_objective(**fields):
    """An objective over 400 words, and a window with targets from all of them."""
    config = make_tiny_config(word_vocab_size=400, dropout=0.0, **fields)
    objective = LaneObjective(ElmoForPreTraining(config).double())
    window = make_window(["abcab"] * 6, 6)
    has_target = window.targets >= 0
    window.targets[has_target] = torch.randint(400, (int(has_target.sum()),))
    return objective, window


@pytest.mark.parametrize("shared", [True, False])
def test_with_all_words_as_negatives_each_direction_has_the_loss_and_gradients_of_the_full_softmax(shared):
    objective, window = make_large_objective(share_word_softmax=shared)
    everything = NegativeSample(torch.arange(400), num_tries=10**9, vocab_size=400)
    gradients, sums = [], []
    for negatives in (None, (everything, everything)):
        objective.zero_grad()
        loss, _ = objective.train()(window, negatives=negatives)
        loss.mean().backward()
        sums.append(loss.detach())
        gradients.append([parameter.grad for parameter in objective.parameters() if parameter.grad is not None])
    torch.testing.assert_close(sums[1], sums[0], atol=REORDERED_FLOAT64, rtol=1e-9)
    torch.testing.assert_close(gradients[1], gradients[0], atol=REORDERED_FLOAT64, rtol=1e-9)
    # Of its own negatives.
    few = NegativeSample(torch.arange(3), num_tries=3, vocab_size=400)
    loss, _ = objective(window, negatives=(few, everything))
    assert loss[1].item() == pytest.approx(sums[0][1].item())
    assert loss[0] < sums[0][0] / 2


def test_sparse_gradients_take_the_same_steps_with_adagrad_and_the_norm():
    dense, window = make_large_objective()
    sparse = LaneObjective(copy.deepcopy(dense.model), sparse_gradients=True)
    sampler = LogUniformSampler(400, 30)
    negatives = [sampler.draw_pair() for _ in range(3)]
    for objective in (dense, sparse):
        parameters = [parameter for parameter in objective.parameters() if parameter.requires_grad]
        optimizer = torch.optim.Adagrad(parameters, lr=0.2, initial_accumulator_value=1.0)
        for drawn in negatives:
            sums, _ = objective.train()(window, negatives=drawn)
            (20 * sums.mean() / window.num_targets).backward()
            assert objective.model.word_softmax.weight.grad.is_sparse == objective.sparse_gradients
            assert clip_gradient_norm(parameters, 1.0) > 1
            optimizer.step()
            optimizer.zero_grad()
    for found, expected in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(found, expected, atol=REORDERED_FLOAT64, rtol=0)


def test_proposed_cutoffs_are_valid_for_any_vocabulary():
    for vocab_size in (3, 4, 6, 10, 1000, 793_471):
        cutoffs = propose_cutoffs(vocab_size)
        fields = {"adaptive_softmax_cutoffs": cutoffs, "adaptive_softmax_div_value": 2}
        make_tiny_config(word_vocab_size=vocab_size, softmax_type="adaptive", **fields)
        assert vocab_size < 1000 or cutoffs == [round(0.075 * vocab_size), round(0.2 * vocab_size)]


# Cross entropies

P = 6
numbers_of_targets, sizes = st.integers(0, 9), st.integers(2, 40)


def make_problem(vocab_size, num_targets=7, scale=1.0):
    """A softmax over words as frequent as they are sampled, vectors and their targets, in float64."""
    softmax = nn.Linear(P, vocab_size).double()
    with torch.no_grad():
        softmax.weight.normal_(std=P**-0.5)
        softmax.bias.copy_(log_uniform_probabilities(torch.arange(vocab_size), vocab_size, torch.float64).log())
    hidden = (scale * torch.randn(num_targets, P, dtype=torch.float64)).requires_grad_()
    return softmax, hidden, LogUniformSampler(vocab_size, 1, seed=2)._draw_tries(num_targets)


def sampled(softmax, hidden, targets, sample):
    rows = [(softmax.weight[ids], softmax.bias[ids]) for ids in (targets, sample.ids)]
    return sampled_cross_entropy(hidden, targets, rows[0], sample, rows[1])


def sampled_by_definition(softmax, hidden, targets, sample):
    """Among all words as tf.nn.sampled_softmax_loss takes them: the target and the negatives, each once."""
    counts = sample.log_expected_counts(torch.arange(len(softmax.bias)), softmax.bias.dtype)
    logits = softmax(hidden.to(softmax.bias.dtype)) - counts
    is_asked = torch.zeros(logits.shape, dtype=torch.bool)
    is_asked[:, sample.ids] = True
    is_asked.scatter_(1, targets[:, None], True)
    return F.cross_entropy(logits.masked_fill(~is_asked, -torch.inf), targets, reduction="none")


def evaluated(softmax, hidden, targets):
    with torch.no_grad():
        return summed_cross_entropy(softmax, hidden, targets)


def with_gradients(loss, *wanted):
    """A loss, or the losses of some targets, and gradients of their sum by weights that differ."""
    weights = torch.linspace(0.5, 2, loss.numel(), dtype=loss.dtype).reshape(loss.shape)
    return [loss.detach(), *torch.autograd.grad((loss * weights).sum(), wanted)]


def assert_all_close(found, wanted, atol=REORDERED_FLOAT64):
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=atol, atol=atol)


@examples(30)
@given(num_targets=numbers_of_targets, vocab_size=sizes, num_samples=st.integers(1, 39), block=st.integers(1, 100))
def test_the_sampled_loss_is_tensorflows(num_targets, vocab_size, num_samples, block):
    # So few words that many negatives are targets.
    softmax, hidden, targets = make_problem(vocab_size, num_targets)
    sample = LogUniformSampler(vocab_size, min(num_samples, vocab_size - 1), seed=1).draw()
    weights = hidden, softmax.weight, softmax.bias
    with mock.patch.object(module, "SAMPLED_BLOCK_LOGITS", block):
        found = with_gradients(sampled(softmax, hidden, targets, sample), *weights)
        with torch.no_grad():
            assert torch.equal(sampled(softmax, hidden, targets, sample), found[0])
    assert_all_close(found, with_gradients(sampled_by_definition(softmax, hidden, targets, sample), *weights))


def test_a_draw_that_hits_nothing_but_the_target_costs_nothing():
    softmax, hidden, _ = make_problem(20)
    sample, targets = NegativeSample(torch.tensor([3]), num_tries=1, vocab_size=20), torch.full((7,), 3)
    with torch.autograd.set_detect_anomaly(True):
        results = with_gradients(sampled(softmax, hidden, targets, sample), hidden, softmax.weight, softmax.bias)
    assert not any(part.any() for part in results)


@examples(30)
@given(
    num_targets=numbers_of_targets,
    vocab_size=st.integers(1, 40),
    sizes=st.tuples(st.integers(1, 100), st.integers(1, 10), st.integers(1, 45)),
    scale=st.sampled_from([1, 30]),
)
def test_the_full_loss_is_the_plain_cross_entropy(num_targets, vocab_size, sizes, scale):
    softmax, hidden, _ = make_problem(max(vocab_size, 2), num_targets, scale)
    targets = torch.randint(len(softmax.bias), (num_targets,))
    names = ("FULL_BLOCK_LOGITS", "SCORED_TARGETS", "SCORED_WORDS")
    with mock.patch.multiple(module, **dict(zip(names, sizes, strict=True))):
        found = with_gradients(2 * summed_cross_entropy(softmax, hidden, targets), *weights_of(softmax, hidden))
        scored = evaluated(softmax, hidden, targets)
    loss = F.cross_entropy(softmax(hidden), targets, reduction="sum")
    assert_all_close(found, with_gradients(2 * loss, *weights_of(softmax, hidden)), 100 * REORDERED_FLOAT64)
    assert_all_close([scored], [loss.detach()], 100 * REORDERED_FLOAT64)


def weights_of(softmax, hidden):
    return hidden, *softmax.parameters()


@pytest.mark.parametrize("cutoffs", [[5], [4, 9], [1, 2, 19]])
@pytest.mark.parametrize("head_bias", [False, True])
@pytest.mark.parametrize("num_targets", [0, 2, 20])
def test_the_adaptive_loss_is_the_modules_own(cutoffs, head_bias, num_targets):
    softmax = nn.AdaptiveLogSoftmaxWithLoss(P, 20, cutoffs, div_value=1.5, head_bias=head_bias).double()
    targets = torch.arange(20)[3 * torch.arange(2)] if num_targets == 2 else torch.randperm(num_targets)
    hidden = torch.randn(num_targets, P, dtype=torch.float64, requires_grad=True)
    # Each has a gradient, those of clusters without targets too: distributed training waits for them.
    found = with_gradients(summed_cross_entropy(softmax, hidden, targets), *weights_of(softmax, hidden))
    loss = -softmax.log_prob(hidden).gather(1, targets[:, None]).sum()
    assert_all_close(found, with_gradients(loss, *weights_of(softmax, hidden)))
    assert_all_close([evaluated(softmax, hidden, targets)], [loss.detach()])


@pytest.mark.parametrize("reason", [None, "no instructions"], ids=["native", "float32"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("loss", [summed_cross_entropy, sampled])
def test_gradients_in_mixed_precision_are_near_and_have_the_weights_dtype(loss, dtype, reason, monkeypatch):
    monkeypatch.setattr(products, "native_unavailable_reason", lambda dtype: reason)
    softmax, hidden, targets = make_problem(300, 50)
    softmax, narrow = softmax.float(), hidden.detach().to(dtype).requires_grad_()
    wide = narrow.detach().float().requires_grad_()
    sample = () if loss is summed_cross_entropy else (LogUniformSampler(300, 100).draw(),)
    wanted = with_gradients(loss(softmax, wide, targets, *sample), wide, softmax.weight, softmax.bias)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = with_gradients(loss(softmax, narrow, targets, *sample), narrow, softmax.weight, softmax.bias)
    assert [part.dtype for part in found] == [torch.float32, dtype, torch.float32, torch.float32]
    assert_all_close([part.float() for part in found], wanted, BFLOAT16)


def test_biases_and_expected_counts_are_not_rounded_by_mixed_precision():
    """They lie by several nats apart, of which bf16 keeps two digits; no product rounds the logits of zeros."""
    softmax, _, targets = make_problem(300, 50)
    softmax, hidden, sample = softmax.float(), torch.zeros(50, P), LogUniformSampler(300, 100).draw()
    wanted = [
        sampled_by_definition(softmax, hidden, targets, sample),
        *[F.cross_entropy(softmax(hidden), targets, reduction="sum")] * 2,
    ]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = [sampled(softmax, hidden, targets, sample)]
        found += [summed_cross_entropy(softmax, hidden, targets), evaluated(softmax, hidden, targets)]
    assert_all_close(found, wanted, 10 * REORDERED_FLOAT32)


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation gives."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if isinstance(output, torch.Tensor):
            self.numel = max(self.numel, output.numel())
        return output


def test_a_vocabulary_of_800000_words_is_trained_and_scored_in_bounded_memory():
    softmax, hidden = nn.Linear(1, 800_000), torch.randn(100, 1, requires_grad=True)
    targets = torch.randint(800_000, (100,))
    with LargestTensor() as largest:
        summed_cross_entropy(softmax, hidden, targets).backward()
    # Logits and probabilities of a block together.
    assert largest.numel <= 2 * module.FULL_BLOCK_LOGITS < 800_000 * 100 / 4
    assert all(part.grad.isfinite().all() for part in (softmax.weight, softmax.bias, hidden))
    with LargestTensor() as largest:
        assert evaluated(softmax, hidden, targets).isfinite()
    assert largest.numel <= 800_000


# Negatives


def tries_of(vocab_size: int, number: int, seed: int) -> list[int]:
    """What one try after the other gives, as range_sampler.cc writes it."""
    uniform = torch.rand(number, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).tolist()
    return [(int(math.exp(u * math.log1p(vocab_size))) - 1) % vocab_size for u in uniform]


@examples(25)
@given(vocab_size=st.integers(2, 60), data=st.data(), seed=st.integers(0, 100))
def test_a_draw_is_rejection_until_enough_words_are_distinct(vocab_size, data, seed):
    num_samples = data.draw(st.integers(1, vocab_size - 1))
    sample = LogUniformSampler(vocab_size, num_samples, seed).draw()
    # The first block of tries; where it is too short, the sampler goes on by as many again.
    size = 2 * num_samples
    while size < sample.num_tries:
        size *= 2
    drawn, num_tries = set(), 0
    for word in tries_of(vocab_size, size, seed):
        num_tries += 1
        drawn.add(word)
        if len(drawn) == num_samples:
            break
    assert (sample.ids.tolist(), sample.num_tries) == (sorted(drawn), num_tries)


def test_expected_counts_are_those_of_tensorflow():
    sample = NegativeSample(torch.tensor([0, 7]), num_tries=13, vocab_size=20)
    found = sample.log_expected_counts(torch.tensor([[0, 3], [19, 7]]), torch.float64)
    wanted = [
        [math.log(-math.expm1(13 * math.log1p(-math.log((k + 2) / (k + 1)) / math.log(21)))) for k in row]
        for row in ([0, 3], [19, 7])
    ]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=REORDERED_FLOAT64)


def test_draws_follow_from_the_seed_and_differ_from_one_another():
    first, same, other = (LogUniformSampler(1000, 30, seed) for seed in (5, 5, 6))
    drawn = first.draw().ids
    assert torch.equal(same.draw().ids, drawn)
    assert not torch.equal(other.draw().ids, drawn) and not torch.equal(first.draw().ids, drawn)


def test_there_must_be_fewer_negatives_than_words():
    for num_samples in (-1, 0, 6, 7):
        assert_refused(ValueError, f"num_negative_samples is {num_samples}", LogUniformSampler, 6, num_samples)
