"""Sentences to lanes: parallel streams cut into windows, so that LSTM state can be carried from window to window."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN
from ..model.modeling_elmo import ElmoState
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import WordVocabulary

NO_TARGET = -100

# A stream holds the numbers of its entries. The special token that opens a sentence is certain and gets no loss: it has
# a number of its own, unlike the same one at the end of the other direction's sentences.
_NOTHING, _OPENING_BOS, _OPENING_EOS, _BOS, _EOS = range(5)


@dataclass
class LaneWindow:
    """One window of all lanes, both directions in reading order: the backward one's words run from right to left.

    Each distinct word of the window has one row of characters. Letters: N distinct words, B lanes, T words, C
    characters.

    Args:
        rows: Character ids of the distinct words, (N, C), in the order in which the lanes name them.
        words: Places in `rows` of the forward and of the backward stream, (2, B, T); 0 behind the end of a stream.
        targets: Word ids of the next entry of the own lane and stream, (2, B, T). -100 where the next entry is certain,
            as is what opens a sentence, and behind the end of a stream that ran out.
        reset_state: True for lanes whose LSTM states are zeros before this window, whatever was before it, (B,).
    """

    rows: Tensor
    words: Tensor
    targets: Tensor
    reset_state: Tensor

    @property
    def num_targets(self) -> int:
        """Words to predict in each direction; both have as many."""
        return int((self.targets[0] != NO_TARGET).sum())

    def to(self, device: torch.device) -> LaneWindow:
        """The same window on another device."""
        return LaneWindow(**{name: tensor.to(device, non_blocking=True) for name, tensor in vars(self).items()})


class LaneFiller:
    """Deals sentences to lanes and cuts the lanes into windows (Peters et al. 2018, sec. 3.4; bilm-tf's batches).

    The forward stream of a lane is `<S>` a b c `</S>` `<S>` d e `</S>`; its backward stream holds the same sentences in
    the same order, each reversed in itself: `</S>` c b a `<S>` `</S>` e d `<S>`. Both have one length and meet at the
    ends of sentences, so one reading of the corpus feeds both.

    Between any two windows its state can be saved, so that a new process continues with the very same windows.

    Args:
        tokenizer: Makes the rows of characters.
        vocabulary: Gives the targets.
        num_lanes: Lanes B.
        unroll_steps: Words T of a window.
        reset_state: When a lane's LSTM states start from zeros again, which the windows say. "never": after no window;
            a lane that runs short takes the next sentence, and the first sentence of a pass follows the last one of
            the pass before. "epoch": at the start of each pass, the lanes being read to their ends before. "document":
            at the start of each document; a document stays in one lane, and its last window is filled up with entries
            that have no target.
    """

    def __init__(
        self,
        tokenizer: ElmoCharTokenizer,
        vocabulary: WordVocabulary,
        num_lanes: int,
        unroll_steps: int,
        reset_state: str = "never",
    ):
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.unroll_steps = unroll_steps
        self.reset_state = reset_state
        self.num_passes = 0
        self.num_taken = 0
        self._numbers = _WordNumbers(tokenizer, vocabulary)
        self._lanes = [_Lane(starts=reset_state != "never") for _ in range(num_lanes)]

    def windows(self, stream: Iterable[Sequence]) -> Iterator[LaneWindow]:
        """The windows of one pass over a corpus.

        What the pass had taken when the state was saved is skipped: the stream is always that of a whole pass. At its
        end, what does not fill all lanes stays in them for the next pass, or for `last_windows`; with
        reset_state="epoch" all of it is given out.

        Args:
            stream: The words of each sentence; with reset_state="document", the sentences of each document.
        """
        remaining = islice(iter(stream), self.num_taken, None)
        while all(self._fill(lane, remaining) for lane in self._lanes):
            yield self._cut()
        if self.reset_state == "epoch":
            yield from self.last_windows()
            for lane in self._lanes:
                lane.starts = True
        self.num_taken = 0
        self.num_passes += 1

    def last_windows(self) -> Iterator[LaneWindow]:
        """What is left in the lanes, filled up with entries that have no target."""
        while any(self._lanes):
            for lane in self._lanes:
                self._fill(lane, iter(()))
            yield self._cut()

    def state_dict(self) -> dict[str, Any]:
        """Passes ended, entries taken in this pass, and what is left in each lane, for JSON or torch.save."""
        words = self._numbers.words
        lanes = [
            {
                "streams": [[words[n] if n > _EOS else n for n in stream] for stream in (lane.forward, lane.backward)],
                "waiting": [list(sentence) for sentence in lane.waiting],
                "starts": lane.starts,
            }
            for lane in self._lanes
        ]
        return {"num_passes": self.num_passes, "num_taken": self.num_taken, "lanes": lanes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where another filler of as many lanes and the same resets stood."""
        self.num_passes, self.num_taken, self._lanes = state["num_passes"], state["num_taken"], []
        for lane in state["lanes"]:
            forward, backward = (
                array("q", (self._numbers[entry] if isinstance(entry, str) else entry for entry in stream))
                for stream in lane["streams"]
            )
            self._lanes.append(_Lane(forward, backward, deque(lane["waiting"]), lane["starts"]))

    def _fill(self, lane: _Lane, remaining: Iterator[Sequence]) -> bool:
        """Give a lane words for a window, or to the end of its document; False when there are not enough."""
        by_document = self.reset_state == "document"
        while len(lane.forward) < self.unroll_steps:
            if lane.waiting:
                numbers = array("q", map(self._numbers.__getitem__, lane.waiting.popleft()))
                lane.forward += array("q", (_OPENING_BOS, *numbers, _EOS))
                lane.backward += array("q", (_OPENING_EOS, *numbers[::-1], _BOS))
            elif by_document and lane.forward:
                return True
            elif (entry := next(remaining, None)) is not None:
                self.num_taken += 1
                lane.waiting.extend(entry if by_document else (entry,))
            else:
                return False
        return True

    def _cut(self) -> LaneWindow:
        num_lanes, steps = len(self._lanes), self.unroll_steps
        # Each stream of a window with the entry after it, the last target.
        streams = np.full((2, num_lanes, steps + 1), _NOTHING)
        for index, lane in enumerate(self._lanes):
            for entries, stream in zip(streams[:, index], (lane.forward, lane.backward), strict=True):
                entries[: len(stream)] = stream[: steps + 1]
                del stream[:steps]
        rows, places = self._numbers.rows(streams[..., :-1])
        targets = self._numbers.targets(streams[..., 1:])
        starts = torch.tensor([lane.starts for lane in self._lanes])
        window = LaneWindow(*map(torch.from_numpy, (rows, places, targets)), starts)  # type: ignore[call-arg]
        for lane in self._lanes:
            lane.starts = self.reset_state == "document" and not lane
        if self._numbers.num_letters > self._numbers.max_letters:
            # Forget all words but those that are left in the lanes.
            state = self.state_dict()
            self._numbers = _WordNumbers(self.tokenizer, self.vocabulary)
            self.load_state_dict(state)
        return window


def fill_lanes(
    sentences: Iterable[Sequence[str]],
    tokenizer: ElmoCharTokenizer,
    vocabulary: WordVocabulary,
    num_lanes: int,
    unroll_steps: int,
    reset_state: str = "never",
) -> Iterator[LaneWindow]:
    """All windows of one reading of a corpus, its lanes read to their ends; arguments as of `LaneFiller`."""
    filler = LaneFiller(tokenizer, vocabulary, num_lanes, unroll_steps, reset_state)
    yield from filler.windows(sentences)
    yield from filler.last_windows()


def join_windows(windows: list[LaneWindow]) -> LaneWindow:
    """Windows that follow one another as one, which resets the lanes that the first one does."""
    starts = accumulate((len(window.rows) for window in windows), initial=0)
    return LaneWindow(
        rows=torch.cat([window.rows for window in windows]),
        words=torch.cat([window.words + start for window, start in zip(windows, starts, strict=False)], 2),
        targets=torch.cat([window.targets for window in windows], 2),
        reset_state=windows[0].reset_state,
    )


def reset_lanes(state: ElmoState | None, resets: Tensor) -> ElmoState | None:
    """The state of B lanes (None stands for zeros) with zeros where `resets`, (B,), is True."""
    if state is None or not resets.any():
        return state
    keep = (~resets).to(state.hidden)[:, None, None, None]
    return ElmoState(hidden=state.hidden * keep, cell=state.cell * keep)


@dataclass
class _Lane:
    """What is left of a lane: the numbers of its two streams, and sentences that wait for theirs.

    `starts` says whether LSTM states are zeros before its next window.
    """

    forward: array[int] = field(default_factory=lambda: array("q"))
    backward: array[int] = field(default_factory=lambda: array("q"))
    waiting: deque[Sequence[str]] = field(default_factory=deque)
    starts: bool = False

    def __bool__(self) -> bool:
        return bool(self.forward or self.waiting)


class _WordNumbers(dict[str, int]):
    """A number for each word seen so far: a word is looked up once, and all the rest is done with arrays of numbers."""

    # Of all words together: corpora have new words without end, and text without spaces words of millions of letters.
    max_letters = 1_000_000

    def __init__(self, tokenizer: ElmoCharTokenizer, vocabulary: WordVocabulary):
        super().__init__({BOS_TOKEN: _BOS, EOS_TOKEN: _EOS})
        self.words = ["", BOS_TOKEN, EOS_TOKEN, BOS_TOKEN, EOS_TOKEN]
        self._targets = array("q", [NO_TARGET, NO_TARGET, NO_TARGET, vocabulary.bos_id, vocabulary.eos_id])
        self._ids = vocabulary.ids
        self._encode_words = tokenizer.encode_words
        self.num_letters = self._num_encoded = 0
        self._rows = np.empty((0, tokenizer.max_characters_per_word), dtype=np.int16)

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self.words)
        self.words.append(word)
        self.num_letters += len(word)
        self._targets.append(self._ids.get(word, WordVocabulary.unk_id))
        return number

    def targets(self, numbers: np.ndarray) -> np.ndarray:
        """The word ids of entries, in an array of the same shape."""
        return np.frombuffer(self._targets, dtype=np.int64).take(numbers)

    def rows(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the distinct words in the order of their first places, (N, C), and the place of each entry's row.

        Where there is nothing the place is 0.
        """
        start, stop = self._num_encoded, len(self.words)
        if stop > len(self._rows):
            self._rows.resize((2 * stop, self._rows.shape[1]), refcheck=False)
        if stop > start:
            self._rows[start:stop] = self._encode_words(self.words[start:])
            self._num_encoded = stop
        # Lane by lane, the forward stream before the backward one.
        entries = numbers.swapaxes(0, 1).flatten()
        entries[entries == _NOTHING] = entries[(entries != _NOTHING).argmax()]
        entries[entries == _OPENING_BOS] = _BOS
        entries[entries == _OPENING_EOS] = _EOS
        _, first, inverse = np.unique(entries, return_index=True, return_inverse=True)
        order = first.argsort()
        places = order.argsort()[inverse].reshape(numbers.shape[1], 2, -1).swapaxes(0, 1)
        return self._rows[entries[first[order]]].astype(np.int64), np.ascontiguousarray(places)
