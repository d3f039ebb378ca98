"""Vocabularies: special words first, then falling frequency, the same file back."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

words = st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"]), min_size=1, max_size=8)


def test_order_is_special_words_then_frequency_then_code_points():
    assert WordVocabulary.from_counts(Counter(["b", "a", "b", "c", "a", "<S>"])).words == [
        *SPECIAL_WORDS,
        "a",
        "b",
        "c",
    ]


@given(st.dictionaries(words, st.integers(1, 9), min_size=1), st.integers(1, 5), st.integers(4, 12))
def test_limits(counts, min_count, max_size):
    kept = {word: count for word, count in counts.items() if count >= min_count and word not in SPECIAL_WORDS}
    if not kept:
        with pytest.raises(ValueError, match="at least"):
            WordVocabulary.from_counts(Counter(counts), max_size, min_count)
        return
    vocabulary = WordVocabulary.from_counts(Counter(counts), max_size, min_count)
    chosen = vocabulary.words[3:]
    assert len(chosen) == min(len(kept), max_size - 3)
    assert [kept[word] for word in chosen] == sorted(kept.values(), reverse=True)[: len(chosen)]


@given(st.lists(words.filter(lambda word: word not in SPECIAL_WORDS), unique=True))
def test_file_round_trip(tmp_path_factory, chosen):
    directory = tmp_path_factory.mktemp("vocabulary")
    vocabulary = WordVocabulary([*SPECIAL_WORDS, *chosen])
    path = vocabulary.save(directory)
    assert WordVocabulary.load(path).words == vocabulary.words
    assert WordVocabulary.load(directory).words == vocabulary.words


def test_encode_gives_unknown_words_their_id():
    vocabulary = WordVocabulary([*SPECIAL_WORDS, "a"])
    assert vocabulary.encode(["a", "b", "<S>"]) == [3, vocabulary.unk_id, vocabulary.bos_id]
    assert "a" in vocabulary and "b" not in vocabulary


def test_files_that_are_no_vocabulary_are_named(tmp_path):
    path = tmp_path / "words.txt"
    for content, named in (
        (b"the\nof\n", ("'the', 'of'",)),
        (b"<S>\n</S>\n<UNK>\na\na\n", ("'a'",)),
        (b"<S>\n</S>\n<UNK>\ncaf\xe9\n", ("UTF-8", "line 4")),
    ):
        path.write_bytes(content)
        assert_refused(ValueError, (str(path), *named), WordVocabulary.load, path)
    assert_refused(FileNotFoundError, "vocab_file", WordVocabulary.load, tmp_path / "none.txt")
