"""What is found out about a training text before the first step: its size, the words of the softmax, the baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..model.modeling_elmo import ElmoForPreTraining
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.corpora import Corpus
from ..text.vocabulary import WordVocabulary
from ..text.word_counts import WordCounter, choose_vocabulary
from .arguments import PretrainingArguments
from .baselines import Baselines, count_baselines
from .sampling import check_sorted


@dataclass
class TextFacts:
    """The training text in numbers.

    Args:
        num_words, num_sentences, num_distinct: Running words, sentences and distinct words.
        baselines: Held-out perplexities of count models; None where they were left out.
    """

    num_words: int
    num_sentences: int
    num_distinct: int
    baselines: Baselines | None = None

    @property
    def num_entries(self) -> int:
        """Entries of all lanes in one pass: the words and two markers a sentence."""
        return self.num_words + 2 * self.num_sentences

    @property
    def num_targets(self) -> int:
        """Words to be predicted in one pass: the words and one closing marker a sentence."""
        return self.num_words + self.num_sentences

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TextFacts:
        """What `to_dict` gave."""
        baselines = fields["baselines"]
        return cls(**{**fields, "baselines": None if baselines is None else Baselines(**baselines)})


def read_training_text(
    arguments: PretrainingArguments, corpus: Corpus, tokenizer: ElmoCharTokenizer, words: WordVocabulary | None
) -> tuple[TextFacts, WordVocabulary, dict[str, int]]:
    """Count the training text in bounded memory.

    Args:
        arguments: The run's.
        corpus: The whole training text.
        tokenizer: Cuts it.
        words: Words of the softmax; None builds them from the counts.
    Returns: The facts without baselines, the words of the softmax, and how often those that occur do.
    Raises: ValueError when the text holds no words, or the words stand in no order for the sampled softmax.
    """
    # What does not fit into memory goes beside the output, where there has to be room.
    directory = Path(arguments.output_dir).resolve().parent
    directory.mkdir(parents=True, exist_ok=True)
    counter = WordCounter(arguments.max_words_in_memory, directory)
    with closing(counter):
        for sentence in corpus.sentences(tokenizer.tokenize):
            counter.add(sentence)
        if not counter.num_words:
            raise ValueError("the training text holds no words; check --train_file and --text_column.")
        if words is None:
            words = choose_vocabulary(counter, arguments.max_vocab_size, arguments.min_count).vocabulary
        num_distinct, counts = 0, {}
        for word, count in counter.counts():
            num_distinct += 1
            if word in words:
                counts[word] = count
    if arguments.objective != "full":
        check_sorted(words, counts)
    return TextFacts(counter.num_words, counter.num_sentences, num_distinct), words, counts


def read_baselines(
    facts: TextFacts,
    train_corpus: Corpus,
    held_out_corpus: Corpus,
    tokenizer: ElmoCharTokenizer,
    words: WordVocabulary,
    report: Callable[[str], None],
) -> None:
    """Put the count models' perplexities into the facts: one more pass."""
    texts = (corpus.sentences(tokenizer.tokenize) for corpus in (train_corpus, held_out_corpus))
    facts.baselines = baselines = count_baselines(*texts, words)
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
    for softmax in {id(softmax): softmax for softmax in model.word_softmaxes}.values():
        softmax.bias.copy_(log_frequencies)
