"""The biLSTM and the biGRU of tasks: PyTorch's numbers over real words, by steps whose gradients are written out."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from tolerances import BFLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn

from hf_elmo.model.modeling_elmo_tasks import ElmoTaskGRU, ElmoTaskLSTM, order_words

D, H = 3, 4
LIBRARY = {ElmoTaskLSTM: nn.LSTM, ElmoTaskGRU: nn.GRU}
masks = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4).map(torch.tensor)
both_kinds = pytest.mark.parametrize("kind", LIBRARY, ids=lambda kind: kind.kind)


def make_encoder(kind, num_layers=2, dropout=0.0, dtype=torch.float64):
    torch.manual_seed(1)
    return kind(D, H, num_layers, dropout).to(dtype)


def outputs_and_gradients(run, encoder, vectors):
    torch.manual_seed(3)
    inputs = vectors.clone().requires_grad_()
    outputs = run(inputs)
    weights = torch.arange(outputs.numel(), dtype=outputs.dtype).view_as(outputs).cos()
    return [outputs, *torch.autograd.grad((outputs * weights).sum(), [inputs, *encoder.parameters()])]


def assert_all_close(found, wanted, tolerance):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@both_kinds
@examples(10)
@given(mask=masks)
def test_the_fast_run_is_the_readable_one_with_its_gradients(kind, mask):
    encoder = make_encoder(kind)
    vectors = torch.randn(*mask.shape, D, dtype=torch.float64)
    fast, readable = (
        outputs_and_gradients(lambda inputs, run=run: run(inputs, mask), encoder, vectors)
        for run in (encoder, encoder.run_readable)
    )
    assert_all_close(fast, readable, 10 * REORDERED_FLOAT64)


@both_kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_and_gradients_are_those_of_the_library(kind, dtype):
    encoder = make_encoder(kind, dtype=dtype)
    library = LIBRARY[kind](D, H, num_layers=2, batch_first=True, bidirectional=True).to(dtype)
    library.load_state_dict(encoder.state_dict())
    mask = torch.ones(3, 7, dtype=torch.bool)
    vectors = torch.randn(3, 7, D, dtype=dtype)
    assert_all_close(
        outputs_and_gradients(lambda inputs: encoder(inputs, mask), encoder, vectors),
        outputs_and_gradients(lambda inputs: library(inputs)[0], library, vectors),
        10 * (REORDERED_FLOAT64 if dtype == torch.float64 else REORDERED_FLOAT32),
    )


@both_kinds
def test_what_runs_on_a_gpu_is_what_runs_here(kind):
    encoder = make_encoder(kind)
    mask = torch.tensor([[True, True, False, True], [False, True, False, False]])
    order = order_words(mask)
    words = torch.randn(len(order.places), D, dtype=torch.float64)
    runs = (encoder._run_packed, encoder._run_by_library)
    fast, library = (outputs_and_gradients(lambda inputs, run=run: run(inputs, order), encoder, words) for run in runs)
    assert_all_close(fast, library, 10 * REORDERED_FLOAT64)


@both_kinds
def test_dropout_lies_between_layers_while_training_alone(kind):
    encoder, mask = make_encoder(kind, dropout=0.5), torch.ones(2, 6, dtype=torch.bool)
    vectors = torch.randn(2, 6, D, dtype=torch.float64)
    assert not torch.equal(encoder(vectors, mask), encoder(vectors, mask))
    encoder.eval()
    assert torch.equal(encoder(vectors, mask), encoder(vectors, mask))


@both_kinds
def test_autocast_leaves_the_steps_in_the_weights_precision(kind):
    encoder, mask = make_encoder(kind, dtype=torch.float32), torch.ones(2, 6, dtype=torch.bool)
    vectors = torch.randn(2, 6, D)
    plain = encoder(vectors, mask)
    with torch.autocast("cpu", torch.bfloat16):
        cast = encoder(vectors.bfloat16(), mask)
    assert cast.dtype == torch.float32
    torch.testing.assert_close(cast, plain, rtol=0, atol=BFLOAT16)


@given(mask=masks)
def test_words_come_step_by_step_and_mirrored_twice_are_themselves(mask):
    order = order_words(mask)
    lengths = mask.sum(dim=1).clamp(min=1)
    assert sum(order.sizes) == lengths.sum() == len(order.places)
    assert order.sizes == sorted(order.sizes, reverse=True) and order.sizes[0] == len(mask)
    assert order.mirrored[order.mirrored].tolist() == list(range(len(order.places)))
    real = mask.flatten()[order.places]
    assert real.sum() == mask.sum()
    # The word before is of the same sentence, and lies further left.
    here, before = order.places[len(mask) :], order.places[order.before]
    assert torch.equal(here // mask.shape[1], before // mask.shape[1]) and (before < here).all()
