"""Generated text is as long as asked, the same each time, and has frequent and ever new words."""

from collections import Counter

import pytest
from benchmark.generated_text import generate_corpus, generate_sentences
from refusals import assert_refused


@pytest.mark.parametrize("num_words", [1, 1000, 150_000])
def test_it_ends_with_the_sentence_that_reaches_the_number(num_words):
    lengths = [len(sentence.split()) for sentence in generate_sentences(num_words)]
    assert sum(lengths[:-1]) < num_words <= sum(lengths)
    assert min(lengths) >= 10 and max(lengths) <= 40


def test_new_words_come_without_end():
    sentences = [sentence.split() for sentence in generate_sentences(60_000)]
    half = len(sentences) // 2
    first, second = (Counter(word for words in part for word in words) for part in (sentences[:half], sentences[half:]))
    new = sum(second[word] for word in second.keys() - first.keys())
    assert 0.05 < new / second.total() < 0.2
    assert 0.15 < first.most_common(1)[0][1] / first.total() < 0.3


def test_frequencies_fall_with_the_rank_as_the_law_says():
    counts = [count for _, count in Counter(" ".join(generate_sentences(200_000)).split()).most_common(100)]
    # 10 ** 1.25 is 17.8; the hundredth word was seen some 130 times.
    assert 14 < counts[0] / counts[9] < 22 and 12 < counts[9] / counts[99] < 25


def test_a_seed_is_a_text_and_each_pass_the_same_one():
    corpus, other = generate_corpus(2000), generate_corpus(2000, seed=1)
    first = list(corpus.sentences(str.split))
    assert first == list(corpus.sentences(str.split)) == [line.split() for line in generate_sentences(2000)]
    assert first != list(other.sentences(str.split))


def test_no_words_are_refused():
    assert_refused(ValueError, ("num_words", "0"), next, generate_sentences(0))
