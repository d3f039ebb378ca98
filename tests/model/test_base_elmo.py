"""The base model: what a word's vector may depend on, states, outputs, freezing, precision and word tables."""

import itertools
import math

import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from model_cases import (
    LAYERS,
    H,
    P,
    assert_close,
    both_dtypes,
    encode,
    everything,
    is_frozen,
    make_model,
    random_rows,
    sentence_lists,
    shared_model,
)
from tolerances import BFLOAT16, FLOAT16, INITIALISATION_SPREAD
from torch import nn

from hf_elmo import ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoState

# What a word's vector depends on


@both_dtypes
@given(
    sentences=sentence_lists,
    side=st.sampled_from(["left", "right"]),
    extra=st.integers(0, 3),
    with_mask=st.booleans(),
    data=st.data(),
)
def test_a_words_vector_depends_on_its_sentence_alone(dtype, sentences, side, extra, with_mask, data):
    """Padding on either side, batch mates and their order change nothing."""
    model = shared_model(dtype=dtype, mix_normalization="word", num_mixes=2)
    order = data.draw(st.permutations(range(len(sentences))))
    batch = encode([sentences[index] for index in order], padding_side=side)
    if extra:
        longest = batch["input_ids"].shape[1]
        batch = encode([sentences[i] for i in order], padding_side=side, pad_to_multiple_of=longest + extra)
    mask = batch["attention_mask"].bool()
    output = model(batch["input_ids"], mask if with_mask else None, output_hidden_states=True)
    together = everything(output)
    assert not together[~mask].any()
    for row, index in enumerate(order):
        alone = model(**encode([sentences[index]]), output_hidden_states=True)
        assert_close(together[row][mask[row]], everything(alone)[0], dtype)
        for name in ("hidden", "cell"):
            assert_close(output.state[name][row], alone.state[name][0], dtype)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_mean_and_variance_of_a_batch_leave_padding_out(side):
    model = make_model(dtype=torch.float64, mix_normalization="batch")
    sentences = [["a", "bb", "c"], ["dd"]]
    plain = encode(sentences)
    wider = encode(sentences, padding_side=side, pad_to_multiple_of=8)
    vectors = [model(**batch).last_hidden_state[batch["attention_mask"].bool()] for batch in (plain, wider)]
    assert_close(*vectors, torch.float64)


@pytest.mark.parametrize("normalization", ["none", "batch", "word"])
def test_masked_words_do_not_count_whatever_their_characters(normalization):
    model = make_model(dtype=torch.float64, mix_normalization=normalization)
    ids = random_rows(2, 5)
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]])
    others = torch.where(mask.bool().unsqueeze(-1), ids, random_rows(2, 5))
    assert not torch.equal(ids, others)
    first, second = (model(rows, mask, output_hidden_states=True) for rows in (ids, others))
    assert torch.equal(everything(first), everything(second))


def test_rows_of_zeros_are_no_words_where_there_is_no_mask():
    model = make_model()
    batch = encode([["a", "b"], ["c"]], padding_side="left")
    without = model(batch["input_ids"])
    assert torch.equal(without.last_hidden_state, model(**batch).last_hidden_state)
    assert not without.last_hidden_state[1, 0].any()


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_masks_of_any_integer_type_are_alike(dtype):
    model, batch = make_model(), encode([["a", "b"], ["c"]])
    wanted = model(**batch).last_hidden_state
    mask = batch["attention_mask"].to(dtype)
    assert torch.equal(model(batch["input_ids"].int(), mask).last_hidden_state, wanted)


def test_a_batch_gives_the_same_vectors_every_time():
    model, batch = make_model(), encode([["a", "b"], ["c"]])
    first = everything(model(**batch, output_hidden_states=True))
    model(**encode([["something", "else"], ["in", "between"]]))
    assert torch.equal(everything(model(**batch, output_hidden_states=True)), first)


def test_a_row_without_words_gives_zeros_and_keeps_its_state():
    model = make_model()
    ids, mask = random_rows(2, 4), torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]])
    state = ElmoState(hidden=torch.randn(2, LAYERS, 2, P), cell=torch.randn(2, LAYERS, 2, H))
    output = model(ids, mask, state)
    assert not output.last_hidden_state[1].any()
    for name in ("hidden", "cell"):
        assert torch.equal(output.state[name][1], state[name][1])
        assert not torch.equal(output.state[name][0], state[name][0])
    # And where that is so of every row.
    nothing = model(ids, torch.zeros_like(mask))
    assert not nothing.last_hidden_state.any() and not nothing.state.cell.any()


# State


