"""What is found out about a training text before the first step: its size, the words of the softmax, the baselines."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..checkpoints.writing import folder_aside
from ..model.modeling_elmo import ElmoForPreTraining
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.corpora import Corpus
from ..text.cutting import check_cutting, cutting_of
from ..text.first_look import files_in_both, look_at
from ..text.progress import track
from ..text.vocabulary import MANY_UNKNOWN, UNK_TOKEN, WordVocabulary
from ..text.word_counts import WordCounter, choose_vocabulary
from .arguments import PretrainingArguments
from .baselines import Baselines, count_baselines
from .sampling import check_sorted

_MORE_TEXTS = "Put one sentence on each line, or name held-out text with --validation_file."


@dataclass
class TextFacts:
    """The training text in numbers.

    Args:
        num_words, num_sentences, num_distinct: Running words, sentences and distinct words.
        baselines: Held-out perplexities of count models; None where they were left out.
        unknown_share: Share of the running words that the softmax lacks; None in old checkpoints.
        held_out_files_trained_on: Names of held-out files that are training text as well.
    """

    num_words: int
    num_sentences: int
    num_distinct: int
    baselines: Baselines | None = None
    unknown_share: float | None = None
    held_out_files_trained_on: list[str] = field(default_factory=list)

    @property
    def num_entries(self) -> int:
        """Entries of all lanes in one pass: the words and two markers per sentence."""
        return self.num_words + 2 * self.num_sentences

    @property
    def num_targets(self) -> int:
        """Words to be predicted in one pass: the words and one closing marker per sentence."""
        return self.num_words + self.num_sentences

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TextFacts:
        """What `to_dict` gave."""
        baselines = fields["baselines"]
        return cls(**{**fields, "baselines": None if baselines is None else Baselines(**baselines)})

    def results(self) -> dict[str, Any]:
        """What results.json holds of the text."""
        return {
            "baselines": None if self.baselines is None else asdict(self.baselines),
            "training_text": {
                "words": self.num_words,
                "sentences": self.num_sentences,
                "distinct_words": self.num_distinct,
                "unknown_share": self.unknown_share,
            },
        }

    def caveats(self, held_out_unknown: float | None = None) -> list[str]:
        """What has to be said beside the figures; nothing where all is as it should be.

        Args:
            held_out_unknown: Share of the held-out words that the softmax lacks; None where it is not known.
        """
        return [caveat for caveat, _ in self._caveats_and_remedies(held_out_unknown)]

    def warnings(self) -> list[str]:
        """The caveats that are known before training, each with what to do about it."""
        held_out_unknown = None if self.baselines is None else self.baselines.unknown_rate
        return [f"{caveat} {remedy}" for caveat, remedy in self._caveats_and_remedies(held_out_unknown)]

    def _caveats_and_remedies(self, held_out_unknown: float | None) -> Iterator[tuple[str, str]]:
        for name in self.held_out_files_trained_on:
            yield (
                f"{name} is training text and held-out text: figures measured on it say nothing about other text.",
                "Name other files with --validation_file, or leave it out to have a share held out.",
            )
        shares = {"training": self.unknown_share, "held-out": held_out_unknown}
        many = {text: share for text, share in shares.items() if share is not None and share > MANY_UNKNOWN}
        if many:
            listed = " and ".join(f"{share:.0%} of the {text} words" for text, share in many.items())
            yield (
                f"{listed} are unknown to the softmax and scored as `<UNK>`: with more than {MANY_UNKNOWN:.0%}, "
                "perplexity means little, and bits per character nothing.",
                "Fewer are, with more words (--max_vocab_size, --min_count), or where text is cut and lower-cased "
                "as the vocabulary's was (--pre_tokenizer, --do_lower_case).",
            )


def look_at_text(arguments: PretrainingArguments, train: Corpus, tokenizer: ElmoCharTokenizer) -> Iterator[str]:
    """Warnings, for the user, about what the first lines of the training text tell.

    Raises: ValueError where the words of --vocab_file were cut otherwise than the run cuts its text.
    """
    if arguments.vocab_file is not None:
        check_cutting(arguments.vocab_file, cutting_of(tokenizer))
    can_choose = arguments.model_name_or_path is None
    yield from look_at(train).warnings(train.name, cutting_of(tokenizer)["pre_tokenizer"], can_choose)


def read_training_text(
    arguments: PretrainingArguments,
    train: Corpus,
    tokenizer: ElmoCharTokenizer,
    words: WordVocabulary | None,
    held_out_file: Path | None = None,
    shown: bool = False,
) -> tuple[TextFacts, WordVocabulary, dict[str, int]]:
    """Count the training text in bounded memory.

    Args:
        arguments: The run's.
        train: The whole training text.
        tokenizer: Cuts it.
        words: Words of the softmax; None builds them from the counts.
        held_out_file: Where the texts go that are held out; None drops them.
        shown: Whether stderr shows how far it is.
    Returns: The facts without baselines, the words of the softmax, and how often those that occur do.
    Raises: ValueError when the text holds no words, or the words stand in no order for the sampled softmax.
    """
    # What does not fit into memory goes beside the output, where there has to be room.
    with (
        folder_aside(arguments.output_dir) as folder,
        closing(WordCounter(arguments.max_words_in_memory, folder)) as counter,
    ):
        for sentence in read_apart(train, tokenizer.tokenize, held_out_file, "counting words", shown):
            counter.add(sentence)
        if not counter.num_words:
            raise ValueError(
                f"the training text holds no words{' but those held out' if train.held_out_fraction else ''}; check "
                f"--train_file and --text_column. {_MORE_TEXTS}"
            )
        if words is None:
            words = choose_vocabulary(counter, arguments.max_vocab_size, arguments.min_count).vocabulary
        num_distinct, counts = 0, {}
        for word, count in counter.counts():
            num_distinct += 1
            if word in words:
                counts[word] = count
    if arguments.with_objective(len(words)).objective != "full":
        check_sorted(words, counts)
    num_known = sum(counts.values()) - counts.get(UNK_TOKEN, 0)
    facts = TextFacts(
        counter.num_words,
        counter.num_sentences,
        num_distinct,
        unknown_share=1 - num_known / counter.num_words,
    )
    return facts, words, counts


def read_apart(
    train: Corpus,
    tokenize: Callable[[str], list[str]],
    held_out_file: Path | None,
    description: str,
    shown: bool,
) -> Iterator[list[str]]:
    """The training sentences of one pass, while the texts that are held out go to a file, where one is named."""
    with open(held_out_file or os.devnull, "w", encoding="utf-8") as file:
        yield from track(train.sentences(tokenize, file), description, "sentences", shown=shown)


def held_out_too(arguments: PretrainingArguments, corpus: Corpus, held_out: Corpus) -> list[str]:
    """What of the training text was named as held-out text as well."""
    if arguments.validation_file is not None:
        return [os.path.basename(file) for file in files_in_both(corpus.files, held_out.files)]
    if arguments.dataset_name is not None and arguments.validation_split == arguments.train_split:
        return [f"split {arguments.train_split!r} of {arguments.dataset_name!r}"]
    return []


def check_held_out(arguments: PretrainingArguments, held_out_file: Path) -> None:
    """Check that the pass over the training text has held out any of it.

    Raises: ValueError naming --validation_split_percentage.
    """
    if not held_out_file.stat().st_size:
        raise ValueError(
            f"--validation_split_percentage is {arguments.validation_split_percentage}, which holds out none of so "
            f"short a training text. {_MORE_TEXTS}"
        )


def read_baselines(
    facts: TextFacts,
    train_corpus: Corpus,
    held_out_corpus: Corpus,
    tokenizer: ElmoCharTokenizer,
    words: WordVocabulary,
    report: Callable[[str], None],
    shown: bool = False,
) -> None:
    """Put the count models' perplexities into the facts: one more pass."""
    train, held_out = (corpus.sentences(tokenizer.tokenize) for corpus in (train_corpus, held_out_corpus))
    tracked = track(train, "counting bigrams", "sentences", facts.num_sentences, shown)
    facts.baselines = baselines = count_baselines(tracked, held_out, words)
    report(
        f"held-out perplexity of the baselines: unigram {baselines.unigram:,.1f}, "
        f"bigram {baselines.bigram:,.1f} ({baselines.unknown_rate:.1%} of the words are unknown)"
    )


@torch.no_grad()
def start_from_frequencies(
    model: ElmoForPreTraining, words: WordVocabulary, counts: Mapping[str, int], facts: TextFacts
) -> None:
    """Set the biases of full softmaxes to the words' log frequencies, those of the unigram baseline.

    The first steps then need not learn which words are frequent.

    Args:
        model: With zeros in its biases.
        words: Words of the softmax.
        counts: How often those that occur do.
        facts: Of the text that was counted.
    """
    occurrences = torch.tensor([counts.get(word, 0) for word in words.words], dtype=torch.float64)
    occurrences[words.bos_id] = occurrences[words.eos_id] = facts.num_sentences
    # A word written "<UNK>" and all that the vocabulary lacks.
    occurrences[words.unk_id] = facts.num_words - sum(counts.values()) + counts.get(words.words[words.unk_id], 0)
    log_frequencies = (occurrences + 1).log() - math.log(facts.num_targets + len(words))
    for softmax in {*model.word_softmaxes}:
        if isinstance(softmax, nn.Linear):
            softmax.bias.copy_(log_frequencies)
