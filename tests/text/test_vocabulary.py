"""Vocabularies: special words first, then falling frequency, the same file back; from counts in bounded memory."""

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordCounter, WordVocabulary

words = st.one_of(
    st.sampled_from([*SPECIAL_WORDS, "a", "b", "c", "d"]),
    st.text(st.characters(blacklist_characters="\n\r"), min_size=1, max_size=3),
)


def counted(sentences, max_words_in_memory, directory=None):
    counter = WordCounter(directory, max_words_in_memory)
    for sentence in sentences:
        counter.add(sentence)
    return counter


@given(st.lists(st.lists(words, max_size=6), max_size=20), st.integers(1, 8), st.integers(4, 12), st.integers(1, 3))
def test_counts_and_vocabulary_are_those_of_counting_in_memory(sentences, max_words_in_memory, max_size, min_count):
    counter = counted(sentences, max_words_in_memory)
    counts = Counter(chain.from_iterable(sentences))
    found = list(counter.items())
    assert dict(found) == counts and len(found) == len(counts)
    assert (counter.num_words, counter.num_sentences) == (counts.total(), len(sentences))
    kept = sorted(
        (word for word, count in counts.items() if count >= min_count and word not in SPECIAL_WORDS),
        key=lambda word: (-counts[word], word),
    )
    for size in (800_000, max_size):
        if not kept:
            assert_refused(ValueError, f"{min_count} times", WordVocabulary.from_counts, counter, size, min_count)
            continue
        vocabulary = WordVocabulary.from_counts(counter, size, min_count)
        assert vocabulary.words == [*SPECIAL_WORDS, *kept][:size]
        known = {word: count for word, count in counts.items() if word in vocabulary}
        assert counter.count_known(vocabulary) == (len(counts), known)


def test_files_of_counts_lie_in_the_directory_and_have_no_names_in_it(tmp_path):
    counter = counted(([str(index)] for index in range(20)), 1, tmp_path)
    assert len(counter._files) > 5 and len(counter._in_memory) <= 1 and list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        counted([["a", "b"]], 1, tmp_path / "nowhere")


printable = st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"])


@given(st.lists(st.text(printable, min_size=1).filter(lambda word: word not in SPECIAL_WORDS), unique=True))
def test_file_round_trip(tmp_path_factory, chosen):
    directory = tmp_path_factory.getbasetemp()
    vocabulary = WordVocabulary([*SPECIAL_WORDS, *chosen])
    path = vocabulary.save(directory)
    assert WordVocabulary.load(path).words == WordVocabulary.load(directory).words == vocabulary.words
    assert vocabulary.encode([*vocabulary.words, "\n"]) == [*range(len(vocabulary)), vocabulary.unk_id]


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
