"""Files of vectors: every array under its number, every word with its vector, whole or not there."""

import json
import os
import sys

import numpy as np
import pytest
from refusals import assert_refused

from hf_elmo.inference.embedding_files import (
    ARRAY_SUFFIXES,
    SENTENCE_TO_INDEX,
    WORD_SUFFIXES,
    check_embedding_file,
    read_words,
    write_embeddings,
    write_word_vectors,
)
from hf_elmo.text.word_vectors import read_word_vectors

D = 12
WORDS = ["the", "Straße", "a/b", "<S>", "\u4e16\u754c", *(f"w{number}" for number in range(3000))]


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="vectors are written as HDF5")


def read_all(h5py, path) -> dict[str, np.ndarray]:
    if path.suffix == ".npz":
        return dict(np.load(path))
    with h5py.File(path) as file:
        return {name: dataset[()] for name, dataset in file.items()}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("suffix", ARRAY_SUFFIXES)
def test_each_format_gives_back_what_was_written(h5py, tmp_path, suffix, dtype):
    path, sentences = tmp_path / "new" / f"v{suffix}", ["a b", "", 'é "c" \0']
    arrays = [np.random.default_rng(0).normal(size=(3, length, D)) for length in (4, 0, 200)]
    assert write_embeddings(path, iter(arrays), sentences, dtype=dtype) == (3, 204)
    found = read_all(h5py, path)
    assert json.loads(found.pop(SENTENCE_TO_INDEX)[0]) == {sentence: str(n) for n, sentence in enumerate(sentences)}
    assert list(found) == ["0", "1", "2"]
    for array, wanted in zip(found.values(), arrays, strict=True):
        assert array.dtype == dtype and np.array_equal(array, wanted.astype(dtype))
    assert os.listdir(path.parent) == [path.name]


def test_the_map_from_sentences_to_numbers_is_allennlps_and_loses_none(h5py, tmp_path):
    sentences = ["a b", 'é "c"', "a b"]
    write_embeddings(tmp_path / "v.hdf5", [np.zeros((1, D))] * 3, sentences)
    with h5py.File(tmp_path / "v.hdf5") as file:
        dataset = file["sentence_to_index"]
        assert dataset.shape == (1,) and h5py.check_string_dtype(dataset.dtype).length is None
        # Of sentences that are alike a reader takes the last.
        pairs = json.loads(dataset[0], object_pairs_hook=list)
    assert [tuple(pair) for pair in pairs] == [(sentence, str(number)) for number, sentence in enumerate(sentences)]
    for others in (["a"], ["a", "b", "c", "d"]):
        given = (tmp_path / "w.npz", [np.zeros((1, D))] * 3, others)
        assert_refused(ValueError, ("sentences", "arrays"), write_embeddings, *given)
    assert os.listdir(tmp_path) == ["v.hdf5"]


def test_a_failing_run_leaves_nothing_and_spares_what_was_there(tmp_path):
    def arrays():
        yield np.zeros((1, D))
        raise KeyboardInterrupt

    path = tmp_path / "v.npz"
    for content in (None, b"old"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(KeyboardInterrupt):
            write_embeddings(path, arrays(), overwrite=True)
        with pytest.raises(FloatingPointError):
            write_embeddings(path, [np.full((1, D), 1e6, np.float32)], overwrite=True, dtype="float16")
        assert os.listdir(tmp_path) == ([] if content is None else ["v.npz"])
    assert path.read_bytes() == b"old"


def test_a_name_that_is_taken_or_says_no_format_is_refused_before_any_work(tmp_path):
    (tmp_path / "old.npz").write_bytes(b"old")
    (tmp_path / "link.npz").symlink_to(tmp_path / "old.npz")
    (tmp_path / "folder.npz").mkdir()
    for name, named in (
        ("old.npz", ("old.npz", "--overwrite_output_file")),
        ("link.npz", "link.npz"),
        ("old.npz/v.npz", "old.npz'"),
        ("folder.npz", ("folder.npz", "directory")),
        ("v.parquet", (".npz", "output_dir")),
        ("v", ".hdf5, .h5, .npz"),
    ):
        arrays = (pytest.fail("an array was asked for") for _ in range(1))
        assert_refused((ValueError, FileExistsError), named, write_embeddings, tmp_path / name, arrays)
    assert_refused(ValueError, ".bin", check_embedding_file, tmp_path / "v.npz", WORD_SUFFIXES)
    write_embeddings(tmp_path / "link.npz", [np.zeros((1, D))], overwrite=True)
    assert (tmp_path / "link.npz").is_symlink() and list(np.load(tmp_path / "old.npz")) == ["0"]


def test_without_h5py_the_extra_is_named_and_npz_is_written(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'hf_elmo\[conversion\]'"):
        write_embeddings(tmp_path / "v.hdf5", [])
    write_embeddings(tmp_path / "v.npz", [np.zeros((3, 2, D))])
    assert np.load(tmp_path / "v.npz")["0"].shape == (3, 2, D)


# Words


def read_binary(path):
    """Words and vectors of a binary file, of which every byte is accounted for."""
    header, _, rest = path.read_bytes().partition(b"\n")
    count, size = map(int, header.split(b" "))
    words, vectors = [], []
    for _ in range(count):
        word, _, rest = rest.partition(b" ")
        words.append(word.decode("utf-8"))
        vectors.append(np.frombuffer(rest[: 4 * size], "<f4"))
        rest = rest[4 * size :]
    assert rest == b""
    return words, np.stack(vectors)


@pytest.mark.parametrize("suffix", WORD_SUFFIXES)
def test_a_file_has_layer_0_of_each_word(tmp_path, embedder, suffix):
    path = write_word_vectors(embedder, WORDS, tmp_path / f"words{suffix}")
    if suffix == ".bin":
        words, vectors = read_binary(path)
    else:
        found = read_word_vectors(path)
        words, vectors = found.words, found.vectors
    assert words == WORDS and vectors.shape == (len(WORDS), embedder.vector_size // 2)
    # Half of layer 0 of a sentence of that word alone.
    arrays = embedder.embed_sentences([[word] for word in WORDS[:20]], layers="token")
    wanted = np.concatenate(arrays)[:, : embedder.vector_size // 2]
    np.testing.assert_allclose(vectors[:20], wanted, rtol=0, atol=1e-6)
    try:
        from gensim.models import KeyedVectors
    except ImportError:
        return
    loaded = KeyedVectors.load_word2vec_format(str(path), binary=suffix == ".bin")
    assert loaded.index_to_key == WORDS and np.array_equal(loaded.vectors, vectors)


def test_word_lists_that_cannot_be_are_named_by_line(tmp_path):
    for content, named in ((b"a\nb c\n", ("line 2", "b c")), (b"a\n\xe9\n", ("line 2", "0xE9")), (b"\n", "no words")):
        (tmp_path / "words.txt").write_bytes(content)
        assert_refused(ValueError, named, read_words, tmp_path / "words.txt")
    (tmp_path / "words.txt").write_bytes(b"the\r\n\nof\nthe\n")
    assert read_words(tmp_path / "words.txt") == ["the", "of"]
