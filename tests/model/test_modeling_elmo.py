"""The models: what a word's vector may depend on, what is trained, and what bad input is told."""

import functools
import itertools
import json
import math

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import (
    BFLOAT16,
    FLOAT16,
    FRESH_LOSS,
    INITIALISATION_SPREAD,
    LOSS_FLOAT32,
    REORDERED_FLOAT32,
    REORDERED_FLOAT64,
)
from torch import nn

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoForPreTraining,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoState,
)

P, H, LAYERS = 6, 10, 2  # as in make_tiny_config
TOLERANCES = {torch.float32: REORDERED_FLOAT32, torch.float64: REORDERED_FLOAT64}
both_dtypes = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
sentence_lists = st.lists(st.lists(st.text("abcé", max_size=5), min_size=1, max_size=6), min_size=1, max_size=4)


def make_model(cls=ElmoModel, dtype=torch.float32, **fields):
    """A model in evaluation mode whose weights are large enough for the clips, and for any mistake, to show."""
    model = cls(make_tiny_config(cell_clip=1.0, projection_clip=0.9, **fields))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "mixes" not in name:
                parameter.uniform_(-0.7, 0.7)
    return model.to(dtype).eval()


# For the many examples of a property, none of which changes the model.
shared_model = functools.cache(make_model)


def encode(sentences, **arguments):
    return ElmoCharTokenizer()(
        sentences, is_split_into_words=True, padding=True, return_tensors="pt", add_special_tokens=False, **arguments
    )


def random_rows(*shape) -> torch.Tensor:
    """Rows of random words, without padding."""
    words = [chr(97 + number % 26) * (number % 7) for number in torch.randint(0, 1000, (math.prod(shape),)).tolist()]
    return encode([words])["input_ids"].view(*shape, 50)


def assert_close(found, wanted, dtype):
    torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCES[dtype])


def everything(output) -> torch.Tensor:
    """All layers and all mixes side by side, (B, T, everything)."""
    return torch.cat([*output.hidden_states, *output.elmo_representations], dim=-1)


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


@settings(max_examples=50)
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


def test_return_dict_and_the_configs_wish_for_hidden_states_are_heard():
    batch = encode([["a", "b"], ["c"]])
    model = make_model(output_hidden_states=True)
    wanted = model(**batch)
    assert len(wanted.hidden_states) == LAYERS + 1
    assert model(**batch, output_hidden_states=False).hidden_states is None
    vectors, layers, mixes, state = model(**batch, return_dict=False)
    assert torch.equal(vectors, wanted.last_hidden_state) and torch.equal(mixes[0], vectors)
    assert len(layers) == LAYERS + 1 and torch.equal(state.cell, wanted.state.cell)
    tagger = make_model(ElmoForTokenClassification)
    logits = tagger(**batch).logits
    tagger.config.return_dict = False
    assert torch.equal(tagger(**batch)[0], logits)


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


def is_frozen(model) -> bool:
    """Whether none of the token encoder's and the biLM's parameters want gradients, or all; a mixture is a mistake."""
    modules = (model.base_model.token_encoder, model.base_model.bilm)
    wishes = {parameter.requires_grad for module in modules for parameter in module.parameters()}
    assert len(wishes) == 1
    return not wishes.pop()


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


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_loss_and_gradients(use_reentrant):
    # Dropout too: the second run of a layer has to draw what the first one drew.
    model = make_model(ElmoForTokenClassification, freeze_bilm=False, dropout=0.3, num_labels=4).train()
    batch = encode([["a", "b", "c"], ["d"]])
    labels = torch.tensor([[0, 1, 2], [3, -100, -100]])
    runs = 0

    def count(*_):
        nonlocal runs
        runs += 1

    model.elmo.bilm.layers[0].forward_lstm.register_forward_hook(count)

    def loss_and_gradients():
        model.zero_grad()
        torch.manual_seed(3)
        loss = model(**batch, labels=labels).loss
        loss.backward()
        return loss.item(), [parameter.grad.clone() for parameter in model.parameters()]

    loss, gradients = loss_and_gradients()
    assert runs == 1
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": use_reentrant})
    checkpointed_loss, checkpointed_gradients = loss_and_gradients()
    assert runs == 3  # once more on the way back
    assert checkpointed_loss == loss
    # The parts of a gradient may be added up in another order.
    for found, wanted in zip(checkpointed_gradients, gradients, strict=True):
        assert_close(found, wanted, torch.float32)


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


