"""Words scored by the language models inside ELMo: probabilities from the left, from the right and from both sides.

Letters in shapes: T words of a sentence, N predictions one after another, P projection, V words of the softmax. All log
probabilities are natural logarithms (nats); surprisal is in bits.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..hub.loading import find_file, load_config, load_model, load_tokenizer, usable_device
from ..model.modeling_elmo import ElmoForPreTraining, distinct_rows
from ..text.spelling import SPELLING_FILE, SpellingModel
from ..text.vocabulary import SPECIAL_WORDS, VOCABULARY_FILE, WordVocabulary, log_uniform_probabilities
from .embedder import ElmoEmbedder, Sentence, runs

# Words whose scores are worked on at a time; and whole distributions, where a softmax gives no less.
_BLOCK = 1024
_DISTRIBUTIONS = 64
Direction = Literal["forward", "backward", "joint"]
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward", "joint")


@dataclass(frozen=True)
class ScoreTotals:
    """Sums over sentences, which can be added, and the perplexities that they give."""

    forward_sum: float = 0.0  # of log p over words and `</S>`, each given its left context
    backward_sum: float = 0.0  # over words and `<S>`, each given its right context
    joint_sum: float = 0.0  # over words, each given both contexts
    num_sentences: int = 0
    num_words: int = 0  # without special tokens
    num_unknown: int = 0  # words that the softmax lacks, whose terms are the probability of `<UNK>`

    def __add__(self, other: ScoreTotals) -> ScoreTotals:
        return ScoreTotals(*map(operator.add, astuple(self), astuple(other)))

    @property
    def num_targets(self) -> int:
        # Each direction also predicts one special token per sentence.
        return self.num_words + self.num_sentences

    @property
    def forward_perplexity(self) -> float:
        return _perplexity(self.forward_sum, self.num_targets)

    @property
    def backward_perplexity(self) -> float:
        return _perplexity(self.backward_sum, self.num_targets)

    @property
    def perplexity(self) -> float:
        """The mean of both directions' perplexities, the figure of the paper and of `hf-elmo pretrain`."""
        return (self.forward_perplexity + self.backward_perplexity) / 2

    @property
    def pseudo_perplexity(self) -> float:
        """exp of the mean -log p of words, each from both sides (Salazar et al. 2020, sec. 2); nan without words."""
        return _perplexity(self.joint_sum, self.num_words)


def _perplexity(log_probability: float, count: int) -> float:
    if not count:
        return math.nan
    loss = -log_probability / count
    return math.inf if loss > 700 else math.exp(loss)


@dataclass(frozen=True)
class SentenceScores:
    """The scores of a sentence of T words, in nats; see `ElmoScorer` for unknown words."""

    words: list[str]  # without special tokens
    is_unknown: np.ndarray  # True for words that the softmax lacks, (T,)
    forward: np.ndarray  # log p(w_t | `<S>`, w_1 ... w_t-1), (T,)
    backward: np.ndarray  # log p(w_t | w_t+1 ... w_T, `</S>`), (T,)
    joint: np.ndarray  # log p(w_t | all other words) by both directions together, (T,)
    forward_end: float  # log p(`</S>` | `<S>`, w_1 ... w_T)
    backward_end: float  # log p(`<S>` | w_1 ... w_T, `</S>`)

    def surprisal(self, direction: Direction = "forward") -> np.ndarray:
        """-log2 p of each word in bits, (T,), given its left context, its right one ("backward") or both ("joint")."""
        return to_bits(getattr(self, direction))

    @property
    def totals(self) -> ScoreTotals:
        return ScoreTotals(
            forward_sum=float(self.forward.sum()) + self.forward_end,
            backward_sum=float(self.backward.sum()) + self.backward_end,
            joint_sum=float(self.joint.sum()),
            num_sentences=1,
            num_words=len(self.words),
            num_unknown=int(self.is_unknown.sum()),
        )