@examples(25)
@both_dtypes
@given(cuts=st.lists(st.integers(1, 8), max_size=3), seed=st.integers(0, 1000))
def test_chunks_with_a_carried_state_are_one_pass(dtype, cuts, seed):
    """The forward half chunk by chunk from the start, the backward half from the end."""
    model = shared_model(dtype=dtype)
    torch.manual_seed(seed)
    ids = random_rows(2, 9)
    whole = model(ids, output_hidden_states=True)
    edges = [0, *sorted(set(cuts)), 9]
    chunks = list(itertools.pairwise(edges))
    for order, half, direction in ((chunks, slice(0, P), 0), (chunks[::-1], slice(P, 2 * P), 1)):
        state = None
        for start, end in order:
            part = model(ids[:, start:end], state=state, output_hidden_states=True)
            state = part.state
            for layer, whole_layer in zip(part.hidden_states, whole.hidden_states, strict=True):
                assert_close(layer[..., half], whole_layer[:, start:end, half], dtype)
        for name in ("hidden", "cell"):
            assert_close(state[name][:, :, direction], whole.state[name][:, :, direction], dtype)


def test_the_state_of_one_output_is_the_argument_of_the_next_call():
    model, batch = make_model(), encode([["a", "b"], ["c"], ["d"]])
    first = model(**batch)
    assert first.state.hidden.shape == (3, LAYERS, 2, P)
    assert first.state.cell.shape == (3, LAYERS, 2, H)
    second = model(**batch, state=first.state)
    assert not torch.equal(second.last_hidden_state, first.last_hidden_state)
    zeros = ElmoState(hidden=torch.zeros_like(first.state.hidden), cell=torch.zeros_like(first.state.cell))
    assert torch.equal(model(**batch, state=zeros).last_hidden_state, first.last_hidden_state)


def test_a_state_of_another_precision_is_taken():
    batch = encode([["a", "b"], ["c"]])
    state = make_model(dtype=torch.bfloat16)(**batch).state
    assert state.cell.dtype == torch.bfloat16
    wide = ElmoState(hidden=state.hidden.float(), cell=state.cell.float())
    model = make_model()
    assert torch.equal(model(**batch, state=state).last_hidden_state, model(**batch, state=wide).last_hidden_state)


def test_gradients_flow_through_a_state_unless_it_is_detached():
    model, batch = make_model(freeze_bilm=False), encode([["a", "b"]])
    for detach in (False, True):
        vectors = model.token_encoder.character_embedding.weight
        first = model(**batch)
        state = first.state.detach() if detach else first.state
        # The second batch has no characters of the first one.
        loss = model(**encode([["x"]]), state=state).last_hidden_state.sum()
        (gradient,) = torch.autograd.grad(loss, vectors)
        assert bool(gradient[ord("a") + 1].any()) is not detach


# Outputs


def test_outputs_have_the_names_and_shapes_that_are_promised():
    model, batch = make_model(num_mixes=3), encode([["a", "b"], ["c"]])
    output = model(**batch, output_hidden_states=True)
    assert list(output) == ["last_hidden_state", "hidden_states", "elmo_representations", "state"]
    assert [tuple(layer.shape) for layer in output.hidden_states] == [(2, 2, 2 * P)] * (LAYERS + 1)
    assert [tuple(mix.shape) for mix in output.elmo_representations] == [(2, 2, 2 * P)] * 3
    assert torch.equal(output.last_hidden_state, output.elmo_representations[0])
    token_vectors = output.hidden_states[0]
    assert torch.equal(token_vectors[..., :P], token_vectors[..., P:])
    assert model(**batch).hidden_states is None


def test_mixes_share_one_pass_and_nothing_else():
    model, batch = make_model(num_mixes=3), encode([["a", "b"], ["c"]])
    with torch.no_grad():
        for index, mix in enumerate(model.mixes):
            # All of the weight on one layer: each mix is that layer.
            mix.weight[index] = 1000.0
            mix.scale.fill_(index + 1)
    output = model(**batch, output_hidden_states=True)
    for index, mixed in enumerate(output.elmo_representations):
        torch.testing.assert_close(mixed, (index + 1) * output.hidden_states[index])
    gradients = torch.autograd.grad(
        output.elmo_representations[1].sum(), list(model.mixes.parameters()), allow_unused=True
    )
    assert [gradient is not None for gradient in gradients] == [False, False, True, True, False, False]


# Freezing


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("cls", [ElmoModel, ElmoForTokenClassification])
def test_a_frozen_bilm_has_no_gradients_and_no_dropout(cls, freeze, loaded, tmp_path):
    model = make_model(cls, freeze_bilm=freeze, dropout=0.5, classifier_dropout=0.0)
    if loaded:
        model.save_pretrained(tmp_path)
        model = cls.from_pretrained(tmp_path)
    batch = encode([["a", "b"], ["c"]])
    wanted = model.eval()(**batch)[0]
    model.train()
    assert model.training
    assert is_frozen(model) is freeze
    assert torch.equal(model(**batch)[0], wanted) is freeze
    rest = [p for name, p in model.named_parameters() if "bilm" not in name and "token_encoder" not in name]
    assert rest and all(parameter.requires_grad for parameter in rest)
    model(**batch)[0].sum().backward()
    assert (model.base_model.bilm.layers[0].forward_lstm.weight_hh.grad is None) is freeze
    assert model.base_model.mixes[0].weight.grad is not None


