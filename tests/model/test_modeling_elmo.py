"""The biLM, its mixes and word table, ElmoModel, ElmoForPreTraining and ElmoEmbeddings."""

import inspect
import itertools
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import transformers.utils.hub
from class_cases import CASES, LEARNERS, TARGETS, each_class, make_batch, make_inputs, shared, tensors_of
from conftest import make_tiny_config
from examples import examples
from huggingface_hub import HfApi, ModelCard
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
    shared_model,
)
from refusals import assert_refused
from scan_cases import assert_same, results_and_gradients, sizes_and_settings, with_all_options
from scan_cases import make_batch as make_scan
from tolerances import FLOAT16, LOSS_FLOAT32, REORDERED_FLOAT64
from torch import nn
from transformers import Trainer, TrainingArguments

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoEmbeddings,
    ElmoForCausalLM,
    ElmoForPreTraining,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoState,
    EmbeddingsHead,
    kernels,
)
from hf_elmo.model import modeling_elmo
from hf_elmo.model.modeling_elmo import (
    WORD_LIST_FILE,
    ElmoBiLM,
    ElmoTokenEncoder,
    ElmoWordTable,
    ProjectedLSTMWeights,
    hash_words,
    read_words,
    run_projected_lstm,
    scan_projected_lstm,
    write_words,
)
from hf_elmo.text.word_vectors import build_word_table

# ElmoModel


@pytest.mark.parametrize("normalization", ["none", "batch", "word"])
def test_masked_words_do_not_count_whatever_their_characters(normalization):
    model = make_model(dtype=torch.float64, mix_normalization=normalization)
    ids = random_rows(2, 5)
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]])
    others = torch.where(mask.bool().unsqueeze(-1), ids, random_rows(2, 5))
    assert not torch.equal(ids, others)
    first, second = (model(rows, mask, output_hidden_states=True) for rows in (ids, others))
    assert torch.equal(everything(first), everything(second))


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


def rows_of(*words: str) -> torch.Tensor:
    return torch.from_numpy(ElmoCharTokenizer().encode_words(words))


# What models are given


def test_bad_input_is_refused_by_name():
    model, batch = shared("base"), make_inputs("base")
    ids = batch["input_ids"]
    for named, wrong in (
        (("input_ids", "(3, 5)"), ids[..., 0]),
        (("input_ids", "(3, 5, 49)"), ids[..., 1:]),
        (("input_ids", "float32"), ids.float()),
        (("input_ids", "(0, 5, 50)"), ids[:0]),
        (("input_ids", "(3, 0, 50)"), ids[:, :0]),
        (("input_ids", "262"), ids + 1),
        (("input_ids", "-1"), ids - 1),
    ):
        assert_refused(ValueError, named, model, wrong)
    state = model(**batch).state
    assert_refused(ValueError, ("state", "3", "2"), model, ids[:2], state=state)
    kept = torch.zeros(*ids.shape[:2], P * (1 + 2 * LAYERS))
    assert_refused(ValueError, "packed_layers", model, ids, packed_layers=kept, state=state)
    assert_refused(ValueError, "freeze_bilm", make_model(freeze_bilm=False), ids, packed_layers=kept)


@pytest.mark.parametrize("name", [name for name in LEARNERS if "labels" in make_batch(name)])
def test_labels_of_another_shape_or_kind_are_refused(name):
    batch = make_batch(name)
    if batch["labels"].shape == batch["attention_mask"].shape:
        for wrong in (batch["labels"][:, 1:], batch["labels"].float()):
            assert_refused(ValueError, "labels", shared(name), **{**batch, "labels": wrong})


@each_class
def test_what_tools_pass_to_every_model_changes_nothing(name):
    model, batch = shared(name), make_inputs(name)
    usual = {"inputs_embeds": None, "use_cache": True, "output_attentions": False, "return_dict": True}
    types = {"token_type_ids": torch.zeros_like(batch["attention_mask"]), **batch}
    outputs = (model(**batch), model(**usual, **types))
    found, wanted = (dict(tensors_of(output)) for output in outputs)
    assert found.keys() == wanted.keys() and all(found[key].equal(wanted[key]) for key in wanted)


