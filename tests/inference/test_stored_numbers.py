"""Numbers in storage: whole ones with scales come back to half a step, and the error that is told is the real one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hf_elmo.inference.stored_numbers import StorageError, store_numbers

rows = arrays(np.float32, st.tuples(st.integers(0, 5), st.just(4)), elements=st.floats(-(2**70), 2**70, width=32))


@given(vectors=rows)
def test_int8_is_off_by_half_a_step_of_its_row_at_most(vectors):
    stored = store_numbers(vectors, "int8")
    assert stored.values.dtype == np.int8 and stored.scales.dtype == np.float32
    steps = np.abs(vectors).max(axis=1, initial=0) / 127
    difference = np.abs(stored.restore().astype(np.float64) - vectors).max(axis=1, initial=0)
    # The smallest scales of float32 have few digits themselves.
    assert (difference <= 0.501 * steps + 127 * np.finfo(np.float32).smallest_subnormal).all()


def test_rows_of_zeros_stay_zeros():
    np.testing.assert_array_equal(store_numbers(np.zeros((2, 3), np.float32), "int8").restore(), np.zeros((2, 3)))


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_the_error_is_measured_on_all_numbers(dtype):
    vectors = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    error = StorageError()
    parts = [(part, store_numbers(part, dtype)) for part in np.split(vectors, [20])]
    for part, stored in parts:
        error.measure(part, stored)
    restored = np.concatenate([stored.restore() for _, stored in parts])
    assert error.relative == pytest.approx(np.linalg.norm(restored - vectors) / np.linalg.norm(vectors), rel=1e-4)
    assert error.largest == pytest.approx(np.abs(restored - vectors).max())
    assert 0 < error.relative < (1e-3 if dtype == "float16" else 2e-2)
    both = error + StorageError(0.0, 0.0, 2.0)
    assert both.largest == 2.0 and both.relative == error.relative


def test_what_is_kept_as_it_is_costs_nothing():
    vectors = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    error = StorageError()
    error.measure(vectors, store_numbers(vectors, "float32"))
    assert error == StorageError(0.0, error.squared_norm, 0.0) and StorageError().relative == 0


def test_what_float16_cannot_hold_is_no_infinity():
    with pytest.raises(FloatingPointError):
        store_numbers(np.full((1, 2), 1e6, np.float32), "float16")
