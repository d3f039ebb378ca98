"""Counting in bounded memory gives exactly what counting in memory gives, and leaves nothing behind."""

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary
from hf_elmo.text.word_counts import WordCounter, choose_vocabulary

words = st.one_of(
    st.sampled_from([*SPECIAL_WORDS, "a", "b", "c", "d"]),
    st.text(st.characters(blacklist_characters="\n\r"), min_size=1, max_size=3),
)
corpora = st.lists(st.lists(words, max_size=6), max_size=20)


def counted(sentences, max_words_in_memory, max_files=64):
    counter = WordCounter(max_words_in_memory)
    counter.max_files = max_files
    for sentence in sentences:
        counter.add(sentence)
    return counter


@given(corpora, st.integers(1, 8), st.integers(1, 3))
def test_counts_are_those_of_counting_in_memory(sentences, max_words_in_memory, max_files):
    counter = counted(sentences, max_words_in_memory, max_files)
    counts, num_sentences = Counter(chain.from_iterable(sentences)), len(sentences)
    found = list(counter.counts())
    assert dict(found) == counts
    assert len(found) == len(counts)
    assert list(counter.counts()) == found, "they can be read again"
    assert (counter.num_words, counter.num_sentences) == (counts.total(), num_sentences)


@given(corpora, st.integers(1, 8), st.integers(4, 9), st.integers(1, 3))
def test_vocabulary_is_that_of_all_counts(sentences, max_words_in_memory, max_size, min_count):
    counts = Counter(chain.from_iterable(sentences))
    counter = counted(sentences, max_words_in_memory)
    try:
        wanted = WordVocabulary.from_counts(counts, max_size, min_count)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error).split(";")[0]):
            choose_vocabulary(counter, max_size, min_count)
        return
    chosen = choose_vocabulary(counter, max_size, min_count)
    assert chosen.vocabulary.words == wanted.words
    assert chosen.word_counts == [counts[word] for word in wanted.words[3:]]
    assert (chosen.num_words, chosen.num_distinct) == (counts.total(), len(counts))
    ids = [id for sentence in sentences for id in wanted.encode(sentence)]
    assert chosen.num_unknown == ids.count(wanted.unk_id)
    assert chosen.unknown_share_at(len(wanted)) == chosen.unknown_share
    if len(wanted) > 4:
        smaller = WordVocabulary(wanted.words[:-1])
        unknown = [id for sentence in sentences for id in smaller.encode(sentence)].count(wanted.unk_id)
        assert chosen.unknown_share_at(len(smaller)) == unknown / counts.total()


def test_open_files_and_memory_are_bounded():
    counter = counted(([str(index)] for index in range(100)), 1, max_files=4)
    assert 1 < len(counter._files) <= 4 and len(counter._in_memory) <= 1
    assert Counter(dict(counter.counts())) == Counter(map(str, range(100)))


def test_files_lie_in_the_directory_and_have_no_names_in_it(tmp_path):
    counter = WordCounter(1, tmp_path)
    for word in "abcabc":
        counter.add([word])
    assert counter._files and list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        WordCounter(1, tmp_path / "nowhere").add(["a", "b"])