def to_bits(log_probability: Any) -> Any:
    """The surprisal -log2 p of a log probability in nats."""
    return -log_probability / math.log(2)


class Substitute(NamedTuple):
    """A word of the vocabulary at a position of a sentence, with its log p from the left, the right and both sides."""

    word: str
    forward: float
    backward: float
    joint: float


class ElmoScorer:
    """Probabilities of words by the language models of a checkpoint: given the left context, the right one, or both.

    A sentence is a list of words, or a string, which the checkpoint's tokenizer cuts. Words that the softmax lacks are
    read by their characters and scored as `<UNK>`; `SentenceScores.is_unknown` marks them. With `spell_unknown` they
    get their part of it: the probability of `<UNK>` times that of their spelling (`SpellingModel`), which sums to one
    over all strings, so that figures of models with other vocabularies can be compared. Each sentence is read from a
    state of zeros. With `carry_state` the state is carried from sentence to sentence, as in pre-training: the
    perplexities are those of the trainer's evaluation on one lane.

    docs/notebooks.md has examples.

    Args:
        model_name_or_path: A checkpoint with a word softmax, a directory or a name on the Hub.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        spell_unknown: Whether words that the softmax lacks are spelled, by the checkpoint's spelling.npz.
        max_words_per_batch: As of `ElmoEmbedder`.
    Raises: FileNotFoundError or ValueError naming what the checkpoint lacks, the device, or the limit.
    """

    # Predictions that are scored at a time, by blocks of words.
    chunk_size = 1024

    def __init__(
        self,
        model_name_or_path: str,
        device: str | None = None,
        spell_unknown: bool = False,
        max_words_per_batch: int = 2048,
    ):
        self.name, self.device = str(model_name_or_path), usable_device(device)
        config = load_config(self.name)
        if config.word_vocab_size is None:
            raise ValueError(
                f"model_name_or_path {self.name!r} has no word softmax (word_vocab_size in its config.json), so words "
                "have no probability; name a pre-trained checkpoint, or one converted with its softmax_file."
            )
        self.model = load_model(ElmoForPreTraining, self.name).to(self.device).eval()  # type: ignore[arg-type]
        self.vocabulary = WordVocabulary.load(self._find(VOCABULARY_FILE, "the words of its softmax"))
        if config.word_vocab_size != len(self.vocabulary):
            raise ValueError(
                f"{VOCABULARY_FILE} of model_name_or_path {self.name!r} has {len(self.vocabulary)} words, but its "
                f"softmax is over {config.word_vocab_size}; put the one there that was saved with the model."
            )
        self.spelling = None
        if spell_unknown:
            self.spelling = SpellingModel.load(self._find(SPELLING_FILE, "what hf-elmo vocabulary writes beside words"))
        self.tokenizer = load_tokenizer(self.name, config)
        self.embedder = ElmoEmbedder(self.model, tokenizer=self.tokenizer, max_words_per_batch=max_words_per_batch)
        # Zipf's law: the words are sorted by falling frequency.
        ids = torch.arange(len(self.vocabulary))
        self._log_prior = log_uniform_probabilities(ids, len(ids), torch.float64).log()

    def _find(self, name: str, what: str) -> str:
        file = find_file(self.name, name)
        if file is None:
            raise FileNotFoundError(f"model_name_or_path {self.name!r} holds no {name}; put {what} there.")
        return file

    def score_sentence(self, sentence: Sentence) -> SentenceScores:
        """The scores of one sentence, a string or a list of words."""
        (scores,) = self.stream([sentence])
        return scores

    def score_sentences(self, sentences: Iterable[Sentence], carry_state: bool = False) -> list[SentenceScores]:
        """The scores of many sentences, in their order; TypeError names the first entry that is not one."""
        return list(self.stream(sentences, carry_state))

    def surprisals(self, sentence: Sentence, direction: Direction = "forward") -> np.ndarray:
        """The surprisal of each word of a sentence, as of `SentenceScores.surprisal`."""
        return self.score_sentence(sentence).surprisal(direction)

    def totals(self, sentences: Iterable[Sentence], carry_state: bool = False) -> ScoreTotals:
        """The sums over sentences, which give the perplexities."""
        return sum((scores.totals for scores in self.stream(sentences, carry_state)), ScoreTotals())

    def perplexity(self, sentences: Iterable[Sentence], carry_state: bool = False) -> float:
        """The mean of both directions' perplexities; others are in `totals`."""
        return self.totals(sentences, carry_state).perplexity

    @torch.inference_mode()
    def substitutes(self, sentence: Sentence, position: int | str, k: int = 10) -> list[Substitute]:
        """The `k` most probable words at a position of a sentence, given both its sides, without the special ones.

        The position is an index from 0, or a word that occurs once (else ValueError); what stands there is not seen.
        """
        words = self.tokenizer.tokenize(sentence) if isinstance(sentence, str) else list(sentence)
        places = [at for at, word in enumerate(words) if position in (at, word)]
        if len(places) != 1:
            raise ValueError(
                f"position is {position!r}, which the sentence has {len(places)} times; give a word that occurs once, "
                f"or an index from 0 to {len(words) - 1}."
            )
        (top,) = self.embedder.stream([words], "top", keep_special_tokens=True)
        contexts = [context[places] for context in _contexts(top)]
        forward, backward, joint = (scores[0] for scores in self._distributions(*contexts))
        first = len(SPECIAL_WORDS)
        ids = joint[first:].topk(min(k, len(joint) - first)).indices + first
        columns = [scores[ids].tolist() for scores in (forward, backward, joint)]
        names = [self.vocabulary.words[index] for index in ids.tolist()]
        return [Substitute(*row) for row in zip(names, *columns, strict=True)]

    def stream(self, sentences: Iterable[Sentence], carry_state: bool = False) -> Iterator[SentenceScores]:
        """The scores of `score_sentences` one after another, for more sentences than fit into memory."""
        if isinstance(sentences, str):
            raise TypeError("sentences is a string; wanted an iterable of them. For a single one, give a list of it.")
        cut = self.tokenizer.tokenize
        read, kept = itertools.tee(cut(sentence) if isinstance(sentence, str) else sentence for sentence in sentences)
        tops = self.embedder.stream(read, "top", carry_state, keep_special_tokens=True)
        # The vectors first: what is wrong with a sentence is found when it is embedded. Short sentences share a product
        # with the softmax.
        groups = runs(zip(tops, kept, strict=False), lambda pair: len(pair[1]) + 1, self.chunk_size)
        return itertools.chain.from_iterable(map(self._score_group, groups))

    def _score_targets(self, forward: Tensor, backward: Tensor, next_ids: Tensor, previous_ids: Tensor) -> Tensor:
        """log p of N targets from the left, the right and both sides, (3, N), by blocks of words that fit into a cache.

        The last target of a sentence differs by direction; its joint score means nothing.
        """
        ids = (next_ids, previous_ids, next_ids)
        softmaxes = [softmax for softmax in self.model.word_softmaxes if isinstance(softmax, nn.Linear)]
        if not softmaxes:
            return torch.stack(list(map(_at, ids, self._distributions(forward, backward))))
        prior = self._log_prior.to(self.device)
        # Sentences that begin or end alike, as those of minimal pairs, share what is read so far.
        contexts = [distinct_rows(hidden.to(self.device)) for hidden in (forward, backward)]
        found, sums = [], []
        for start in range(0, len(prior), _BLOCK):
            block = slice(start, start + _BLOCK)
            left, right = (
                _logits(self.model, block, softmax, rows).index_select(0, indices)
                for softmax, (rows, indices) in zip(softmaxes, contexts, strict=True)
            )
            parts = (left, right, left + right - prior[block].to(left))
            sums.append(torch.stack([part.logsumexp(dim=-1) for part in parts]))
            found.append(torch.stack([_at(each - start, part) for each, part in zip(ids, parts, strict=True)]))
        return torch.stack(found).sum(dim=0) - torch.stack(sums).logsumexp(dim=0)

    def _distributions(self, *contexts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log p of every word of the softmax from the left, the right and both sides, (N, V) each, by vectors (N, P).

        p(w | left, right) ∝ p(w | left) p(w | right) / p(w), over all words: Bayes' rule where the contexts are
        independent, given the word. p(w) is Zipf's law.
        """
        found = []
        for softmax, context in zip(self.model.word_softmaxes, contexts, strict=True):
            hidden = context.to(self.device, self.model.dtype)
            scores = softmax(hidden) if isinstance(softmax, nn.Linear) else softmax.log_prob(hidden)
            found.append(torch.log_softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)))
        left, right = found
        return left, right, torch.log_softmax(left + right - self._log_prior.to(left), dim=-1)

    @torch.inference_mode()
    def _score_group(self, group: Sequence[tuple[np.ndarray, Sequence[str]]]) -> list[SentenceScores]:
        """The scores of sentences, given as their top layers with special tokens (T + 2, 2P) and their words."""
        tops, sentences = zip(*group, strict=True)
        contexts = [torch.cat(parts) for parts in zip(*map(_contexts, tops), strict=True)]
        read = [list(map(str, self.tokenizer.normalize_words(words))) for words in sentences]
        ids = [self.vocabulary.encode(words) for words in read]
        targets = [
            torch.tensor([target for sentence in ids for target in (*sentence, last)], device=self.device)
            for last in (self.vocabulary.eos_id, self.vocabulary.bos_id)
        ]
        # An adaptive softmax gives whole distributions.
        is_full = isinstance(self.model.word_softmax, nn.Linear)
        rows = self.chunk_size if is_full else min(self.chunk_size, _DISTRIBUTIONS)
        chunks = (tensor.split(rows) for tensor in (*contexts, *targets))
        columns = [self._score_targets(*chunk) for chunk in zip(*chunks, strict=True)]
        found = torch.cat(columns, dim=1).cpu().double().numpy()
        # The special token at each sentence's end is known.
        is_unknown = np.array([number == self.vocabulary.unk_id for numbers in ids for number in (*numbers, -1)])
        if self.spelling is not None:
            words = [word for sentence in read for word in (*sentence, "")]
            unknown = [word for word, is_one in zip(words, is_unknown, strict=True) if is_one]
            found[:, is_unknown] += self.spelling.log_probabilities(unknown)
        ends = np.cumsum([len(words) + 1 for words in sentences])[:-1]
        parts = zip(sentences, np.split(is_unknown, ends), np.split(found, ends, axis=1), strict=True)
        return [
            SentenceScores(list(words), unknown[:-1], *part[:, :-1], *part[:2, -1].tolist())
            for words, unknown, part in parts
        ]


def _at(places: Tensor, scores: Tensor) -> Tensor:
    """The score of each row, (N, W), at a place of its own, (N,); 0 where the place is not among the W."""
    is_there = (places >= 0) & (places < scores.shape[1])
    return scores.gather(1, places.where(is_there, 0)[:, None])[:, 0].where(is_there, 0.0)


def _logits(model: ElmoForPreTraining, block: slice, softmax: nn.Linear, hidden: Tensor) -> Tensor:
    """The scores of some words by vectors (N, P), in float32 or wider."""
    bias = None if softmax.bias is None else softmax.bias[block]
    scores = F.linear(hidden.to(model.device, model.dtype), softmax.weight[block], bias)
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _contexts(top: np.ndarray) -> tuple[Tensor, Tensor]:
    """What each direction predicts a sentence's words and, last, its special token from, (T + 1, P), of (T + 2, 2P)."""
    forward, backward = torch.from_numpy(top).chunk(2, dim=-1)
    return forward[:-1], torch.cat([backward[2:], backward[1:2]])