# Bad input


def state_of(rows=2, layers=LAYERS, hidden=P, cell=H) -> ElmoState:
    return ElmoState(hidden=torch.zeros(rows, layers, 2, hidden), cell=torch.zeros(rows, layers, 2, cell))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"input_ids": [[[1] * 50]]},
            TypeError,
            "input_ids is a list, not a tensor; tokenize with return_tensors='pt'",
        ),
        ({"input_ids": None}, TypeError, "input_ids is a NoneType"),
        ({"input_ids": torch.zeros(2, 3, 50)}, TypeError, "input_ids has the dtype torch.float32"),
        ({"input_ids": torch.zeros(2, 3, 50).bool()}, TypeError, "input_ids has the dtype torch.bool"),
        ({"input_ids": torch.zeros(2, 3, 50).byte()}, TypeError, "input_ids has the dtype torch.uint8"),
        ({"input_ids": torch.ones(2, 3).long()}, ValueError, r"shape \(2, 3\); wanted \(sentences, words, 50\)"),
        ({"input_ids": torch.ones(2, 3, 40).long()}, ValueError, r"ElmoCharTokenizer\(max_characters_per_word=50\)"),
        ({"input_ids": torch.ones(0, 3, 50).long()}, ValueError, "the batch holds no sentence"),
        ({"input_ids": torch.ones(2, 0, 50).long()}, ValueError, "the batch holds no word"),
        ({"input_ids": torch.full((2, 3, 50), 262)}, ValueError, "from 262 to 262.*ids from 0 to 261"),
        ({"input_ids": torch.full((2, 3, 50), -1)}, ValueError, "from -1 to -1"),
        ({"attention_mask": [[1, 1, 1]] * 2}, TypeError, "attention_mask is list"),
        ({"attention_mask": torch.ones(2, 3)}, TypeError, "attention_mask is torch.float32"),
        ({"attention_mask": torch.ones(2, 4).long()}, ValueError, r"shape \(2, 4\); .* want \(2, 3\)"),
        ({"attention_mask": torch.ones(2, 3, 50).long()}, ValueError, r"attention_mask has the shape \(2, 3, 50\)"),
        ({"state": state_of(rows=3)}, ValueError, r"state.hidden has .* this batch of 2 rows wants \(2, 2, 2, 6\)"),
        ({"state": state_of(layers=1)}, ValueError, "state.hidden has the shape"),
        ({"state": state_of(hidden=7)}, ValueError, "state.hidden has the shape"),
        ({"state": state_of(cell=9)}, ValueError, r"state.cell has .* wants \(2, 2, 2, 10\)"),
        ({"state": (torch.zeros(1), torch.zeros(1))}, TypeError, "state is a tuple"),
        ({"state": ElmoState(hidden=torch.zeros(2, 2, 2, 6))}, TypeError, "without a tensor 'cell'"),
    ],
)
@pytest.mark.parametrize("cls", [ElmoModel, ElmoForPreTraining, ElmoForTokenClassification])
def test_bad_input_is_refused_by_name(cls, change, error, message):
    model = cls(make_tiny_config(word_vocab_size=9))
    arguments = {"input_ids": torch.ones(2, 3, 50).long(), "attention_mask": torch.ones(2, 3).long()}
    with pytest.raises(error, match=message):
        model(**{**arguments, **change})


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([[0, 0, 0]] * 2, TypeError, "labels is list"),
        (torch.zeros(2, 3), TypeError, "labels is torch.float32"),
        (torch.zeros(2, 3).bool(), TypeError, "labels is torch.bool"),
        (torch.zeros(2, 2).long(), ValueError, r"labels has the shape \(2, 2\); .* want \(2, 3\), one label per word"),
        (torch.full((2, 3), 5), ValueError, "labels holds values from 5 to 5; this model has 5 classes"),
        (torch.full((2, 3), -1), ValueError, "labels holds values from -1 to -1"),
    ],
)
@pytest.mark.parametrize("cls", [ElmoForPreTraining, ElmoForTokenClassification])
def test_bad_labels_are_refused_by_name(cls, labels, error, message):
    model = cls(make_tiny_config(word_vocab_size=5, num_labels=5))
    with pytest.raises(error, match=message):
        model(torch.ones(2, 3, 50).long(), labels=labels)


