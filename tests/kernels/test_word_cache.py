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


def assert_right(encoder, rows):
    with torch.no_grad():
        found = encoder.encode_distinct(rows)
        wanted = encoder.encode(rows)
    torch.testing.assert_close(found, wanted, rtol=REORDERED_FLOAT32, atol=REORDERED_FLOAT32)


def test_a_word_is_computed_once(encoder, calls):
    kernels.cache_words(encoder, 100)
    assert_right(encoder, rows_of("a", "b", "a", "<S>"))
    assert calls == [3]
    assert_right(encoder, rows_of("b", "a"))
    assert calls == [3]
    assert_right(encoder, rows_of("c", "b", "c"))
    assert calls == [3, 1]
    kernels.cache_words(encoder, None)
    assert_right(encoder, rows_of("c", "b", "c"))
    assert calls == [3, 1, 2]


def test_it_grows_and_never_holds_more_than_it_may(encoder, calls):
    kernels.cache_words(encoder, 2500)
    vocabulary = [str(number) for number in range(4000)]
    for start in (0, 900, 1500, 2400, 1500):
        assert_right(encoder, rows_of(*vocabulary[start : start + 1000]))
        assert len(token_encoder._CACHES[encoder].vectors) <= 2500
    calls.clear()
    # More words than it may hold at once are computed without it.
    assert_right(encoder, rows_of(*vocabulary, *vocabulary))
    assert calls == [4000]


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
    rows = rows_of("a", "bc", "def")
    assert_right(encoder, rows)
    with torch.no_grad():
        change(encoder)
    assert_right(encoder, rows)


def test_precision_is_not_mixed(encoder):
    kernels.cache_words(encoder, 100)
    rows = rows_of("a", "bc", "def")
    assert_right(encoder, rows)
    with torch.no_grad():
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
    rows = rows_of("a", "b")
    for _ in range(2):
        encoder.encode_distinct(rows).sum().backward()
    assert calls == [2, 2] and encoder.projection.bias.grad is not None


def test_what_inference_mode_kept_can_be_trained_upon():
    """A frozen biLM under a task that learns: the mixes' gradients must not meet tensors of inference mode."""
    model = ElmoForTokenClassification(make_tiny_config(num_labels=3))
    kernels.cache_words(model.base_model.token_encoder, 100)
    ids = rows_of("a", "b", "c").unsqueeze(0)
    with torch.inference_mode():
        model(ids)
    model.train()
    model(ids, labels=torch.tensor([[0, 1, 2]])).loss.backward()
    model(rows_of("a", "d", "e").unsqueeze(0), labels=torch.tensor([[0, 1, 2]])).loss.backward()
    assert model.classifier.weight.grad.any()


def test_a_size_below_one_is_refused(encoder):
    with pytest.raises(ValueError, match="max_words is 0"):
        kernels.cache_words(encoder, 0)
