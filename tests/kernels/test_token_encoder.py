"""Filters by tables, products of few words and kept words: the token encoder's own numbers, whatever was done to it."""

from unittest import mock

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from test_scan import build_or_skip, on_threads
from tolerances import BFLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn

from hf_elmo import ElmoForTokenClassification, ElmoModel, kernels
from hf_elmo.kernels import products, token_encoder
from hf_elmo.model.configuration_elmo import TokenClassificationHead
from hf_elmo.model.tokenization_elmo import ElmoCharTokenizer

# Of all lengths: special tokens, one character, as many as a row holds, and more.
WORDS = ["<S>", "</S>", "a", "bc", "déf", "日本語", "x" * 47, "y" * 48, "z" * 60, "word", "a", "bc"]


@pytest.fixture(autouse=True)
def _built():
    build_or_skip()


def rows_of(*words):
    return torch.from_numpy(ElmoCharTokenizer().encode_words(words))


@pytest.fixture
def rows():
    return rows_of(*WORDS)


@pytest.fixture
def ran(monkeypatch):
    """What the compiled filters gave."""
    results = []
    original = kernels.filter_characters

    def keep(*arguments):
        maxima = original(*arguments)
        results.extend([] if maxima is None else [maxima])
        return maxima

    monkeypatch.setattr(kernels, "filter_characters", keep)
    return results


def make_encoder(**overrides):
    """A token encoder that gives what its filters give."""
    encoder = ElmoModel(make_tiny_config(**overrides)).eval().token_encoder
    encoder.highways, encoder.projection, encoder.activation = nn.ModuleList(), None, lambda maxima: maxima
    return encoder


SOME_FILTERS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 140)), min_size=1, max_size=4)
SOME_WORDS = st.lists(st.text(max_size=12) | st.text(min_size=40, max_size=60), min_size=1, max_size=9)


def convolve(encoder, rows):
    """The filters' maxima over every window of the whole rows, by torch's own convolution."""
    embedded = encoder.character_embedding(rows).transpose(1, 2)
    found = [nn.functional.conv1d(embedded, f.weight, f.bias).max(dim=2).values for f in encoder.convolutions]
    return torch.cat(found, dim=1)


def parameters_of_filters(encoder):
    return [encoder.character_embedding.weight, *encoder.convolutions.parameters()]