# Pre-training


def plain_loss(logits, labels, mask, shift) -> float:
    """Mean of -log p(word at t + shift) over the real words t whose neighbour is real and has a label."""
    losses = []
    for row in range(len(labels)):
        for t in range(labels.shape[1]):
            target = t + shift
            if 0 <= target < labels.shape[1] and mask[row, t] and mask[row, target] and labels[row, target] != -100:
                scores = logits[row, t].tolist()
                total = sum(math.exp(score) for score in scores)
                losses.append(-math.log(math.exp(scores[labels[row, target]]) / total))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("side", ["left", "right"])
def test_pretraining_losses_are_those_of_each_words_neighbours(side):
    model = make_model(ElmoForPreTraining, dtype=torch.float64, word_vocab_size=7)
    batch = encode([["a", "b", "c", "d"], ["e", "f", "g"], ["h"]], padding_side=side)
    labels = torch.randint(0, 7, batch["attention_mask"].shape)
    labels[0, 2] = -100
    output = model(**batch, labels=labels)
    mask = batch["attention_mask"].bool()
    wanted = [plain_loss(logits, labels, mask, shift) for logits, shift in ((output[3], 1), (output[4], -1))]
    assert output.forward_logits is output[3] and output.backward_logits is output[4]
    assert output.forward_loss.item() == pytest.approx(wanted[0], rel=LOSS_FLOAT32)
    assert output.backward_loss.item() == pytest.approx(wanted[1], rel=LOSS_FLOAT32)
    assert output.loss.item() == pytest.approx(sum(wanted) / 2, rel=LOSS_FLOAT32)
    # Labels of padding may be anything that is a label.
    other = torch.where(mask, labels, 6)
    assert torch.equal(model(**batch, labels=other).loss, output.loss)
    assert torch.equal(model(**batch, labels=labels.int()).loss, output.loss)


def test_pretraining_without_any_target_costs_nothing():
    model = make_model(ElmoForPreTraining, word_vocab_size=7).train()
    for labels in (torch.full((1, 3), -100), torch.zeros(1, 1).long()):
        loss = model(random_rows(*labels.shape), labels=labels).loss
        assert loss.item() == 0
        loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_neither_direction_sees_what_it_predicts():
    model = make_model(ElmoForPreTraining, dtype=torch.float64, word_vocab_size=7)
    ids, others = random_rows(1, 6), random_rows(1, 6)
    wanted = model(ids)
    for t in range(6):
        later, earlier = ids.clone(), ids.clone()
        later[:, t + 1 :], earlier[:, :t] = others[:, t + 1 :], others[:, :t]
        assert torch.equal(model(later).forward_logits[:, : t + 1], wanted.forward_logits[:, : t + 1])
        assert torch.equal(model(earlier).backward_logits[:, t:], wanted.backward_logits[:, t:])
    # The word itself and those read before it do count.
    changed = ids.clone()
    changed[:, 2] = encode([["zzz"]])["input_ids"][0, 0]
    differs = [
        (model(changed)[name] != wanted[name]).any(dim=-1)[0].tolist() for name in ("forward_logits", "backward_logits")
    ]
    assert differs == [[False, False, True, True, True, True], [True, True, True, False, False, False]]


