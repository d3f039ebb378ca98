"""Text to vectors: equal to a call of the model a sentence, in order, and in bounded memory."""

import functools

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import BFLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.inference.embedding import LAYERS, embed

P, D = 6, 12  # as in make_tiny_config
TOKENIZER = ElmoCharTokenizer()
ANY_LAYERS = (*LAYERS, 0, 1, 2, -2)
TOLERANCES = {torch.float32: REORDERED_FLOAT32, torch.float64: REORDERED_FLOAT64}
sentence_lists = st.lists(st.lists(st.text("abcé", max_size=5), max_size=9), max_size=8)
limits = st.fixed_dictionaries(
    {
        "max_words_per_batch": st.integers(1, 40),
        "max_words_per_chunk": st.integers(1, 12),
        "max_words_per_buffer": st.integers(1, 60),
    }
)


def make_model(dtype=torch.float64, **fields):
    """A model in evaluation mode whose weights are large enough for the clips, and for any mistake, to show."""
    model = ElmoModel(make_tiny_config(cell_clip=1.0, projection_clip=0.9, **fields))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.7, 0.7)
    return model.to(dtype).eval()


# For the many examples of a property, none of which changes the model.
shared_model = functools.cache(make_model)


def run_alone(model, words, layers) -> np.ndarray:
    """The vectors of one sentence by a plain call of the model, special tokens included."""
    batch = TOKENIZER([words], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        return pick_layers(model(**batch, output_hidden_states=True), layers)


def pick_layers(output, layers) -> np.ndarray:
    every_layer = torch.cat(output.hidden_states)
    return {
        "mix": output.last_hidden_state[0],
        "all": every_layer,
        "top": every_layer[-1],
        "average": every_layer.mean(dim=0),
        "token": every_layer[0],
        -2: every_layer[-2],
        **dict(enumerate(every_layer)),
    }[layers].numpy()


def assert_close(found, wanted, dtype=torch.float64):
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCES[dtype])


def make_text(length, seed=0) -> list[str]:
    numbers = np.random.default_rng(seed).integers(0, 50, length)
    return [chr(97 + number % 26) * (1 + number % 7) for number in numbers]


# What the vectors are


@pytest.mark.parametrize("normalization", ["none", "word", "batch"])
@examples(20)
@given(sentences=sentence_lists, limits=limits, layers=st.sampled_from(ANY_LAYERS), keep_special_tokens=st.booleans())
def test_vectors_are_those_of_a_call_of_the_model_in_the_order_of_the_sentences(
    normalization, sentences, limits, layers, keep_special_tokens
):
    model = shared_model(mix_normalization=normalization, num_mixes=2)
    arrays = list(embed(model, TOKENIZER, sentences, layers=layers, keep_special_tokens=keep_special_tokens, **limits))
    # An array that is kept does not keep its whole batch.
    assert len(arrays) == len(sentences) and all(array.flags.owndata for array in arrays)
    for words, array in zip(sentences, arrays, strict=True):
        wanted = run_alone(model, words, layers)
        assert_close(array, wanted if keep_special_tokens else wanted[..., 1:-1, :])


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("max_words_per_chunk", [1, 7, 64, 101, 202, 203])
def test_long_texts_in_chunks_are_one_pass(dtype, max_words_per_chunk):
    """Texts of several lengths side by side, which end in different chunks; both directions, all layers."""
    model = shared_model(dtype=dtype)
    texts = [make_text(length, seed=length) for length in (200, 3, 199, 64, 0, 101)]
    arrays = embed(model, TOKENIZER, texts, layers="all", max_words_per_chunk=max_words_per_chunk)
    for words, array in zip(texts, arrays, strict=True):
        assert_close(array, run_alone(model, words, "all")[:, 1:-1], dtype)


