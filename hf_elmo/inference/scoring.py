"""Words scored by the language models inside ELMo: probabilities from the left, from the right and from both sides.

Letters in shapes: T words of a sentence, N predictions one after another, P projection, V words of the softmax. All log
probabilities are natural logarithms (nats); surprisal is in bits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizer

from ..model.modeling_elmo import ElmoForPreTraining
from ..text.vocabulary import SPECIAL_WORDS, VOCABULARY_FILE, WordVocabulary, log_uniform_probabilities
from .embedding import embed

DIRECTIONS = FORWARD, BACKWARD = 0, 1

_Figures = TypeVar("_Figures", float, np.ndarray)


@dataclass(frozen=True)
class ScoreTotals:
    """Sums over sentences, and the perplexities they give; totals of several texts are added with `+`.

    Args:
        forward_sum: Sum of log p over words and `</S>`, each given its left context.
        backward_sum: Sum of log p over words and `<S>`, each given its right context.
        joint_sum: Sum of log p over words, each given both contexts.
        num_sentences, num_words: Terms of the sums; special tokens are not words.
        num_unknown: Words that the softmax lacks, whose terms are the probability of `<UNK>`.
    """

    forward_sum: float = 0.0
    backward_sum: float = 0.0
    joint_sum: float = 0.0
    num_sentences: int = 0
    num_words: int = 0
    num_unknown: int = 0

    def __add__(self, other: ScoreTotals) -> ScoreTotals:
        return ScoreTotals(*(mine + its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def num_targets(self) -> int:
        """Predictions of each direction: the words, and one special token per sentence."""
        return self.num_words + self.num_sentences

    @property
    def forward_perplexity(self) -> float:
        """exp of the mean -log p from left to right, `</S>` included."""
        return _perplexity(self.forward_sum, self.num_targets)

    @property
    def backward_perplexity(self) -> float:
        """exp of the mean -log p from right to left, `<S>` included."""
        return _perplexity(self.backward_sum, self.num_targets)

    @property
    def perplexity(self) -> float:
        """The mean of both directions' perplexities, the figure of the paper and of `hf-elmo pretrain`."""
        return (self.forward_perplexity + self.backward_perplexity) / 2

    @property
    def pseudo_perplexity(self) -> float:
        """exp of the mean -log p of the words, each from both sides (Salazar et al. 2020, sec. 2); nan without words.

        It is not the probability of the text. Compare it with pseudo-perplexities over the same vocabulary only.
        """
        return _perplexity(self.joint_sum, self.num_words)


def _perplexity(log_probability: float, count: int) -> float:
    if not count:
        return math.nan
    loss = -log_probability / count
    return math.inf if loss > 700 else math.exp(loss)


@dataclass(frozen=True)
class SentenceScores:
    """The scores of a sentence of T words, in nats.

    A word that the softmax lacks has the scores of `<UNK>`.

    Args:
        words: The words, without special tokens.
        is_unknown: True for words that the softmax lacks, (T,).
        forward: log p(w_t | `<S>`, w_1 ... w_t-1), (T,).
        backward: log p(w_t | w_t+1 ... w_T, `</S>`), (T,).
        joint: log p(w_t | all other words) by both directions together, (T,); see `join_directions`.
        forward_end: log p(`</S>` | `<S>`, w_1 ... w_T).
        backward_end: log p(`<S>` | w_1 ... w_T, `</S>`).
    """

    words: list[str]
    is_unknown: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    joint: np.ndarray
    forward_end: float
    backward_end: float

    @property
    def forward_surprisal(self) -> np.ndarray:
        """-log2 p of each word from its left, in bits, (T,)."""
        return to_bits(self.forward)

    @property
    def backward_surprisal(self) -> np.ndarray:
        """-log2 p of each word from its right, in bits, (T,)."""
        return to_bits(self.backward)

    @property
    def joint_surprisal(self) -> np.ndarray:
        """-log2 p of each word from both sides, in bits, (T,)."""
        return to_bits(self.joint)

    @property
    def totals(self) -> ScoreTotals:
        """The sums and perplexities of this sentence."""
        return ScoreTotals(
            forward_sum=float(self.forward.sum()) + self.forward_end,
            backward_sum=float(self.backward.sum()) + self.backward_end,
            joint_sum=float(self.joint.sum()),
            num_sentences=1,
            num_words=len(self.words),
            num_unknown=int(self.is_unknown.sum()),
        )


def to_bits(log_probability: _Figures) -> _Figures:
    """The surprisal -log2 p of a log probability in nats."""
    return -log_probability / math.log(2)


@dataclass(frozen=True)
class Substitute:
    """A word of the vocabulary at a position of a sentence, with its log p from the left, the right and both sides."""

    word: str
    forward: float
    backward: float
    joint: float