def test_pretraining_carries_a_state_and_returns_the_layers():
    model, ids = make_model(ElmoForPreTraining, word_vocab_size=7), random_rows(2, 4)
    first = model(ids, output_hidden_states=True)
    assert first.loss is None and len(first.hidden_states) == LAYERS + 1
    assert first.state.cell.shape == (2, LAYERS, 2, H)
    second = model(ids, state=first.state)
    assert not torch.equal(second.forward_logits, first.forward_logits)
    base = model.elmo(ids, state=first.state, output_hidden_states=True).hidden_states[-1]
    torch.testing.assert_close(second.backward_logits, model.word_softmax(base[..., P:]))
    assert torch.equal(model(ids, return_dict=False)[0], first.forward_logits)


@pytest.mark.parametrize("loaded", [False, True])
def test_pretraining_trains_the_bilm_whatever_the_config_says_and_lets_the_mixes_rest(loaded, tmp_path):
    model = make_model(ElmoForPreTraining, word_vocab_size=7, freeze_bilm=True, dropout=0.5)
    if loaded:
        model.save_pretrained(tmp_path)
        model = ElmoForPreTraining.from_pretrained(tmp_path)
    model.train()
    assert not is_frozen(model) and model.elmo.bilm.training
    resting = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert resting == {"elmo.mixes.0.weight", "elmo.mixes.0.scale"}
    ids, labels = random_rows(2, 4), torch.randint(0, 7, (2, 4))
    loss = model(ids, labels=labels).loss
    assert loss != model(ids, labels=labels).loss  # dropout
    loss.backward()
    assert all(p.grad is not None and p.grad.any() for name, p in model.named_parameters() if name not in resting)
    model.freeze_bilm()
    assert not is_frozen(model)


def test_pretraining_lowers_its_loss():
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=7)).train()
    ids, labels = random_rows(4, 6), torch.randint(0, 7, (4, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        loss = model(ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(7), abs=FRESH_LOSS)
    assert losses[-1] < 0.8 * losses[0]


SOFTMAXES = {
    "shared": {},
    "two": {"share_word_softmax": False},
    "adaptive": {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [3, 6], "adaptive_softmax_div_value": 2},
    "two adaptive": {
        "softmax_type": "adaptive",
        "adaptive_softmax_cutoffs": [4],
        "share_word_softmax": False,
    },
}
each_softmax = pytest.mark.parametrize("fields", SOFTMAXES.values(), ids=SOFTMAXES)


@each_softmax
def test_every_word_softmax_gives_a_distribution_and_its_losses(fields):
    model = make_model(ElmoForPreTraining, torch.float64, word_vocab_size=11, **fields)
    batch = encode([["a", "b", "c"], ["d"]])
    labels = torch.tensor([[1, 10, 4], [5, 0, 0]])
    output = model(**batch, labels=labels)
    for logits, loss, shift in (
        (output.forward_logits, output.forward_loss, 1),
        (output.backward_logits, output.backward_loss, -1),
    ):
        assert logits.shape == (2, 3, 11)
        if model.config.softmax_type == "adaptive":
            assert_close(logits.logsumexp(-1), torch.zeros(2, 3, dtype=torch.float64), torch.float64)
        mask = batch["attention_mask"].bool()
        assert loss.item() == pytest.approx(plain_loss(logits, labels, mask, shift), rel=LOSS_FLOAT32)


@each_softmax
def test_a_fresh_word_softmax_guesses_nearly_evenly(fields):
    """Over the words of each cluster, where it has clusters."""
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=11, **fields)).eval()
    for module in (m for softmax in model.word_softmaxes for m in softmax.modules() if isinstance(m, nn.Linear)):
        assert module.bias is None or not module.bias.any()
        assert module.weight.std().item() < 3 / math.sqrt(module.in_features)
    output = model(**encode([["a", "b", "c"]]), labels=torch.tensor([[1, 2, 0]]))
    assert abs(output.loss.item() - math.log(11)) < 3 * FRESH_LOSS