@pytest.mark.parametrize("name", ["tokens", "texts", "roles", "coreference"])
def test_pairs_are_refused_where_nothing_reads_them(name):
    batch = make_inputs(name)
    assert_refused(
        ValueError,
        ("token_type_ids", CASES[name].cls.__name__),
        shared(name),
        **batch,
        token_type_ids=batch["attention_mask"],
    )


def test_pairs_carry_no_state():
    model, batch = shared("base"), make_inputs("base")
    types = torch.zeros_like(batch["attention_mask"])
    types[:, -1] = 1
    assert model(**batch, token_type_ids=types).state is None
    assert_refused(ValueError, "state", model, **batch, token_type_ids=types, state=model(**batch).state)


@each_class
def test_a_trainer_sees_the_arguments_that_are_read_and_no_others(name, tmp_path):
    """It gathers a data set's columns by them; where it saw **kwargs it would also hand its own loss scale over."""
    trainer = Trainer(shared(name), TrainingArguments(str(tmp_path), report_to="none", use_cpu=True))
    assert trainer.model_accepts_loss_kwargs is (CASES[name].cls is ElmoForCausalLM)
    known = list(inspect.signature(trainer.model.forward).parameters)
    assert known[:2] == ["input_ids", "attention_mask"] and "inputs_embeds" not in known
    assert set(make_batch(name)) <= set(known)
    assert ("token_type_ids" in known) is (CASES[name].cls is not ElmoForCausalLM)
    assert set(trainer.label_names) <= set(TARGETS) & set(known)
    assert bool(trainer.label_names) == (name in LEARNERS)


# The biLM, the mix, starting values


def randomize(module: nn.Module, dtype=torch.float64) -> nn.Module:
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -1, 1)
    return module.to(dtype)


def assert_close_of_layers(found, wanted, tolerance=REORDERED_FLOAT64):
    torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance)


def test_dropout_works_on_each_layers_input_and_on_the_output():
    bilm = randomize(ElmoBiLM(make_tiny_config(dropout=0.5))).train()
    vectors = torch.randn(2, 4, 6, dtype=torch.float64)
    outputs, _ = bilm(vectors, vectors)
    dropped = [float((half == 0).double().mean()) for half in outputs[-1]]
    assert all(0.2 < share < 0.8 for share in dropped)
    assert all((half != 0).all() for half in outputs[0])
    again, _ = bilm(vectors, vectors)
    assert not torch.equal(outputs[0][0], again[0][0])


@pytest.mark.parametrize(
    ("chosen", "shares"),
    [("all", [1 / 7, 4 / 7, 2 / 7]), ("top", [0, 0, 1]), ("token", [1, 0, 0]), ("average", [1 / 3, 1 / 3, 1 / 3])],
)
def test_the_mix_is_the_sum_that_its_equation_says(chosen, shares):
    mix = ElmoModel(make_tiny_config(mixed_layers=chosen)).mixes[0].double()
    assert mix.weight.requires_grad is (chosen == "all") and mix.scale.requires_grad
    with torch.no_grad():
        mix.weight.copy_(torch.tensor([1.0, 4.0, 2.0]).double().log())
        mix.scale.fill_(3.0)
    layers, mask = list(torch.randn(3, 2, 5, 12).double()), torch.rand(2, 5) < 0.6
    wanted = sum(3 * share * layer for share, layer in zip(shares, layers, strict=True)) * mask.unsqueeze(-1)
    assert mix.shares().tolist() == pytest.approx(shares)
    assert_close_of_layers(mix(layers, mask).detach(), wanted)