def score_sentences(
    model: ElmoForPreTraining,
    tokenizer: PreTrainedTokenizer,
    vocabulary: WordVocabulary,
    sentences: Iterable[str | Sequence[str]],
    *,
    frequencies: Sequence[float] | Tensor | None = None,
    carry_state: bool = False,
    max_words_per_batch: int = 2048,
    max_words_per_buffer: int = 32768,
    chunk_size: int = 64,
) -> Iterator[SentenceScores]:
    """Score a stream of sentences; the scores come in the order of the sentences.

    Each sentence is read from a state of zeros, whatever is in the same batch. With `carry_state` the state is carried
    from sentence to sentence, as in pre-training: the perplexities are those of the trainer's evaluation on one lane.

    Args:
        model: A model with its word softmax. It is left in the mode it is in.
        tokenizer: The checkpoint's tokenizer; it cuts the sentences that are strings.
        vocabulary: The words of the softmax, in its order.
        sentences: Strings or lists of words; also an iterator without an end.
        frequencies: Frequency of each word of the vocabulary, V numbers > 0 in any unit, for the joint scores; None
            takes Zipf's law. See `join_directions`.
        carry_state, max_words_per_batch, max_words_per_buffer: As of `embed`.
        chunk_size: Predictions whose distributions are held at a time: memory is bounded by 5 x chunk_size x V numbers.
    Raises: TypeError or ValueError naming the argument, its value and what was expected; for a wrong sentence, when its
        turn comes.
    """
    _check_model(model, vocabulary)
    log_prior = _log_prior(frequencies, len(vocabulary))
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size!r}; it must be an integer >= 1.")
    if isinstance(sentences, str):
        raise TypeError("sentences is a string; wanted an iterable of sentences. For a single one, give a list of it.")
    cut = (tokenizer.tokenize(sentence) if isinstance(sentence, str) else sentence for sentence in sentences)
    read, kept = itertools.tee(cut)
    arrays = embed(
        model,
        tokenizer,
        read,
        layers="top",
        keep_markers=True,
        carry_state=carry_state,
        max_words_per_batch=max_words_per_batch,
        max_words_per_buffer=max_words_per_buffer,
    )
    # The arrays first: what is wrong with a sentence is found when it is embedded.
    groups = _group(zip(arrays, kept, strict=False), chunk_size)
    return itertools.chain.from_iterable(
        _score_group(model, tokenizer, vocabulary, log_prior, chunk_size, *zip(*group, strict=True)) for group in groups
    )


def best_substitutes(
    model: ElmoForPreTraining,
    tokenizer: PreTrainedTokenizer,
    vocabulary: WordVocabulary,
    words: Sequence[str],
    position: int,
    k: int = 10,
    *,
    frequencies: Sequence[float] | Tensor | None = None,
    with_special_words: bool = False,
) -> list[Substitute]:
    """The most probable words of the vocabulary at a position of a sentence, given both its sides.

    Neither direction sees the word that stands there.

    Args:
        model, tokenizer, vocabulary, frequencies: As of `score_sentences`.
        words: The words of the sentence, without special tokens.
        position: Index of the word to replace, from 0.
        k: Number of substitutes; fewer where the vocabulary has fewer words.
        with_special_words: Whether `<S>`, `</S>` and `<UNK>` may be among them. The normalization includes them anyway.
    Returns: Substitutes by falling joint probability.
    Raises: TypeError or ValueError naming the argument, its value and what was expected.
    """
    _check_model(model, vocabulary)
    log_prior = _log_prior(frequencies, len(vocabulary))
    if isinstance(words, str):
        raise TypeError("words is a string; wanted a list of words. Cut it with tokenizer.tokenize.")
    if not isinstance(position, int) or not 0 <= position < len(words):
        raise ValueError(
            f"position is {position!r}; it must be an integer from 0 to {len(words) - 1}, the index of a word."
        )
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"k is {k!r}; it must be an integer >= 1.")
    (top,) = embed(model, tokenizer, [words], layers="top", keep_markers=True)
    contexts = _contexts(top)
    with torch.inference_mode():
        forward, backward = (
            log_probabilities(model, context[position : position + 1], direction)
            for direction, context in enumerate(contexts)
        )
        joint = join_directions(forward, backward, log_prior)
        ranked = joint[0]
        if not with_special_words:
            ranked = ranked.clone()
            ranked[: len(SPECIAL_WORDS)] = -math.inf
        candidates = len(vocabulary) if with_special_words else len(vocabulary) - len(SPECIAL_WORDS)
        ids = ranked.topk(min(k, candidates)).indices
        columns = [scores[0, ids].tolist() for scores in (forward, backward, joint)]
    return [Substitute(vocabulary.words[index], *row) for index, *row in zip(ids.tolist(), *columns, strict=True)]