@each_softmax
def test_every_word_softmax_is_saved_and_loaded(fields, tmp_path):
    model = make_model(ElmoForPreTraining, word_vocab_size=11, **fields)
    model.save_pretrained(tmp_path)
    loaded, report = ElmoForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    weights = loaded.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    for cls in (ElmoModel, ElmoForTokenClassification):
        _, report = cls.from_pretrained(tmp_path, output_loading_info=True)
        assert not report["unexpected_keys"]
        assert all(name.startswith("classifier") for name in report["missing_keys"])


def test_a_checkpoint_from_before_there_was_a_choice_of_softmaxes_loads(tmp_path):
    model = make_model(ElmoForPreTraining, word_vocab_size=11)
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in stored.items() if "softmax" not in name}))
    for cls in (ElmoForPreTraining, ElmoModel):
        loaded, report = cls.from_pretrained(tmp_path, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        assert (loaded.config.softmax_type, loaded.config.share_word_softmax) == ("full", True)


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


def test_directions_share_a_softmax_or_have_one_each():
    shared, two = (
        ElmoForPreTraining(make_tiny_config(word_vocab_size=11, share_word_softmax=share)) for share in (True, False)
    )
    assert shared.word_softmaxes == (shared.word_softmax, shared.word_softmax)
    assert two.word_softmaxes == (two.word_softmax, two.word_softmax_backward)
    assert two.num_parameters() - shared.num_parameters() == 11 * (P + 1)
    output = two.eval()(**encode([["a", "b"]]))
    before = output.forward_logits, output.backward_logits
    with torch.no_grad():
        two.word_softmax_backward.bias.add_(1)
    output = two(**encode([["a", "b"]]))
    assert torch.equal(output.forward_logits, before[0]) and not torch.equal(output.backward_logits, before[1])


def test_only_a_full_softmax_is_an_output_embedding():
    models = [
        ElmoForPreTraining(make_tiny_config(word_vocab_size=11, **SOFTMAXES[name])) for name in ("shared", "adaptive")
    ]
    assert models[0].get_output_embeddings() is models[0].word_softmax
    assert models[1].get_output_embeddings() is None


def test_pretraining_needs_a_word_vocabulary():
    with pytest.raises(ValueError, match=r"word_vocab_size is None.*Set it to the size"):
        ElmoForPreTraining(make_tiny_config())


# Token classification


def test_the_loss_is_the_mean_over_words_with_a_label():
    model = make_model(ElmoForTokenClassification, dtype=torch.float64, num_labels=3)
    batch = encode([["a", "b", "c"], ["d"]])
    labels = torch.tensor([[2, -100, 0], [1, -100, -100]])
    output = model(**batch, labels=labels, output_hidden_states=True)
    assert output.logits.shape == (2, 3, 3) and len(output.hidden_states) == LAYERS + 1
    chosen = output.logits[labels != -100]
    wanted = nn.functional.cross_entropy(chosen, labels[labels != -100])
    # The loss is computed in float32 whatever the model's precision.
    assert output.loss.item() == pytest.approx(wanted.item(), rel=LOSS_FLOAT32)
    assert torch.equal(model(**batch, labels=labels.int()).loss, output.loss)


def test_a_batch_without_labels_costs_nothing_rather_than_nan():
    model = make_model(ElmoForTokenClassification).train()
    loss = model(**encode([["a", "b"]]), labels=torch.full((1, 2), -100)).loss
    assert loss.item() == 0
    loss.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_the_state_of_the_bilm_can_be_carried_into_the_head():
    model, batch = make_model(ElmoForTokenClassification), encode([["a", "b"], ["c"]])
    state = model.elmo(**batch).state
    logits = model.classifier(model.elmo(**batch, state=state).last_hidden_state)
    assert torch.equal(model(**batch, state=state).logits, logits)
    assert torch.equal(model(**batch, return_dict=False)[0], model(**batch).logits)


@settings(max_examples=50)
@both_dtypes
@pytest.mark.parametrize("lstm_layers", [0, 1, 2])
@given(sentences=sentence_lists, side=st.sampled_from(["left", "right"]), extra=st.integers(0, 3))
def test_logits_depend_on_the_sentence_alone(dtype, lstm_layers, sentences, side, extra):
    model = shared_model(
        ElmoForTokenClassification, dtype, classifier_lstm_layers=lstm_layers, classifier_lstm_size=5, num_labels=3
    )
    longest = max(map(len, sentences))
    batch = encode(sentences, padding_side=side, pad_to_multiple_of=longest + extra)
    mask = batch["attention_mask"].bool()
    together = model(**batch).logits
    for row, sentence in enumerate(sentences):
        assert_close(together[row][mask[row]], model(**encode([sentence])).logits[0], dtype)


def test_a_row_without_words_passes_the_bilstm():
    model = make_model(ElmoForTokenClassification, classifier_lstm_layers=1, classifier_lstm_size=5)
    ids = random_rows(2, 3)
    full = model(ids[:1]).logits
    half = model(ids, torch.tensor([[1, 1, 1], [0, 0, 0]])).logits
    assert_close(half[:1], full, torch.float32)
    # Zeros went into the classifier where there is no word.
    assert torch.equal(half[1], model.classifier.bias.expand(3, -1))
    assert torch.equal(model(ids, torch.zeros(2, 3).long()).logits, model.classifier.bias.expand(2, 3, -1))


@pytest.mark.parametrize("lstm_layers", [0, 1])
def test_masked_words_change_no_logits_whatever_their_characters(lstm_layers):
    model = make_model(ElmoForTokenClassification, classifier_lstm_layers=lstm_layers, classifier_lstm_size=5)
    ids, mask = random_rows(2, 5), torch.tensor([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]])
    others = torch.where(mask.bool().unsqueeze(-1), ids, random_rows(2, 5))
    assert torch.equal(model(ids, mask).logits, model(others, mask).logits)
    assert_close(model(ids, mask).logits[:1, :3], model(ids[:1, :3]).logits, torch.float32)


