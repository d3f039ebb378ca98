"""TensorFlow's checkpoints are read without it, and nothing that was altered is taken for what it was."""

import numpy as np
import pytest
from conftest import shared_data
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tensor_bundles import nested, whole, write_bundle

from hf_elmo.conversion.checked_files import ConversionError
from hf_elmo.conversion.tensor_bundle import TensorBundle, find_index

ARRAYS = {
    "global_step": np.array(7, dtype=np.int64),
    "lm/b": np.arange(5, dtype=np.float32),
    "lm/w": np.arange(300, dtype=np.float32).reshape(3, 100),
    "lm/w/Adagrad": np.ones((3, 100), dtype=np.float32),
}


def read_all(index_file):
    bundle = TensorBundle("source", index_file)
    found = {}
    for key in bundle.keys:
        if key != "global_step":
            bundle.check(key)
            found[key] = bundle.read(key)
    return found


@pytest.mark.parametrize(
    "name", ["nlpl", "bilm_tf/layers1", "bilm_tf/word_shared_softmax", "bilm_tf/forward_only"], ids=lambda name: name
)
def test_every_variable_that_tensorflow_wrote_is_read_bit_by_bit(name):
    folder = shared_data("zoo") / name
    bundle = TensorBundle("source", find_index(folder / "training"))
    with np.load(folder / "training_variables.npz") as expected:
        assert sorted(bundle.keys) == sorted(expected.files)
        for key in bundle.keys:
            bundle.check(key)
            found = bundle.read(key)
            assert found.shape == bundle.shape(key) == expected[key].shape and found.dtype == np.float32
            assert found.tobytes() == expected[key].tobytes()


def test_a_checkpoint_written_by_hand_is_read(tmp_path):
    found = read_all(write_bundle(tmp_path, ARRAYS))
    assert all(np.array_equal(found[key], ARRAYS[key]) for key in found) and len(found) == 3
    bundle = TensorBundle("source", tmp_path / "model.ckpt-7.index")
    assert bundle.shape("global_step") == () and bundle.shape("none") is None
    assert_refused(ConversionError, ("global_step", "int64", "float32"), bundle.check, "global_step")


def test_the_checkpoint_of_a_directory_is_the_one_that_it_names(tmp_path):
    assert find_index(tmp_path) is None
    first = write_bundle(tmp_path, ARRAYS, name="model.ckpt-7")
    assert find_index(tmp_path) == find_index(first) == find_index(first.with_suffix(".data-00000-of-00001")) == first
    second = write_bundle(tmp_path, ARRAYS, name="model.ckpt-12")
    assert find_index(tmp_path) == second
    (tmp_path / "checkpoint").unlink()
    assert find_index(tmp_path) is None and find_index(first) == first
    assert find_index(tmp_path / "nothing") is None


def test_what_is_not_read_is_refused_with_the_reason(tmp_path):
    for arguments, named in (
        ({"shards": 2}, "2 shards"),
        ({"kind": 1}, "packed"),
        ({"changes": {"lm/w": whole(3, 1)}}, ("lm/w", "shard 1")),
        ({"changes": {"lm/w": nested(7, b"")}}, ("lm/w", "slices")),
    ):
        index_file = write_bundle(tmp_path, ARRAYS, **arguments)
        assert str(index_file) in assert_refused(ConversionError, named, read_all, index_file)


def test_what_does_not_add_up_is_refused_by_name(tmp_path):
    for changes, named in (
        (whole(5, 1196), ("lm/w", "(3, 100)", "1196", "1200")),
        (nested(2, nested(2, whole(1, 4))), ("lm/w", "(4,)", "1200", "16")),
        (whole(4, 10**9), ("lm/w", "(3, 100)", "truncated")),
        (whole(4, 24), ("lm/w", "(3, 100)", "CRC-32C")),
    ):
        index_file = write_bundle(tmp_path, ARRAYS, changes={"lm/w": changes})
        assert_refused(ConversionError, named, read_all, index_file)
    index_file = write_bundle(tmp_path, {**ARRAYS, "lm/b": np.array([1, np.nan], dtype=np.float32)})
    assert_refused(ConversionError, "lm/b", read_all, index_file)
    index_file.with_suffix(".data-00000-of-00001").unlink()
    assert_refused(FileNotFoundError, "data-00000-of-00001", TensorBundle, "source", index_file)


@pytest.fixture(scope="module")
def bundle_file(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("bundle"), ARRAYS)


@given(data=st.data())
def test_altered_and_truncated_files_are_refused(bundle_file, data):
    """Of the footer's padding nothing depends: there the numbers are the same."""
    for file in (bundle_file, bundle_file.with_suffix(".data-00000-of-00001")):
        content = file.read_bytes()
        place = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            changed = content[:place]
        else:
            changed = bytearray(content)
            changed[place] ^= data.draw(st.integers(1, 255))
        file.write_bytes(changed)
        try:
            found = read_all(bundle_file)
        except ConversionError as error:
            assert str(bundle_file.parent) in str(error) and "\n" not in str(error)
        else:
            assert all(np.array_equal(found[key], ARRAYS[key]) for key in found) and len(found) == 3
            assert len(changed) == len(content) and file == bundle_file
        finally:
            file.write_bytes(content)