@pytest.mark.parametrize("normalization", ["none", "batch", "word"])
def test_a_mix_of_nothing_or_of_constants_is_finite(normalization):
    mix = ElmoModel(make_tiny_config(mix_normalization=normalization)).mixes[0].double()
    for mask in (torch.zeros(2, 3).bool(), torch.ones(2, 3).bool()):
        vectors = [torch.full((2, 3, 12), 7.0, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        mixed = mix(vectors, mask)
        gradients = torch.autograd.grad(mixed.sum(), [*vectors, *mix.parameters()])
        assert all(tensor.isfinite().all() for tensor in (mixed, *gradients))
        if not mask.any():
            assert not mixed.any()


@pytest.mark.parametrize("normalization", ["none", "batch", "word"])
def test_half_precision_holds_the_sums_over_a_large_batch(normalization):
    mix = ElmoModel(make_tiny_config(mix_normalization=normalization)).mixes[0]
    # More numbers, and a larger sum of squares, than float16 can count.
    layers = [10 * torch.randn(40, 60, 64) + 3 for _ in range(3)]
    mask = torch.ones(40, 60).bool()
    wanted = mix(layers, mask).detach()
    found = mix.half()([layer.half() for layer in layers], mask)
    assert found.dtype == torch.float16
    # Relative to the largest value: without normalization they are well above one.
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=FLOAT16 * float(wanted.abs().max()))


# The projected LSTM's scan


def reference_scan(inputs, mask, weights, state=None, *, cell_clip=None, projection_clip=None, reverse=False):
    """Sentence by sentence, and only over the real words of each, with the equations as the paper has them."""
    batch_size, length, projection_size = inputs.shape
    cell_size = weights.projection.shape[1]
    gates = [slice(index * cell_size, (index + 1) * cell_size) for index in range(4)]
    outputs, hiddens, cells = [], [], []
    for row in range(batch_size):
        h = inputs.new_zeros(projection_size) if state is None else state[0][row]
        c = inputs.new_zeros(cell_size) if state is None else state[1][row]
        found = [inputs.new_zeros(projection_size)] * length
        places = [place for place in range(length) if mask is None or mask[row, place]]
        for place in reversed(places) if reverse else places:
            x = inputs[row, place]
            i, f, g, o = (weights.input[gate] @ x + weights.recurrent[gate] @ h + weights.bias[gate] for gate in gates)
            c = c / (1 + torch.exp(-f)) + torch.tanh(g) / (1 + torch.exp(-i))
            if cell_clip is not None:
                c = torch.minimum(torch.maximum(c, torch.full_like(c, -cell_clip)), torch.full_like(c, cell_clip))
            h = weights.projection @ (torch.tanh(c) / (1 + torch.exp(-o)))
            if projection_clip is not None:
                bound = torch.full_like(h, projection_clip)
                h = torch.minimum(torch.maximum(h, -bound), bound)
            found[place] = h
        outputs.append(torch.stack(found))
        hiddens.append(h)
        cells.append(c)
    return torch.stack(outputs), (torch.stack(hiddens), torch.stack(cells))


@with_all_options
@given(**sizes_and_settings(3, 6, 5, 7))
def test_scan_is_the_plain_recurrence(sizes, masked, stateful, settings, seed):
    torch.manual_seed(seed)
    arguments = make_scan(*sizes, masked, stateful)
    results, gradients = results_and_gradients(scan_projected_lstm, *arguments, **settings)
    wanted_results, wanted_gradients = results_and_gradients(reference_scan, *arguments, **settings)
    assert_same(results, wanted_results)
    assert_same(gradients, wanted_gradients)


@pytest.mark.parametrize("projection_clip", [None, 1e-3])
def test_scan_without_a_projection_is_torchs_lstm_and_clips_no_hidden_state(projection_clip):
    size = 5
    lstm = nn.LSTM(size, size, batch_first=True).double()
    nn.init.zeros_(lstm.bias_hh_l0)
    inputs = torch.randn(3, 7, size, dtype=torch.float64, requires_grad=True)
    leaves = [inputs, lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0]
    weights = ProjectedLSTMWeights(*leaves[1:], None)
    outputs, (hidden, cell) = run_projected_lstm(inputs, None, weights, projection_clip=projection_clip)
    theirs, (last_hidden, last_cell) = lstm(inputs)
    assert_same([outputs, hidden, cell], [theirs, last_hidden[0], last_cell[0]])
    assert_same(*(torch.autograd.grad(result.cos().sum(), leaves) for result in (outputs, theirs)))


# The token encoder


def encode_plainly(encoder: ElmoTokenEncoder, rows: torch.Tensor, activation) -> torch.Tensor:
    """The token encoder's equations over every window of the whole rows."""
    characters = encoder.character_embedding.weight[rows]
    features = []
    for convolution in encoder.convolutions:
        windows = characters.unfold(1, convolution.kernel_size[0], 1)
        scores = torch.einsum("npdw,fdw->npf", windows, convolution.weight) + convolution.bias
        features.append(scores.max(dim=1).values)
    vectors = activation(torch.cat(features, dim=-1))
    for highway in encoder.highways:
        gate = torch.sigmoid(vectors @ highway.carry.weight.T + highway.carry.bias)
        transformed = (vectors @ highway.transform.weight.T + highway.transform.bias).clamp(min=0)
        vectors = gate * transformed + (1 - gate) * vectors
    return vectors @ encoder.projection.weight.T + encoder.projection.bias


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("filters", [[[1, 3], [2, 5], [7, 6]], [[50, 4]], [[3, 2], [48, 4]]])
def test_padding_characters_that_are_cut_off_change_nothing(filters, activation):
    encoder = randomize(ElmoTokenEncoder(make_tiny_config(filters=filters, filter_activation=activation)))
    words = ["x" * length for length in range(52)] + ["<S>", "</S>", "né", "\U0001f600"]
    every_row = rows_of(*words)
    # Each word alone, whose row is cut as short as can be, then all of them with the longest.
    for rows in [*every_row.split(1), every_row, every_row[:5]]:
        found = encoder(rows)
        wanted = encode_plainly(encoder, rows, getattr(torch, activation))
        assert_close_of_layers(found, wanted)
        parameters = list(encoder.parameters())
        weights = torch.randn_like(found)
        for gradient, wanted_gradient in zip(
            torch.autograd.grad((found * weights).sum(), parameters),
            torch.autograd.grad((wanted * weights).sum(), parameters),
            strict=True,
        ):
            # autograd leaves the padding row of an embedding out of its gradient.
            skipped = 1 if gradient.shape == encoder.character_embedding.weight.shape else 0
            assert_close_of_layers(gradient[skipped:], wanted_gradient[skipped:])


@pytest.mark.parametrize("token_inputs", ["words", "both"])
def test_words_are_encoded_once_and_gradients_reach_the_rows_that_were_looked_up(token_inputs):
    config = make_tiny_config(token_inputs=token_inputs, word_table_size=3, word_vector_size=5)
    encoder, seen = randomize(ElmoTokenEncoder(config)), []
    rows = rows_of("cat", "<S>", "né", "dog", "", "cat")
    encoder.word_table.fill(rows[:3])
    wanted = encoder(rows)
    handle = encoder.projection.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    assert_close_of_layers(encoder.encode_distinct(rows), wanted)
    handle.remove()
    assert seen == [5] and encoder(rows[:0]).shape == (0, 6)
    encoder(rows[[0, 3]]).square().sum().backward()
    found = encoder.word_table.weight.grad.any(dim=1).nonzero().flatten().tolist()
    assert found == sorted([0, int(encoder.word_table.indices(rows[:1]))])
    assert all(parameter.grad.any() for parameter in encoder.parameters())


def test_gradients_of_repeated_words_are_the_same_every_time():
    """To the last bit, on several threads too."""
    encoder = randomize(ElmoTokenEncoder(make_tiny_config(projection_size=64)), torch.float32)
    rows = rows_of(*map(chr, range(97, 117)))[torch.randint(20, (20_000,))]
    weights = torch.randn(len(rows), 64)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        gradients = [
            torch.autograd.grad((encoder.encode_distinct(rows) * weights).sum(), encoder.projection.bias)[0]
            for _ in range(10)
        ]
    finally:
        torch.set_num_threads(num_threads)
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)


