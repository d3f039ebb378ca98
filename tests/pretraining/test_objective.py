"""The objective over lanes is the sentence model's loss, and windows with carried state are one long window."""

import copy

import pytest
import torch
from conftest import make_tiny_config
from tolerances import LOSS_FLOAT32, REORDERED_FLOAT64

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.pretraining.lanes import fill_lanes
from hf_elmo.pretraining.objective import LaneObjective, propose_cutoffs
from hf_elmo.pretraining.optim import clip_gradient_norm
from hf_elmo.pretraining.sampling import LogUniformSampler, NegativeSample
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


def make_objective(softmax):
    return LaneObjective(make_model(**SOFTMAXES[softmax]))


def draw(name):
    """Negatives for the sampled objective, as drawn for a window."""
    return LogUniformSampler(len(VOCABULARY), 3).draw_pair() if name == "sampled" else None


def make_window(lanes=("abcabc", "cab"), unroll_steps=8):
    return next(fill_lanes(map(list, lanes), TOKENIZER, VOCABULARY, len(lanes), unroll_steps))


@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_one_sentence_in_a_lane_is_the_sentence_itself(softmax):
    words = list("abcax")
    (window,) = fill_lanes([words], TOKENIZER, VOCABULARY, 1, len(words) + 2)
    objective = make_objective(softmax).eval()
    model, loss = objective.model, objective(window)
    batch = TOKENIZER(words, is_split_into_words=True, return_tensors="pt")
    labels = torch.tensor([VOCABULARY.encode(["<S>", *words, "</S>"])])
    expected = model(**batch, labels=labels)
    assert loss.num_targets == len(words) + 1
    wanted = torch.stack([expected.forward_loss, expected.backward_loss])
    torch.testing.assert_close(loss.sums / loss.num_targets, wanted.double(), rtol=LOSS_FLOAT32, atol=0)


@pytest.mark.parametrize("unroll_steps", [1, 3, 4, 7])
def test_windows_with_carried_state_are_one_long_window(unroll_steps):
    sentences = [list("abc"), list("x"), list("ccba"), list("ab")]
    (whole,) = fill_lanes(sentences, TOKENIZER, VOCABULARY, 1, sum(len(words) + 2 for words in sentences))
    objective = LaneObjective(make_model())
    expected = objective(whole)
    sums, state = 0.0, None
    for window in fill_lanes(sentences, TOKENIZER, VOCABULARY, 1, unroll_steps):
        loss = objective(window, state)
        sums, state = sums + loss.sums, loss.state
    torch.testing.assert_close(sums, expected.sums, atol=REORDERED_FLOAT64, rtol=0)


@pytest.mark.parametrize(("name", "softmax"), OBJECTIVES_AND_SOFTMAXES)
def test_every_trained_parameter_gets_a_gradient(name, softmax):
    objective = make_objective(softmax).train()
    # One word, so that an adaptive softmax has clusters without a target.
    objective(make_window(["a"], 3), negatives=draw(name)).sums.sum().backward()
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
        loss = objective.train()(window, negatives=negatives)
        loss.sums.mean().backward()
        sums.append(loss.sums.detach())
        gradients.append([parameter.grad for parameter in objective.parameters() if parameter.grad is not None])
    torch.testing.assert_close(sums[1], sums[0], atol=REORDERED_FLOAT64, rtol=1e-9)
    torch.testing.assert_close(gradients[1], gradients[0], atol=REORDERED_FLOAT64, rtol=1e-9)
    # Of its own negatives.
    few = NegativeSample(torch.arange(3), num_tries=3, vocab_size=400)
    loss = objective(window, negatives=(few, everything))
    assert loss.sums[1].item() == pytest.approx(sums[0][1].item())
    assert loss.sums[0] < sums[0][0] / 2


def test_sparse_gradients_take_the_same_steps_with_adagrad_and_the_norm():
    dense, window = make_large_objective()
    sparse = LaneObjective(copy.deepcopy(dense.model), sparse_gradients=True)
    sampler = LogUniformSampler(400, 30)
    negatives = [sampler.draw_pair() for _ in range(3)]
    for objective in (dense, sparse):
        parameters = [parameter for parameter in objective.parameters() if parameter.requires_grad]
        optimizer = torch.optim.Adagrad(parameters, lr=0.2, initial_accumulator_value=1.0)
        for drawn in negatives:
            loss = objective.train()(window, negatives=drawn)
            (20 * loss.sums.mean() / loss.num_targets).backward()
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


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "softmax"), OBJECTIVES_AND_SOFTMAXES)
def test_a_window_without_targets_has_loss_zero(name, softmax, training):
    window = make_window(["a"], 3)
    window.targets.fill_(-100)
    objective = make_objective(softmax).train(training)
    with torch.set_grad_enabled(training):
        assert objective(window, negatives=draw(name)).sums.tolist() == [0.0, 0.0]
