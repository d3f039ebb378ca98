"""The projected LSTM scan against a plain step-by-step reference and torch's own LSTM: outputs, states, gradients."""

import pytest
import torch
from hypothesis import given
from scan_cases import assert_same, make_batch, make_weights, results_and_gradients, sizes_and_settings
from tolerances import REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn

from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights, run_projected_lstm, scan_projected_lstm


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


@given(**sizes_and_settings(3, 6, 5, 7))
def test_scan_is_the_plain_recurrence(sizes, masked, stateful, settings, seed):
    torch.manual_seed(seed)
    arguments = make_batch(*sizes, masked, stateful)
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


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_without_clips_is_torchs_lstm(reverse, stateful):
    batch_size, length, projection_size, cell_size = 3, 7, 5, 11
    lstm = nn.LSTM(projection_size, cell_size, proj_size=projection_size, batch_first=True).double()
    nn.init.zeros_(lstm.bias_hh_l0)
    inputs = torch.randn(batch_size, length, projection_size, dtype=torch.float64, requires_grad=True)
    state = None
    if stateful:
        state = (
            torch.randn(batch_size, projection_size, dtype=torch.float64, requires_grad=True),
            torch.randn(batch_size, cell_size, dtype=torch.float64, requires_grad=True),
        )
    leaves = [inputs, lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.weight_hr_l0, *(state or ())]

    outputs, (hidden, cell) = scan_projected_lstm(
        inputs, None, ProjectedLSTMWeights(*leaves[1:5]), state, reverse=reverse
    )
    found = [outputs, hidden, cell]
    flipped = inputs.flip(1) if reverse else inputs
    theirs, (hidden, cell) = lstm(flipped, None if state is None else tuple(part.unsqueeze(0) for part in state))
    wanted = [theirs.flip(1) if reverse else theirs, hidden.squeeze(0), cell.squeeze(0)]
    assert_same(found, wanted)
    gradients, wanted_gradients = (
        torch.autograd.grad(sum(result.cos().sum() for result in results), leaves) for results in (found, wanted)
    )
    assert_same(gradients, wanted_gradients)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_those_of_finite_differences(reverse):
    inputs = torch.randn(2, 4, 3, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 1]]).bool()
    state = (torch.randn(2, 3, dtype=torch.float64) * 0.1, torch.randn(2, 2, dtype=torch.float64) * 0.1)
    leaves = [tensor.clone().requires_grad_() for tensor in (inputs, *make_weights(3, 2), *state)]

    def run(inputs, first, second, third, fourth, hidden, cell):
        weights = ProjectedLSTMWeights(first, second, third, fourth)
        outputs, new_state = scan_projected_lstm(
            inputs, mask, weights, (hidden, cell), cell_clip=0.4, projection_clip=0.3, reverse=reverse
        )
        return outputs, *new_state

    assert torch.autograd.gradcheck(run, leaves)


def test_clips_bound_the_states_and_stop_the_gradient():
    weights = make_weights(3, 5)
    # Open gates and a candidate of one: the cell climbs by about one per word, up to its bound.
    weights.bias.copy_(torch.full((20,), 50.0, dtype=torch.float64))
    inputs = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    _, (_, cell) = scan_projected_lstm(inputs, None, weights)
    assert cell.min() > 5
    outputs, (hidden, cell) = scan_projected_lstm(inputs, None, weights, cell_clip=2.5)
    assert torch.equal(cell, torch.full_like(cell, 2.5))
    (gradient,) = torch.autograd.grad(cell.sum(), inputs)
    assert torch.equal(gradient, torch.zeros_like(gradient))

    outputs, (hidden, _) = scan_projected_lstm(inputs, None, weights, projection_clip=0.01)
    assert outputs.abs().max() == 0.01
    clipped = outputs.abs() == 0.01
    assert clipped.all()
    (gradient,) = torch.autograd.grad(outputs.sum(), inputs)
    assert torch.equal(gradient, torch.zeros_like(gradient))
    assert torch.equal(hidden, outputs[:, -1])


@pytest.mark.parametrize("reverse", [False, True])
def test_masked_words_give_zeros_and_change_nothing_whatever_they_hold(reverse):
    weights = make_weights(3, 5)
    inputs = torch.randn(3, 6, 3, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]]).bool()
    state = (torch.randn(3, 3, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64))
    outputs, new_state = scan_projected_lstm(inputs, mask, weights, state, reverse=reverse)
    assert torch.equal(outputs[~mask], torch.zeros_like(outputs[~mask]))
    # A row of padding alone hands its state through.
    for before, after in zip(state, new_state, strict=True):
        assert torch.equal(before[2], after[2])
    noise = torch.where(mask.unsqueeze(-1), inputs, 1e6)
    again, state_again = scan_projected_lstm(noise, mask, weights, state, reverse=reverse)
    assert torch.equal(outputs, again)
    assert all(torch.equal(one, other) for one, other in zip(new_state, state_again, strict=True))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, REORDERED_FLOAT32), (torch.float64, REORDERED_FLOAT64)]
)
def test_two_halves_with_a_carried_state_are_one_whole(reverse, dtype, tolerance):
    weights = make_weights(3, 5, dtype=dtype)
    inputs = torch.randn(2, 9, 3, dtype=dtype)
    settings = {"cell_clip": 0.5, "projection_clip": 0.5, "reverse": reverse}
    whole, whole_state = scan_projected_lstm(inputs, None, weights, **settings)
    parts = [inputs[:, :4], inputs[:, 4:]]
    state, found = None, [None, None]
    for index in (1, 0) if reverse else (0, 1):
        found[index], state = scan_projected_lstm(parts[index], None, weights, state, **settings)
    assert_same([torch.cat(found, dim=1), *state], [whole, *whole_state], tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_results_have_the_dtype_of_the_inputs(dtype):
    inputs, mask = torch.randn(2, 3, 4).to(dtype), torch.tensor([[1, 1, 0], [1, 1, 1]]).bool()
    outputs, state = scan_projected_lstm(inputs, mask, make_weights(4, 5, dtype=dtype))
    assert {outputs.dtype, state[0].dtype, state[1].dtype} == {dtype}
