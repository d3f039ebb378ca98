"""The fast scans against the reference that defines them: outputs, states and gradients, whatever the batch."""

import pytest
import torch
from hypothesis import given
from scan_cases import assert_same, make_batch, results_and_gradients, sizes_and_settings, with_all_options
from tolerances import REORDERED_FLOAT64

from hf_elmo import kernels
from hf_elmo.model.modeling_elmo import run_projected_lstm, scan_projected_lstm


def build_or_skip():
    """Build the compiled backend: seconds once, found in PyTorch's folder for extensions from then on."""
    try:
        kernels.build()
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=["plain", "compiled"])
def backend(request):
    """The name of each fast backend that runs on every processor."""
    if request.param == "compiled":
        build_or_skip()
    return request.param


def run_by(backend, *arguments, **settings):
    with kernels.use_backend(backend):
        return run_projected_lstm(*arguments, **settings)


def by_backend(backend):
    return lambda *arguments, **settings: run_by(backend, *arguments, **settings)


@with_all_options
@given(**sizes_and_settings(5, 7, 19, 37))
def test_fast_scans_are_the_reference(backend, sizes, masked, stateful, settings, seed):
    torch.manual_seed(seed)
    batch = make_batch(*sizes, masked, stateful)
    wanted, wanted_gradients = results_and_gradients(scan_projected_lstm, *batch, **settings)
    found, gradients = results_and_gradients(by_backend(backend), *batch, **settings)
    assert_same(found, wanted)
    assert_same(gradients, wanted_gradients, 100 * REORDERED_FLOAT64)
    with torch.no_grad():
        outputs, state = run_by(backend, *batch, **settings)
    assert_same([outputs, *state], wanted)


@pytest.mark.parametrize("num_sentences", [1, 3])
def test_a_batch_without_a_word_hands_its_states_through(backend, num_sentences):
    vectors, mask, *rest = make_batch(num_sentences, 4, 7, 9, masked=True, stateful=True)
    batch = (vectors, torch.zeros_like(mask), *rest)
    wanted, wanted_gradients = results_and_gradients(scan_projected_lstm, *batch)
    found, gradients = results_and_gradients(by_backend(backend), *batch)
    assert_same(found, wanted)
    assert_same(gradients, wanted_gradients)
    with torch.no_grad():
        outputs, state = run_by(backend, *batch)
    assert_same([outputs, *state], wanted)
