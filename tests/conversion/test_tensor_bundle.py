"""TensorFlow's checkpoints are read without it, and nothing that was altered is taken for what it was."""

import numpy as np
import pytest
from conftest import shared_data
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tensor_bundles import nested, whole, write_bundle

from hf_elmo.conversion.tensor_bundle import find_index, read_bundle

ARRAYS = {
    "global_step": np.array(7, dtype=np.int64),
    "lm/b": np.arange(5, dtype=np.float32),
    "lm/w": np.arange(300, dtype=np.float32).reshape(3, 100),
    "lm/w/Adagrad": np.ones((3, 100), dtype=np.float32),
}


def assert_same(found, wanted):
    assert found.keys() == set(wanted)
    for key, tensor in found.items():
        assert tensor.numpy().dtype == wanted[key].dtype and tensor.shape == wanted[key].shape
        assert tensor.numpy().tobytes() == wanted[key].tobytes()


@pytest.mark.parametrize(
    "name", ["nlpl", "bilm_tf/layers1", "bilm_tf/word_shared_softmax", "bilm_tf/forward_only"], ids=lambda name: name
)
def test_every_variable_that_tensorflow_wrote_is_read_bit_by_bit(name):
    folder = shared_data("zoo") / name
    with np.load(folder / "training_variables.npz") as expected:
        assert_same(read_bundle(find_index(folder / "training")), {key: expected[key] for key in expected.files})


def test_the_checkpoint_of_a_directory_is_the_one_that_it_names(tmp_path):
    assert find_index(tmp_path) is None
    first = write_bundle(tmp_path, ARRAYS, name="model.ckpt-7")
    assert find_index(tmp_path) == find_index(first) == find_index(first.with_suffix(".data-00000-of-00001")) == first
    second = write_bundle(tmp_path, ARRAYS, name="model.ckpt-12")
    assert find_index(tmp_path) == second
    (tmp_path / "checkpoint").unlink()
    assert find_index(tmp_path) is None and find_index(first) == first
    assert find_index(tmp_path / "nothing") is None


def test_what_does_not_add_up_is_refused_by_name(tmp_path):
    for arguments, named in (
        ({"shards": 2}, "2 shards"),
        ({"kind": 1}, "compressed"),
        ({"changes": {"lm/w": whole(3, 1)}}, ("lm/w", "one piece")),
        ({"changes": {"lm/w": nested(7, b"")}}, ("lm/w", "one piece")),
        ({"changes": {"lm/w": whole(1, 7)}}, ("lm/w", "type 7")),
        ({"changes": {"lm/w": whole(5, 1196)}}, ("lm/w", "(3, 100)", "1196")),
        ({"changes": {"lm/w": nested(2, nested(2, whole(1, 4)))}}, ("lm/w", "(4,)", "1200")),
        ({"changes": {"lm/w": whole(4, 10**9)}}, ("lm/w", "(3, 100)", "truncated")),
        ({"changes": {"lm/w": whole(4, 24)}}, ("lm/w", "(3, 100)", "CRC-32C")),
    ):
        index_file = write_bundle(tmp_path, ARRAYS, **arguments)
        assert str(tmp_path) in assert_refused(ValueError, named, read_bundle, index_file)
    index_file = write_bundle(tmp_path, ARRAYS)
    index_file.with_suffix(".data-00000-of-00001").unlink()
    assert_refused(FileNotFoundError, "data-00000-of-00001", read_bundle, index_file)


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
            found = read_bundle(bundle_file)
        except ValueError as error:
            assert str(bundle_file.parent) in str(error) and "\n" not in str(error)
        else:
            assert_same(found, ARRAYS)
            assert len(changed) == len(content) and file == bundle_file
        finally:
            file.write_bytes(content)
