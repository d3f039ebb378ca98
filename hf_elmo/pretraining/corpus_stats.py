"""What one pass over a training text gives: its size, the words of the softmax and the held-out text; the baselines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.arguments import check_cutting, cutting_of
from ..text.corpora import Corpus, files_in_both
from ..text.progress import track
from ..text.raw_text import look_at
from ..text.vocabulary import MANY_UNKNOWN, MAX_VOCAB_SIZE, UNK_TOKEN, WordCounter, WordVocabulary
from .arguments import PretrainingArguments
from .baselines import count_baselines

# Words seen less often are <UNK> in a vocabulary that is built in passing.
MIN_COUNT = 2
_MORE_TEXTS = "Put one sentence on each line, or name held-out text with --validation_file."


@dataclass
class CorpusStats:
    """The training text in numbers.

    Args:
        num_words, num_sentences, num_distinct: Running words, sentences and distinct words.
        unknown_share: Fraction of the running words that the softmax lacks.
        baselines: As of `count_baselines`; None where they were left out.
        held_out_files_trained_on: Names of held-out files that are training text as well.
    """

    num_words: int
    num_sentences: int
    num_distinct: int
    unknown_share: float
    baselines: dict[str, float] | None = None
    held_out_files_trained_on: list[str] = field(default_factory=list)

    @property
    def num_entries(self) -> int:
        """Entries of all lanes in one pass: the words and two special tokens per sentence."""
        return self.num_words + 2 * self.num_sentences

    def results(self) -> dict[str, Any]:
        """What results.json holds of the text."""
        return {
            "baselines": self.baselines,
            "training_text": {
                "words": self.num_words,
                "sentences": self.num_sentences,
                "distinct_words": self.num_distinct,
                "unknown_share": self.unknown_share,
            },
        }

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
        arguments: The run's.
        train, held_out: The whole texts.
        held_out_file: Where the texts go that the training text holds out, which is what `held_out` then reads.
        folder: Where counts go that do not fit into memory.
        tokenizer: Cuts the texts.
        words: Words of the softmax; None builds them from the counts.
        report: Called with each line for the user.
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
    for sentence in _read_apart(train, tokenizer.tokenize, held_out_file, "counting words"):
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
        sentences = track(train.sentences(tokenizer.tokenize), "counting bigrams", "sentences", stats.num_sentences)
        stats.baselines = baselines = count_baselines(sentences, held_out.sentences(tokenizer.tokenize), words)
        report(
            f"held-out perplexity of the baselines: unigram {baselines['unigram']:,.1f}, "
            f"bigram {baselines['bigram']:,.1f} ({baselines['unknown_rate']:.1%} of the words are unknown)"
        )
    return stats, words, counts


def write_held_out(train: Corpus, held_out_file: Path) -> None:
    """Write what a training text holds out, as `read_corpus` does."""
    for _ in _read_apart(train, lambda line: [line], held_out_file, "finding the held-out text"):
        pass


def _read_apart(
    train: Corpus, tokenize: Callable[[str], list[str]], held_out_file: Path | None, description: str
) -> Iterator[list[str]]:
    """The training sentences of one pass, while the texts that are held out go to a file, where one is named."""
    with open(held_out_file or os.devnull, "w", encoding="utf-8") as file:
        yield from track(train.sentences(tokenize, file), description, "sentences")
