"""hdf5 files that are missing, damaged or half-written are refused by name."""

import shutil
import sys

import pytest
from bilm_tf_files import assert_conversion_fails, make_options, write_checkpoint
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoModel
from hf_elmo.conversion.bilm_tf import load_bilm_tf
from hf_elmo.conversion.bilm_tf_export import save_bilm_tf
from hf_elmo.conversion.checked_files import ConversionError

h5py = pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")


def test_truncated_and_foreign_weights_are_refused(tmp_path):
    write_checkpoint(tmp_path, make_options())
    whole = (tmp_path / "weights.hdf5").read_bytes()
    assert whole.count(b"TREE") > 1
    contents = [whole[: int(share * len(whole))] for share in (0.0, 0.001, 0.3, 0.999)]
    contents += [whole.replace(b"TREE", b"EERT"), b"<html>404</html>"]
    for number, content in enumerate(contents):
        folder = tmp_path / str(number)
        write_checkpoint(folder, make_options())
        (folder / "weights.hdf5").write_bytes(content)
        assert_conversion_fails(folder, ConversionError, ("weights.hdf5", "not a readable hdf5 file"))


@examples(30)
@given(place=st.floats(0, 1), length=st.integers(1, 5000), byte=st.integers(0, 255))
def test_damaged_weights_are_read_or_refused_but_never_crash(damaged_folder, place, length, byte):
    content = bytearray((damaged_folder / "whole.hdf5").read_bytes())
    start = int(place * (len(content) - 1))
    content[start : start + length] = bytes([byte]) * len(content[start : start + length])
    (damaged_folder / "weights.hdf5").write_bytes(content)
    try:
        model = load_bilm_tf(damaged_folder / "options.json", damaged_folder / "weights.hdf5")
    except ConversionError as error:
        assert "weights.hdf5" in str(error)
    else:
        assert all(tensor.isfinite().all() for tensor in model.state_dict().values())


@pytest.fixture(scope="module")
def damaged_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    write_checkpoint(folder, make_options())
    shutil.copy(folder / "weights.hdf5", folder / "whole.hdf5")
    return folder


@pytest.mark.parametrize("name", ["options.json", "weights.hdf5"])
def test_missing_files_are_named(tmp_path, name):
    write_checkpoint(tmp_path, make_options())
    (tmp_path / name).unlink()
    assert_conversion_fails(tmp_path, FileNotFoundError, name)
    (tmp_path / name).mkdir()
    with pytest.raises(FileNotFoundError, match=name):
        load_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5")


def test_a_missing_h5py_says_how_to_get_it(tmp_path, monkeypatch):
    write_checkpoint(tmp_path, make_options())
    monkeypatch.setitem(sys.modules, "h5py", None)
    advice, model = "pip install 'hf_elmo[conversion]'", ElmoModel(make_tiny_config())
    assert_conversion_fails(tmp_path, ImportError, advice)
    assert_refused(ImportError, advice, save_bilm_tf, model, tmp_path / "o.json", tmp_path / "w.hdf5")
