"""The fast scans against the reference that defines them: outputs, states and gradients, whatever the batch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scan_cases import assert_same, make_batch, results_and_gradients, sizes_and_settings, with_all_options
from tolerances import REORDERED_FLOAT64

from hf_elmo import kernels
from hf_elmo.kernels.scan import Packing
from hf_elmo.model.modeling_elmo import order_words, run_projected_lstm, scan_projected_lstm


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


@given(
    batch_size=st.integers(1, 6),
    length=st.integers(1, 6),
    masked=st.booleans(),
    reverse=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_words_are_met_step_by_step_and_found_again(batch_size, length, masked, reverse, seed):
    torch.manual_seed(seed)
    real = torch.rand(batch_size, length) < (0.6 if masked else 2)
    packing = Packing.of(order_words(real), (batch_size, length), reverse)
    assert sum(packing.sizes) == len(packing.indices) == int(real.sum())
    assert packing.sizes == sorted(packing.sizes, reverse=True) and 0 not in packing.sizes

    # Each word is its own name, so that it can be told where it went.
    names = torch.arange(1.0, batch_size * length + 1).view(batch_size, length, 1)
    packed = packing.pack(names)
    assert torch.equal(packing.unpack(packed), names * real.unsqueeze(-1))

    sentences = [row[keep].flip(0) if reverse else row[keep] for row, keep in zip(names, real, strict=True)]
    first = torch.arange(-1.0, -batch_size - 1, -1).unsqueeze(1)
    assert torch.equal(packing.restore(packing.sort(first)), first)
    found = packing.values_before(packing.sort(first), packed)
    wanted = {}
    for row, words in enumerate(sentences):
        for index, word in enumerate(words):
            wanted[float(word)] = float(words[index - 1]) if index else float(first[row])
    assert {float(word): float(before) for word, before in zip(packed, found, strict=True)} == wanted

    last = packing.restore(packing.values_after(packing.sort(first), packed))
    assert last.flatten().tolist() == [
        float(words[-1]) if len(words) else float(first[row]) for row, words in enumerate(sentences)
    ]
