"""Recorded steps: what `plain` gives, recorded where a shape comes again, with calls in place of a GPU's graphs."""

import contextlib

import pytest
import torch
from scan_cases import assert_same, make_batch, results_and_gradients

from hf_elmo import kernels
from hf_elmo.kernels import backends, graphs
from hf_elmo.model.modeling_elmo import run_projected_lstm

CLIPS = {"cell_clip": 0.3, "projection_clip": 0.2}


@pytest.fixture
def recorded(monkeypatch):
    """The calls that were recorded; on a CPU, where each is repeated over the memory that a graph would have."""
    calls = []
    monkeypatch.setattr(graphs, "pays", lambda inputs, sizes: len(sizes) > 1 and sizes[0] == sizes[-1])
    monkeypatch.setattr(graphs, "_record", lambda run: calls.append(run) or run)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(backends, "takes_compiled", lambda *weights: False)
    kernels.free_buffers()
    yield calls
    kernels.free_buffers()


def by(name):
    def run(*batch, **settings):
        with kernels.use_backend(name):
            return run_projected_lstm(*batch, **settings)

    return run


def assert_same_as_plain(batch, **settings):
    wanted, wanted_gradients = results_and_gradients(by("plain"), *batch, **settings)
    found, gradients = results_and_gradients(by("auto"), *batch, **settings)
    assert_same(found, wanted, 0)
    assert_same(gradients, wanted_gradients, 0)
    return found, wanted


@pytest.mark.parametrize("settings", [{}, CLIPS, {**CLIPS, "reverse": True}], ids=["no clips", "clips", "reverse"])
def test_each_call_gives_the_numbers_of_its_own_batch(recorded, settings):
    kept = []
    for number in range(4):
        torch.manual_seed(number)
        kept.append(assert_same_as_plain(make_batch(3, 5, 4, 6, masked=False, stateful=True), **settings))
        # At the second call, forward and back; what an earlier one gave is not written over.
        assert len(recorded) == (2 if number else 0)
        for found, wanted in kept:
            assert_same(found, wanted, 0)


def test_what_has_another_shape_setting_or_precision_is_recorded_apart(recorded):
    batches = [make_batch(3, length, 4, 6, masked=False, stateful=True) for length in (5, 6)]
    for count in (2, 4):
        for _ in range(2):
            assert_same_as_plain(batches[count // 4], **CLIPS)
        assert len(recorded) == count
    for _ in range(2):
        assert_same_as_plain(batches[1], cell_clip=0.1)
    assert len(recorded) == 6 and len(graphs._recordings) == 4
    # The first one gave way.
    assert_same_as_plain(batches[0], **CLIPS)
    assert len(recorded) == 6
    assert_same_as_plain(batches[0], **CLIPS)
    assert len(recorded) == 8
    kernels.free_buffers()
    assert not graphs._recordings


def test_sentences_of_many_lengths_and_inference_are_not_recorded(recorded):
    for _ in range(3):
        torch.manual_seed(0)
        assert_same_as_plain(make_batch(4, 5, 4, 6, masked=True, stateful=True), **CLIPS)
    batch = make_batch(3, 5, 4, 6, masked=False, stateful=True)
    with torch.no_grad():
        for _ in range(3):
            outputs, state = by("auto")(*batch, **CLIPS)
            wanted, wanted_state = by("plain")(*batch, **CLIPS)
            assert_same([outputs, *state], [wanted, *wanted_state], 0)
    assert not recorded
