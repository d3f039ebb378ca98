"""The objective over lanes is the sentence model's loss, and windows with carried state are one long window."""

import copy
import math
from unittest import mock

import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused
from softmax_cases import ShapesOfProducts
from tolerances import BFLOAT16, LOSS_FLOAT32, REORDERED_FLOAT64, STANDARD_ERRORS

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.kernels import half_products, row_counts
from hf_elmo.pretraining.lanes import fill_lanes
from hf_elmo.pretraining.objectives import (
    AdaptiveSoftmaxObjective,
    FullSoftmaxObjective,
    SampledSoftmaxObjective,
    build_objective,
    propose_cutoffs,
)
from hf_elmo.pretraining.sampling import LogUniformSampler
from hf_elmo.pretraining.softmax_losses import sampled_cross_entropy
from hf_elmo.pretraining.sparse_gradients import clip_gradient_norm
from hf_elmo.text.vocabulary import WordVocabulary

VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
TOKENIZER = ElmoCharTokenizer()


SOFTMAXES = {
    "shared": {},
    "two": {"share_word_softmax": False},
    "adaptive": {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [2, 4], "adaptive_softmax_div_value": 2},
    "two adaptive": {
        "softmax_type": "adaptive",
        "adaptive_softmax_cutoffs": [3],
        "adaptive_softmax_div_value": 2,
        "share_word_softmax": False,
    },
}
OBJECTIVES_AND_SOFTMAXES = [
    ("full", "shared"),
    ("full", "two"),
    ("sampled", "shared"),
    ("sampled", "two"),
    ("adaptive", "adaptive"),
    ("adaptive", "two adaptive"),
]


def make_model(**fields):
    return ElmoForPreTraining(make_tiny_config(word_vocab_size=len(VOCABULARY), **fields)).double().eval()


def make_objective(name, softmax):
    return build_objective(name, make_model(**SOFTMAXES[softmax]), num_negative_samples=3)


def make_window(lanes=("abcabc", "cab"), unroll_steps=8):
    return next(fill_lanes(map(list, lanes), TOKENIZER, VOCABULARY, len(lanes), unroll_steps))


@pytest.fixture
def model():
    return make_model()


@pytest.mark.parametrize(("name", "softmax"), OBJECTIVES_AND_SOFTMAXES)
def test_one_sentence_in_a_lane_is_the_sentence_itself(name, softmax):
    words = list("abcax")
    (window,) = fill_lanes([words], TOKENIZER, VOCABULARY, 1, len(words) + 2)
    objective = make_objective(name, softmax).eval()
    model, loss = objective.model, objective(window)
    batch = TOKENIZER(words, is_split_into_words=True, return_tensors="pt")
    labels = torch.tensor([VOCABULARY.encode(["<S>", *words, "</S>"])])
    expected = model(**batch, labels=labels)
    assert loss.num_targets == len(words) + 1
    for found, wanted in (
        (loss.forward_sum / loss.num_targets, expected.forward_loss),
        (loss.backward_sum / loss.num_targets, expected.backward_loss),
        (loss.mean, expected.loss),
    ):
        assert found.item() == pytest.approx(wanted.item(), rel=LOSS_FLOAT32)


@pytest.mark.parametrize("unroll_steps", [1, 3, 4, 7])
def test_windows_with_carried_state_are_one_long_window(model, unroll_steps):
    sentences = [list("abc"), list("x"), list("ccba"), list("ab")]
    (whole,) = fill_lanes(sentences, TOKENIZER, VOCABULARY, 1, sum(len(words) + 2 for words in sentences))
    objective = FullSoftmaxObjective(model)
    expected = objective(whole)
    forward_sum = backward_sum = 0.0
    state = None
    for window in fill_lanes(sentences, TOKENIZER, VOCABULARY, 1, unroll_steps):
        loss = objective(window, state)
        state = loss.state
        forward_sum, backward_sum = forward_sum + loss.forward_sum, backward_sum + loss.backward_sum
    torch.testing.assert_close(forward_sum, expected.forward_sum, atol=REORDERED_FLOAT64, rtol=0)
    torch.testing.assert_close(backward_sum, expected.backward_sum, atol=REORDERED_FLOAT64, rtol=0)