def log_probabilities(model: ElmoForPreTraining, hidden: Tensor, direction: int) -> Tensor:
    """log p of every word of the softmax, (N, V), in float32 or wider.

    Args:
        model: Gives the softmax.
        hidden: Top layer vectors of one direction, (N, P), on any device.
        direction: 0 for forward, 1 for backward.
    """
    softmax = model.word_softmaxes[direction]
    hidden = hidden.to(model.device, model.dtype)
    scores = softmax(hidden) if isinstance(softmax, nn.Linear) else softmax.log_prob(hidden)
    return torch.log_softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def join_directions(forward: Tensor, backward: Tensor, log_prior: Tensor) -> Tensor:
    """log p(w | left, right) with p(w | left, right) ∝ p(w | left) p(w | right) / p(w), over all words, (N, V).

    That is Bayes' rule where the left context is independent of the right one, given the word. Both directions contain
    the frequency of the word; without the division it would count twice, and frequent words would crowd out those that
    fit. A constant p(w) leaves the plain product of the two.

    Args:
        forward, backward: Log probabilities of all words at the same positions, (N, V).
        log_prior: log p(w), up to a constant, (V,).
    """
    return torch.log_softmax(forward + backward - log_prior.to(forward), dim=-1)


def zipf_frequencies(size: int) -> Tensor:
    """The relative frequencies by Zipf's law of a vocabulary sorted by falling frequency, (V,)."""
    return log_uniform_probabilities(torch.arange(size), size, torch.float64)


def _log_prior(frequencies: Sequence[float] | Tensor | None, size: int) -> Tensor:
    if frequencies is None:
        return zipf_frequencies(size).log()
    frequencies = torch.as_tensor(frequencies, dtype=torch.float64)
    if frequencies.shape != (size,) or not bool((frequencies > 0).all()):
        raise ValueError(
            f"frequencies has the shape {tuple(frequencies.shape)} and values from {frequencies.min():g}; wanted "
            f"({size},), a number > 0 for each word of the vocabulary. Add one to counts."
        )
    return frequencies.log()


def _check_model(model: ElmoForPreTraining, vocabulary: WordVocabulary) -> None:
    if not hasattr(model, "word_softmaxes"):
        raise TypeError(
            f"model is a {type(model).__name__}, which has no word softmax; wanted ElmoForPreTraining, as "
            "AutoModelForPreTraining.from_pretrained gives it."
        )
    if model.config.word_vocab_size != len(vocabulary):
        raise ValueError(
            f"vocabulary has {len(vocabulary)} words, but the model's softmax is over {model.config.word_vocab_size}; "
            f"load the {VOCABULARY_FILE} that was saved with the model."
        )


def _group(
    pairs: Iterable[tuple[np.ndarray, Sequence[str]]], num_predictions: int
) -> Iterator[list[tuple[np.ndarray, Sequence[str]]]]:
    """Sentences together until they make as many predictions: short ones share a product with the softmax."""
    group, count = [], 0
    for top, words in pairs:
        group.append((top, words))
        count += len(words) + 1
        if count >= num_predictions:
            yield group
            group, count = [], 0
    if group:
        yield group


def _contexts(top: np.ndarray) -> tuple[Tensor, Tensor]:
    """The vectors from which each direction predicts a sentence's words and, in the last row, its special token.

    Args:
        top: The top layer of the sentence with both special tokens, (T + 2, 2P).
    Returns: (T + 1, P) of each direction.
    """
    forward, backward = torch.from_numpy(top).chunk(2, dim=-1)
    return forward[:-1], torch.cat([backward[2:], backward[1:2]])


@torch.inference_mode()
def _score_group(
    model: ElmoForPreTraining,
    tokenizer: PreTrainedTokenizer,
    vocabulary: WordVocabulary,
    log_prior: Tensor,
    chunk_size: int,
    tops: Sequence[np.ndarray],
    sentences: Sequence[Sequence[str]],
) -> list[SentenceScores]:
    """The scores of sentences, given as their top layers with special tokens (T + 2, 2P) and their words."""
    contexts = [torch.cat(parts) for parts in zip(*map(_contexts, tops), strict=True)]
    ids = [vocabulary.encode(tokenizer.normalize_words(words)) for words in sentences]
    targets = [
        torch.tensor([target for sentence in ids for target in (*sentence, last)])
        for last in (vocabulary.eos_id, vocabulary.bos_id)
    ]
    columns = []
    for *chunk, forward_ids, backward_ids in zip(
        *(tensor.split(chunk_size) for tensor in (*contexts, *targets)), strict=True
    ):
        forward, backward = (
            log_probabilities(model, hidden, direction) for direction, hidden in zip(DIRECTIONS, chunk, strict=True)
        )
        # The joint score of the last target, which differs by direction, is not used.
        joint = join_directions(forward, backward, log_prior)
        chosen = ((forward, forward_ids), (backward, backward_ids), (joint, forward_ids))
        columns.append(torch.stack([scores.gather(1, of.to(scores.device)[:, None])[:, 0] for scores, of in chosen]))
    scores = torch.cat(columns, dim=1).cpu().double().numpy()
    ends = np.cumsum([len(words) + 1 for words in sentences])[:-1]
    return [
        SentenceScores(
            words=list(words),
            is_unknown=np.array(sentence_ids, dtype=np.int64) == vocabulary.unk_id,
            forward=part[0, :-1],
            backward=part[1, :-1],
            joint=part[2, :-1],
            forward_end=float(part[0, -1]),
            backward_end=float(part[1, -1]),
        )
        for words, sentence_ids, part in zip(sentences, ids, np.split(scores, ends, axis=1), strict=True)
    ]
