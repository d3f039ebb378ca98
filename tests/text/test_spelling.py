"""A distribution over the spellings of words that a vocabulary lacks."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.text.spelling import _BEGIN, _END, SPELLING_FILE, SpellingModel

words = st.lists(st.text("abé日", max_size=6), min_size=1, max_size=8)


def plain(seen: list[str], word: str, order: int = 5) -> float:
    """The same of one word, symbol by symbol, with a dictionary of counts."""
    counts: dict[tuple, dict] = {}
    spell = [[_BEGIN] * (order - 1) + list(each.encode()) + [_END] for each in seen]
    for symbols in spell:
        for at in range(order - 1, len(symbols)):
            for length in range(order):
                follow = counts.setdefault(tuple(symbols[at - length : at]), {})
                follow[symbols[at]] = follow.get(symbols[at], 0) + 1
    total, symbols = 0.0, [_BEGIN] * (order - 1) + list(word.encode()) + [_END]
    for at in range(order - 1, len(symbols)):
        score = 1 / 257
        for length in range(order):
            follow = counts.get(tuple(symbols[at - length : at]))
            if follow:
                score = (follow.get(symbols[at], 0) + len(follow) * score) / (sum(follow.values()) + len(follow))
        total += math.log(score)
    return total


@given(seen=words, asked=words, vocabulary=st.lists(st.text("ab", max_size=3), unique=True, max_size=5))
def test_it_is_that_of_the_definition_and_words_of_the_vocabulary_take_no_part(seen, asked, vocabulary):
    found = SpellingModel.fit(seen, []).log_probabilities(asked)
    np.testing.assert_allclose(found, [plain(seen, word) for word in asked], rtol=1e-9)
    rest = 1 - sum(math.exp(plain(seen, word)) for word in vocabulary)
    without = SpellingModel.fit(seen, vocabulary).log_probabilities(asked)
    np.testing.assert_allclose(np.exp(without) * rest, np.exp(found), rtol=1e-9)


def test_of_very_many_words_a_part_is_learned_from(monkeypatch):
    monkeypatch.setattr("hf_elmo.text.spelling._MOST_WORDS", 5)
    found = SpellingModel.fit([f"w{number}" for number in range(19)], ["w"]).log_probabilities(["w6"])
    # Each halving keeps every second one.
    assert found == SpellingModel.fit(["w0", "w4", "w8", "w12", "w16"], ["w"]).log_probabilities(["w6"])
    assert SpellingModel.fit([], ["w"]) is None


def test_it_is_saved_and_loaded(tmp_path):
    model = SpellingModel.fit(["zebra", "okapi", "日本"], ["the", "cat"])
    model.save(tmp_path)
    loaded = SpellingModel.load(tmp_path / SPELLING_FILE)
    asked = ["zebra", "zebu", "", "\ud800"]
    assert loaded.log_probabilities(asked).tolist() == model.log_probabilities(asked).tolist()
    assert loaded.log_probabilities([]).shape == (0,)
    # What was seen is likelier than what was not.
    assert loaded.log_probabilities(["okapi"]) > loaded.log_probabilities(["ipako"])


def test_what_is_no_such_model_is_named(tmp_path):
    path = tmp_path / SPELLING_FILE
    for content in (b"", b"no archive"):
        path.write_bytes(content)
        assert_refused(ValueError, (SPELLING_FILE, "build the words"), SpellingModel.load, path)
    np.savez(path, keys=np.array([object()], dtype=object), counts=[1], in_vocabulary=0.0)
    assert_refused(ValueError, SPELLING_FILE, SpellingModel.load, path)
