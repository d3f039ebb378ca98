"""Words to rows of character ids and back; the compatible scheme itself is held in test_tokenization_elmo.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.model.configuration_elmo import DICTIONARY_MARKS
from hf_elmo.model.tokenization_elmo import (
    DictionaryCharacters,
    character_vocabulary,
    decode_row,
    encode_word,
    is_marker_row,
)

BEGIN, END, PAD = 259, 260, 261


@pytest.mark.parametrize(
    ("word", "start"),
    [
        ("ab", [BEGIN, 98, 99, END]),
        ("", [BEGIN, END]),
        ("\0", [BEGIN, 1, END]),
        ("é", [BEGIN, 196, 170, END]),
        ("\U0001f600", [BEGIN, 241, 160, 153, 129, END]),
        ("a\ud800b", [BEGIN, 98, 99, END]),
        ("\ud800" * 60 + "b", [BEGIN, 99, END]),
        ("<S>", [BEGIN, 257, END]),
        ("</S>", [BEGIN, 258, END]),
        ("<s>", [BEGIN, 61, 116, 63, END]),
    ],
)
def test_rows_written_out_by_hand(word, start):
    assert encode_word(word) == start + [PAD] * (50 - len(start))


@given(word=st.text(), width=st.integers(3, 60))
def test_every_row_has_the_width_and_ends_its_word(word, width):
    row = encode_word(word, width)
    assert len(row) == width
    assert row[0] == BEGIN
    assert row.count(END) == 1
    assert set(row[row.index(END) + 1 :]) <= {PAD}


@given(word=st.text())
def test_decoding_gives_back_each_word_that_fits(word):
    decoded = decode_row(encode_word(word))
    if len(word.encode()) <= 48:
        assert decoded == word
    else:
        # The cut may fall inside a code point, whose first bytes are then no character.
        assert word.startswith(decoded)
        assert 45 <= len(decoded.encode()) <= 48


@pytest.mark.parametrize("row", [[0] * 50, [], [BEGIN, END], [PAD] * 50])
def test_a_row_without_characters_is_the_empty_word(row):
    assert decode_row(row) == ""


@given(word=st.text())
def test_only_the_two_markers_have_marker_rows(word):
    assert not is_marker_row(encode_word(f"x{word}"))
    assert is_marker_row(encode_word("<S>"))
    assert is_marker_row(encode_word("</S>"))
    assert not is_marker_row([0] * 50)


def test_each_character_id_has_one_name():
    names = character_vocabulary()
    assert sorted(names.values()) == list(range(262))
    assert names["a"] == ord("a") + 1
    assert names["<0x00>"] == 1


@given(word=st.text("ab나<>/Seosb", max_size=12), width=st.integers(3, 10))
def test_rows_of_a_dictionary_give_back_what_they_hold(word, width):
    scheme = DictionaryCharacters(["a", *DICTIONARY_MARKS, *"b나<>/Seo", "s"])
    row = scheme.word_characters(word, width)
    assert len(row) <= width and scheme.decode_row(row) == scheme.word_as_read(word, width)
    assert scheme.is_marker_row(row) == (word in ("<bos>", "<eos>", "<S>", "</S>"))
    if not scheme.is_marker_row(row):
        assert scheme.decode_row(row) == word[: width - 2]


def test_what_a_dictionary_lacks_is_unknown():
    scheme = DictionaryCharacters([*"ab", *DICTIONARY_MARKS])
    names = scheme.vocabulary()
    assert sorted(names.values()) == list(range(9)) and scheme.size == 9
    row = scheme.word_characters("aç", 10)
    assert row == [names["<eow>"], names["a"], names["<oov>"], names["<bow>"]]
    assert scheme.decode_row([*row, scheme.padding]) == "a<oov>"
    assert scheme.decode_row([]) == scheme.decode_row([0] * 10) == ""


@pytest.mark.parametrize(
    ("characters", "error", "named"),
    [
        ("abc", TypeError, "abc"),
        (["a", 1], TypeError, "1"),
        (["a", *DICTIONARY_MARKS[:-1]], ValueError, "<oov>"),
        (["a", *DICTIONARY_MARKS, "a"], ValueError, "'a'"),
    ],
)
def test_a_dictionary_that_is_none_is_refused(characters, error, named):
    assert_refused(error, ("characters", named), DictionaryCharacters, characters)
