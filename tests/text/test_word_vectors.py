"""Word vectors are read from every form of file, bad lines are named, and the table holds what text is made into."""

import bz2
import gzip
import lzma
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from huggingface_hub.errors import StrictDataclassError
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.text.vocabulary import WordVocabulary
from hf_elmo.text.word_vectors import build_word_table, read_word_vectors, set_token_inputs

TOKENIZER = ElmoCharTokenizer()
LINES = ["the 0.5 -1.25", "cat 1e-1 2", "né -3 0"]
WORDS = ["the", "cat", "né"]
VECTORS = np.array([[0.5, -1.25], [0.1, 2.0], [-3.0, 0.0]], dtype=np.float32)
# White space that separates nothing but stands in the words of real files.
words = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(
    lambda word: " " not in word
)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.fixture
def write(tmp_path):
    """Writes lines or bytes to a file and gives its path."""

    def write(content, name="vectors.txt"):
        path = tmp_path / name
        if not isinstance(content, bytes):
            content = "".join(f"{line}\n" for line in content).encode()
        path.write_bytes(content)
        return path

    return write


def assert_read(found, words=WORDS, vectors=VECTORS):
    assert found.words == list(words)
    assert found.vectors.dtype == np.float32
    np.testing.assert_array_equal(found.vectors, vectors)


# Reading


@pytest.mark.parametrize(
    "lines",
    [
        LINES,
        ["3 2", *LINES],
        ["3 2", *(f"{line} " for line in LINES)],
        [line.replace(" ", "\t") for line in LINES],
        [f"{line}\r" for line in LINES],
        ["", *LINES, "", " "],
        ["", "3 2", *LINES],
        [f"\ufeff{LINES[0]}", *LINES[1:]],
        ["\ufeff3 2", *LINES],
    ],
    ids=[
        "glove",
        "word2vec",
        "trailing spaces",
        "tabs",
        "crlf",
        "empty lines",
        "empty line before the header",
        "byte order mark",
        "byte order mark before the header",
    ],
)
def test_every_form_of_line_gives_the_same_vectors(write, lines):
    assert_read(read_word_vectors(write(lines)))
    assert_read(read_word_vectors(write(lines), vector_size=2))


def test_the_last_newline_is_optional(write):
    assert_read(read_word_vectors(write("\n".join(LINES).encode())))


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_a_byte_order_mark_belongs_to_no_word(write, header):
    assert_read(read_word_vectors(write((header + "\n".join(LINES)).encode("utf-8-sig"))))


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_packed_files_are_unpacked_on_the_way(write, suffix, pack):
    assert_read(read_word_vectors(write(pack("\n".join(LINES).encode()), f"vectors.txt.{suffix}")))


def test_a_file_of_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "glove.zip", "w") as archive:
        archive.writestr("first.txt", "the 1\n")
        archive.writestr("second.txt", "\n".join(LINES))
    assert_read(read_word_vectors(f"zip://second.txt::{tmp_path / 'glove.zip'}"))


@given(entries=st.dictionaries(words, st.tuples(numbers, numbers, numbers), min_size=1), with_header=st.booleans())
def test_whatever_was_written_is_read(tmp_path_factory, entries, with_header):
    path = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    lines = [f"{len(entries)} 3"] if with_header else []
    lines += [" ".join([word, *map(repr, vector)]) for word, vector in entries.items()]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    vectors = np.array(list(entries.values()), dtype=np.float32)
    assert_read(read_word_vectors(path, vector_size=3), entries, vectors)


def test_words_may_hold_spaces(write):
    lines = ["the 1 2", "at name@domain.com 3 4", ". . . 5 6", "\u00a0 7 8", "a\u2028b 9 0"]
    found = read_word_vectors(write(lines))
    assert_read(
        found, ["the", "at name@domain.com", ". . .", "\u00a0", "a\u2028b"], np.arange(1, 11).reshape(5, 2) % 10
    )
    # The first line's word too where the size is known.
    assert read_word_vectors(write(lines[1:2]), vector_size=2).words == ["at name@domain.com"]


