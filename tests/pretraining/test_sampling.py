"""The sampler draws as TensorFlow's does and expects what it draws; a vocabulary has to be sorted for it."""

import math
from collections import Counter

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import REORDERED_FLOAT64

from hf_elmo.pretraining.corpus_stats import check_sorted
from hf_elmo.pretraining.objective import LogUniformSampler, NegativeSample
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary


def tries_of(vocab_size: int, number: int, seed: int) -> list[int]:
    """What one try after the other gives, as range_sampler.cc writes it."""
    uniform = torch.rand(number, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).tolist()
    return [(int(math.exp(u * math.log1p(vocab_size))) - 1) % vocab_size for u in uniform]


@examples(25)
@given(vocab_size=st.integers(2, 60), data=st.data(), seed=st.integers(0, 100))
def test_a_draw_is_rejection_until_enough_words_are_distinct(vocab_size, data, seed):
    num_samples = data.draw(st.integers(1, vocab_size - 1))
    sample = LogUniformSampler(vocab_size, num_samples, seed).draw()
    # The first block of tries; where it is too short, the sampler goes on by as many again.
    size = 2 * num_samples
    while size < sample.num_tries:
        size *= 2
    drawn, num_tries = set(), 0
    for word in tries_of(vocab_size, size, seed):
        num_tries += 1
        drawn.add(word)
        if len(drawn) == num_samples:
            break
    assert (sample.ids.tolist(), sample.num_tries) == (sorted(drawn), num_tries)


def test_expected_counts_are_those_of_tensorflow():
    sample = NegativeSample(torch.tensor([0, 7]), num_tries=13, vocab_size=20)
    found = sample.log_expected_counts(torch.tensor([[0, 3], [19, 7]]), torch.float64)
    wanted = [
        [math.log(-math.expm1(13 * math.log1p(-math.log((k + 2) / (k + 1)) / math.log(21)))) for k in row]
        for row in ([0, 3], [19, 7])
    ]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=REORDERED_FLOAT64)


def test_draws_follow_from_the_seed_and_differ_from_one_another():
    first, same, other = (LogUniformSampler(1000, 30, seed) for seed in (5, 5, 6))
    drawn = first.draw().ids
    assert torch.equal(same.draw().ids, drawn)
    assert not torch.equal(other.draw().ids, drawn) and not torch.equal(first.draw().ids, drawn)


def test_there_must_be_fewer_negatives_than_words():
    for num_samples in (-1, 0, 6, 7):
        assert_refused(ValueError, f"num_negative_samples is {num_samples}", LogUniformSampler, 6, num_samples)


# Sorted vocabularies


def zipf_counts(size: int, tokens: int, seed: int) -> Counter[str]:
    """How often each of the words w0, w1, ... is seen in a text of so many tokens."""
    weights = 1 / torch.arange(1, size + 1, dtype=torch.float64)
    drawn = torch.multinomial(weights, tokens, True, generator=torch.Generator().manual_seed(seed))
    return Counter(f"w{index}" for index in drawn.tolist())


def vocabulary_of(words) -> WordVocabulary:
    return WordVocabulary([*SPECIAL_WORDS, *words])


@pytest.mark.parametrize(("size", "tokens"), [(200, 1000), (2000, 500), (2000, 50_000)])
def test_a_sorted_vocabulary_passes_by_the_counts_of_any_text_of_its_kind_and_no_other(size, tokens):
    counts, words = zipf_counts(size, tokens, seed=1), [f"w{index}" for index in range(size)]
    check_sorted(WordVocabulary.from_counts(counts), counts)
    check_sorted(vocabulary_of(words), counts)
    check_sorted(WordVocabulary.from_counts(zipf_counts(size, tokens, seed=2)), counts)
    shuffled = torch.randperm(size, generator=torch.Generator().manual_seed(7)).tolist()
    alphabetical = sorted(words, key=lambda word: word[::-1])
    for order in (words[::-1], [words[index] for index in shuffled], alphabetical):
        assert_refused(ValueError, "frequency: 'w", check_sorted, vocabulary_of(order), counts)


def test_words_of_nearly_equal_counts_may_stand_in_any_order():
    for words in (["a"], ["a", "b", "c"], ["b", "c", "a"]):
        check_sorted(vocabulary_of(words), {"a": 6, "b": 5, "c": 5, "<UNK>": 100})


def test_the_first_word_out_of_order_is_named_and_a_vocabulary_without_the_texts_words_refused():
    counts = {"a": 2, "b": 1, "c": 4, "d": 3, "e": 5, "f": 6, "g": 3000}
    assert_refused(ValueError, ("'b'", "'c'", "--vocab_file"), check_sorted, vocabulary_of("abcdefg"), counts)
    assert_refused(ValueError, "vocabulary", check_sorted, vocabulary_of("ab"), {"A": 3, "<S>": 9})
