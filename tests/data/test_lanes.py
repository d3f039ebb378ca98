"""Lanes: every word once in each direction, the targets of the own lane, windows that meet."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoCharTokenizer
from hf_elmo.data.lanes import NO_TARGET, fill_lanes
from hf_elmo.data.vocabulary import WordVocabulary

VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c", "d", "e"])
TOKENIZER = ElmoCharTokenizer()

sentences_of_letters = st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=9), max_size=12)


def unwind(windows, num_lanes):
    """The words and targets of each lane, from window after window."""
    lanes = [([], [], [], []) for _ in range(num_lanes)]
    for window in windows:
        words = TOKENIZER.convert_ids_to_tokens(window.rows)
        for index, lane in enumerate(lanes):
            lane[0].extend(words[place] for place in window.forward_words[index].tolist())
            lane[1].extend(words[place] for place in window.backward_words[index].tolist())
            lane[2].extend(window.forward_targets[index].tolist())
            lane[3].extend(window.backward_targets[index].tolist())
    return lanes


def test_the_streams_of_the_design():
    (lane,) = unwind(fill_lanes([list("abc"), list("de")], TOKENIZER, VOCABULARY, 1, 9), 1)
    forward_words, backward_words, forward_targets, backward_targets = lane
    assert forward_words == ["<S>", "a", "b", "c", "</S>", "<S>", "d", "e", "</S>"]
    assert backward_words == ["</S>", "c", "b", "a", "<S>", "</S>", "e", "d", "<S>"]
    assert forward_targets == [3, 4, 5, 1, NO_TARGET, 6, 7, 1, NO_TARGET]
    assert backward_targets == [5, 4, 3, 0, NO_TARGET, 7, 6, 0, NO_TARGET]


@given(sentences_of_letters, st.integers(1, 4), st.integers(1, 7))
def test_every_sentence_stands_once_and_whole_in_each_direction(sentences, num_lanes, unroll_steps):
    windows = list(fill_lanes(sentences, TOKENIZER, VOCABULARY, num_lanes, unroll_steps))
    assert all(window.forward_words.shape == (num_lanes, unroll_steps) for window in windows)
    found_forward, found_backward = [], []
    for forward_words, backward_words, forward_targets, backward_targets in unwind(windows, num_lanes):
        length = len(forward_targets)
        while length and forward_targets[length - 1] == NO_TARGET:
            length -= 1
        # The last closing marker has no target; what follows it is filling.
        end = length + 1 if length else 0
        found_forward += split(forward_words[:end], "</S>")
        found_backward += [sentence[::-1] for sentence in split(backward_words[:end], "<S>")]
        for words, targets in ((forward_words, forward_targets), (backward_words, backward_targets)):
            for place in range(end):
                closes = words[place] == ("</S>" if words is forward_words else "<S>")
                expected = NO_TARGET if closes else VOCABULARY.encode([words[place + 1]])[0]
                assert targets[place] == expected
            assert set(targets[end:]) <= {NO_TARGET}
    wanted = sorted(["<S>", *sentence, "</S>"] for sentence in sentences)
    assert sorted(found_forward) == wanted
    assert sorted(found_backward) == wanted


def split(words, closing):
    sentences, start = [], 0
    for place, word in enumerate(words):
        if word == closing:
            sentences.append(words[start : place + 1])
            start = place + 1
    return sentences


@given(sentences_of_letters, st.integers(1, 3), st.integers(1, 5))
def test_number_of_targets(sentences, num_lanes, unroll_steps):
    windows = list(fill_lanes(sentences, TOKENIZER, VOCABULARY, num_lanes, unroll_steps))
    assert sum(window.num_targets for window in windows) == sum(len(sentence) + 1 for sentence in sentences)
    for window in windows:
        assert int((window.backward_targets != NO_TARGET).sum()) == window.num_targets


def test_each_distinct_word_has_one_row():
    (window,) = fill_lanes([list("aaab")], TOKENIZER, VOCABULARY, 1, 6)
    assert len(window.rows) == 4
    assert len(np.unique(window.rows.numpy(), axis=0)) == 4


def test_lanes_are_read_lazily():
    def endless():
        while True:
            yield ["a"]

    windows = fill_lanes(endless(), TOKENIZER, VOCABULARY, 2, 4)
    assert next(windows).forward_words.shape == (2, 4)


def test_no_sentences_no_windows():
    assert list(fill_lanes([], TOKENIZER, VOCABULARY, 2, 4)) == []


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
)
def test_to_moves_every_tensor(device):
    (window,) = fill_lanes([["a"]], TOKENIZER, VOCABULARY, 1, 3)
    assert {tensor.device.type for tensor in vars(window.to(torch.device(device))).values()} == {device}