# Pairs


sentences = st.lists(st.text("abcé", max_size=4), max_size=5)
PAIRS = [(["a", "bb", "c"], ["d"]), (["e"], ["bb", "a", "f", "a"]), ([], ["c"])]


def encode_of_pairs(batch, is_pairs=True, **arguments):
    texts = tuple(map(list, zip(*batch, strict=True))) if is_pairs else (batch,)
    return ElmoCharTokenizer()(*texts, is_split_into_words=True, padding=True, return_tensors="pt", **arguments)


def vectors_alone(model, sentence, special=True):
    """What a sentence of a pair must have, (words, everything)."""
    if not sentence and not special:
        return None
    batch = encode_of_pairs([sentence], is_pairs=False, add_special_tokens=special)
    return everything(model(**batch, output_hidden_states=True))[0]


@both_dtypes
@examples(20)
@given(
    pairs=st.lists(st.tuples(sentences, sentences), min_size=1, max_size=4),
    side=st.sampled_from(["left", "right"]),
    special=st.booleans(),
    multiple=st.sampled_from([1, 7]),
    with_mask=st.booleans(),
)
def test_each_sentence_of_a_pair_has_its_own_vectors(dtype, pairs, side, special, multiple, with_mask):
    """Whatever stands beside it, on whichever side the padding lies."""
    if not special and not any(map(any, pairs)):
        return
    model = shared_model(dtype=dtype, mix_normalization="word", num_mixes=2)
    batch = encode_of_pairs(pairs, add_special_tokens=special, padding_side=side, pad_to_multiple_of=multiple)
    mask, types = batch["attention_mask"].bool(), batch["token_type_ids"]
    output = model(batch["input_ids"], mask if with_mask else None, token_type_ids=types, output_hidden_states=True)
    together = everything(output)
    assert not together[~mask].any()
    for row, pair in enumerate(pairs):
        for index, sentence in enumerate(pair):
            wanted = vectors_alone(model, sentence, special)
            if wanted is not None:
                assert_close(together[row][mask[row] & (types[row] == index)], wanted, dtype)


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_sentence_of_many_pairs_is_read_once_unless_its_copies_have_their_own_dropout(is_frozen):
    context, other = ["a", "bb", "c", "d"], ["a", "bb", "c"]
    pairs = [(["e"], context), (["f", "g"], context), (context, ["e"]), (["e"], other)]
    model, read = make_model(freeze_bilm=is_frozen, dropout=0.5), []
    model.bilm.register_forward_hook(lambda _, arguments, __: read.append(len(arguments[0])))
    batch = encode_of_pairs(pairs)
    found = everything(model(**batch, output_hidden_states=True))
    for row, (first, second) in enumerate(pairs):
        wanted = torch.cat([vectors_alone(model, first), vectors_alone(model, second)])
        assert_close(found[row, : len(wanted)], wanted, torch.float32)
    assert read[0] == 4
    model.train()(**batch)
    assert read[-1] == (4 if is_frozen else 8)


