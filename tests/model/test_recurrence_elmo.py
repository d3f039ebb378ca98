"""The projected LSTM scan against a plain step-by-step reference and torch's own LSTM: outputs, states, gradients."""

import pytest
import torch
from hypothesis import given
from scan_cases import (
    assert_same,
    make_batch,
    make_weights,
    results_and_gradients,
    sizes_and_settings,
    with_all_options,
)
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


@with_all_options
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_results_have_the_dtype_of_the_inputs(dtype):
    inputs, mask = torch.randn(2, 3, 4).to(dtype), torch.tensor([[1, 1, 0], [1, 1, 1]]).bool()
    outputs, state = scan_projected_lstm(inputs, mask, make_weights(4, 5, dtype=dtype))
    assert {outputs.dtype, state[0].dtype, state[1].dtype} == {dtype}