def test_lanes_do_not_see_one_another(model):
    objective = FullSoftmaxObjective(model)
    alone = [next(fill_lanes([list(words)], TOKENIZER, VOCABULARY, 1, 6)) for words in ("abca", "cxb")]
    together = next(fill_lanes([list("abca"), list("cxb")], TOKENIZER, VOCABULARY, 2, 6))
    expected = [objective(window) for window in alone]
    found = objective(together)
    torch.testing.assert_close(
        found.forward_sum, sum(loss.forward_sum for loss in expected), atol=REORDERED_FLOAT64, rtol=0
    )
    torch.testing.assert_close(found.state.hidden[0], expected[0].state.hidden[0], atol=REORDERED_FLOAT64, rtol=0)


@pytest.mark.parametrize("fields", SOFTMAXES.values(), ids=SOFTMAXES)
def test_chunked_evaluation_is_the_unchunked_one(fields):
    model, window = make_model(**fields), make_window()
    if model.config.softmax_type == "full":
        objective = FullSoftmaxObjective(model, chunk_size=3, block_size=4)
    else:
        objective = AdaptiveSoftmaxObjective(model, max_logits=12)
    expected = objective(window)
    with torch.no_grad():
        found = objective(window)
    for name in ("forward_sum", "backward_sum"):
        wanted = getattr(expected, name).detach()
        torch.testing.assert_close(getattr(found, name), wanted, atol=REORDERED_FLOAT64, rtol=0)


@pytest.mark.parametrize(("name", "softmax"), OBJECTIVES_AND_SOFTMAXES)
def test_every_trained_parameter_gets_a_gradient(name, softmax):
    objective = make_objective(name, softmax).train()
    # One word, so that an adaptive softmax has clusters without a target.
    objective(make_window(["a"], 3)).mean.backward()
    without = [name for name, parameter in objective.model.named_parameters() if parameter.grad is None]
    assert without and all(".mixes." in name for name in without)


def test_each_direction_is_scored_by_its_own_softmax():
    model, window = make_model(share_word_softmax=False), make_window()
    objective = FullSoftmaxObjective(model)
    before = objective(window)
    with torch.no_grad():
        model.word_softmax_backward.weight.mul_(2)
    after = objective(window)
    assert after.forward_sum == before.forward_sum and after.backward_sum != before.backward_sum


# Sampled


def make_large_objective(vocab_size=400, num_negative_samples=150, **options):
    """An objective over many words, and a window with targets from all of them."""
    config = make_tiny_config(**{"word_vocab_size": vocab_size, "dropout": 0.0, **options.pop("fields", {})})
    objective = SampledSoftmaxObjective(
        ElmoForPreTraining(config).double(), num_negative_samples=num_negative_samples, **options
    )
    window = make_window(["abcab"] * 6, 6)
    for targets in (window.forward_targets, window.backward_targets):
        targets[targets >= 0] = torch.randint(vocab_size, (int((targets >= 0).sum()),))
    return objective, window


