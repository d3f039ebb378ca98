"""Held-out perplexity of both directions, per word and per character, with carried states or from cold ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import torch
from accelerate import Accelerator

from ..kernels import cache_words
from ..model.modeling_elmo import ElmoState
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.corpora import Corpus
from ..text.vocabulary import MANY_UNKNOWN, WordVocabulary
from .lanes import LaneWindow, fill_lanes
from .objectives import LaneObjective
from .run_state import gather_objects

# Entries scored at a time where that changes no figure: enough for products at the machine's rate.
_ENTRIES_AT_A_TIME = 4096
# Words that are encoded once for all windows, some 80 MB of their vectors and rows.
_WORDS_KEPT = 100_000


@dataclass
class Perplexity:
    """Held-out perplexities per word, by the full softmax; a sentence of n words has n + 1 targets in each direction.

    Args:
        forward, backward: exp of each direction's mean -log p.
        mean: Their mean, the figure of the paper.
        bits_per_character: Mean of both directions' -log2 p of the text over its characters: those of its words, and
            the space or the end of line behind each. Words that the softmax lacks count as `<UNK>`, which costs less
            than spelling them, so that it compares over one vocabulary only; None with too many of them.
        num_targets: Words and closing markers scored in each direction.
        unknown_share: Share of the words that the softmax lacks; None in old results.
    """

    forward: float
    backward: float
    mean: float
    bits_per_character: float | None
    num_targets: int
    unknown_share: float | None = None


@dataclass
class HeldOutText:
    """A text to be scored, and how it is dealt to lanes.

    Args:
        tokenizer: Cuts the text and makes the rows of characters.
        vocabulary: Words of the softmax.
        corpus: This process's part of the text.
        num_lanes: Lanes that the text is dealt to.
        unroll_steps: Words of a window.
        reset_state: When a lane's carried state goes back to zeros; see `LaneFiller`.
    """

    tokenizer: ElmoCharTokenizer
    vocabulary: WordVocabulary
    corpus: Corpus
    num_lanes: int
    unroll_steps: int
    reset_state: str = "never"

    @torch.no_grad()
    def measure(self, objective: LaneObjective, accelerator: Accelerator, cold: bool = False) -> Perplexity:
        """Score each word once, in all processes together; the objective is left in evaluation mode.

        Args:
            objective: The model, with its full softmax.
            accelerator: Processes that each score their part.
            cold: Whether each sentence starts from zeros, as where the model makes vectors for a task; else states are
                carried along the lanes.
        Raises: ValueError when there is no word to score.
        """
        objective.eval()
        text = _TextCount(self.vocabulary)
        sums = torch.zeros(3, dtype=torch.float64)
        state = None
        encoder = objective.model.elmo.token_encoder
        cache_words(encoder, _WORDS_KEPT)
        try:
            for window in self._windows(text, cold):
                state = reset_lanes(state, window.reset_state)
                loss = objective(window.to(accelerator.device), state)
                state = loss.state
                sums += torch.stack(
                    [loss.forward_sum, loss.backward_sum, loss.forward_sum.new_tensor(loss.num_targets)]
                ).cpu()
        finally:
            cache_words(encoder, None)
        # Some accelerators have no float64.
        totals = torch.cat([sums, sums.new_tensor([text.characters, text.words, text.unknown])]).tolist()
        totals = [sum(column) for column in zip(*gather_objects(totals, accelerator), strict=True)]
        forward_sum, backward_sum, count, num_characters, num_words, num_unknown = totals
        if not count:
            raise ValueError("held_out_corpus holds no words; perplexity needs text to be scored on.")
        forward, backward = math.exp(forward_sum / count), math.exp(backward_sum / count)
        unknown_share = num_unknown / num_words
        bits = (forward_sum + backward_sum) / (2 * math.log(2)) / num_characters
        return Perplexity(
            forward,
            backward,
            mean=(forward + backward) / 2,
            bits_per_character=bits if unknown_share <= MANY_UNKNOWN else None,
            num_targets=int(count),
            unknown_share=unknown_share,
        )

    def _windows(self, text: _TextCount, cold: bool) -> Iterator[LaneWindow]:
        by_document = self.reset_state == "document" and not cold
        read = self.corpus.documents if by_document else self.corpus.sentences
        read_once: Iterator[Any] = read(self.tokenizer.tokenize)
        stream: Iterable = map(text.of_document, read_once) if by_document else text.of(read_once)
        if cold:
            # Each sentence is a document of its own.
            stream = ([words] for words in stream)
        # Where each sentence is alone, it makes no difference how many lanes there are.
        num_lanes = max(self.num_lanes, _ENTRIES_AT_A_TIME // self.unroll_steps) if cold else self.num_lanes
        reset_state = "document" if cold else self.reset_state
        windows = fill_lanes(stream, self.tokenizer, self.vocabulary, num_lanes, self.unroll_steps, reset_state)
        if cold or by_document:
            yield from windows
            return
        number = max(1, _ENTRIES_AT_A_TIME // (num_lanes * self.unroll_steps))
        while taken := list(islice(windows, number)):
            yield _join(taken)


def _join(windows: list[LaneWindow]) -> LaneWindow:
    """Windows that follow one another as one, which starts anew the lanes that the first one does."""
    starts = list(accumulate((len(window.rows) for window in windows), initial=0))

    def join_places(name: str) -> torch.Tensor:
        return torch.cat([getattr(window, name) + start for window, start in zip(windows, starts, strict=False)], 1)

    return LaneWindow(
        rows=torch.cat([window.rows for window in windows]),
        forward_words=join_places("forward_words"),
        backward_words=join_places("backward_words"),
        forward_targets=torch.cat([window.forward_targets for window in windows], 1),
        backward_targets=torch.cat([window.backward_targets for window in windows], 1),
        reset_state=windows[0].reset_state,
    )


def reset_lanes(state: ElmoState | None, resets: torch.Tensor) -> ElmoState | None:
    """The state with zeros in the lanes that start anew.

    Args:
        state: Of B lanes; None stands for zeros.
        resets: True for those lanes, (B,).
    """
    if state is None or not resets.any():
        return state
    keep = (~resets).to(state.hidden)[:, None, None, None]
    return ElmoState(hidden=state.hidden * keep, cell=state.cell * keep)


@dataclass
class _TextCount:
    """Characters, words and unknown words of the sentences that went by."""

    vocabulary: WordVocabulary
    characters: int = 0
    words: int = 0
    unknown: int = 0

    def of(self, sentences: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        for words in sentences:
            self.characters += sum(map(len, words)) + len(words)
            self.words += len(words)
            self.unknown += self.vocabulary.encode(words).count(self.vocabulary.unk_id)
            yield words

    def of_document(self, sentences: Iterable[Sequence[str]]) -> list[Sequence[str]]:
        return list(self.of(sentences))