# The word table


# One word has a row that is full, one a character of several bytes.
WORDS = ["a", "b", "c", "<S>", "</S>", "né", "x" * 48]
words = st.text(st.characters(blacklist_categories=["Cs"]), max_size=6)


def make_model_of_table(token_inputs, cls=ElmoModel, **fields):
    sizes = {"word_table_size": len(WORDS), "word_vector_size": 5}
    model = make_model(cls, token_inputs=token_inputs, **sizes, **fields)
    build_word_table(ElmoCharTokenizer(), WORDS).fill(model)
    return model


@given(known=st.lists(words, min_size=1, unique=True), asked=st.lists(words))
def test_a_table_is_a_dict_with_a_default(known, asked):
    table = ElmoWordTable(len(known), 3)
    vectors, unknown = torch.randn(len(known), 3), torch.randn(3)
    table.fill(rows_of(*known), vectors, unknown)
    wanted = dict(zip(known, vectors, strict=True))
    asked = [*asked, *known[::-1]]
    assert torch.equal(table(rows_of(*asked)), torch.stack([wanted.get(word, unknown) for word in asked]))


def test_rows_of_any_integer_type_and_in_any_number_have_the_same_hashes(monkeypatch):
    rows = rows_of(*WORDS)
    wanted = hash_words(rows)
    assert torch.equal(hash_words(rows.to(torch.int16)), wanted)
    monkeypatch.setattr(modeling_elmo, "_WORDS_AT_A_TIME", 2)
    assert torch.equal(hash_words(rows), wanted)


def test_hashes_never_change():
    """Checkpoints hold them."""
    assert hash_words(rows_of("the", "<S>", "né")).tolist() == [
        -4462748471680015666,
        -4688990378240097683,
        -7482854076689013479,
    ]


