"""What one pass over a training text gives: its size, the words of the softmax and the held-out text; the baselines."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.arguments import check_cutting, cutting_of
from ..text.corpora import Corpus, files_in_both
from ..text.progress import track
from ..text.raw_text import look_at
from ..text.vocabulary import (
    BOS_TOKEN,
    EOS_TOKEN,
    MANY_UNKNOWN,
    MAX_VOCAB_SIZE,
    SPECIAL_WORDS,
    UNK_TOKEN,
    WordCounter,
    WordVocabulary,
)
from .arguments import PretrainingArguments

# Words seen less often are <UNK> in a vocabulary that is built in passing.
MIN_COUNT = 2
# Tried for the bigram's interpolation; the best on the held-out text itself is taken, in the baseline's favor.
CONCENTRATIONS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000)
# Read into arrays together, a few MB of them.
_SENTENCES_AT_A_TIME = 4096
# An order of the vocabulary that costs at most so many nats per word more than that by frequency is accepted.
_HARMLESS_NATS = 0.1
_MORE_TEXTS = "Put one sentence on each line, or name held-out text with --validation_file."


@dataclass
class CorpusStats:
    """The training text in numbers."""

    words: int
    sentences: int
    distinct_words: int
    unknown_share: float  # fraction of the running words that the softmax lacks
    baselines: dict[str, float] | None = None  # of `count_baselines`; None where they were left out
    held_out_files_trained_on: list[str] = field(default_factory=list)  # names of those that are training text too

    @property
    def num_entries(self) -> int:
        """Entries of all lanes in one pass: the words and two special tokens per sentence."""
        return self.words + 2 * self.sentences

    def caveats(self, held_out_unknown: float | None = None) -> Iterator[tuple[str, str]]:
        """What has to be said beside the figures, each with what to do about it; nothing where all is as it should be.

        Args:
            held_out_unknown: Fraction of the held-out words that the softmax lacks; None for that of the baselines.
        """
        for name in self.held_out_files_trained_on:
            yield (
                f"{name} is training text and held-out text: figures measured on it say nothing about other text.",
                "Name other files with --validation_file, or leave it out to have a fraction held out.",
            )
        if held_out_unknown is None and self.baselines is not None:
            held_out_unknown = self.baselines["unknown_rate"]
        fractions = {"training": self.unknown_share, "held-out": held_out_unknown or 0.0}
        many = [f"{part:.0%} of the {text} words" for text, part in fractions.items() if part > MANY_UNKNOWN]
        if many:
            yield (
                f"{' and '.join(many)} are unknown to the softmax and scored as `<UNK>`: with more than "
                f"{MANY_UNKNOWN:.0%}, perplexity means little, and bits per character nothing.",
                "Fewer are, with more words (hf-elmo vocabulary, --max_vocab_size), or where text is cut and "
                "lower-cased as the vocabulary's was (--pre_tokenizer, --do_lower_case).",
            )


def read_corpus(
    arguments: PretrainingArguments,
    train: Corpus,
    held_out: Corpus,
    held_out_file: Path | None,
    folder: Path,
    tokenizer: ElmoCharTokenizer,
    words: WordVocabulary | None,
    report: Callable[[str], None],
) -> tuple[CorpusStats, WordVocabulary, dict[str, int]]:
    """Count the training text in bounded memory, write what it holds out, and measure the baselines in one more pass.

    Args:
        held_out_file: Where the texts go that the training text holds out, which is what `held_out` then reads.
        folder: Where counts go that do not fit into memory.
        words: Words of the softmax; None builds them from the counts.
    Returns: The statistics, the words of the softmax, and how often those that occur do.
    Raises: ValueError when a text holds no words, or the words of --vocab_file were cut otherwise.
    """
    cutting = cutting_of(tokenizer)
    if arguments.vocab_file is not None:
        check_cutting(arguments.vocab_file, cutting)
    can_choose = arguments.model_name_or_path is None
    for warning in look_at(train.lines(), train.name, cutting["pre_tokenizer"], can_choose):
        report(f"warning: {warning}")
    counter = WordCounter(folder)
    with open(held_out_file or os.devnull, "w", encoding="utf-8") as file:
        for sentence in track(train.sentences(tokenizer.tokenize, file), "counting words", "sentences"):
            counter.add(sentence)
    if not counter.num_words:
        raise ValueError(
            f"the training text holds no words{' but those held out' if held_out_file else ''}; check --train_file and "
            f"--text_column. {_MORE_TEXTS}"
        )
    words = words or WordVocabulary.from_counts(counter, MAX_VOCAB_SIZE, MIN_COUNT)
    num_distinct, counts = counter.count_known(words)
    if held_out_file is not None and not held_out_file.stat().st_size:
        raise ValueError(
            f"--validation_split_percentage is {arguments.validation_split_percentage}, which holds out none of so "
            f"short a training text. {_MORE_TEXTS}"
        )
    num_known = sum(counts.values()) - counts.get(UNK_TOKEN, 0)
    unknown_share = 1 - num_known / counter.num_words
    stats = CorpusStats(counter.num_words, counter.num_sentences, num_distinct, unknown_share)
    if arguments.validation_file is not None:
        both = files_in_both(train.files, held_out.files)
        stats.held_out_files_trained_on = [os.path.basename(file) for file in both]
    elif arguments.dataset_name is not None and arguments.validation_split == "train":
        stats.held_out_files_trained_on = [f"split 'train' of {arguments.dataset_name!r}"]
    if not arguments.skip_baselines:
        sentences = track(train.sentences(tokenizer.tokenize), "counting bigrams", "sentences", stats.sentences)
        stats.baselines = baselines = count_baselines(sentences, held_out.sentences(tokenizer.tokenize), words)
        report(
            f"held-out perplexity of the baselines: unigram {baselines['unigram']:,.1f}, "
            f"bigram {baselines['bigram']:,.1f} ({baselines['unknown_rate']:.1%} of the words are unknown)"
        )
    return stats, words, counts


def write_held_out(train: Corpus, held_out_file: Path) -> None:
    """Write what a training text holds out, as `read_corpus` does."""
    with open(held_out_file, "w", encoding="utf-8") as file:
        for _ in track(train.sentences(str.split, file), "finding the held-out text", "sentences"):
            pass


def check_sorted(vocabulary: WordVocabulary, counts: Mapping[str, int]) -> None:
    """Check that words stand by falling frequency, as the log-uniform sampler and the adaptive softmax take them to.

    The sampler costs log(id + 1) nats per word, but for a constant, to describe the text. An order passes when the mean
    of that over the counted words is nearer to the best order's than to the mean of all orders: ties and chance swaps
    among rare words hardly move it.

    Args:
        vocabulary: Words in the order of their ids.
        counts: How often each word was seen; special words are left out.
    Raises: ValueError naming the first word that stands before a more frequent one.
    """
    words = vocabulary.words[len(SPECIAL_WORDS) :]
    seen = torch.tensor([counts.get(word, 0) for word in words], dtype=torch.float64)
    if not seen.any():
        raise ValueError(
            "no word of the vocabulary occurs in the training text; check --vocab_file, and --do_lower_case and "
            "--pre_tokenizer with it."
        )
    nats = torch.arange(len(SPECIAL_WORDS), len(vocabulary), dtype=torch.float64).log1p()
    found, best = (float(each @ nats / seen.sum()) for each in (seen, seen.sort(descending=True).values))
    if found - best > max(_HARMLESS_NATS, (float(nats.mean()) - best) / 2):
        place = int((seen[1:] > seen[:-1]).nonzero()[0])
        raise ValueError(
            f"the vocabulary is not sorted by falling frequency: {words[place]!r} (seen {int(seen[place]):,} times) "
            f"stands before {words[place + 1]!r} ({int(seen[place + 1]):,} times). The log-uniform sampler and the "
            "adaptive softmax take early words for frequent ones: sort the vocabulary file by frequency, leave "
            "--vocab_file out to have one counted, or use --objective full."
        )


def count_baselines(
    train_sentences: Iterable[Sequence[str]],
    held_out_sentences: Iterable[Sequence[str]],
    vocabulary: WordVocabulary,
) -> dict[str, float]:
    """Count the training text and score the held-out text (MacKay and Peto 1995 for the interpolation).

    Only the bigrams that the held-out text asks for are counted: memory is bounded by the held-out text and the
    vocabulary, however long the training text.

    Returns: Held-out perplexities: "unigram" of p(w) = (c(w) + 1) / (N + V), the same in both directions;
        "bigram_forward" of p(w | v) = (c(v w) + k p(w)) / (c(v) + k), v being the word before, "bigram_backward" with v
        the word after, and "bigram", their mean. "unknown_rate" is the fraction of held-out words that the vocabulary
        lacks.
    Raises: ValueError when there is no held-out word to score.
    """
    size = len(vocabulary)
    read = [pairs for _, pairs in _read(held_out_sentences, vocabulary)]
    if not read:
        raise ValueError("held_out_sentences is empty; perplexity needs text to be scored on.")
    asked, times = np.unique(np.concatenate(read), return_counts=True)
    words, found = np.zeros(size, dtype=np.int64), np.zeros(len(asked), dtype=np.int64)
    for ids, pairs in _read(train_sentences, vocabulary):
        words += np.bincount(ids, minlength=size)
        # What each sentence starts from is no target in its direction, and as frequent as the other special token.
        words[vocabulary.bos_id] -= len(ids) - len(pairs)
        places = np.searchsorted(asked, pairs).clip(max=len(asked) - 1)
        found += np.bincount(places[asked[places] == pairs], minlength=len(asked))
    contexts = words.copy()
    contexts[vocabulary.bos_id] = words[vocabulary.eos_id]
    unigram = (contexts + 1) / (words.sum() + size - 1)

    def perplexity(word: np.ndarray, context: np.ndarray, k: float) -> float:
        """Of one entry of each pair given the other one; k -> infinity leaves the unigram."""
        likelihood = (found + k * unigram[word]) / (contexts[context] + k)
        return math.exp(-(times * np.log(likelihood)).sum() / times.sum())

    first, second = np.divmod(asked, size)
    forward = min(perplexity(second, first, k) for k in CONCENTRATIONS)
    backward = min(perplexity(first, second, k) for k in CONCENTRATIONS)
    held_out_words = np.bincount(second, times, minlength=size)
    num_words = held_out_words.sum() - held_out_words[vocabulary.eos_id]
    return {
        "unigram": perplexity(second, first, 1e15),
        "bigram_forward": forward,
        "bigram_backward": backward,
        "bigram": (forward + backward) / 2,
        "unknown_rate": float(held_out_words[vocabulary.unk_id] / max(num_words, 1)),
    }


def _read(sentences: Iterable[Sequence[str]], vocabulary: WordVocabulary) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of many sentences at a time the ids of their words, special tokens at both ends, and a number for each two
    neighbors: the first one's id times the size of the vocabulary, and the second one's."""
    remaining = iter(sentences)
    while taken := list(islice(remaining, _SENTENCES_AT_A_TIME)):
        get, unknown = vocabulary.ids.get, vocabulary.unk_id
        ids = np.array([get(word, unknown) for words in taken for word in (BOS_TOKEN, *words, EOS_TOKEN)], np.int64)
        ends = np.cumsum([len(words) + 2 for words in taken])
        # The entry after a sentence's last one is no neighbor of it.
        yield ids, np.delete(ids[:-1] * len(vocabulary) + ids[1:], ends[:-1] - 1)