@given(
    filters=SOME_FILTERS,
    size=st.integers(1, 20),
    words=SOME_WORDS,
    dtype=st.sampled_from([torch.float32, torch.float64]),
    threads=st.integers(1, 3),
)
def test_maxima_and_their_gradients_are_those_of_the_convolutions(filters, size, words, dtype, threads):
    torch.manual_seed(0)
    encoder = make_encoder(filters=[list(pair) for pair in filters], character_embedding_size=size).to(dtype)
    # A row of zeros holds the character whose vector gets no gradient.
    rows, parameters = rows_of(*words, None), parameters_of_filters(encoder.requires_grad_(True))
    weights, wanted = torch.randn(len(rows), sum(count for _, count in filters), dtype=dtype), convolve(encoder, rows)
    with torch.no_grad():
        inferred = encoder(rows)
    found = on_threads(threads, lambda: encoder(rows))
    tolerance = 10 * (REORDERED_FLOAT64 if dtype == torch.float64 else REORDERED_FLOAT32)
    for maxima in (inferred, found):
        torch.testing.assert_close(maxima, wanted, rtol=0, atol=tolerance)
    if dtype == torch.float64:  # in float32 rounding may decide between windows that are nearly alike
        gradients = on_threads(threads, lambda: torch.autograd.grad(found, parameters, weights))
        for pair in zip(gradients, torch.autograd.grad(wanted, parameters, weights), strict=True):
            torch.testing.assert_close(*pair, rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_of_equal_windows_the_first_gets_the_gradient(backend):
    encoder = make_encoder(filters=[[2, 3]]).double().requires_grad_(True)
    with torch.no_grad():
        # All characters alike: all windows are.
        encoder.character_embedding.weight.fill_(0.5)
    with kernels.use_backend(backend):
        encoder(rows_of("abc")).sum().backward()
    hit = encoder.character_embedding.weight.grad.any(dim=1).nonzero().flatten().tolist()
    assert hit == sorted(id + 1 for id in (258, ord("a")))


def test_numbers_that_are_no_characters_are_refused(rows):
    for number in (-1, 262):
        rows[2, 1] = number
        with pytest.raises(IndexError), torch.no_grad():
            make_encoder()(rows)


def test_gradients_are_the_same_whatever_the_number_of_threads(rows):
    """To the last bit: a run that is resumed elsewhere ends with the same weights."""
    encoder = make_encoder(filters=[[1, 70], [3, 150]]).requires_grad_(True)
    weights = torch.randn(len(rows), 220)

    def run():
        maxima = encoder(rows)
        return [maxima, *torch.autograd.grad(maxima, parameters_of_filters(encoder), weights)]

    found = [on_threads(threads, run) for threads in (1, 2, 3)]
    assert all(torch.equal(*pair) for others in found[1:] for pair in zip(found[0], others, strict=True))


def test_training_runs_by_them_too_and_leaves_out_what_is_frozen(rows, ran):
    encoder = make_encoder().requires_grad_(True)
    encoder.convolutions[0].requires_grad_(False)
    encoder(rows).sum().backward()
    assert len(ran) == 1 and encoder.convolutions[0].weight.grad is None
    assert all(filters.weight.grad.any() and filters.bias.grad.any() for filters in encoder.convolutions[1:])


def test_the_features_beside_elmo_are_filtered_by_them_too(rows, ran):
    head = TokenClassificationHead(character_filters=[[2, 5], [3, 7]], use_elmo=False)
    features = ElmoForTokenClassification(make_tiny_config(head=head)).double().features
    weights, found = torch.randn(1, len(rows), 12, dtype=torch.float64), []
    for backend in ("auto", "reference"):
        with kernels.use_backend(backend):
            vectors = features(rows[None], torch.ones(1, len(rows), dtype=torch.bool))
            found.append([vectors, *torch.autograd.grad(vectors, list(features.parameters()), weights)])
    assert len(ran) == 1
    for pair in zip(*found, strict=True):
        torch.testing.assert_close(*pair, rtol=0, atol=REORDERED_FLOAT64)
    assert features(rows[None, :0], torch.ones(1, 0, dtype=torch.bool)).shape == (1, 0, 12) and len(ran) == 1


@torch.no_grad()
def test_wrapped_and_hooked_modules_run_themselves(rows, ran):
    encoder = make_encoder()
    wanted, filters = encoder(rows), encoder.convolutions[2]
    handle = filters.register_forward_hook(lambda module, inputs, outputs: outputs * 2)
    hooked = encoder(rows)
    handle.remove()

    class Doubled(type(filters)):
        """What a tool puts in the place of a module, with its parameters."""

        def forward(self, inputs):
            return 2 * super().forward(inputs)

    filters.__class__ = Doubled
    last = filters.out_channels
    for found in (hooked, encoder(rows)):
        torch.testing.assert_close(found[:, :-last], wanted[:, :-last], rtol=0, atol=REORDERED_FLOAT32)
        torch.testing.assert_close(found[:, -last:], 2 * wanted[:, -last:], rtol=0, atol=REORDERED_FLOAT32)
    assert len(ran) == 1


@pytest.mark.parametrize("reason", [None, "no instructions"], ids=["native", "float32"])
def test_halves_run_by_the_filters_in_float32_however_their_products_run_elsewhere(rows, ran, reason, monkeypatch):
    monkeypatch.setattr(products, "native_unavailable_reason", lambda dtype: reason)
    encoder = make_encoder()
    with torch.no_grad():
        wanted = encoder(rows)
        ran.clear()
        found = encoder.bfloat16()(rows)
        # The weights are rounded ones from here on; beside them the sums are rounded once.
        assert torch.equal(found, encoder.float()(rows).bfloat16())
        with torch.autocast("cpu", torch.bfloat16):
            under_autocast = encoder.float()(rows)
    assert found.dtype == under_autocast.dtype == torch.bfloat16
    for result in (found, under_autocast):
        torch.testing.assert_close(result.float(), wanted, rtol=BFLOAT16, atol=BFLOAT16)
    assert len(ran) == 3


@pytest.mark.parametrize("number", [1, 48, 49])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_few_words_give_the_references_vectors_by_products_of_their_own(number, dtype, monkeypatch):
    encoder = ElmoModel(make_tiny_config(filters=[[1, 300], [3, 213]], num_highway_layers=2)).eval().token_encoder
    encoder, products = encoder.to(dtype).requires_grad_(True), []
    original = torch.ops.hf_elmo_kernels.multiply_small_batch
    spy = mock.Mock(multiply_small_batch=lambda *pair: products.append(pair) or original(*pair))
    spy.filter_maxima = torch.ops.hf_elmo_kernels.filter_maxima
    monkeypatch.setattr(torch.ops, "hf_elmo_kernels", spy)
    rows = rows_of(*map(str, range(number)))
    with torch.no_grad():
        found = encoder(rows)
        handle = encoder.highways[0].carry.register_forward_hook(lambda module, inputs, outputs: outputs + 1)
        hooked = encoder(rows)
        with kernels.use_backend("reference"):
            wanted_hooked = encoder(rows)
            handle.remove()
            wanted = encoder(rows)
    tolerance = 3 * REORDERED_FLOAT32 if dtype == torch.float32 else REORDERED_FLOAT64
    torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance)
    torch.testing.assert_close(hooked, wanted_hooked, rtol=0, atol=tolerance)
    # Two maps in each of two highways, and the projection; all but the hooked highway's in the second call.
    assert len(products) == (8 if number <= 48 else 0)
    torch.testing.assert_close(encoder(rows), wanted, rtol=0, atol=tolerance)
    assert len(products) == (8 if number <= 48 else 0)


# Words that are kept


@pytest.fixture
def encoder():
    return ElmoModel(make_tiny_config()).eval().token_encoder


@pytest.fixture
def calls(monkeypatch):
    """How many words each call of the encoder computed."""
    counts, encode = [], token_encoder._encode

    def count(encoder, is_compiled, char_ids):
        counts.append(len(char_ids))
        return encode(encoder, is_compiled, char_ids)

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
    assert calls[5:] == [400] and len(token_encoder._CACHES[encoder].vectors) <= 250


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
