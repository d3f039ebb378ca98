"""Lanes: every word once in each direction, the targets of the own lane, windows that meet."""

import json
from itertools import islice
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoCharTokenizer
from hf_elmo.pretraining import lanes
from hf_elmo.pretraining.lanes import NO_TARGET, LaneFiller, LaneWindow, fill_lanes
from hf_elmo.text.vocabulary import WordVocabulary

VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c", "d", "e"])
TOKENIZER = ElmoCharTokenizer()


def test_the_streams_of_the_design():
    (window,) = fill_lanes([list("abc"), list("de")], TOKENIZER, VOCABULARY, 1, 9)
    words = TOKENIZER.convert_ids_to_tokens(window.rows)
    forward, backward = ([words[place] for place in stream] for stream in window.words[:, 0].tolist())
    assert forward == ["<S>", "a", "b", "c", "</S>", "<S>", "d", "e", "</S>"]
    assert backward == ["</S>", "c", "b", "a", "<S>", "</S>", "e", "d", "<S>"]
    assert window.targets[:, 0].tolist() == [[3, 4, 5, 1, -100, 6, 7, 1, -100], [5, 4, 3, 0, -100, 7, 6, 0, -100]]


# The reference, the lane filler of a saved state, and resets


def reference(stream, num_lanes, unroll_steps, by_document):
    """The windows of a stream, word by word and list by list."""
    remaining = iter(stream)
    lanes = [([], [], [], []) for _ in range(num_lanes)]
    waiting = [[] for _ in lanes]
    while True:
        starts = [by_document and not lane[0] and not sentences for lane, sentences in zip(lanes, waiting, strict=True)]
        for lane, sentences in zip(lanes, waiting, strict=True):
            while len(lane[0]) < unroll_steps:
                if sentences:
                    words = sentences.pop(0)
                    ids = VOCABULARY.encode(words)
                    lane[0].extend(["<S>", *words, "</S>"])
                    lane[1].extend(["</S>", *words[::-1], "<S>"])
                    lane[2].extend([*ids, VOCABULARY.eos_id, NO_TARGET])
                    lane[3].extend([*ids[::-1], VOCABULARY.bos_id, NO_TARGET])
                elif (by_document and lane[0]) or (entry := next(remaining, None)) is None:
                    break
                else:
                    sentences.extend(entry if by_document else [entry])
        if not any(lane[0] for lane in lanes):
            return
        distinct = {}
        window = [[], [], [], []]
        for lane in lanes:
            for part, entries, filling in zip(window, lane, (0, 0, NO_TARGET, NO_TARGET), strict=True):
                cut = entries[:unroll_steps]
                del entries[:unroll_steps]
                if filling == 0:
                    cut = [distinct.setdefault(word, len(distinct)) for word in cut]
                part.append(cut + [filling] * (unroll_steps - len(cut)))
        rows = TOKENIZER.convert_tokens_to_ids(list(distinct))
        yield LaneWindow(rows, window[:2], window[2:], reset_state=starts)


def as_lists(window):
    return {name: getattr(value, "tolist", lambda value=value: value)() for name, value in vars(window).items()}


odd_words = st.one_of(st.sampled_from([*"abcdef", "<S>", "</S>", "<UNK>"]), st.text(max_size=3))
odd_sentences = st.lists(st.lists(odd_words, max_size=9), max_size=12)
odd_documents = st.lists(odd_sentences, max_size=6)


@pytest.mark.parametrize(("reset_state", "streams"), [("never", odd_sentences), ("document", odd_documents)])
@given(st.data(), st.integers(1, 4), st.integers(1, 7), st.sampled_from([0, 9, 10**6]))
def test_windows_are_those_of_the_reference(reset_state, streams, data, num_lanes, unroll_steps, max_letters):
    stream = data.draw(streams)
    with patch.object(lanes._WordNumbers, "max_letters", max_letters):
        found = fill_lanes(stream, TOKENIZER, VOCABULARY, num_lanes, unroll_steps, reset_state)
        found = list(map(as_lists, found))
    assert found == list(map(as_lists, reference(stream, num_lanes, unroll_steps, reset_state == "document")))


def passes(filler, streams):
    """The windows of one pass after the other, and what is left at the end."""
    for stream in streams:
        yield from filler.windows(stream)
    yield from filler.last_windows()


@given(
    st.data(),
    st.sampled_from(["never", "epoch", "document"]),
    st.integers(1, 4),
    st.integers(1, 7),
    st.sampled_from([4, 10**6]),
)
def test_a_saved_state_goes_on_with_the_same_windows(data, reset_state, num_lanes, unroll_steps, max_letters):
    entries = odd_sentences if reset_state != "document" else odd_documents
    streams = [data.draw(entries), data.draw(entries)]

    def new_filler():
        return LaneFiller(TOKENIZER, VOCABULARY, num_lanes, unroll_steps, reset_state)

    with patch.object(lanes._WordNumbers, "max_letters", max_letters):
        whole = list(map(as_lists, passes(new_filler(), streams)))
        if reset_state == "never":
            # A pass continues where the one before ended.
            joined = fill_lanes(streams[0] + streams[1], TOKENIZER, VOCABULARY, num_lanes, unroll_steps)
            assert whole == list(map(as_lists, joined))
        num_before = data.draw(st.integers(0, len(whole)))
        filler = new_filler()
        before = list(map(as_lists, islice(passes(filler, streams), num_before)))
        saved = json.loads(json.dumps(filler.state_dict()))
        restored = new_filler()
        restored.load_state_dict(saved)
        assert restored.state_dict() == saved
        after = list(map(as_lists, passes(restored, streams[restored.num_passes :])))
    assert before + after == whole


def test_each_pass_starts_from_zeros_with_reset_state_epoch():
    filler = LaneFiller(TOKENIZER, VOCABULARY, 2, 4, reset_state="epoch")
    for _ in range(2):
        windows = list(filler.windows([list("abcd"), list("ef"), list("abc")]))
        assert [window.reset_state.tolist() for window in windows] == [[True] * 2] + [[False] * 2] * 2
        assert sum(window.num_targets for window in windows) == 12
    assert list(filler.last_windows()) == []
