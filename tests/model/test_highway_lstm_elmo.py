"""The highway LSTM: what a step is, and its fast twin beside the readable scan, outputs and gradients."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from tolerances import REORDERED_FLOAT32, REORDERED_FLOAT64

from hf_elmo.model.modeling_elmo_srl import ElmoHighwayLSTM, HighwayLSTMWeights, run_highway_lstm, scan_highway_lstm

D, H = 3, 4


def make_stack(num_layers=3, dropout=0.0, dtype=torch.float64) -> ElmoHighwayLSTM:
    stack = ElmoHighwayLSTM(D, H, num_layers, dropout)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.uniform_(-0.7, 0.7)
    return stack.to(dtype)


def make_weights() -> HighwayLSTMWeights:
    return HighwayLSTMWeights(
        *(torch.randn(*shape, dtype=torch.float64) for shape in ((5 * H, D), (5 * H, H), (5 * H,), (H, D)))
    )


masks = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4).map(torch.tensor)


def run_both(stack, vectors, mask):
    """Outputs and all gradients of the fast run and of the readable one, by the same draws of dropout."""
    found = []
    for run in (stack, stack.run_readable):
        torch.manual_seed(3)
        inputs = vectors.clone().requires_grad_()
        outputs = run(inputs, mask)
        weights = torch.arange(outputs.numel(), dtype=outputs.dtype).view_as(outputs).cos()
        found.append([outputs, *torch.autograd.grad((outputs * weights).sum(), [inputs, *stack.parameters()])])
    return found


def assert_all_close(found, wanted, tolerance):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@examples(15)
@given(mask=masks, dropout=st.sampled_from([0.0, 0.4]))
def test_the_fast_run_is_the_readable_one_with_its_gradients(mask, dropout):
    torch.manual_seed(1)
    stack = make_stack(dropout=dropout)
    vectors = torch.randn(*mask.shape, D, dtype=torch.float64)
    assert_all_close(*run_both(stack, vectors, mask), REORDERED_FLOAT64 * 10)


def test_the_runs_are_alike_in_float32():
    mask = torch.tensor([[True] * 9, [False] * 2 + [True] * 7])
    assert_all_close(*run_both(make_stack(dtype=torch.float32), torch.randn(2, 9, D), mask), 10 * REORDERED_FLOAT32)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_written_gradients_are_those_of_finite_differences(reverse):
    words = torch.randn(6, D, dtype=torch.float64, requires_grad=True)
    weights = [weight.requires_grad_() for weight in make_weights()]
    kept = torch.tensor([[1.0, 0, 2, 1]] * 3, dtype=torch.float64)

    def run(words, *weights):
        return run_highway_lstm(words, [3, 2, 1], HighwayLSTMWeights(*weights), kept, reverse=reverse)

    assert torch.autograd.gradcheck(run, (words, *weights))


@pytest.mark.parametrize("run", ["forward", "run_readable"])
@given(mask=masks)
@examples(10)
def test_masked_words_change_nothing_and_give_nothing(run, mask):
    torch.manual_seed(1)
    stack = make_stack()
    vectors = torch.randn(*mask.shape, D, dtype=torch.float64)
    outputs = getattr(stack, run)(vectors, mask)
    assert not outputs[~mask].any()
    for row, is_real in enumerate(mask):
        if is_real.any():
            alone = stack(vectors[row : row + 1, is_real], torch.ones(1, int(is_real.sum()), dtype=torch.bool))
            assert_all_close([outputs[row, is_real]], [alone[0]], REORDERED_FLOAT64)


def test_layers_read_in_turns_the_first_one_forward():
    stack = make_stack(num_layers=2)
    mask = torch.ones(1, 4, dtype=torch.bool)
    vectors = torch.randn(1, 4, D, dtype=torch.float64)
    first = scan_highway_lstm(vectors, mask, stack.layers[0].weights())
    second = scan_highway_lstm(first.flip(1), mask, stack.layers[1].weights()).flip(1)
    assert_all_close([stack(vectors, mask)], [second], REORDERED_FLOAT64)


def test_a_closed_transform_gate_lets_the_input_through_and_an_open_one_the_cell():
    weights = make_weights()
    mask, inputs = torch.ones(1, 3, dtype=torch.bool), torch.randn(1, 3, D, dtype=torch.float64)
    gate = slice(3 * H, 4 * H)
    for parameter in (weights.input, weights.recurrent):
        parameter[gate] = 0
    weights.bias[gate] = -1e9
    assert_all_close([scan_highway_lstm(inputs, mask, weights)], [inputs @ weights.carry.t()], REORDERED_FLOAT64)
    weights.bias[gate] = 1e9
    lstm = torch.nn.LSTM(D, H, batch_first=True, dtype=torch.float64)
    rows = torch.cat([torch.arange(2 * H), torch.arange(4 * H, 5 * H), torch.arange(2 * H, 3 * H)])
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(weights.input[rows])
        lstm.weight_hh_l0.copy_(weights.recurrent[rows])
        lstm.bias_ih_l0.copy_(weights.bias[rows])
        lstm.bias_hh_l0.zero_()
    assert_all_close([scan_highway_lstm(inputs, mask, weights)], [lstm(inputs)[0]], REORDERED_FLOAT64)


def test_recurrent_dropout_is_one_for_all_words_and_leaves_what_goes_up():
    weights = make_weights()
    kept = torch.zeros(1, H, dtype=torch.float64)
    inputs = torch.randn(1, 1, D, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.bool)
    # The first word has nothing that comes back: its output is whole.
    assert_all_close(
        [scan_highway_lstm(inputs, one, weights, kept)], [scan_highway_lstm(inputs, one, weights)], REORDERED_FLOAT64
    )
    stack = make_stack(dropout=0.5).train()
    vectors, mask = torch.randn(8, 4, D, dtype=torch.float64), torch.ones(8, 4, dtype=torch.bool)
    assert not torch.equal(stack(vectors, mask), stack(vectors, mask))
    assert torch.equal(stack.eval()(vectors, mask), stack(vectors, mask))


def test_fresh_weights_are_orthogonal_for_each_gate_and_forget_gates_open():
    stack = ElmoHighwayLSTM(7, H, 2, 0.0)
    for layer in stack.layers:
        layer.reset_parameters()
        for parameter in (layer.weight_ih, layer.weight_hh, layer.weight_carry):
            for block in parameter.split(H):
                torch.testing.assert_close(block @ block.t(), torch.eye(H))
        assert layer.bias.tolist() == [0.0] * H + [1.0] * H + [0.0] * 3 * H


def test_autocast_leaves_the_states_as_they_are():
    stack, mask = make_stack(dtype=torch.float32), torch.ones(2, 3, dtype=torch.bool)
    vectors = torch.randn(2, 3, D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = stack(vectors, mask)
        found.sum().backward()
    assert torch.equal(found, stack(vectors, mask))
