"""Held-out perplexity of both directions, per word and per character, with carried states or from zeros."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from ..kernels import cache_words
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.corpora import Corpus
from ..text.vocabulary import MANY_UNKNOWN, WordVocabulary
from .lanes import LaneWindow, fill_lanes, join_windows, reset_lanes
from .objective import LaneObjective

# Lanes that the held-out text is dealt to: with carried states perplexity depends a little on their number.
EVALUATION_LANES = 32
# Entries scored at a time where that changes no figure: enough for products at the machine's rate.
_ENTRIES_AT_A_TIME = 4096
# Words that are encoded once for all windows, some 80 MB of their vectors and rows.
_WORDS_KEPT = 100_000


@dataclass
class Perplexity:
    """Held-out perplexities per word, by the full softmax; a sentence of n words has n + 1 targets a direction."""

    forward: float  # exp of this direction's mean -log p
    backward: float
    mean: float  # of both, the figure of the paper
    # Mean of both directions' -log2 p of the text over its characters: those of its words, and the space or the end of
    # line behind each. Words that the softmax lacks count as `<UNK>`, which costs less than spelling them, so that it
    # compares over one vocabulary only; None with too many of them.
    bits_per_character: float | None
    num_targets: int  # words and closing special tokens scored in each direction
    unknown_share: float  # fraction of the words that the softmax lacks


@torch.no_grad()
def measure_perplexity(
    objective: LaneObjective,
    tokenizer: ElmoCharTokenizer,
    vocabulary: WordVocabulary,
    corpus: Corpus,
    accelerator: Accelerator,
    unroll_steps: int = 20,
    reset_state: str = "never",
    zero_state: bool = False,
    num_lanes: int = EVALUATION_LANES,
) -> Perplexity:
    """Score each word once, in all processes together; the objective is left in evaluation mode.

    Args:
        objective, vocabulary: The model, and the words of its softmax.
        corpus: This process's part of the text.
        unroll_steps, reset_state, num_lanes: As of `LaneFiller`.
        zero_state: Whether each sentence starts from zeros, as where the model makes vectors for a task; else states
            are carried along the lanes.
    Raises: ValueError when there is no word to score.
    """
    objective.eval()
    by_document = reset_state == "document" and not zero_state
    # Characters (with the space or the end of line behind each word), words and unknown words.
    text = Counter[str]()

    def tokenize(line: str) -> list[str]:
        words = tokenizer.tokenize(line)
        unknown = vocabulary.encode(words).count(vocabulary.unk_id)
        text.update(characters=sum(map(len, words)) + len(words), words=len(words), unknown=unknown)
        return words

    stream: Iterable[Any] = (corpus.documents if by_document else corpus.sentences)(tokenize)
    if zero_state:
        # Each sentence is a document of its own.
        stream, reset_state = ([words] for words in stream), "document"
    if zero_state or by_document:
        # No state goes from one document to the next, so that it makes no difference how many lanes there are.
        num_lanes = max(num_lanes, _ENTRIES_AT_A_TIME // unroll_steps)
    windows = fill_lanes(stream, tokenizer, vocabulary, num_lanes, unroll_steps, reset_state)
    if not zero_state and not by_document:
        windows = _joined(windows, max(1, _ENTRIES_AT_A_TIME // (num_lanes * unroll_steps)))
    sums, num_targets, state = torch.zeros(2, dtype=torch.float64), 0, None
    encoder = objective.model.elmo.token_encoder
    cache_words(encoder, _WORDS_KEPT)
    try:
        for window in windows:
            found, state = objective(window.to(accelerator.device), reset_lanes(state, window.reset_state))
            num_targets += window.num_targets
            sums += found.cpu()  # Some accelerators have no float64.
    finally:
        cache_words(encoder, None)
    totals = gather_object([[*sums.tolist(), num_targets, text["characters"], text["words"], text["unknown"]]])
    forward_sum, backward_sum, num_targets, num_characters, num_words, num_unknown = map(sum, zip(*totals, strict=True))
    if not num_targets:
        raise ValueError("held_out_corpus holds no words; perplexity needs text to be scored on.")
    forward, backward = math.exp(forward_sum / num_targets), math.exp(backward_sum / num_targets)
    unknown_share = num_unknown / num_words
    bits = (forward_sum + backward_sum) / (2 * math.log(2)) / num_characters
    return Perplexity(
        forward,
        backward,
        mean=(forward + backward) / 2,
        bits_per_character=bits if unknown_share <= MANY_UNKNOWN else None,
        num_targets=num_targets,
        unknown_share=unknown_share,
    )


def _joined(windows: Iterator[LaneWindow], number: int) -> Iterator[LaneWindow]:
    while taken := list(islice(windows, number)):
        yield join_windows(taken)