def test_the_bilm_can_be_thawed_and_frozen_at_run_time():
    model, batch = make_model(ElmoForTokenClassification, dropout=0.5).train(), encode([["a", "b"], ["c"]])
    assert is_frozen(model) and not model.elmo.bilm.training
    model.freeze_bilm(False)
    assert not is_frozen(model) and model.elmo.bilm.training and not model.config.freeze_bilm
    assert not torch.equal(model(**batch).logits, model(**batch).logits)
    model.freeze_bilm()
    assert is_frozen(model) and not model.elmo.bilm.training and model.config.freeze_bilm
    model.eval()
    model.freeze_bilm(False)
    assert not model.elmo.bilm.training


def test_training_a_head_leaves_a_frozen_bilm_as_it_is():
    model = make_model(ElmoForTokenClassification, num_labels=3).train()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.1)
    model(**encode([["a", "b"]]), labels=torch.tensor([[0, 1]])).loss.backward()
    optimizer.step()
    changed = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert changed == {"elmo.mixes.0.weight", "elmo.mixes.0.scale", "classifier.weight", "classifier.bias"}


# Gradient checkpointing and precision


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 0.0), (torch.bfloat16, BFLOAT16), (torch.float16, FLOAT16)]
)
def test_a_checkpoint_loads_in_every_precision(dtype, tolerance, tmp_path):
    model, batch = make_model(), encode([["a", "bb", "ccc"], ["dddd"]])
    with torch.no_grad():
        # Values of about one, for which the tolerances are meant.
        model.mixes[0].scale.div_(model(**batch).last_hidden_state.std())
    wanted = model(**batch).last_hidden_state
    model.save_pretrained(tmp_path)
    loaded = ElmoModel.from_pretrained(tmp_path, dtype=dtype)
    found = loaded(**batch)
    assert {parameter.dtype for parameter in loaded.parameters()} == {dtype}
    assert found.last_hidden_state.dtype == found.state.cell.dtype == dtype
    torch.testing.assert_close(found.last_hidden_state.float(), wanted, rtol=0, atol=tolerance)


def test_mixed_precision_carries_its_state_on():
    model, batch = make_model(), encode([["a", "bb", "ccc"], ["dddd"]])
    state = model(**batch).state
    wanted = model(**batch, state=state).last_hidden_state
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(**batch, state=model(**batch).state).last_hidden_state
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=BFLOAT16)


# Word tables


INPUTS = {
    token_inputs: {"token_inputs": token_inputs, "word_table_size": 3, "word_vector_size": 5}
    for token_inputs in ("words", "both")
}


@pytest.mark.parametrize("fields", INPUTS.values(), ids=INPUTS)
def test_a_frozen_bilm_keeps_its_word_table_too(fields):
    model = make_model(ElmoForTokenClassification, **fields)
    assert is_frozen(model)
    model.freeze_bilm(False)
    assert not is_frozen(model) and model.elmo.token_encoder.word_table.weight.requires_grad


@pytest.mark.parametrize("fields", INPUTS.values(), ids=INPUTS)
def test_every_parameter_before_the_softmax_is_trained_with_a_word_table(fields):
    model = make_model(ElmoForPreTraining, word_vocab_size=7, **fields)
    ids, labels = random_rows(2, 4), torch.randint(0, 7, (2, 4))
    model.elmo.token_encoder.word_table.fill(random_rows(40).unique(dim=0)[:3])
    model(ids, labels=labels).loss.backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert without == {"elmo.mixes.0.weight", "elmo.mixes.0.scale"}
    assert model.elmo.token_encoder.word_table.weight.grad.any()


def test_the_input_embedding_is_that_of_the_characters_where_there_are_any():
    characters, words, both = (make_model(**fields) for fields in ({}, INPUTS["words"], INPUTS["both"]))
    for model, name in ((characters, "character_embedding"), (both, "character_embedding"), (words, "word_table")):
        assert model.get_input_embeddings() is getattr(model.token_encoder, name)
        other = nn.Embedding(3, 4)
        model.set_input_embeddings(other)
        assert model.get_input_embeddings() is getattr(model.token_encoder, name) is other


def test_a_fresh_word_table_has_vectors_of_the_size_of_the_characters():
    model = ElmoModel(make_tiny_config(token_inputs="words", word_table_size=2000, word_vector_size=5))
    weight = model.token_encoder.word_table.weight
    assert weight.abs().max() <= 1
    assert weight.std().item() == pytest.approx(1 / math.sqrt(3), rel=INITIALISATION_SPREAD)
