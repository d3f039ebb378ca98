"""Sentences to lanes: parallel streams cut into windows, so that LSTM state can be carried from window to window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ..characters_elmo import BOS_TOKEN, EOS_TOKEN
from ..tokenization_elmo import ElmoCharTokenizer
from .vocabulary import WordVocabulary

NO_TARGET = -100


@dataclass
class LaneWindow:
    """One window of all lanes, both directions in reading order: the backward one's words run from right to left.

    Each distinct word of the window has one row of characters. Letters: N distinct words, B lanes, T words, C
    characters.

    Args:
        rows: Character ids of the distinct words, (N, C).
        forward_words, backward_words: Places in `rows`, (B, T).
        forward_targets, backward_targets: Word ids of the next entry of the own lane, (B, T). -100 where the next entry
            is certain, which is the marker that opens a sentence, and behind the end of a stream that ran out.
    """

    rows: Tensor
    forward_words: Tensor
    backward_words: Tensor
    forward_targets: Tensor
    backward_targets: Tensor

    @property
    def num_targets(self) -> int:
        """Words to predict in each direction; both have as many."""
        return int((self.forward_targets != NO_TARGET).sum())

    def to(self, device: torch.device) -> LaneWindow:
        """The same window on another device."""
        return LaneWindow(**{name: tensor.to(device, non_blocking=True) for name, tensor in vars(self).items()})


@dataclass
class _Lane:
    """What is left of a lane's stream: parallel lists, one entry a word or marker."""

    forward_words: list[str] = field(default_factory=list)
    backward_words: list[str] = field(default_factory=list)
    forward_targets: list[int] = field(default_factory=list)
    backward_targets: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.forward_words)

    def append(self, words: Sequence[str], ids: Sequence[int]) -> None:
        self.forward_words.extend((BOS_TOKEN, *words, EOS_TOKEN))
        self.forward_targets.extend((*ids, WordVocabulary.eos_id, NO_TARGET))
        self.backward_words.extend((EOS_TOKEN, *reversed(words), BOS_TOKEN))
        self.backward_targets.extend((*reversed(ids), WordVocabulary.bos_id, NO_TARGET))

    def take(self, length: int) -> tuple[list, list, list, list]:
        taken = []
        for entries in (self.forward_words, self.backward_words, self.forward_targets, self.backward_targets):
            taken.append(entries[:length])
            del entries[:length]
        return tuple(taken)


def fill_lanes(
    sentences: Iterable[Sequence[str]],
    tokenizer: ElmoCharTokenizer,
    vocabulary: WordVocabulary,
    num_lanes: int,
    unroll_steps: int,
) -> Iterator[LaneWindow]:
    """Deal sentences to lanes and cut the lanes into windows (Peters et al. 2018, sec. 3.4; bilm-tf's batches).

    The forward stream of a lane is `<S>` a b c `</S>` `<S>` d e `</S>`; its backward stream holds the same sentences in
    the same order, each reversed in itself: `</S>` c b a `<S>` `</S>` e d `<S>`. Both have one length and meet at the
    ends of sentences, so one reading of the corpus feeds both. A lane that runs short takes the next sentence; when
    the sentences run out, the last windows are filled up with entries that have no target.

    Args:
        sentences: The words of each sentence.
        tokenizer: Makes the rows of characters.
        vocabulary: Gives the targets.
        num_lanes: Lanes B.
        unroll_steps: Words T of a window.
    """
    remaining = iter(sentences)
    lanes = [_Lane() for _ in range(num_lanes)]
    while True:
        for lane in lanes:
            while len(lane) < unroll_steps and (words := next(remaining, None)) is not None:
                lane.append(words, vocabulary.encode(words))
        if not any(map(len, lanes)):
            return
        yield _make_window([lane.take(unroll_steps) for lane in lanes], tokenizer, unroll_steps)


def _make_window(
    lanes: list[tuple[list, list, list, list]], tokenizer: ElmoCharTokenizer, unroll_steps: int
) -> LaneWindow:
    distinct: dict[str, int] = {}
    words = np.zeros((2, len(lanes), unroll_steps), dtype=np.int64)
    targets = np.full((2, len(lanes), unroll_steps), NO_TARGET, dtype=np.int64)
    for index, (forward_words, backward_words, forward_targets, backward_targets) in enumerate(lanes):
        for direction, (lane_words, lane_targets) in enumerate(
            ((forward_words, forward_targets), (backward_words, backward_targets))
        ):
            length = len(lane_words)
            words[direction, index, :length] = [distinct.setdefault(word, len(distinct)) for word in lane_words]
            targets[direction, index, :length] = lane_targets
    return LaneWindow(
        rows=torch.from_numpy(tokenizer.encode_words(list(distinct))),
        forward_words=torch.from_numpy(words[0]),
        backward_words=torch.from_numpy(words[1]),
        forward_targets=torch.from_numpy(targets[0]),
        backward_targets=torch.from_numpy(targets[1]),
    )