@examples(20)
@given(sentences=sentence_lists.filter(bool), limits=limits, layers=st.sampled_from(ANY_LAYERS))
def test_a_carried_state_is_that_of_calls_of_the_model_one_after_another(sentences, limits, layers):
    model, state = shared_model(), None
    arrays = embed(model, TOKENIZER, sentences, layers=layers, carry_state=True, keep_special_tokens=True, **limits)
    for words, array in zip(sentences, arrays, strict=True):
        batch = TOKENIZER([words], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            output = model(**batch, state=state, output_hidden_states=True)
        state = output.state
        assert_close(array, pick_layers(output, layers))


def test_the_token_layer_is_had_without_the_bilm(monkeypatch):
    model = make_model()
    monkeypatch.setattr(model.bilm, "run_direction", lambda *arguments: pytest.fail("the biLM was run"))
    assert [len(array) for array in embed(model, TOKENIZER, ["a b", "c"], layers="token")] == [2, 1]


def test_strings_are_cut_by_the_tokenizer_and_lists_are_taken_as_they_are():
    model, tokenizer = shared_model(), ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True)
    text, words = embed(model, tokenizer, ["Call it!", ["Call", "it!"]])
    assert_close(text, run_alone(model, ["call", "it", "!"], "mix")[1:-1])
    assert_close(words, run_alone(model, ["call", "it!"], "mix")[1:-1])


def test_half_precision_comes_back_as_float32():
    texts = [make_text(40), make_text(7)]
    half, full = (embed(shared_model(dtype=dtype), TOKENIZER, texts) for dtype in (torch.bfloat16, torch.float32))
    for rough, exact in zip(half, full, strict=True):
        assert rough.dtype == exact.dtype == np.float32
        np.testing.assert_allclose(rough, exact, rtol=0, atol=BFLOAT16)
    assert next(embed(shared_model(), TOKENIZER, texts)).dtype == np.float64


def test_dropout_is_off_and_every_mode_is_put_back(monkeypatch):
    model = make_model(dropout=0.5, freeze_bilm=False).train()
    model.bilm.layers[0].eval()
    modes = [module.training for module in model.modules()]
    arrays = embed(model, TOKENIZER, ["a b", "c"], max_words_per_buffer=1)
    first = next(arrays)
    # The caller has the word between two arrays, too.
    assert [module.training for module in model.modules()] == modes
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    monkeypatch.setattr(model.bilm, "run_direction", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        next(arrays)
    assert [module.training for module in model.modules()] == modes
    monkeypatch.undo()
    assert_close(first, run_alone(model.eval(), ["a", "b"], "mix")[1:-1])


# How they are computed


def test_each_direction_reads_each_word_once_and_each_distinct_word_is_encoded_once():
    model, text = make_model(), make_text(150)
    read, encoded = {}, []
    for layer in model.bilm.layers:
        for name in ("forward_lstm", "backward_lstm"):
            lstm = getattr(layer, name)
            lstm.register_forward_hook(
                lambda lstm, inputs, output: read.update({lstm: read.get(lstm, 0) + inputs[0].shape[1]})
            )
    model.token_encoder.register_forward_hook(lambda encoder, inputs, output: encoded.append(len(output)))
    list(embed(model, TOKENIZER, [text], max_words_per_chunk=11))
    assert list(read.values()) == [152] * 4
    assert sum(encoded) == len({*text, "<S>", "</S>"})


def test_wrong_arguments_are_named_at_once():
    for tokenizer, sentences, arguments, error, named in (
        (ElmoCharTokenizer(max_characters_per_word=9), ["a"], {}, ValueError, ("max_characters_per_word=9", "50")),
        (TOKENIZER, "a b", {}, TypeError, "sentences"),
        (TOKENIZER, ["a"], {"layers": "last"}, ValueError, "layers is 'last'"),
        (TOKENIZER, ["a"], {"layers": 3}, ValueError, "layers is 3"),
        (TOKENIZER, ["a"], {"layers": -4}, ValueError, "layers is -4"),
        (TOKENIZER, ["a"], {"max_words_per_batch": 0}, ValueError, "max_words_per_batch is 0"),
        (TOKENIZER, ["a"], {"max_words_per_chunk": -1}, ValueError, "max_words_per_chunk is -1"),
        (TOKENIZER, ["a"], {"max_words_per_buffer": 1.5}, ValueError, "max_words_per_buffer is 1.5"),
    ):
        assert_refused(error, named, embed, shared_model(), tokenizer, sentences, **arguments)


def test_a_wrong_sentence_is_named_by_its_number():
    for sentence in (7, ["a", 7], {"a"}):
        arrays = embed(shared_model(), TOKENIZER, ["a", sentence], max_words_per_buffer=1)
        next(arrays)
        with pytest.raises(TypeError, match=r"sentences\[1\]"):
            next(arrays)