@pytest.mark.parametrize("token_inputs", ["words", "both"])
def test_a_table_wants_filling_and_unknown_words_are_told_apart_by_their_characters_alone(token_inputs):
    batch = encode([["zz"], ["yy"]])
    empty = ElmoModel(make_tiny_config(token_inputs=token_inputs, word_table_size=2, word_vector_size=3))
    assert_refused(ValueError, "word table", empty, **batch)
    first, second = make_model_of_table(token_inputs).double()(**batch).last_hidden_state
    assert torch.allclose(first, second, rtol=0, atol=REORDERED_FLOAT64) is (token_inputs == "words")


def test_vectors_kept_from_batch_to_batch_are_those_of_the_table_as_it_is():
    model = make_model_of_table("both").double()
    encoder, rows = model.token_encoder, rows_of("a", "zz", "a")
    kernels.cache_words(encoder, 10)
    with torch.no_grad():
        first = encoder.encode_distinct(rows)
        # The words change places; not a number of the weights does.
        encoder.word_table.fill(rows_of("zz", "b", "c", "d", "e", "f", "g"))
        second = encoder.encode_distinct(rows)
    torch.testing.assert_close(second, encoder(rows), rtol=0, atol=REORDERED_FLOAT64)
    assert (second - first).abs().max() > 0.01


def test_a_table_can_be_kept_as_it_is_while_the_rest_is_trained(tmp_path):
    model = make_model_of_table("both", ElmoForPreTraining, word_vocab_size=9, train_word_vectors=False)
    model.save_pretrained(tmp_path)
    for each in (model, ElmoForPreTraining.from_pretrained(tmp_path)):
        resting = {name for name, parameter in each.named_parameters() if not parameter.requires_grad}
        assert resting == {"elmo.mixes.0.weight", "elmo.mixes.0.scale", "elmo.token_encoder.word_table.weight"}
    tagger = ElmoForTokenClassification.from_pretrained(tmp_path)
    tagger.freeze_bilm(False)
    encoder = tagger.elmo.token_encoder
    assert encoder.projection.weight.requires_grad and not encoder.word_table.weight.requires_grad


# ElmoForPreTraining


def plain_loss(logits, labels, mask, shift) -> float:
    """Mean of -log p(word at t + shift) over the real words t whose neighbor is real and has a label."""
    losses = []
    for row in range(len(labels)):
        for t in range(labels.shape[1]):
            target = t + shift
            if 0 <= target < labels.shape[1] and mask[row, t] and mask[row, target] and labels[row, target] != -100:
                scores = logits[row, t].tolist()
                total = sum(math.exp(score) for score in scores)
                losses.append(-math.log(math.exp(scores[labels[row, target]]) / total))
    return sum(losses) / len(losses)


SOFTMAXES = {
    "shared": {},
    "two": {"share_word_softmax": False},
    "adaptive": {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [3, 6], "adaptive_softmax_div_value": 2},
    "two adaptive": {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4], "share_word_softmax": False},
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("fields", SOFTMAXES.values(), ids=SOFTMAXES)
def test_pretraining_losses_are_those_of_each_words_neighbors(fields, side):
    model = make_model(ElmoForPreTraining, dtype=torch.float64, word_vocab_size=11, **fields)
    batch = encode([["a", "b", "c", "d"], ["e", "f", "g"], ["h"]], padding_side=side)
    labels = torch.randint(0, 11, batch["attention_mask"].shape)
    labels[0, 2] = -100
    output = model(**batch, labels=labels)
    mask = batch["attention_mask"].bool()
    both = (output.forward_logits, output.backward_logits)
    assert both[0] is output[3] and both[1] is output[4] and both[0].shape == (3, 4, 11)
    wanted = [plain_loss(logits, labels, mask, shift) for logits, shift in zip(both, (1, -1), strict=True)]
    assert output.forward_loss.item() == pytest.approx(wanted[0], rel=LOSS_FLOAT32)
    assert output.backward_loss.item() == pytest.approx(wanted[1], rel=LOSS_FLOAT32)
    assert output.loss.item() == pytest.approx(sum(wanted) / 2, rel=LOSS_FLOAT32)
    if model.config.softmax_type == "adaptive":
        assert_close(torch.stack(both).logsumexp(-1), torch.zeros(2, 3, 4, dtype=torch.float64), torch.float64)
    # Labels of padding may be anything that is a label.
    other = torch.where(mask, labels, 9)
    assert torch.equal(model(**batch, labels=other).loss, output.loss)
    assert torch.equal(model(**batch, labels=labels.int()).loss, output.loss)


