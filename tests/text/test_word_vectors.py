"""Word vectors are read from every form of file, bad lines are named, and the table holds what text is made into."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer
from hf_elmo.text.word_vectors import build_word_table, read_word_vectors

LINES = ["the 0.5 -1.25", "cat 1e-1 2", "né -3 0"]
WORDS = ["the", "cat", "né"]
VECTORS = np.array([[0.5, -1.25], [0.1, 2.0], [-3.0, 0.0]], dtype=np.float32)
# White space that separates nothing but stands in the words of real files.
words = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(
    lambda word: " " not in word
)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


def assert_read(found, words=WORDS, vectors=VECTORS):
    assert found.words == list(words)
    assert found.vectors.dtype == np.float32
    np.testing.assert_array_equal(found.vectors, vectors)


FORMS = [
    LINES,
    ["3 2", *(f"{line} " for line in LINES)],
    [line.replace(" ", "\t") for line in LINES],
    [f"{line}\r" for line in LINES],
    ["", "3 2", *LINES, "", " "],
    ["\ufeff3 2", *LINES],
    # The first vector of a word is taken.
    [*LINES, "the 7 7", "cat 8 8", "the 9 9"],
]


def test_every_form_of_line_gives_the_same_vectors(write):
    for lines in FORMS:
        assert_read(read_word_vectors(write(lines)))
        assert_read(read_word_vectors(write(lines), vector_size=2))


@given(entries=st.dictionaries(words, st.tuples(numbers, numbers, numbers), min_size=1), with_header=st.booleans())
def test_whatever_was_written_is_read(tmp_path_factory, entries, with_header):
    path = tmp_path_factory.getbasetemp() / "written.txt"
    lines = [f"{len(entries)} 3"] * with_header + [" ".join([word, *map(repr, row)]) for word, row in entries.items()]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    assert_read(read_word_vectors(path, vector_size=3), entries, np.array(list(entries.values()), dtype=np.float32))


def test_words_may_hold_spaces(write):
    lines = ["the 1 2", "at name@domain.com 3 4", ". . . 5 6", "\u00a0 7 8", "a\u2028b 9 0"]
    given_ = ["the", "at name@domain.com", ". . .", "\u00a0", "a\u2028b"]
    assert_read(read_word_vectors(write(lines)), given_, np.arange(1, 11).reshape(5, 2) % 10)
    # The first line's word too where the size is known.
    assert read_word_vectors(write(lines[1:2]), vector_size=2).words == ["at name@domain.com"]


def test_only_wanted_words_are_taken_in_the_order_of_the_file_and_no_line_read_behind_them(write):
    path = write(["9 2", *LINES, "dog 1"])
    assert_read(read_word_vectors(path, ["né", "the"]), ["the", "né"], VECTORS[[0, 2]])
    assert_refused(ValueError, "line 5", read_word_vectors, path)
    found = read_word_vectors(write(["Cat 1 2", "cat 3 4", "<S> 5 6", "MAT 7 8"]), lower_case=True)
    assert_read(found, ["cat", "<S>", "mat"], [[1, 2], [5, 6], [7, 8]])


# Lines, options of the reader, and what is named beside the file.
BAD_FILES = [
    (["", " "], {}, "empty"),
    (["3 2"], {}, "0 vectors of 3"),
    (["the 1 2", "cat 1"], {}, "line 2"),
    (["the 1 2", "cat 1 2 3"], {}, "line 2"),
    (["2 3", "the 1 2"], {}, "line 2"),
    (["the", "cat"], {}, "line 1"),
    (["the 1 2"], {"vector_size": 3}, ("line 1", "word_vector_size")),
    (["1 2", "the 1 2"], {"vector_size": 3}, ("line 1", "word_vector_size")),
    (["the 1 2", "cat 1 x"], {}, ("line 2", "'x'")),
    (["the 1 1e60"], {}, ("line 1", "'1e60'")),
    (["4 2", *LINES], {}, "3 vectors of 4"),
    (LINES, {"words": ["dog", "mat"]}, "2 wanted words"),
    (b"the 1 2\ncaf\xe9 3 4\n", {}, ("line 2", "UTF-8", "0xe9")),
]


def test_bad_files_are_refused_with_the_line(write, tmp_path):
    for lines, options, named in BAD_FILES:
        message = assert_refused(ValueError, named, read_word_vectors, write(lines), **options)
        assert message.startswith("word_vectors '") and "data.tsv'" in message, message
    assert_refused(FileNotFoundError, ("word_vectors", "nowhere.txt"), read_word_vectors, tmp_path / "nowhere.txt")


# The table


def test_a_table_has_the_rows_of_the_tokenizer_and_the_special_tokens(tokenizer):
    table = build_word_table(tokenizer, WORDS, VECTORS)
    np.testing.assert_array_equal(table.rows, tokenizer.encode_words([*WORDS, "<S>", "</S>"]))
    np.testing.assert_array_equal(table.vectors[:3], VECTORS)
    np.testing.assert_array_equal(table.unknown, VECTORS.mean(axis=0))
    assert table.vectors.shape == (5, 2) and table.vectors.dtype == np.float32
    assert len({tuple(vector) for vector in table.vectors}) == 5
    np.testing.assert_array_equal(build_word_table(tokenizer, WORDS, VECTORS).vectors, table.vectors)
    learned = build_word_table(tokenizer, ["<S>", *WORDS])
    assert learned.vectors is learned.unknown is None
    np.testing.assert_array_equal(learned.rows, tokenizer.encode_words(["<S>", *WORDS, "</S>"]))


def test_of_words_with_one_row_the_first_is_taken():
    tokenizer = ElmoCharTokenizer(do_lower_case=True)
    long = "x" * 48
    given_ = ["The", "the", long, f"{long}y", "cat"]
    vectors = np.arange(10, dtype=np.float32).reshape(5, 2)
    table = build_word_table(tokenizer, given_, vectors)
    np.testing.assert_array_equal(table.rows[:3], tokenizer.encode_words(["the", long, "cat"]))
    np.testing.assert_array_equal(table.vectors[:3], vectors[[0, 2, 4]])
    assert len(table.rows) == len(table.vectors) == 5
