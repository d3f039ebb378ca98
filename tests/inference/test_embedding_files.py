"""Files of vectors: every array under its number, every word with its vector, whole or not there."""

import json
import os
import sys

import numpy as np
import pytest
from refusals import assert_refused

from hf_elmo.inference.embedding_files import (
    ARRAY_SUFFIXES,
    WORD_SUFFIXES,
    check_embedding_file,
    read_words,
    write_embeddings,
    write_word_vectors,
)
from hf_elmo.text.word_vectors import read_word_vectors

D = 12
WORDS = ["the", "Straße", "a/b", "<S>", "\u4e16\u754c", *(f"w{number}" for number in range(300))]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("suffix", ARRAY_SUFFIXES)
def test_each_format_gives_back_what_was_written(tmp_path, suffix, dtype):
    h5py = pytest.importorskip("h5py", reason="vectors are written as HDF5")
    path, sentences = tmp_path / "new" / f"v{suffix}", ["a b", "", 'é "c"', "a b"]
    arrays = [np.random.default_rng(0).normal(size=(3, length, D)) for length in (4, 0, 200, 4)]
    assert write_embeddings(path, iter(arrays), sentences, dtype=dtype) == (4, 208)
    if suffix == ".npz":
        found = dict(np.load(path))
    else:
        with h5py.File(path) as file:
            found = {name: dataset[()] for name, dataset in file.items()}
            assert h5py.check_string_dtype(file["sentence_to_index"].dtype).length is None
        # As AllenNLP has it; of sentences that are alike the last.
        (text,) = found.pop("sentence_to_index")
        assert json.loads(text) == {"a b": "3", "": "1", 'é "c"': "2"}
    assert list(found) == ["0", "1", "2", "3"]
    for array, wanted in zip(found.values(), arrays, strict=True):
        assert array.dtype == dtype and np.array_equal(array, wanted.astype(dtype))
    assert os.listdir(path.parent) == [path.name]


def test_a_name_that_is_taken_or_says_no_format_is_refused(tmp_path, monkeypatch):
    (tmp_path / "old.npz").write_bytes(b"old")
    (tmp_path / "link.npz").symlink_to(tmp_path / "old.npz")
    for name, suffixes, named in (
        ("link.npz", ARRAY_SUFFIXES, ("link.npz", "--overwrite_output_file")),
        ("v.parquet", ARRAY_SUFFIXES, (".hdf5, .h5, .npz", "output_dir")),
        ("v.npz", WORD_SUFFIXES, ".bin"),
    ):
        assert_refused((ValueError, FileExistsError), named, check_embedding_file, tmp_path / name, suffixes)
    target = check_embedding_file(tmp_path / "link.npz", ARRAY_SUFFIXES, overwrite=True)
    with pytest.raises(FloatingPointError):
        write_embeddings(target, [np.full((1, D), 1e6, np.float32)], dtype="float16")
    assert (tmp_path / "old.npz").read_bytes() == b"old"
    write_embeddings(target, [np.zeros((1, D))])
    assert (tmp_path / "link.npz").is_symlink() and list(np.load(tmp_path / "old.npz")) == ["0"]
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'hf_elmo\[conversion\]'"):
        check_embedding_file(tmp_path / "v.hdf5", ARRAY_SUFFIXES)


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
    path = tmp_path / f"words{suffix}"
    write_word_vectors(embedder, WORDS, path, max_words_per_batch=100)
    words, vectors = read_binary(path) if suffix == ".bin" else read_word_vectors(path)
    assert words == WORDS and vectors.shape == (len(WORDS), embedder.vector_size // 2)
    # Half of layer 0 of a sentence of that word alone.
    arrays = embedder.embed_sentences([[word] for word in WORDS[:20]], layers="token")
    wanted = np.concatenate(arrays)[:, : embedder.vector_size // 2]
    np.testing.assert_allclose(vectors[:20], wanted, rtol=0, atol=1e-6)


def test_word_lists_that_cannot_be_are_named_by_line(tmp_path):
    for content, named in ((b"a\nb c\n", ("line 2", "b c")), (b"a\n\xe9\n", ("line 2", "0xE9")), (b"\n", "no words")):
        (tmp_path / "words.txt").write_bytes(content)
        assert_refused(ValueError, named, read_words, tmp_path / "words.txt")
    (tmp_path / "words.txt").write_bytes(b"the\r\n\nof\nthe\n")
    assert read_words(tmp_path / "words.txt") == ["the", "of"]