def test_neither_direction_sees_what_it_predicts():
    model = make_model(ElmoForPreTraining, dtype=torch.float64, word_vocab_size=7)
    ids, others = random_rows(1, 6), random_rows(1, 6)
    wanted = model(ids)
    for t in range(6):
        later, earlier = ids.clone(), ids.clone()
        later[:, t + 1 :], earlier[:, :t] = others[:, t + 1 :], others[:, :t]
        assert_close(model(later).forward_logits[:, : t + 1], wanted.forward_logits[:, : t + 1], torch.float64)
        assert_close(model(earlier).backward_logits[:, t:], wanted.backward_logits[:, t:], torch.float64)
    # The word itself and those read before it do count.
    changed = ids.clone()
    changed[:, 2] = encode([["zzz"]])["input_ids"][0, 0]
    differs = [
        ((model(changed)[name] - wanted[name]).abs() > REORDERED_FLOAT64).any(dim=-1)[0].tolist()
        for name in ("forward_logits", "backward_logits")
    ]
    assert differs == [[False, False, True, True, True, True], [True, True, True, False, False, False]]


def test_pretraining_needs_a_word_vocabulary():
    assert_refused(ValueError, "word_vocab_size is None", ElmoForPreTraining, make_tiny_config())


WORDS_OF_PRETRAINING = ("<S>", "</S>", "<UNK>", "the", "naïve", "語", "a b", "", "\u2028", "\x85", "\x0c")


def make_with_words(words=WORDS_OF_PRETRAINING) -> ElmoForPreTraining:
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(WORDS_OF_PRETRAINING)))
    model.words = words
    return model


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r")), min_size=1))
def test_a_list_of_words_is_read_as_it_was_written(tmp_path_factory, words):
    assert read_words(write_words(tmp_path_factory.mktemp("words"), words)) == words


def test_words_go_from_copy_to_copy(tmp_path):
    make_with_words().save_pretrained(tmp_path / "parts" / "first")
    first = ElmoForPreTraining.from_pretrained(tmp_path / "parts", subfolder="first", dtype=torch.bfloat16)
    first.save_pretrained(tmp_path / "second")
    second, _ = ElmoForPreTraining.from_pretrained(tmp_path / "second", output_loading_info=True)
    assert first.words == second.words == WORDS_OF_PRETRAINING
    # Classes without a softmax have no use for them.
    ElmoModel.from_pretrained(tmp_path / "second").save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model" / WORD_LIST_FILE).exists()


def test_only_known_words_are_written_and_by_the_main_process_alone(tmp_path):
    make_with_words().save_pretrained(tmp_path, is_main_process=False)
    make_with_words(words=None).save_pretrained(tmp_path)
    assert not (tmp_path / WORD_LIST_FILE).exists()
    assert ElmoForPreTraining.from_pretrained(tmp_path).words is None


def test_words_of_another_softmax_are_refused(tmp_path):
    model = make_with_words()
    assert_refused(ValueError, ("words", "4", "11"), setattr, model, "words", WORDS_OF_PRETRAINING[:4])
    model.save_pretrained(tmp_path)
    write_words(tmp_path, WORDS_OF_PRETRAINING[:4])
    assert_refused(ValueError, (WORD_LIST_FILE, "4", "11"), ElmoForPreTraining.from_pretrained, tmp_path)
    assert ElmoForPreTraining.from_pretrained(tmp_path, ignore_mismatched_sizes=True).words is None
    (tmp_path / WORD_LIST_FILE).write_bytes(b"a\ncaf\xe9\n")
    assert_refused(ValueError, (WORD_LIST_FILE, "line 2"), ElmoForPreTraining.from_pretrained, tmp_path)


