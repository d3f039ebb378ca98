"""The cache of word vectors: the encoder's own numbers, bounded, right after every change, and off when training."""

import pytest
import torch
from conftest import make_tiny_config
from tolerances import BFLOAT16, REORDERED_FLOAT32

from hf_elmo import ElmoForTokenClassification, ElmoModel, kernels
from hf_elmo.kernels import token_encoder
from hf_elmo.model.tokenization_elmo import ElmoCharTokenizer


def rows_of(*words: str) -> torch.Tensor:
    return torch.from_numpy(ElmoCharTokenizer().encode_words(words))


@pytest.fixture
def encoder():
    return ElmoModel(make_tiny_config()).eval().token_encoder


@pytest.fixture
def calls(monkeypatch):
    """How many words each call of the encoder computed."""
    counts, encode = [], token_encoder._encode

    def count(encoder, char_ids, is_compiled):
        counts.append(len(char_ids))
        return encode(encoder, char_ids, is_compiled)

    monkeypatch.setattr(token_encoder, "_encode", count)
    return counts


@torch.no_grad()
def assert_right(encoder, *words):
    rows = rows_of(*words)
    torch.testing.assert_close(
        encoder.encode_distinct(rows), encoder.encode(rows), rtol=REORDERED_FLOAT32, atol=REORDERED_FLOAT32
    )


def test_a_word_is_computed_once(encoder, calls):
    kernels.cache_words(encoder, 100)
    for words in ("ab<a", "ba", "cbc"):
        assert_right(encoder, *words)
    assert calls == [3, 1]
    kernels.cache_words(encoder, None)
    assert_right(encoder, *"cbc")
    assert calls == [3, 1, 2]
    with pytest.raises(ValueError, match="max_words is 0"):
        kernels.cache_words(encoder, 0)


def test_it_never_holds_more_than_it_may(encoder, calls):
    kernels.cache_words(encoder, 250)
    vocabulary = [str(number) for number in range(400)]
    for start in (0, 90, 150, 240, 150):
        assert_right(encoder, *vocabulary[start : start + 100])
        assert len(token_encoder._CACHES[encoder].vectors) <= 250
    assert calls == [100, 90, 60, 100, 90]
    # More words than it may hold at once are computed without it.
    assert_right(encoder, *vocabulary, *vocabulary)
    assert calls[5:] == [400]


@pytest.mark.parametrize(
    "change",
    [
        lambda encoder: encoder.projection.bias.add_(1),
        lambda encoder: setattr(encoder.projection.bias, "data", encoder.projection.bias + 1),
        lambda encoder: encoder.double().float(),
        lambda encoder: encoder.load_state_dict({k: v + 0.5 for k, v in encoder.state_dict().items()}),
    ],
)
def test_changed_weights_give_new_vectors(encoder, change):
    kernels.cache_words(encoder, 100)
    assert_right(encoder, "a", "bc", "def")
    with torch.no_grad():
        change(encoder)
    assert_right(encoder, "a", "bc", "def")


@torch.no_grad()
def test_precision_is_not_mixed(encoder):
    kernels.cache_words(encoder, 100)
    rows = rows_of("a", "bc", "def")
    exact = encoder.encode_distinct(rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = encoder.encode_distinct(rows)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, rtol=BFLOAT16, atol=BFLOAT16)
    assert torch.equal(encoder.encode_distinct(rows), exact)
    assert encoder.double().encode_distinct(rows).dtype == torch.float64


def test_training_goes_around_it(encoder, calls):
    kernels.cache_words(encoder, 100)
    encoder.requires_grad_(True)
    for _ in range(2):
        encoder.encode_distinct(rows_of("a", "b")).sum().backward()
    assert calls == [2, 2] and encoder.projection.bias.grad is not None


def test_what_inference_mode_kept_can_be_trained_upon():
    """A frozen biLM under a task that learns: the mixes' gradients must not meet tensors of inference mode."""
    model = ElmoForTokenClassification(make_tiny_config(num_labels=3))
    kernels.cache_words(model.base_model.token_encoder, 100)
    with torch.inference_mode():
        model(rows_of("a", "b", "c").unsqueeze(0))
    model.train()
    for words in ("abc", "ade"):
        model(rows_of(*words).unsqueeze(0), labels=torch.tensor([[0, 1, 2]])).loss.backward()
    assert model.classifier.weight.grad.any()
