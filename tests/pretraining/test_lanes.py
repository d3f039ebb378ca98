"""Lanes: every word once in each direction, the targets of the own lane, windows that meet."""

import json
from itertools import islice
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoCharTokenizer
from hf_elmo.pretraining import lanes
from hf_elmo.pretraining.lanes import NO_TARGET, LaneFiller, LaneWindow, fill_lanes
from hf_elmo.text.vocabulary import WordVocabulary

VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c", "d", "e"])
TOKENIZER = ElmoCharTokenizer()

sentences_of_letters = st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=9), max_size=12)


def unwind(windows, num_lanes):
    """The words and targets of each lane, from window after window."""
    lanes = [([], [], [], []) for _ in range(num_lanes)]
    for window in windows:
        words = TOKENIZER.convert_ids_to_tokens(window.rows)
        for index, lane in enumerate(lanes):
            for direction in (0, 1):
                lane[direction].extend(words[place] for place in window.words[direction, index].tolist())
                lane[2 + direction].extend(window.targets[direction, index].tolist())
    return lanes


def test_the_streams_of_the_design():
    (lane,) = unwind(fill_lanes([list("abc"), list("de")], TOKENIZER, VOCABULARY, 1, 9), 1)
    forward_words, backward_words, forward_targets, backward_targets = lane
    assert forward_words == ["<S>", "a", "b", "c", "</S>", "<S>", "d", "e", "</S>"]
    assert backward_words == ["</S>", "c", "b", "a", "<S>", "</S>", "e", "d", "<S>"]
    assert forward_targets == [3, 4, 5, 1, NO_TARGET, 6, 7, 1, NO_TARGET]
    assert backward_targets == [5, 4, 3, 0, NO_TARGET, 7, 6, 0, NO_TARGET]


# The reference, the lane filler of a saved state, and resets


def reference(sentences, num_lanes, unroll_steps):
    """What `fill_lanes` gives, word by word and list by list."""
    remaining = iter(sentences)
    lanes = [([], [], [], []) for _ in range(num_lanes)]
    while True:
        for lane in lanes:
            while len(lane[0]) < unroll_steps and (words := next(remaining, None)) is not None:
                ids = VOCABULARY.encode(words)
                lane[0].extend(["<S>", *words, "</S>"])
                lane[1].extend(["</S>", *words[::-1], "<S>"])
                lane[2].extend([*ids, VOCABULARY.eos_id, NO_TARGET])
                lane[3].extend([*ids[::-1], VOCABULARY.bos_id, NO_TARGET])
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
        yield LaneWindow(rows, window[:2], window[2:], reset_state=[False] * num_lanes)


def as_lists(window):
    return {name: getattr(value, "tolist", lambda value=value: value)() for name, value in vars(window).items()}


odd_words = st.one_of(st.sampled_from([*"abcdef", "<S>", "</S>", "<UNK>"]), st.text(max_size=3))
odd_sentences = st.lists(st.lists(odd_words, max_size=9), max_size=12)


@given(odd_sentences, st.integers(1, 4), st.integers(1, 7), st.sampled_from([0, 9, 10**6]))
def test_windows_are_those_of_the_reference(sentences, num_lanes, unroll_steps, max_letters):
    with patch.object(lanes._WordNumbers, "max_letters", max_letters):
        found = list(map(as_lists, fill_lanes(sentences, TOKENIZER, VOCABULARY, num_lanes, unroll_steps)))
    assert found == list(map(as_lists, reference(sentences, num_lanes, unroll_steps)))


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
    entries = odd_sentences if reset_state != "document" else st.lists(odd_sentences, max_size=6)
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


documents = st.lists(st.lists(st.lists(st.sampled_from("abcdef"), max_size=5), max_size=4), max_size=8)


@given(documents, st.integers(1, 3), st.integers(1, 7))
def test_each_document_is_read_alone_from_zeros_with_reset_state_document(documents, num_lanes, unroll_steps):
    filler = LaneFiller(TOKENIZER, VOCABULARY, num_lanes, unroll_steps, reset_state="document")
    windows = list(passes(filler, [documents]))
    found = []
    for index in range(num_lanes):
        for window in windows:
            if window.reset_state[index]:
                found.append(([], []))
            words = TOKENIZER.convert_ids_to_tokens(window.rows)
            for stream, places, targets in zip(found[-1], window.words, window.targets, strict=True):
                stream.extend(zip((words[place] for place in places[index]), targets[index].tolist(), strict=True))
    wanted = []
    for document in documents:
        if document:
            (lane,) = unwind(fill_lanes(document, TOKENIZER, VOCABULARY, 1, unroll_steps), 1)
            streams = zip(lane[:2], lane[2:], strict=True)
            wanted.append(tuple(without_filling(zip(*stream, strict=True)) for stream in streams))
    found = [tuple(map(without_filling, streams)) for streams in found]
    assert sorted(filter(any, found)) == sorted(wanted)


def without_filling(entries):
    """Up to the last closing special token, which follows the last entry with a target."""
    entries = list(entries)
    with_target = [place for place, (_, target) in enumerate(entries) if target != NO_TARGET]
    return entries[: with_target[-1] + 2] if with_target else []