@pytest.mark.parametrize("correct_targets", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_each_direction_is_scored_among_its_own_draw(shared, correct_targets):
    objective, window = make_large_objective(
        correct_targets=correct_targets, fields={"share_word_softmax": shared, "dropout": 0.0}
    )
    found = objective.train()(window)
    sampler = LogUniformSampler(400, 150)
    directions, _ = objective.run_bilm(window)
    for (softmax, hidden, targets), total in zip(directions, (found.forward_sum, found.backward_sum), strict=True):
        sample = sampler.draw()
        rows = [(softmax.weight[ids], softmax.bias[ids]) for ids in (targets, sample.ids)]
        expected = sampled_cross_entropy(hidden, targets, rows[0], sample, rows[1], correct_targets).sum()
        torch.testing.assert_close(total, expected, atol=REORDERED_FLOAT64, rtol=0)


def test_sampled_training_takes_a_new_draw_for_each_direction_and_window(monkeypatch):
    objective, window = make_large_objective()
    draws = []
    draw = objective.sampler.draw
    monkeypatch.setattr(objective.sampler, "draw", lambda: draws.append(draw()) or draws[-1])
    losses = [objective.train()(window).mean.item() for _ in range(2)]
    assert len(draws) == 4 and losses[0] != losses[1]
    assert len({tuple(sample.ids.tolist()) for sample in draws}) == 4


def test_sampled_evaluation_is_the_full_softmax():
    objective, window = make_large_objective()
    found, expected = objective.eval()(window), FullSoftmaxObjective(objective.model)(window)
    assert (found.forward_sum, found.backward_sum) == (expected.forward_sum, expected.backward_sum)


@pytest.mark.parametrize("shared", [True, False])
def test_the_sampled_loss_is_the_full_one_in_expectation_without_the_targets_correction(shared):
    objective, window = make_large_objective(correct_targets=False, fields={"share_word_softmax": shared})
    expected = objective.eval()(window)
    objective.train()
    with torch.no_grad():
        losses = [objective(window) for _ in range(200)]
    for name in ("forward_sum", "backward_sum"):
        sums = torch.stack([getattr(loss, name) for loss in losses])
        error = sums.std() / math.sqrt(len(sums))
        assert abs(sums.mean() - getattr(expected, name)) < STANDARD_ERRORS * error


def test_the_gap_is_between_the_sampled_and_the_full_loss_and_disturbs_nothing():
    objective, window = make_large_objective(fields={"dropout": 0.5})
    objective.train()
    sampler_state, random_state = objective.sampler.state_dict(), torch.get_rng_state()
    gap = objective.measure_gap(window)
    assert objective.training and objective.model.training
    assert torch.equal(objective.sampler.state_dict()["generator"], sampler_state["generator"])
    assert torch.equal(torch.get_rng_state(), random_state)
    assert gap.full == pytest.approx(objective.eval()(window).mean.item(), rel=REORDERED_FLOAT64)
    # The expected counts of TensorFlow's targets are below one, and so is what the loss is short of.
    assert gap.sampled < gap.full


@pytest.mark.parametrize("shared", [True, False])
def test_sparse_gradients_train_as_dense_ones_do(shared):
    dense, window = make_large_objective(fields={"share_word_softmax": shared})
    sparse = copy.deepcopy(dense)
    sparse.sparse_gradients = True
    for objective in (dense, sparse):
        parameters = [parameter for parameter in objective.parameters() if parameter.requires_grad]
        optimizer = torch.optim.Adagrad(parameters, lr=0.2, initial_accumulator_value=1.0)
        for _ in range(3):
            loss = objective.train()(window)
            (20 * loss.mean).backward()
            assert objective.model.word_softmax.weight.grad.is_sparse == objective.sparse_gradients
            norm = clip_gradient_norm(parameters, 1.0)
            assert norm > 1
            optimizer.step()
            optimizer.zero_grad()
    for found, expected in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(found, expected, atol=REORDERED_FLOAT64, rtol=0)


@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_clipping_dense_gradients_is_torchs_clipping(max_norm):
    parameters = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5)), torch.nn.Parameter()]
    others = copy.deepcopy(parameters)
    for parameter, other in zip(parameters[:2], others[:2], strict=True):
        parameter.grad = torch.randn_like(parameter)
        other.grad = parameter.grad.clone()
    found = clip_gradient_norm(iter(parameters), max_norm)
    assert torch.equal(found, torch.nn.utils.clip_grad_norm_(others, max_norm))
    assert all(torch.equal(one.grad, other.grad) for one, other in zip(parameters[:2], others[:2], strict=True))


def test_a_sampled_run_goes_on_as_if_it_had_not_stopped():
    objective, window = make_large_objective()
    objective.train()(window)
    state = objective.sampler.state_dict()
    expected = objective(window).mean
    again, _ = make_large_objective(seed=9)
    again.load_state_dict(objective.state_dict())
    again.sampler.load_state_dict(state)
    assert torch.equal(again.train()(window).mean, expected)


# Which objective


def test_objectives_are_built_by_name():
    for name, softmax in OBJECTIVES_AND_SOFTMAXES:
        assert type(make_objective(name, softmax)).__name__ == f"{name.capitalize()}SoftmaxObjective"


