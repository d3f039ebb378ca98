"""Pairs of sentences in one row of a batch: each has exactly the vectors that it has alone."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from model_cases import TOLERANCES, assert_close, both_dtypes, everything, make_model, shared_model
from tolerances import REORDERED_FLOAT32

from hf_elmo import ElmoCharTokenizer, kernels

sentences = st.lists(st.text("abcé", max_size=4), max_size=5)
PAIRS = [(["a", "bb", "c"], ["d"]), (["e"], ["bb", "a", "f", "a"]), ([], ["c"])]


def encode(batch, is_pairs=True, **arguments):
    texts = tuple(map(list, zip(*batch, strict=True))) if is_pairs else (batch,)
    return ElmoCharTokenizer()(*texts, is_split_into_words=True, padding=True, return_tensors="pt", **arguments)


def vectors_alone(model, sentence, markers=True):
    """What a sentence of a pair must have, (words, everything)."""
    if not sentence and not markers:
        return None
    batch = encode([sentence], is_pairs=False, add_special_tokens=markers)
    return everything(model(**batch, output_hidden_states=True))[0]


@both_dtypes
@examples(20)
@given(
    pairs=st.lists(st.tuples(sentences, sentences), min_size=1, max_size=4),
    side=st.sampled_from(["left", "right"]),
    markers=st.booleans(),
    multiple=st.sampled_from([1, 7]),
    with_mask=st.booleans(),
)
def test_each_sentence_of_a_pair_has_its_own_vectors(dtype, pairs, side, markers, multiple, with_mask):
    """Whatever stands beside it, on whichever side the padding lies."""
    if not markers and not any(map(any, pairs)):
        return
    model = shared_model(dtype=dtype, mix_normalization="word", num_mixes=2)
    batch = encode(pairs, add_special_tokens=markers, padding_side=side, pad_to_multiple_of=multiple)
    mask, types = batch["attention_mask"].bool(), batch["token_type_ids"]
    output = model(batch["input_ids"], mask if with_mask else None, token_type_ids=types, output_hidden_states=True)
    together = everything(output)
    assert not together[~mask].any()
    for row, pair in enumerate(pairs):
        for index, sentence in enumerate(pair):
            wanted = vectors_alone(model, sentence, markers)
            if wanted is not None:
                assert_close(together[row][mask[row] & (types[row] == index)], wanted, dtype)


def test_the_other_sentence_of_a_pair_would_change_the_vectors():
    """Without types the row is read as one text, and the difference is far above the tolerance."""
    model, batch = make_model(), encode(PAIRS)
    apart, types = model(**batch), batch.pop("token_type_ids")
    as_one = model(**batch)
    assert (apart[0] - as_one[0])[types.bool()].abs().max() > 1e4 * REORDERED_FLOAT32


def test_pairs_and_single_sentences_share_a_batch():
    model, tokenizer = make_model(), ElmoCharTokenizer()
    features = [tokenizer("a bb", "c"), tokenizer("d e f g h i", return_token_type_ids=True)]
    batch = tokenizer.pad(features, return_tensors="pt")
    together = everything(model(**batch, output_hidden_states=True))
    assert_close(together[1], vectors_alone(model, ["d", "e", "f", "g", "h", "i"]), torch.float32)
    assert_close(together[0, :4], vectors_alone(model, ["a", "bb"]), torch.float32)


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_sentence_of_many_pairs_is_read_once_unless_its_copies_have_their_own_dropout(is_frozen):
    context, other = ["a", "bb", "c", "d"], ["a", "bb", "c"]
    pairs = [(["e"], context), (["f", "g"], context), (context, ["e"]), (["e"], other)]
    model, read = make_model(freeze_bilm=is_frozen, dropout=0.5), []
    model.bilm.register_forward_hook(lambda _, arguments, __: read.append(len(arguments[0])))
    batch = encode(pairs)
    found = everything(model(**batch, output_hidden_states=True))
    for row, (first, second) in enumerate(pairs):
        wanted = torch.cat([vectors_alone(model, first), vectors_alone(model, second)])
        assert_close(found[row, : len(wanted)], wanted, torch.float32)
    assert read[0] == 4
    model.train()(**batch)
    assert read[-1] == (4 if is_frozen else 8)


@pytest.mark.parametrize("side", ["left", "right"])
def test_gradients_are_those_of_the_sentences_alone(side):
    gradients = []
    for is_together in (True, False):
        model = make_model(dtype=torch.float64, freeze_bilm=False, dropout=0.0).train()
        if is_together:
            batches = [encode(PAIRS, padding_side=side)]
        else:
            batches = [encode([sentence], is_pairs=False) for pair in PAIRS for sentence in pair]
        for batch in batches:
            model(**batch).last_hidden_state.square().sum().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    assert any(gradient.abs().max() > 0.1 for gradient in gradients[0].values())
    for name, gradient in gradients[0].items():
        scale = 1 + gradients[1][name].abs().max()
        torch.testing.assert_close(gradient / scale, gradients[1][name] / scale, rtol=0, atol=TOLERANCES[torch.float64])


def test_a_traced_model_reads_pairs_with_the_same_numbers():
    model, batch = make_model(), dict(encode(PAIRS, padding_side="left"))
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        wanted, found = (each(**batch, output_hidden_states=True) for each in (model, compiled))
    assert_close(everything(found), everything(wanted), torch.float32)


def test_the_cache_of_words_changes_nothing():
    model, batch = make_model(), encode(PAIRS)
    with torch.no_grad():
        wanted = model(**batch)[0]
        kernels.cache_words(model.token_encoder, 3)
        for _ in range(2):
            assert_close(model(**batch)[0], wanted, torch.float32)
