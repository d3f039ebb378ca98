"""Files of word vectors, as word2vec wrote them: read by a strict reader, and by gensim where it is there."""

import gzip

import numpy as np
import pytest
from refusals import assert_refused

from hf_elmo.commands.embed import EmbeddingArguments, run_embedding
from hf_elmo.inference.word_vector_files import read_words, write_word_vectors
from hf_elmo.text.word_vectors import read_word_vectors

WORDS = ["the", "Straße", "a/b", "<S>", "\u4e16\u754c", *(f"w{number}" for number in range(3000))]


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


def wanted(embedder):
    # Half of layer 0 of a sentence of that word alone.
    arrays = embedder.embed_sentences([[word] for word in WORDS[:20]], layers="token")
    return np.concatenate(arrays)[:, : embedder.vector_size // 2]


@pytest.mark.parametrize("name", ["words.bin", "words.txt", "words.vec"])
def test_a_file_has_layer_0_of_each_word(tmp_path, embedder, name):
    write_word_vectors(embedder, WORDS, tmp_path / name)
    if name == "words.bin":
        words, vectors = read_binary(tmp_path / name)
    else:
        found = read_word_vectors(tmp_path / name)
        words, vectors = found.words, found.vectors
    assert words == WORDS and vectors.shape == (len(WORDS), embedder.vector_size // 2)
    np.testing.assert_allclose(vectors[:20], wanted(embedder), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["words.bin", "words.txt"])
def test_gensim_loads_it(tmp_path, embedder, name):
    gensim = pytest.importorskip("gensim", reason="it is gensim's format that is tried")
    write_word_vectors(embedder, WORDS, tmp_path / name)
    loaded = gensim.models.KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=name.endswith(".bin"))
    assert loaded.index_to_key == WORDS
    np.testing.assert_allclose(loaded.vectors[:20], wanted(embedder), rtol=0, atol=1e-6)


# Flags of texts, which words without context do not have.
OF_TEXT = {
    "storage_dtype": "float16",
    "compression": "gzip",
    "carry_state": True,
    "store_sentences": True,
    "text_is_tokenized": True,
    "max_words_per_buffer": 9,
}


def test_the_command_reads_a_word_per_line(tmp_path, embedder, capsys):
    (tmp_path / "words.txt.gz").write_bytes(gzip.compress(b"the\n\nof\r\nthe\n"))
    options = {"vocabulary": str(tmp_path / "words.txt.gz"), "output_file": str(tmp_path / "v.txt"), "device": "cpu"}
    given = EmbeddingArguments(model_name_or_path=embedder.name, **options)
    assert run_embedding(given).num_words == 2
    assert "1 lines that repeat" in capsys.readouterr().out
    assert read_word_vectors(tmp_path / "v.txt").words == ["the", "of"]
    for changes, named in (
        ({"output_file": "v.npz"}, ("output_file", ".bin")),
        ({"output_file": str(tmp_path / "v.txt")}, "--overwrite_output_file"),
        ({"output_file": None, "output_dir": "v"}, "--output_file"),
        ({"output_file": "v.bin", "layers": "top"}, "layers is 'top'"),
        ({"output_file": "v.bin", "input_file": "a.txt"}, "--vocabulary"),
        *(({"output_file": "v.bin", name: value}, name) for name, value in OF_TEXT.items()),
    ):
        arguments = EmbeddingArguments(model_name_or_path=embedder.name, **{**options, **changes})
        assert_refused((ValueError, FileExistsError), named, run_embedding, arguments)


def test_word_lists_that_cannot_be_are_named_by_line(tmp_path):
    for content, named in ((b"a\nb c\n", ("line 2", "b c")), (b"a\n\xe9\n", ("line 2", "0xE9")), (b"\n", "no words")):
        (tmp_path / "words.txt").write_bytes(content)
        assert_refused(ValueError, named, read_words, tmp_path / "words.txt")
