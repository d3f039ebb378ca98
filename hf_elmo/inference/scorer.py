"""Scores of words by a pre-trained checkpoint, in two lines of a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch

from ..hub.loading import find_file, load_config, load_model, load_tokenizer
from ..model.modeling_elmo import ElmoForPreTraining
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import VOCABULARY_FILE, WordVocabulary
from .devices import ready_on, usable_device
from .embedder import Sentence, check_sentence
from .scoring import ScoreTotals, SentenceScores, Substitute, best_substitutes, score_sentences

PRIORS = ("zipf", "uniform")


class ElmoScorer:
    """Probabilities of words by the language models of a checkpoint: given the left context, the right one, or both.

    A sentence is a list of words, or a string, which the checkpoint's tokenizer cuts. Words that the softmax lacks are
    read by their characters and scored as `<UNK>`; `SentenceScores.is_unknown` marks them.

    >>> from hf_elmo import ElmoScorer
    >>> scorer = ElmoScorer("output/elmo-tiny-pydoc")
    >>> scores = scorer.score_sentence("the return value of a call")
    >>> scores.words
    ['the', 'return', 'value', 'of', 'a', 'call']
    >>> scores.forward.shape  # log probabilities from the left, in nats; so `backward`, and `joint` from both sides
    (6,)
    >>> scores.forward_surprisal.shape  # the same in bits
    (6,)
    >>> bool((scorer.surprisals("the return value of a call") == scores.forward_surprisal).all())
    True
    >>> scorer.perplexity(["the return value of a call", ["a", "call"]]) > 1
    True
    >>> len(scorer.substitutes("the return value of a call", "value", k=3))
    3

    Args:
        model_name_or_path: A checkpoint with a word softmax, a directory or a name on the Hub.
        vocab_file: Words of the softmax, one per line; None takes those of the checkpoint.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        prior: p(w) of the joint scores: by "zipf"'s law, "uniform", or a frequency for each word, V numbers > 0; see
            `join_directions`.
        max_words_per_batch: Words computed at once, special tokens and padding included.
        chunk_size: Predictions whose distributions over the vocabulary are held at a time.
    Raises: FileNotFoundError or ValueError naming what the checkpoint lacks, the device, or the argument.
    """

    def __init__(
        self,
        model_name_or_path: str,
        vocab_file: str | None = None,
        device: str | None = None,
        prior: Literal["zipf", "uniform"] | Sequence[float] = "zipf",
        max_words_per_batch: int = 2048,
        chunk_size: int = 64,
    ):
        if isinstance(prior, str) and prior not in PRIORS:
            raise ValueError(f"prior is {prior!r}; it must be one of {list(PRIORS)}, or a number for each word.")
        self.name = str(model_name_or_path)
        self.device = usable_device(device)
        model, self.tokenizer, self.vocabulary = load_scoring_checkpoint(self.name, vocab_file)
        self.model = ready_on(model, self.device)
        self._max_words_per_batch, self._chunk_size = max_words_per_batch, chunk_size
        named = {"zipf": None, "uniform": torch.ones(len(self.vocabulary))}
        self._frequencies = named[prior] if isinstance(prior, str) else prior
        # Raises what is wrong with the arguments now.
        self.stream([])

    def __repr__(self) -> str:
        return f"ElmoScorer({self.name!r}, device='{self.device}'): a softmax over {len(self.vocabulary):,} words"

    def score_sentence(self, sentence: Sentence) -> SentenceScores:
        """The scores of one sentence. Raises: TypeError for what is not a sentence."""
        check_sentence(sentence, "score_sentences")
        (scores,) = self.stream([sentence])
        return scores

    def score_sentences(self, sentences: Iterable[Sentence], carry_state: bool = False) -> list[SentenceScores]:
        """The scores of many sentences, in their order.

        Args:
            sentences: Lists of words, or strings: here a string is a sentence, not a word.
            carry_state: Whether the state is carried from sentence to sentence, as in one text.
        Raises: TypeError naming the first entry that is not a sentence.
        """
        return list(self.stream(sentences, carry_state))

    def surprisals(
        self, sentence: Sentence, direction: Literal["forward", "backward", "joint"] = "forward"
    ) -> np.ndarray:
        """-log2 p of each word of a sentence, in bits, (words,).

        Args:
            sentence: A list of words, or a string.
            direction: "forward" predicts each word from its left context, "backward" from its right one, "joint" from
                both.
        Raises: TypeError for what is not a sentence; ValueError for another direction.
        """
        if direction not in ("forward", "backward", "joint"):
            raise ValueError(f"direction is {direction!r}; it must be 'forward', 'backward' or 'joint'.")
        return getattr(self.score_sentence(sentence), f"{direction}_surprisal")

    def totals(self, sentences: Iterable[Sentence], carry_state: bool = False) -> ScoreTotals:
        """The sums over sentences, which give the perplexities; arguments as in `score_sentences`."""
        return sum((scores.totals for scores in self.stream(sentences, carry_state)), ScoreTotals())

    def perplexity(self, sentences: Iterable[Sentence], carry_state: bool = False) -> float:
        """The mean of both directions' perplexities; arguments as in `score_sentences`, others in `totals`."""
        return self.totals(sentences, carry_state).perplexity

    def substitutes(self, sentence: Sentence, position: int | str, k: int = 10) -> list[Substitute]:
        """The most probable words of the vocabulary at a position of a sentence, given both its sides.

        Args:
            sentence: A list of words, or a string.
            position: Index of a word, from 0, or a word that occurs in the sentence once.
            k: Number of substitutes.
        Returns: Substitutes by falling joint probability.
        Raises: TypeError for what is not a sentence; ValueError for a position that it does not have.
        """
        check_sentence(sentence, "score_sentences")
        words = self.tokenizer.tokenize(sentence) if isinstance(sentence, str) else list(sentence)
        if isinstance(position, str):
            if words.count(position) != 1:
                raise ValueError(
                    f"position is {position!r}, which occurs in the sentence {words.count(position)} times; give a "
                    f"word that occurs once, or an index from 0 to {len(words) - 1}."
                )
            position = words.index(position)
        return best_substitutes(
            self.model, self.tokenizer, self.vocabulary, words, position, k, frequencies=self._frequencies
        )

    def stream(self, sentences: Iterable[Sentence], carry_state: bool = False) -> Iterator[SentenceScores]:
        """The scores of `score_sentences` one after another, for more sentences than fit into memory."""
        return score_sentences(
            self.model,
            self.tokenizer,
            self.vocabulary,
            sentences,
            frequencies=self._frequencies,
            carry_state=carry_state,
            max_words_per_batch=self._max_words_per_batch,
            chunk_size=self._chunk_size,
        )


def load_scoring_checkpoint(
    name: str, vocab_file: str | None = None
) -> tuple[ElmoForPreTraining, ElmoCharTokenizer, WordVocabulary]:
    """The model with its softmax, the tokenizer and the vocabulary of a checkpoint; arguments as of `ElmoScorer`.

    Raises: ValueError or FileNotFoundError naming what the checkpoint lacks.
    """
    config = load_config(name)
    if config.word_vocab_size is None:
        raise ValueError(
            f"model_name_or_path {name!r} has no word softmax (word_vocab_size in its config.json), so words have no "
            "probability; name a pre-trained checkpoint, or one converted with its softmax_file."
        )
    model = load_model(ElmoForPreTraining, name)
    words = vocab_file or find_file(name, VOCABULARY_FILE)
    if words is None:
        raise FileNotFoundError(
            f"model_name_or_path {name!r} holds no {VOCABULARY_FILE}, the words of its softmax; name a file of them "
            "by --vocab_file."
        )
    return model, load_tokenizer(name, config), WordVocabulary.load(words)
