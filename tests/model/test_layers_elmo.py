"""The layers against their equations written out, and their starting values."""

import math

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from tolerances import FLOAT16, INITIALISATION_SPREAD, REORDERED_FLOAT64
from torch import nn

from hf_elmo import ElmoConfig, ElmoForTokenClassification, ElmoModel, ElmoState
from hf_elmo.model.modeling_elmo import ElmoBiLM, ElmoScalarMix


def randomise(module: nn.Module, dtype=torch.float64) -> nn.Module:
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -1, 1)
    return module.to(dtype)


def assert_close(found, wanted, tolerance=REORDERED_FLOAT64):
    torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance)


# biLM


def run_direction(bilm: ElmoBiLM, vectors: torch.Tensor, name: str, skips: bool) -> list[torch.Tensor]:
    """One direction, layer on layer, by the equations: from the second layer on the input is added to the output."""
    outputs = []
    for index, layer in enumerate(bilm.layers):
        output, _ = getattr(layer, name)(vectors, None, None)
        vectors = output + vectors if skips and index > 0 else output
        outputs.append(vectors)
    return outputs


@pytest.mark.parametrize("skips", [True, False])
def test_layers_from_the_second_on_add_their_input(skips):
    bilm = randomise(ElmoBiLM(make_tiny_config(num_hidden_layers=3, use_skip_connections=skips))).eval()
    forward, backward = torch.randn(2, 3, 5, 6, dtype=torch.float64)
    outputs, state = bilm(forward, backward)
    for direction, (name, vectors) in enumerate((("forward_lstm", forward), ("backward_lstm", backward))):
        wanted = run_direction(bilm, vectors, name, skips)
        for layer, output in enumerate(wanted):
            assert_close(outputs[layer][direction], output)
        # The state carried on is from before the sum.
        last = -1 if name == "forward_lstm" else 0
        before_sum = wanted[1] - wanted[0] if skips else wanted[1]
        assert_close(state.hidden[:, 1, direction], before_sum[:, last])


def test_the_forget_bias_is_added_to_the_learned_one():
    plain, shifted = (randomise(ElmoBiLM(make_tiny_config(forget_bias=bias))).eval() for bias in (0.0, 1.5))
    shifted.load_state_dict(plain.state_dict())
    vectors = torch.randn(2, 4, 6, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            if name.endswith("bias"):
                parameter[10:20] += 1.5
    for ours, theirs in zip(plain(vectors, vectors)[0], shifted(vectors, vectors)[0], strict=True):
        assert_close(ours[0], theirs[0])
        assert_close(ours[1], theirs[1])


def test_dropout_works_on_each_layers_input_and_on_the_output():
    bilm = randomise(ElmoBiLM(make_tiny_config(dropout=0.5))).train()
    vectors = torch.randn(2, 4, 6, dtype=torch.float64)
    outputs, _ = bilm(vectors, vectors)
    dropped = [float((half == 0).double().mean()) for half in outputs[-1]]
    assert all(0.2 < share < 0.8 for share in dropped)
    assert all((half != 0).all() for half in outputs[0])
    again, _ = bilm(vectors, vectors)
    assert not torch.equal(outputs[0][0], again[0][0])


@pytest.mark.parametrize("with_state", [False, True])
def test_one_direction_alone_is_its_half_of_both(with_state):
    bilm = randomise(ElmoBiLM(make_tiny_config(num_hidden_layers=3))).eval()
    inputs = torch.randn(2, 4, 5, 6, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([5, 2, 0, 4]).unsqueeze(1)
    state = None
    if with_state:
        state = ElmoState(hidden=torch.randn(4, 3, 2, 6).double(), cell=torch.randn(4, 3, 2, 10).double())
    wanted, wanted_state = bilm(*inputs, mask, state)
    for direction, vectors in enumerate(inputs):
        own_state = (state.hidden[:, :, direction], state.cell[:, :, direction]) if with_state else None
        outputs, (hidden, cell) = bilm.run_direction(direction, vectors, mask, own_state)
        for output, both in zip(outputs, wanted, strict=True):
            assert torch.equal(output, both[direction])
        assert torch.equal(hidden, wanted_state.hidden[:, :, direction])
        assert torch.equal(cell, wanted_state.cell[:, :, direction])


def test_one_direction_alone_has_dropout_too():
    bilm = randomise(ElmoBiLM(make_tiny_config(dropout=0.5))).train()
    outputs, _ = bilm.run_direction(1, torch.randn(2, 4, 6, dtype=torch.float64))
    assert (outputs[0] != 0).all()
    assert 0.2 < float((outputs[-1] == 0).double().mean()) < 0.8


def test_a_detached_state_keeps_its_numbers_and_drops_the_graph():
    state = ElmoState(hidden=torch.ones(1, requires_grad=True) * 2, cell=torch.ones(1, requires_grad=True) * 3)
    detached = state.detach()
    assert (detached.hidden.item(), detached.cell.item()) == (2, 3)
    assert not detached.hidden.requires_grad and not detached.cell.requires_grad


# Scalar mix


def mix_plainly(mix: ElmoScalarMix, layers, mask) -> torch.Tensor:
    exponentials = [math.exp(weight) for weight in mix.weight.tolist()]
    real = torch.stack([layer[mask] for layer in layers])
    if mix.normalization == "batch":
        mean, variance = real.mean(dim=(1, 2), keepdim=True), real.var(dim=(1, 2), keepdim=True, correction=0)
        real = (real - mean) / (variance + 1e-12).sqrt()
    if mix.normalization == "word":
        mean, variance = real.mean(dim=2, keepdim=True), real.var(dim=2, keepdim=True, correction=0)
        real = (real - mean) / (variance + 1e-12).sqrt()
    result = torch.zeros_like(layers[0])
    result[mask] = mix.scale.item() * sum(
        share / sum(exponentials) * layer for share, layer in zip(exponentials, real, strict=True)
    )
    return result


@pytest.mark.parametrize("normalization", ["none", "batch", "word"])
@given(seed=st.integers(0, 10**6), layers=st.integers(1, 4))
def test_the_mix_is_the_sum_that_its_equation_says(normalization, seed, layers):
    torch.manual_seed(seed)
    mix = randomise(ElmoScalarMix(make_tiny_config(num_hidden_layers=layers, mix_normalization=normalization)))
    vectors = [3 * torch.randn(2, 5, 12, dtype=torch.float64) + 1 for _ in range(layers + 1)]
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]]).bool()
    assert_close(mix(vectors, mask).detach(), mix_plainly(mix, vectors, mask))


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
    # Relative to the largest value: without normalisation they are well above one.
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=FLOAT16 * float(wanted.abs().max()))


