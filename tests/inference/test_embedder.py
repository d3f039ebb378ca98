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
from tolerances import BFLOAT16, REORDERED_FLOAT64

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification, ElmoModel
from hf_elmo.inference.embedder import LAYERS, ElmoEmbedder, cut_batches, in_batches, place_words, pool_words, runs

D = 12  # as in make_tiny_config
TOKENIZER = ElmoCharTokenizer()
ANY_LAYERS = (*LAYERS, 0, 1, 2, -2)
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


def make_embedder(model, tokenizer=TOKENIZER, **limits):
    embedder = ElmoEmbedder(model, tokenizer=tokenizer)
    vars(embedder).update(limits)
    return embedder


def run_alone(model, words, layers, state=None):
    """The vectors of one sentence by a plain call of the model, special tokens included, and the state behind it."""
    batch = TOKENIZER([words], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**batch, state=state, output_hidden_states=True)
    every = torch.cat(output.hidden_states)
    named = {"mix": output.last_hidden_state[0], "all": every, "top": every[-1], "average": every.mean(dim=0)}
    return ({**named, "token": every[0], -2: every[-2], **dict(enumerate(every))}[layers].numpy(), output.state)


def assert_close(found, wanted):
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=REORDERED_FLOAT64)


def make_text(length, seed=0) -> list[str]:
    numbers = np.random.default_rng(seed).integers(0, 50, length)
    return [chr(97 + number % 26) * (1 + number % 7) for number in numbers]


# What the vectors are


@pytest.mark.parametrize("normalization", ["none", "word", "batch"])
@examples(20)
@given(sentence_lists, limits, st.sampled_from(ANY_LAYERS), st.booleans(), st.booleans())
def test_vectors_are_those_of_calls_of_the_model_in_the_order_of_the_sentences(
    normalization, sentences, limits, layers, carry_state, keep_special_tokens
):
    model, state = shared_model(mix_normalization=normalization, num_mixes=2), None
    arrays = list(make_embedder(model, **limits).stream(sentences, layers, carry_state, keep_special_tokens))
    # An array that is kept does not keep its whole batch.
    assert len(arrays) == len(sentences) and all(array.flags.owndata for array in arrays)
    for words, array in zip(sentences, arrays, strict=True):
        wanted, after = run_alone(model, words, layers, state)
        state = after if carry_state else None
        assert_close(array, wanted if keep_special_tokens else wanted[..., 1:-1, :])


def test_strings_are_cut_by_the_tokenizer_and_lists_are_taken_as_they_are():
    model, tokenizer = shared_model(), ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True)
    text, words = make_embedder(model, tokenizer).embed_sentences(["Call it!", ["Call", "it!"]])
    assert_close(text, run_alone(model, ["call", "it", "!"], "mix")[0][1:-1])
    assert_close(words, run_alone(model, ["call", "it!"], "mix")[0][1:-1])


def test_half_precision_comes_back_as_float32():
    texts = [make_text(40), make_text(7)]
    half, full = (
        make_embedder(shared_model(dtype=dtype)).embed_sentences(texts) for dtype in (torch.bfloat16, torch.float32)
    )
    for rough, exact in zip(half, full, strict=True):
        assert rough.dtype == exact.dtype == np.float32
        np.testing.assert_allclose(rough, exact, rtol=0, atol=BFLOAT16)
    assert make_embedder(shared_model()).embed_sentence(texts[0]).dtype == np.float64