def test_numbers_can_be_words(write):
    assert read_word_vectors(write(["7 1 2", "8 3 4"])).words == ["7", "8"]


def test_the_first_vector_of_a_word_is_taken(write):
    found = read_word_vectors(write([*LINES, "the 7 7", "cat 8 8", "the 9 9"]))
    assert_read(found)


def test_only_wanted_words_are_taken_in_the_order_of_the_file(write):
    found = read_word_vectors(write(LINES), ["né", "dog", "the"])
    assert_read(found, ["the", "né"], VECTORS[[0, 2]])


def test_no_more_words_are_taken_than_asked_for(write):
    assert_read(read_word_vectors(write(LINES), max_words=2), WORDS[:2], VECTORS[:2])
    assert_read(read_word_vectors(write(LINES), ["né", "cat", "the"], max_words=1), WORDS[:1], VECTORS[:1])


def test_reading_ends_with_the_last_wanted_word(write):
    path = write(["9 2", *LINES, "dog 1"])
    assert_read(read_word_vectors(path, ["cat", "the"]), WORDS[:2], VECTORS[:2])
    assert_read(read_word_vectors(path, max_words=3))
    with pytest.raises(ValueError, match="line 5"):
        read_word_vectors(path)


def test_words_can_be_lower_cased(write):
    found = read_word_vectors(write(["Cat 1 2", "cat 3 4", "<S> 5 6", "MAT 7 8"]), lower_case=True)
    assert_read(found, ["cat", "<S>", "mat"], [[1, 2], [5, 6], [7, 8]])


