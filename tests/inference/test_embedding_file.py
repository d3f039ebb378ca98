"""Files of vectors: every array under its number, in both formats, whole or not there."""

import json
import os
import sys

import numpy as np
import pytest
from refusals import assert_refused

from hf_elmo.inference.embedding_file import SENTENCE_TO_INDEX, check_embedding_file, write_embeddings

D = 12


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="vectors are written as HDF5")


def read_all(h5py, path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: dataset[()] for name, dataset in file.items()}


def test_a_file_has_a_dataset_a_sentence(h5py, tmp_path):
    arrays = [np.random.default_rng(0).normal(size=(3, length, D)) for length in (4, 0, 2)]
    path = tmp_path / "new" / "vectors.hdf5"
    assert write_embeddings(path, iter(arrays)) == (3, 6)
    found = read_all(h5py, path)
    assert sorted(found) == ["0", "1", "2"]
    for number, array in enumerate(arrays):
        assert found[str(number)].dtype == np.float32
        assert np.array_equal(found[str(number)], array.astype(np.float32))
    assert os.listdir(path.parent) == ["vectors.hdf5"]


def test_the_map_from_sentences_to_numbers_is_allennlps_and_loses_none(h5py, tmp_path):
    sentences = ["a b", 'é "c"', "a b", "nul \0"]
    write_embeddings(tmp_path / "v.hdf5", [np.zeros((1, D))] * 4, sentences)
    with h5py.File(tmp_path / "v.hdf5") as file:
        dataset = file["sentence_to_index"]
        assert dataset.shape == (1,) and h5py.check_string_dtype(dataset.dtype).length is None
        text = dataset[0]
    # As AllenNLP's users read it: of sentences that are alike, the last.
    assert json.loads(text) == {"a b": "2", 'é "c"': "1", "nul \0": "3"}
    pairs = json.loads(text, object_pairs_hook=list)
    assert [tuple(pair) for pair in pairs] == [(sentence, str(number)) for number, sentence in enumerate(sentences)]


def test_as_many_sentences_as_arrays(h5py, tmp_path):
    for sentences in (["a"], ["a", "b", "c"]):
        file, arrays = tmp_path / "v.hdf5", [np.zeros((1, D))] * 2
        assert_refused(ValueError, ("sentences", "arrays"), write_embeddings, file, arrays, sentences)
        assert os.listdir(tmp_path) == []


def test_a_failing_run_leaves_nothing_and_spares_what_was_there(h5py, tmp_path):
    def arrays():
        yield np.zeros((1, D))
        raise KeyboardInterrupt

    path = tmp_path / "v.hdf5"
    for content in (None, b"old"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(KeyboardInterrupt):
            write_embeddings(path, arrays(), overwrite=True)
        assert os.listdir(tmp_path) == ([] if content is None else ["v.hdf5"])
    assert path.read_bytes() == b"old"


def test_a_name_that_is_taken_is_refused_before_any_work(h5py, tmp_path):
    (tmp_path / "old.h5").write_bytes(b"old")
    (tmp_path / "link.h5").symlink_to(tmp_path / "old.h5")
    (tmp_path / "folder.h5").mkdir()
    for name, named in (
        ("old.h5", ("old.h5", "--overwrite_output_file")),
        ("link.h5", "link.h5"),
        ("old.h5/v.hdf5", "old.h5'"),
        ("folder.h5", ("folder.h5", "directory")),
    ):
        arrays = (pytest.fail("an array was asked for") for _ in range(1))
        assert_refused(FileExistsError, named, write_embeddings, tmp_path / name, arrays)
    write_embeddings(tmp_path / "link.h5", [np.zeros((1, D))], overwrite=True)
    assert (tmp_path / "link.h5").is_symlink() and list(read_all(h5py, tmp_path / "old.h5")) == ["0"]


def test_without_h5py_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'hf_elmo\[conversion\]'"):
        write_embeddings(tmp_path / "v.hdf5", [])


# Formats


def random_arrays():
    return [np.random.default_rng(0).normal(size=(3, length, D)).astype(np.float32) for length in (4, 0, 200)]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("suffix", [".hdf5", ".h5", ".npz"])
def test_each_format_gives_back_what_was_written(h5py, tmp_path, suffix, dtype, compression):
    path = tmp_path / f"v{suffix}"
    sentences = ["a b", "", 'é "c"']
    assert write_embeddings(path, random_arrays(), sentences, dtype=dtype, compression=compression) == (3, 204)
    found = dict(np.load(path)) if suffix == ".npz" else read_all(h5py, path)
    assert json.loads(found.pop(SENTENCE_TO_INDEX)[0]) == {sentence: str(n) for n, sentence in enumerate(sentences)}
    assert list(found) == ["0", "1", "2"]
    for array, wanted in zip(found.values(), random_arrays(), strict=True):
        assert array.dtype == dtype
        assert np.array_equal(array, wanted.astype(dtype))


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
def test_float16_and_gzip_make_it_smaller(h5py, tmp_path, suffix):
    sizes = {}
    for name, options in {"plain": {}, "half": {"dtype": "float16"}, "gzip": {"compression": "gzip"}}.items():
        path = tmp_path / f"{name}{suffix}"
        write_embeddings(path, [np.zeros((3, 500, D), np.float32)], **options)
        sizes[name] = path.stat().st_size
    assert sizes["half"] < 0.6 * sizes["plain"] and sizes["gzip"] < 0.2 * sizes["plain"]


def test_what_float16_cannot_hold_is_no_infinity(tmp_path):
    with pytest.raises(FloatingPointError):
        write_embeddings(tmp_path / "v.npz", [np.full((1, D), 1e6, np.float32)], dtype="float16")
    assert os.listdir(tmp_path) == []


def test_other_formats_are_refused_with_those_that_there_are(tmp_path):
    for name, options, named in (
        ("v.parquet", {}, (".npz", "output_dir")),
        ("v", {}, ".hdf5, .h5, .npz"),
        ("v.txt", {}, ".hdf5"),
        ("v.npz", {"dtype": "float64"}, "float16"),
        ("v.npz", {"compression": "zip"}, "gzip"),
    ):
        assert_refused(ValueError, named, check_embedding_file, tmp_path / name, **options)


def test_npz_needs_no_h5py(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    write_embeddings(tmp_path / "v.npz", random_arrays())
    assert np.load(tmp_path / "v.npz")["2"].shape == (3, 200, D)