def test_dropout_is_off_and_every_mode_is_put_back(monkeypatch):
    model = make_model(dropout=0.5, freeze_bilm=False).train()
    model.bilm.layers[0].eval()
    modes = [module.training for module in model.modules()]
    arrays = make_embedder(model, max_words_per_buffer=1).stream(["a b", "c"])
    first = next(arrays)
    # The caller has the word between two arrays, too.
    assert [module.training for module in model.modules()] == modes
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    monkeypatch.setattr(model.bilm, "run_direction", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        next(arrays)
    assert [module.training for module in model.modules()] == modes
    # Layer 0 is had without the biLM.
    assert [len(array) for array in make_embedder(model).stream(["a b", "c"], "token")] == [2, 1]
    monkeypatch.undo()
    assert_close(first, run_alone(model.eval(), ["a", "b"], "mix")[0][1:-1])


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
    make_embedder(model, max_words_per_chunk=11).embed_sentence(text)
    assert list(read.values()) == [152] * 4
    assert sum(encoded) == len({*text, "<S>", "</S>"})


# By a checkpoint's name


def test_of_a_tagger_the_base_is_taken_and_a_stream_may_have_no_end(tmp_path):
    ElmoForTokenClassification(make_tiny_config(num_labels=4, freeze_bilm=False)).train().save_pretrained(tmp_path)
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(tmp_path)
    embedder = ElmoEmbedder(str(tmp_path), device="cpu", dtype="bfloat16")
    embedder.max_words_per_buffer = 50
    assert not embedder.model.training and embedder.model.dtype == torch.bfloat16
    stream = embedder.stream(iter(lambda: "Call it!", None))
    assert [next(stream).shape for _ in range(30)] == [(3, D)] * 30


def test_words_are_averaged_and_no_sentences_give_no_arrays(embedder):
    sentences = ["Call it!", ["Call", "it!"], "", "a b c d"]
    for layers, shape in (("mix", (D,)), ("all", (3, D))):
        means = embedder.average_words(sentences, layers)
        for mean, array in zip(means, embedder.embed_sentences(sentences, layers), strict=True):
            assert np.allclose(mean, array.mean(axis=-2) if array.size else 0.0) and mean.shape == shape
        assert embedder.average_words([], layers).shape == (0, *shape)
    assert embedder.embed_sentences([]) == []


def test_what_is_wrong_is_named(embedder):
    for change, error, named in (
        ({"model": "absent"}, OSError, "absent"),
        ({"device": "abacus"}, ValueError, "abacus"),
        ({"dtype": "int8"}, ValueError, "dtype"),
        ({"max_words_per_batch": 0}, ValueError, "max_words_per_batch is 0"),
        ({"model": shared_model()}, ValueError, "tokenizer is None"),
        (
            {"model": shared_model(), "tokenizer": ElmoCharTokenizer(max_characters_per_word=9)},
            ValueError,
            ("max_characters_per_word=9", "50"),
        ),
    ):
        assert_refused(error, named, ElmoEmbedder, **{"model": embedder.name, "device": "cpu", **change})
    for layers in ("last", 3, -4):
        assert_refused(ValueError, f"layers is {layers!r}", embedder.stream, ["a"], layers)
    for method in (embedder.embed_sentences, embedder.average_words):
        assert_refused(TypeError, "sentences is a string", method, "Call it!")
    for sentence in (7, [["a", "b"]], ["a", 7], None, {"a"}):
        assert_refused(TypeError, "sentences[1]", embedder.embed_sentences, ["a", sentence])


@given(words=st.integers(0, 5), layers=st.integers(1, 3), seed=st.integers(0, 99))
def test_pooling_is_what_its_names_say(words, layers, seed):
    array = np.random.default_rng(seed).normal(size=(layers, words, 4))
    pooled = {name: pool_words(array, name) for name in ("mean", "max", "first-last")}
    assert pool_words(array, "none") is array
    if not words:
        assert all(np.array_equal(each, np.zeros((layers, 4))) for each in pooled.values())
        return
    np.testing.assert_allclose(pooled["mean"], array.sum(axis=1) / words)
    assert np.array_equal(pooled["max"], np.sort(array, axis=1)[:, -1])
    assert np.array_equal(pooled["first-last"], np.concatenate([array[:, -1, :2], array[:, 0, 2:]], axis=1))


# Groups of items, and where words stand


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20), st.integers(1, 40))
def test_batches_have_each_item_once_in_its_order_within_the_limit(lengths, most, ahead):
    seen, items = [], list(enumerate(lengths))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hf_elmo.inference.embedder._READ_AHEAD", ahead)
        found = in_batches(iter(items), lambda item: item[1], lambda batch: seen.append(batch) or batch, most)
        assert list(found) == items
    for batch in seen:
        assert len(batch) == 1 or len(batch) * max(length for _, length in batch) <= most


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_runs_are_the_items_in_their_order_and_end_as_soon_as_they_are_full(sizes, full):
    found = list(runs(iter(sizes), lambda size: size, full))
    assert [size for run in found for size in run] == sizes and all(found)
    assert all(sum(run) >= full for run in found[:-1]) and all(sum(run[:-1]) < full for run in found)


def test_items_that_are_read_in_parts_share_a_batch():
    assert list(cut_batches([9, 1, 7], 8, read_at_once=4)) == [[0, 2], [1]]
    assert list(cut_batches([9, 1, 7], 8)) == [[0], [2], [1]]


TOKENIZERS = {
    "whitespace": ElmoCharTokenizer(pre_tokenizer="whitespace"),
    "punctuation": ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True),
}


@pytest.mark.parametrize("is_tokenized", [False, True])
@pytest.mark.parametrize("name", TOKENIZERS)
@given(line=st.text(st.sampled_from("aB é'.,-!1\t\u00a0 　"), max_size=30))
def test_offsets_cut_the_words_out_of_the_raw_line(name, is_tokenized, line):
    placed = place_words(line, TOKENIZERS[name], is_tokenized)
    assert placed.words == (line.split() if is_tokenized else TOKENIZERS[name].tokenize(line))
    # A word that is lower-cased still has its place in the raw line.
    raw = [line[start:end] for start, end in placed.offsets]
    assert raw == placed.words or [word.lower() for word in raw] == placed.words
    # Together, the pieces are the words between white space.
    pieces = [""] * len(line.split())
    for word, number in zip(raw, placed.spaced_words, strict=True):
        pieces[number] += word
    assert pieces == line.split()