@pytest.fixture
def uploaded(monkeypatch) -> dict[str, bytes]:
    """The files that reach the Hub."""
    files = {}

    def create_commit(self, repo_id, operations, **_):
        for operation in operations:
            with operation.as_file() as file:
                files[operation.path_in_repo] = file.read()

    def create_repo(self, repo_id, **_):
        return SimpleNamespace(repo_id=repo_id)

    for function in (create_repo, create_commit):
        monkeypatch.setattr(HfApi, function.__name__, function)
        # Older versions of transformers have these by name.
        for module in (transformers.utils.hub, transformers.modeling_utils):
            monkeypatch.setattr(module, function.__name__, partial(function, None), raising=False)
    card = ModelCard("---\ntags: []\n---\n")
    monkeypatch.setattr(transformers.utils.hub, "create_and_tag_model_card", lambda *_, **__: card)
    return files


def test_words_and_code_go_to_the_hub(uploaded, tmp_path):
    """Over an older copy too."""
    model = make_with_words()
    for _ in range(2):
        uploaded.clear()
        model.save_pretrained(str(tmp_path / "elmo"), push_to_hub=True, repo_id="someone/elmo")
    assert uploaded[WORD_LIST_FILE].decode().split("\n")[: len(WORDS_OF_PRETRAINING)] == list(WORDS_OF_PRETRAINING)
    assert {"config.json", "model.safetensors", "modeling_elmo.py"} <= set(uploaded)


# ElmoEmbeddings


KNOWN = ["az", "b", "é"]
FILTERS = [[1, 2], [3, 4]]
SIZES = {"word_table_size": len(KNOWN) + 2, "word_vector_size": 5}
EVERYTHING = {**SIZES, "character_filters": FILTERS, "character_embedding_size": 3}


def make_embeddings(settings=None, **fields) -> ElmoEmbeddings:
    """In evaluation mode, with weights that show any mistake, and its word table filled."""
    embeddings = make_model(ElmoEmbeddings, head=EmbeddingsHead(**(settings or {})), **fields)
    if embeddings.features.word_table is not None:
        build_word_table(ElmoCharTokenizer(), KNOWN).fill(embeddings)
    return embeddings


def test_capitals_are_lowered_for_the_table_alone():
    plain, lowered = make_embeddings(EVERYTHING), make_embeddings({**EVERYTHING, "lower_case_words": True})
    lowered.load_state_dict(plain.state_dict())
    words = slice(2 * P, 2 * P + 5)
    small, capital = (
        [model(**encode([[word]])).last_hidden_state[0, 0] for word in ("az", "AZ")] for model in (plain, lowered)
    )
    assert not torch.equal(small[0][words], small[1][words])
    assert torch.equal(capital[0][words], capital[1][words])
    assert torch.equal(small[1][: 2 * P], capital[1][: 2 * P]) and torch.equal(small[1][-6:], capital[1][-6:])


def test_without_elmo_the_bilm_is_not_run():
    embeddings = make_embeddings({**EVERYTHING, "use_elmo": False})
    embeddings.elmo.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run"))
    output = embeddings(**encode([["a", "b"], ["c"]]))
    assert output.last_hidden_state.shape == (2, 2, 11) and output.elmo_representations is None
    assert {name.split(".")[0] for name, p in embeddings.named_parameters() if p.requires_grad} == {"features"}


def test_dropout_is_that_of_the_settings():
    batch = encode([["a", "b"] * 200])
    kept = make_embeddings({**EVERYTHING, "dropout": 0.0}).train()(**batch).last_hidden_state
    dropped = make_embeddings({**EVERYTHING, "dropout": 0.5}).train()(**batch).last_hidden_state
    shown = dropped != 0
    assert 0.4 < shown[kept != 0].float().mean() < 0.6
    assert_close(dropped[shown], 2 * kept[shown], torch.float32)


def test_the_penalty_is_that_of_the_weights_before_their_softmax():
    embeddings = make_embeddings(num_mixes=2, mix_l2=0.25)
    with torch.no_grad():
        for number, mix in enumerate(embeddings.elmo.mixes, start=1):
            mix.weight.fill_(number)
    penalty = embeddings.penalty()
    one = torch.tensor(1.0)
    assert embeddings.add_penalty(one) == 1 and embeddings.train().add_penalty(one) == 1 + penalty
    penalty.backward()
    assert penalty.item() == pytest.approx(0.25 * (3 * 1 + 3 * 4))
    assert embeddings.elmo.mixes[1].weight.grad.tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert not make_embeddings(num_mixes=2).penalty()
    assert not make_embeddings(mix_l2=0.25, mixed_layers="top").penalty()
