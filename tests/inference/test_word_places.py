"""Places of words: offsets cut the words out of the raw line, and each lies in its word between white space."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoCharTokenizer
from hf_elmo.inference.word_places import place_words

TOKENIZERS = {name: ElmoCharTokenizer(pre_tokenizer=name) for name in ("whitespace", "punctuation")}
lines = st.text(st.sampled_from("ab é'.,-!1\t\u00a0 　"), max_size=30)


@pytest.mark.parametrize("is_tokenized", [False, True])
@pytest.mark.parametrize("pre_tokenizer", TOKENIZERS)
@given(line=lines)
def test_offsets_cut_the_words_out_of_the_raw_line(pre_tokenizer, is_tokenized, line):
    placed = place_words(line, TOKENIZERS[pre_tokenizer], is_tokenized)
    assert placed.words == (line.split() if is_tokenized else TOKENIZERS[pre_tokenizer].tokenize(line))
    assert [line[start:end] for start, end in placed.offsets] == placed.words
    between_spaces = line.split()
    for word, number in zip(placed.words, placed.spaced_words, strict=True):
        assert word in between_spaces[number]
    # Together, the pieces are the words between white space.
    pieces = [""] * len(between_spaces)
    for word, number in zip(placed.words, placed.spaced_words, strict=True):
        pieces[number] += word
    assert pieces == between_spaces


def test_a_word_that_is_lower_cased_still_has_its_place_in_the_raw_line():
    tokenizer = ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True)
    placed = place_words("  The CAT's mat.", tokenizer)
    assert placed.words == ["the", "cat", "'", "s", "mat", "."]
    assert placed.offsets == [(2, 5), (6, 9), (9, 10), (10, 11), (12, 15), (15, 16)]
    assert placed.spaced_words == [0, 1, 1, 1, 2, 2]
