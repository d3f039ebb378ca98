"""What an encoding answers, worked out late, against the same worked out in full at once."""

import copy
import pickle

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoCharTokenizer
from hf_elmo.model.tokenization_elmo import PENN_RULES, UNICODE_RULES

BOS, EOS = "<S>", "</S>"
SPLITTERS = {
    "whitespace": regex.compile(r"[^\s\x1c-\x1f]+"),
    "unicode": regex.compile("|".join(UNICODE_RULES), regex.V1),
    "penn": regex.compile("|".join(PENN_RULES), regex.V1),
    "punctuation": regex.compile(r"[\p{L}\p{M}\p{N}_]+|[^\s\x1c-\x1f\p{L}\p{M}\p{N}_]"),
}
# Words that are parts of one another, white space of every kind, combining marks and lone surrogates.
texts = st.text() | st.text("aab. \t\x1c\x85\u3000'_\u0301é\ud800\U0001f600", max_size=20)
COPIERS = [lambda encoded: encoded, copy.copy, copy.deepcopy, lambda encoded: pickle.loads(pickle.dumps(encoded))]


def eager_rows(words, spans, markers, width, side):
    """(token, word id, span) of every row of a sentence."""
    rows = [(word, index, span) for index, (word, span) in enumerate(zip(words, spans, strict=True))]
    if markers:
        rows = [(BOS, None, (0, 0)), *rows, (EOS, None, (0, 0))]
    padding = [("", None, (0, 0))] * (width - len(rows))
    return padding + rows if side == "left" else rows + padding


def assert_answers(encoded, index, rows):
    tokens, word_ids, spans = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    assert encoded.tokens(index) == tokens
    assert encoded.word_ids(index) == word_ids
    assert encoded.sequence_ids(index) == [None if word is None else 0 for word in word_ids]
    assert encoded[index].offsets == spans
    assert encoded[index].special_tokens_mask == [int(word is None) for word in word_ids]
    assert len(encoded[index]) == len(rows)
    tokens_at = {}
    for token, (_, word, span) in enumerate(rows):
        assert encoded.token_to_word(index, token) == word
        assert encoded.token_to_sequence(index, token) == (None if word is None else 0)
        chars = encoded.token_to_chars(index, token)
        assert chars is None if word is None else tuple(chars) == span
        if word is not None:
            assert tuple(encoded.word_to_tokens(index, word)) == (token, token + 1)
            assert tuple(encoded.word_to_chars(index, word)) == span
            for character in range(*span):
                tokens_at.setdefault(character, token)
    for character in range(max((stop for _, stop in spans), default=0) + 2):
        token = tokens_at.get(character)
        assert encoded.char_to_token(index, character) == token
        assert encoded.char_to_word(index, character) == (None if token is None else word_ids[token])


@pytest.mark.parametrize("make_copy", COPIERS, ids=["itself", "copy", "deepcopy", "pickle"])
@pytest.mark.parametrize("pre_tokenizer", SPLITTERS)
@given(batch=st.lists(texts, min_size=1, max_size=3), markers=st.booleans(), side=st.sampled_from(["left", "right"]))
def test_encodings_of_texts_answer_as_if_made_at_once(make_copy, pre_tokenizer, batch, markers, side):
    tokenizer = ElmoCharTokenizer(pre_tokenizer=pre_tokenizer, padding_side=side)
    encoded = make_copy(tokenizer(batch, padding=True, add_special_tokens=markers))
    matches = [list(SPLITTERS[pre_tokenizer].finditer(text)) for text in batch]
    width = max(map(len, matches)) + 2 * markers
    for index, found in enumerate(matches):
        words, spans = [match.group() for match in found], [match.span() for match in found]
        assert_answers(encoded, index, eager_rows(words, spans, markers, width, side))


@pytest.mark.parametrize("make_copy", COPIERS, ids=["itself", "copy", "deepcopy", "pickle"])
@given(batch=st.lists(st.lists(st.text("ab ", max_size=4), max_size=6), min_size=1, max_size=3), markers=st.booleans())
def test_encodings_of_lists_of_words_answer_as_if_made_at_once(make_copy, batch, markers):
    encoded = make_copy(ElmoCharTokenizer()(batch, is_split_into_words=True, add_special_tokens=markers))
    for index, words in enumerate(batch):
        rows = eager_rows(words, [(0, len(word)) for word in words], markers, 0, "right")
        assert_answers(encoded, index, rows)


def test_answers_do_not_follow_later_changes_of_the_callers_lists(tokenizer):
    batch = [["a", "b"], ["c"]]
    encoded = tokenizer(batch, is_split_into_words=True)
    batch[0][0] = "changed"
    batch[1].append("more")
    assert encoded.tokens(0) == [BOS, "a", "b", EOS]
    assert encoded.tokens(1) == [BOS, "c", EOS]


@pytest.mark.parametrize("side", ["left", "right"])
def test_windows_keep_the_places_of_the_whole_sentence(side):
    text = "aa a  aaa b"
    tokenizer = ElmoCharTokenizer(truncation_side=side)
    encoded = tokenizer(text, truncation=True, max_length=5, stride=1, return_overflowing_tokens=True)
    spans = [(0, 2), (3, 4), (6, 9), (10, 11)]
    for index, cut in enumerate([slice(0, 3), slice(2, 4)] if side == "right" else [slice(1, 4), slice(0, 2)]):
        assert encoded.word_ids(index)[1:-1] == list(range(4))[cut]
        assert encoded[index].offsets[1:-1] == spans[cut]
        assert encoded.tokens(index)[1:-1] == text.split()[cut]


def test_encodings_are_equal_when_their_answers_are(tokenizer):
    cut = tokenizer("a b c", truncation=True, max_length=4)[0]
    assert cut == tokenizer("a b")[0]
    assert cut != tokenizer("a  b")[0]
    assert cut != tokenizer(["a", "b"], is_split_into_words=True)[0]
    assert cut != "a b"