def test_memory_holds_the_wanted_words_alone(write):
    vector = " ".join(["0.12345"] * 100)
    path = write([f"word{index} {vector}" for index in range(4_000)])
    size = path.stat().st_size
    tracemalloc.start()
    read_word_vectors(path, [f"word{index}" for index in range(0, 4_000, 100)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 3e6 and peak < 5e5


# Lines, options of the reader, and what is named beside the file.
BAD_FILES = [
    ([], {}, "empty"),
    (["", " "], {}, "empty"),
    (["3 2"], {}, "empty"),
    (["the 1 2", "cat 1"], {}, "line 2"),
    (["the 1 2", "cat 1 2 3"], {}, "line 2"),
    (["2 3", "the 1 2"], {}, "line 2"),
    (["", "the 1 2", "", "cat 1"], {}, "line 4"),
    (["the", "cat"], {}, "line 1"),
    (["the 1 2"], {"vector_size": 3}, ("line 1", "word_vector_size")),
    (["1 2", "the 1 2"], {"vector_size": 3}, ("line 1", "word_vector_size")),
    (["the 1 2", "cat 1 x"], {}, ("line 2", "'x'")),
    (["the 1 2", "cat nan 1"], {}, ("line 2", "'nan'")),
    (["the 1 1e60"], {}, ("line 1", "'1e60'")),
    (["4 2", *LINES], {}, ("3 vectors", "4")),
    (["2 2", *LINES], {}, ("3 vectors", "2")),
    (LINES, {"words": ["dog", "mat"]}, "2 wanted words"),
    (b"the 1 2\ncaf\xe9 3 4\n", {}, ("line 2", "UTF-8", "0xE9")),
]


def test_bad_files_are_refused_with_the_line(write):
    for lines, options, named in BAD_FILES:
        message = assert_refused(ValueError, named, read_word_vectors, write(lines), **options)
        assert message.startswith("word_vectors '") and "vectors.txt'" in message, message


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_damaged_archives_are_named(write, suffix, pack):
    content = pack(b"".join(b"w%d 1 2\n" % index for index in range(10_000)))
    for damaged in (content[:-20], b"the 1 2\n"):
        with pytest.raises(ValueError, match=rf"vectors.{suffix}'.*line \d+"):
            read_word_vectors(write(damaged, f"vectors.{suffix}"))


def write_members(path, names):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, "the 1 2\n" * 1000)
    return path.read_bytes()


def test_a_zip_is_read_and_a_damaged_one_is_named(tmp_path):
    path = tmp_path / "glove.zip"
    content = write_members(path, ["vectors.txt"])
    assert read_word_vectors(path).words == ["the"]
    encrypted = bytearray(content)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        encrypted[content.index(mark) + place] |= 1
    packed_otherwise = bytearray(content)
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        packed_otherwise[content.index(mark) + place] = 99
    for damaged in (content[:-30], b"the 1 2\n", encrypted, packed_otherwise, write_members(path, [])):
        path.write_bytes(damaged)
        assert_refused(ValueError, ("glove.zip", "line 0"), read_word_vectors, path)


def test_a_missing_file_and_a_bad_limit(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"word_vectors .*nowhere\.txt"):
        read_word_vectors(tmp_path / "nowhere.txt")
    with pytest.raises(IsADirectoryError):
        read_word_vectors(tmp_path)
    with pytest.raises(ValueError, match="max_words"):
        read_word_vectors(tmp_path / "nowhere.txt", max_words=0)


# The table


def test_a_table_has_the_rows_of_the_tokenizer_and_the_markers(tokenizer):
    table = build_word_table(tokenizer, WORDS, VECTORS)
    np.testing.assert_array_equal(table.rows, tokenizer.encode_words([*WORDS, "<S>", "</S>"]))
    np.testing.assert_array_equal(table.vectors[:3], VECTORS)
    np.testing.assert_array_equal(table.unknown, VECTORS.mean(axis=0))
    assert table.vectors.shape == (5, 2) and table.vectors.dtype == np.float32
    assert len({tuple(vector) for vector in table.vectors}) == 5
    again, other = (build_word_table(tokenizer, WORDS, VECTORS, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.vectors, table.vectors)
    assert (other.vectors[3:] != table.vectors[3:]).all()


def test_markers_that_have_vectors_keep_them(tokenizer):
    table = build_word_table(tokenizer, ["</S>", "the", "<S>"], VECTORS)
    np.testing.assert_array_equal(table.vectors, VECTORS)


def test_a_table_to_be_learned_has_no_vectors(tokenizer):
    table = build_word_table(tokenizer, ["<S>", *WORDS])
    assert table.vectors is table.unknown is None
    np.testing.assert_array_equal(table.rows, tokenizer.encode_words(["<S>", *WORDS, "</S>"]))


def test_of_words_with_one_row_the_first_is_taken_and_the_others_are_counted():
    tokenizer = ElmoCharTokenizer(do_lower_case=True)
    long = "x" * 48
    given = ["The", "the", long, f"{long}y", "cat"]
    vectors = np.arange(10, dtype=np.float32).reshape(5, 2)
    table = build_word_table(tokenizer, given, vectors)
    np.testing.assert_array_equal(table.rows[:3], tokenizer.encode_words(["the", long, "cat"]))
    np.testing.assert_array_equal(table.vectors[:3], vectors[[0, 2, 4]])
    assert len(table.rows) == len(table.vectors) == 5


def test_one_vector_a_word(tokenizer):
    with pytest.raises(ValueError, match=r"vectors .*words"):
        build_word_table(tokenizer, WORDS[:2], VECTORS)


# Setting up a model


VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "dog", "né"])


def set_up(tokenizer=TOKENIZER, fields=None, **arguments):
    """A config, its table, a model that was filled with it, and what the user was told."""
    config, said = make_tiny_config(**(fields or {})), []
    table = set_token_inputs(config, tokenizer, VOCABULARY, report=said.append, **arguments)
    model = ElmoModel(config)
    if table is not None:
        table.fill(model)
    return config, table, model, said


def look_up(model, *words, tokenizer=TOKENIZER):
    return model.token_encoder.word_table(torch.from_numpy(tokenizer.encode_words(words))).detach().numpy()