def test_options_reach_the_sampled_objective(model):
    objective = build_objective("sampled", model, 2, seed=4, correct_targets=False, sparse_gradients=True)
    assert (objective.sampler.num_samples, objective.correct_targets, objective.sparse_gradients) == (2, False, True)


def test_bad_objectives_are_refused_by_name():
    for name, fields, negatives, named in (
        ("hierarchical", {}, 3, "objective is 'hierarchical'"),
        ("sampled", {}, 6, ("num_negative_samples is 6", "6 words")),
        ("sampled", {}, 0, "num_negative_samples is 0"),
        ("adaptive", {}, 3, "softmax_type is 'full'"),
        ("sampled", SOFTMAXES["adaptive"], 3, "softmax_type is 'adaptive'"),
    ):
        assert_refused(ValueError, named, build_objective, name, make_model(**fields), negatives)


def test_proposed_cutoffs_are_valid_for_any_vocabulary():
    for vocab_size in (3, 4, 6, 10, 1000, 793_471):
        cutoffs = propose_cutoffs(vocab_size)
        make_tiny_config(
            word_vocab_size=vocab_size,
            softmax_type="adaptive",
            adaptive_softmax_cutoffs=cutoffs,
            adaptive_softmax_div_value=2,
        )
        assert vocab_size < 1000 or cutoffs == [round(0.075 * vocab_size), round(0.2 * vocab_size)]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "softmax"), OBJECTIVES_AND_SOFTMAXES)
def test_a_window_without_targets_has_loss_zero(name, softmax, training):
    window = make_window(["a"], 3)
    window.forward_targets.fill_(-100)
    window.backward_targets.fill_(-100)
    objective = make_objective(name, softmax).train(training)
    with torch.set_grad_enabled(training):
        assert objective(window).mean.item() == 0.0


def train_in_bf16(name, softmax, windows):
    """The loss of each window under autocast without dropout, and the gradients of all weights by all windows."""
    torch.manual_seed(0)
    objective = make_objective(name, softmax).float().train()
    with torch.autocast("cpu", dtype=torch.bfloat16), half_products("native"):
        losses = [objective(window) for window in windows]
    sum(loss.mean for loss in losses).backward()
    return [loss.mean.detach() for loss in losses], [
        weight.grad for weight in objective.parameters() if weight.grad is not None
    ]


def windows_of_many_words(number):
    """Windows of 512 entries, a third of which are words of their own; each has another number of words and targets."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(10**6, (512 * number,), generator=generator).tolist()
    words = [("a", "b", str(place))[place % 3] for place in ids]
    sentences = [words[start : start + 7] for start in range(0, len(words), 7)]
    return list(fill_lanes(sentences, TOKENIZER, VOCABULARY, 8, 64))[:number]


@pytest.mark.parametrize(("name", "softmax"), OBJECTIVES_AND_SOFTMAXES)
def test_rows_behind_the_words_and_targets_of_halves_change_nothing(name, softmax):
    windows = windows_of_many_words(2)
    losses, gradients = train_in_bf16(name, softmax, windows)
    with mock.patch.object(row_counts, "round_rows", lambda number: number):
        wanted_losses, wanted_gradients = train_in_bf16(name, softmax, windows)
    torch.testing.assert_close(losses, wanted_losses, rtol=LOSS_FLOAT32, atol=0)
    for mine, theirs in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=BFLOAT16, atol=BFLOAT16 * float(theirs.abs().max()))


@pytest.mark.parametrize(("name", "softmax"), OBJECTIVES_AND_SOFTMAXES[::2])
def test_windows_of_many_sizes_multiply_halves_of_few_shapes(name, softmax):
    windows = windows_of_many_words(10)
    with ShapesOfProducts(torch.bfloat16) as few:
        train_in_bf16(name, softmax, windows)
    with ShapesOfProducts(torch.bfloat16) as many, mock.patch.object(row_counts, "round_rows", lambda number: number):
        train_in_bf16(name, softmax, windows)
    # In windows as small as these; the more windows and words, the fewer.
    assert 0 < len(few.shapes) < len(many.shapes) * 2 / 3