def test_the_penalty_on_the_mix_is_added_in_training_only():
    fields = {"classifier_dropout": 0.0, "num_labels": 3}
    batch, labels = encode([["a", "b"]]), torch.tensor([[0, 1]])
    plain, penalised = (make_model(ElmoForTokenClassification, mix_l2=value, **fields) for value in (0.0, 0.5))
    for model in (plain, penalised):
        with torch.no_grad():
            model.elmo.mixes[0].weight.copy_(torch.tensor([1.0, -2.0, 3.0]))
    assert torch.equal(penalised(**batch, labels=labels).loss, plain(**batch, labels=labels).loss)
    added = penalised.train()(**batch, labels=labels).loss - plain.train()(**batch, labels=labels).loss
    assert added.item() == pytest.approx(0.5 * (1 + 4 + 9), rel=LOSS_FLOAT32)


def test_classifier_dropout_works_in_training_only():
    model, batch = make_model(ElmoForTokenClassification, classifier_dropout=0.5), encode([["a", "b"]])
    assert torch.equal(model(**batch).logits, model(**batch).logits)
    model.train()
    assert not torch.equal(model(**batch).logits, model(**batch).logits)


@pytest.mark.parametrize("loaded", [False, True])
def test_every_parameter_of_the_head_that_wants_a_gradient_gets_one(loaded, tmp_path):
    model = make_model(ElmoForTokenClassification, num_mixes=3, freeze_bilm=False)
    if loaded:
        model.save_pretrained(tmp_path)
        model = ElmoForTokenClassification.from_pretrained(tmp_path)
    model.train()(**encode([["a", "b"]]), labels=torch.tensor([[0, 1]])).loss.backward()
    assert all((parameter.grad is not None) == parameter.requires_grad for parameter in model.parameters())