@pytest.mark.parametrize("token_inputs", ["words", "both"])
def test_the_table_is_filled_with_the_vocabularys_words_of_the_file(write, token_inputs):
    config, _, model, said = set_up(token_inputs=token_inputs, word_vectors=write([*LINES, "the 9 9"]))
    assert (config.token_inputs, config.word_table_size, config.word_vector_size) == (token_inputs, 4, 2)
    assert config.train_word_vectors and model.token_encoder.word_table.num_embeddings == 5
    np.testing.assert_array_equal(look_up(model, "né", "the"), VECTORS[[2, 0]])
    # Not in the file, not in the vocabulary, and neither.
    np.testing.assert_array_equal(look_up(model, "dog", "cat", "<UNK>"), np.stack([VECTORS[[0, 2]].mean(axis=0)] * 3))
    assert len({tuple(vector) for vector in look_up(model, "<S>", "</S>", "dog")}) == 3
    (line,) = said
    assert "2 of 5 words of the vocabulary have a vector of size 2" in line


def test_a_table_is_learned_for_all_words_of_the_vocabulary():
    config, _, model, said = set_up(token_inputs="both", word_vector_size=7)
    assert (config.word_table_size, config.word_vector_size) == (5, 7)
    assert len({tuple(vector) for vector in look_up(model, *VOCABULARY.words)}) == 6
    np.testing.assert_array_equal(look_up(model, "<UNK>"), look_up(model, "zebra"))
    assert said == ["word table: 5 words of the vocabulary, vectors of size 7 to be learned"]


def test_a_learned_table_has_the_size_of_the_projection_where_none_is_given():
    assert set_up(token_inputs="words")[0].word_vector_size == 6
    fields = {"token_inputs": "words", "word_table_size": 1, "word_vector_size": 3}
    config = set_up(fields=fields)[0]
    assert (config.token_inputs, config.word_table_size, config.word_vector_size) == ("words", 5, 3)


def test_vectors_can_be_kept_as_they_are(write):
    config, _, model, _ = set_up(token_inputs="both", word_vectors=write(LINES), train_word_vectors=False)
    assert not config.train_word_vectors and not model.token_encoder.word_table.weight.requires_grad


def test_words_are_looked_up_as_the_tokenizer_reads_them(write):
    tokenizer = ElmoCharTokenizer(do_lower_case=True)
    path = write(["The 1 2", "the 3 4", "DOG 5 6", "Cat 7 8"])
    _, _, model, said = set_up(tokenizer, token_inputs="words", word_vectors=path)
    np.testing.assert_array_equal(look_up(model, "THE", "the", "Dog", tokenizer=tokenizer), [[1, 2], [1, 2], [5, 6]])
    assert "2 of 5" in said[0]


def test_characters_alone_have_no_table():
    fields = {"token_inputs": "both", "word_table_size": 4, "word_vector_size": 3}
    for config, table, model, said in (set_up(), set_up(fields=fields, token_inputs="characters")):
        assert config.to_dict() == make_tiny_config().to_dict()
        assert table is model.token_encoder.word_table is None and not said
    with pytest.raises(ValueError, match="token_inputs"):
        build_word_table(TOKENIZER, WORDS).fill(ElmoModel(make_tiny_config()))


def test_what_contradicts_is_refused_by_name():
    for arguments, named in (
        ({"word_vectors": "x.txt"}, ("word_vectors", "token_inputs")),
        ({"word_vector_size": 3}, ("word_vector_size", "token_inputs")),
        ({"train_word_vectors": False}, ("train_word_vectors", "token_inputs")),
        ({"token_inputs": "both", "train_word_vectors": False}, "train_word_vectors"),
        ({"token_inputs": "both", "word_vector_size": -1}, "word_vector_size is -1"),
        ({"token_inputs": "both", "word_vector_size": 0}, "word_vector_size is 0"),
        ({"token_inputs": "word"}, "token_inputs"),
    ):
        assert_refused((ValueError, StrictDataclassError), named, set_up, **arguments)


@pytest.mark.parametrize("header", ["9" * 5000 + " 2", "1 " + "9" * 30, "1 999999999999999"])
def test_a_header_of_absurd_numbers_is_refused(tmp_path, header):
    (tmp_path / "v.txt").write_text(f"{header}\na 1 2\n")
    assert_refused(ValueError, "v.txt", read_word_vectors, tmp_path / "v.txt")


def test_a_file_of_nothing_but_a_byte_order_mark_is_empty(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"\xef\xbb\xbf")
    assert_refused(ValueError, ("v.txt", "empty"), read_word_vectors, tmp_path / "v.txt")
