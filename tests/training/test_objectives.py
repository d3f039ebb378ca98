"""The objective over lanes is the sentence model's loss, and windows with carried state are one long window."""

import pytest
import torch
from conftest import make_tiny_config
from tolerances import REORDERED_FLOAT64

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.data.lanes import fill_lanes
from hf_elmo.data.vocabulary import WordVocabulary
from hf_elmo.training.objectives import FullSoftmaxObjective

VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
TOKENIZER = ElmoCharTokenizer()


@pytest.fixture
def model():
    return ElmoForPreTraining(make_tiny_config(word_vocab_size=len(VOCABULARY))).double().eval()


def test_one_sentence_in_a_lane_is_the_sentence_itself(model):
    words = list("abcax")
    (window,) = fill_lanes([words], TOKENIZER, VOCABULARY, 1, len(words) + 2)
    loss = FullSoftmaxObjective(model)(window)
    batch = TOKENIZER(words, is_split_into_words=True, return_tensors="pt")
    labels = torch.tensor([VOCABULARY.encode(["<S>", *words, "</S>"])])
    expected = model(**batch, labels=labels)
    assert loss.num_targets == len(words) + 1
    torch.testing.assert_close(loss.forward_sum / loss.num_targets, expected.forward_loss, atol=1e-6, rtol=0)
    torch.testing.assert_close(loss.backward_sum / loss.num_targets, expected.backward_loss, atol=1e-6, rtol=0)
    torch.testing.assert_close(loss.mean, expected.loss, atol=1e-6, rtol=0)


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
    torch.testing.assert_close(forward_sum, expected.forward_sum, atol=1e-5, rtol=0)
    torch.testing.assert_close(backward_sum, expected.backward_sum, atol=1e-5, rtol=0)


def test_lanes_do_not_see_one_another(model):
    objective = FullSoftmaxObjective(model)
    alone = [next(fill_lanes([list(words)], TOKENIZER, VOCABULARY, 1, 6)) for words in ("abca", "cxb")]
    together = next(fill_lanes([list("abca"), list("cxb")], TOKENIZER, VOCABULARY, 2, 6))
    expected = [objective(window) for window in alone]
    found = objective(together)
    torch.testing.assert_close(found.forward_sum, sum(loss.forward_sum for loss in expected), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.state.hidden[0], expected[0].state.hidden[0], atol=REORDERED_FLOAT64, rtol=0)


def test_chunked_evaluation_is_the_unchunked_one(model):
    window = next(fill_lanes([list("abcabc"), list("cab")], TOKENIZER, VOCABULARY, 2, 8))
    expected = FullSoftmaxObjective(model)(window)
    with torch.no_grad():
        found = FullSoftmaxObjective(model, chunk_size=3)(window)
    torch.testing.assert_close(found.forward_sum, expected.forward_sum.detach(), atol=1e-5, rtol=0)


def test_every_trained_parameter_gets_a_gradient(model):
    window = next(fill_lanes([list("abcabc"), list("cab")], TOKENIZER, VOCABULARY, 2, 8))
    FullSoftmaxObjective(model)(window).mean.backward()
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert without and all(".mixes." in name for name in without)


def test_a_window_without_targets_has_loss_zero(model):
    window = next(fill_lanes([list("a")], TOKENIZER, VOCABULARY, 1, 3))
    window.forward_targets.fill_(-100)
    window.backward_targets.fill_(-100)
    assert FullSoftmaxObjective(model)(window).mean.item() == 0.0