def test_the_mix_starts_as_the_mean():
    mix = ElmoModel(make_tiny_config()).mixes[0]
    layers = list(torch.randn(3, 2, 4, 12))
    torch.testing.assert_close(mix(layers, torch.ones(2, 4).bool()), sum(layers) / 3)


# Starting values


@pytest.fixture(scope="module")
def fresh_model() -> ElmoForTokenClassification:
    torch.manual_seed(0)
    # Large enough for statistics, small enough to be quick.
    sizes = {"projection_size": 64, "cell_size": 256, "num_highway_layers": 2, "classifier_lstm_size": 40}
    return ElmoForTokenClassification(ElmoConfig(**sizes, classifier_lstm_layers=1, num_labels=50))


def assert_uniform(tensor, bound):
    assert tensor.abs().max() <= bound
    assert tensor.std().item() == pytest.approx(bound / math.sqrt(3), rel=INITIALISATION_SPREAD)


def assert_normal(tensor, std):
    assert tensor.abs().max() > 2.5 * std
    assert tensor.std().item() == pytest.approx(std, rel=INITIALISATION_SPREAD)


def test_the_token_encoder_starts_as_the_released_models_did(fresh_model):
    encoder = fresh_model.elmo.token_encoder
    embedding = encoder.character_embedding.weight
    assert not embedding[0].any()
    assert_uniform(embedding[1:], 1.0)
    for convolution in encoder.convolutions:
        assert_uniform(convolution.weight, 0.05)
        assert not convolution.bias.any()
    num_filters = 2048
    for highway in encoder.highways:
        assert_normal(highway.carry.weight, 1 / math.sqrt(num_filters))
        assert_normal(highway.transform.weight, 1 / math.sqrt(num_filters))
        assert (highway.carry.bias == -2).all()
        assert not highway.transform.bias.any()
    assert_normal(encoder.projection.weight, 1 / math.sqrt(num_filters))
    assert not encoder.projection.bias.any()


def test_convolutions_under_tanh_start_by_their_fan_in():
    encoder = ElmoModel(make_tiny_config(filters=[[5, 200]], filter_activation="tanh")).token_encoder
    assert_normal(encoder.convolutions[0].weight, 1 / math.sqrt(5 * 4))


def test_the_bilm_and_the_head_start_by_their_fans(fresh_model):
    for layer in fresh_model.elmo.bilm.layers:
        for lstm in (layer.forward_lstm, layer.backward_lstm):
            bound = math.sqrt(6 / (64 + 64 + 4 * 256))
            assert_uniform(lstm.weight_ih, bound)
            assert_uniform(lstm.weight_hh, bound)
            assert_uniform(lstm.weight_hr, math.sqrt(6 / (64 + 256)))
            assert not lstm.bias.any()
    assert_uniform(fresh_model.lstm.weight_ih_l0, math.sqrt(6 / (128 + 4 * 40)))
    assert not fresh_model.lstm.bias_hh_l0.any()
    assert_normal(fresh_model.classifier.weight, 1 / math.sqrt(80))
    assert not fresh_model.classifier.bias.any()


def test_the_two_directions_start_apart(fresh_model):
    layer = fresh_model.elmo.bilm.layers[0]
    assert not torch.equal(layer.forward_lstm.weight_ih, layer.backward_lstm.weight_ih)


def test_hidden_states_of_a_fresh_model_do_not_vanish(fresh_model, tokenizer):
    batch = tokenizer("the hidden states of the inherited initialisation were about 1e-6 .", return_tensors="pt")
    layers = fresh_model.elmo(**batch, output_hidden_states=True).hidden_states
    for layer in layers:
        assert layer.std() > 0.01
        # And words differ from one another.
        assert layer.std(dim=1).mean() > 0.001
