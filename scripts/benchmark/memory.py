"""Whether counting words and training over a streamed corpus takes memory that grows with the corpus."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import psutil
import torch
from accelerate import Accelerator

from hf_elmo.checkpoints.provenance import describe_run
from hf_elmo.given.flags import flag
from hf_elmo.model.configuration_elmo import ElmoConfig
from hf_elmo.model.modeling_elmo import ElmoForPreTraining
from hf_elmo.model.tokenization_elmo import ElmoCharTokenizer
from hf_elmo.pretraining.lane_trainer import LaneTrainer
from hf_elmo.pretraining.objectives import build_objective
from hf_elmo.pretraining.recipes import OptimizationArguments
from hf_elmo.text.corpora import Corpus
from hf_elmo.text.word_counts import VocabularyCounts, WordCounter, choose_vocabulary

from .generated_text import generate_corpus
from .report import render_memory_report, write_report

RESULTS_FILE, REPORT_FILE = "memory.json", "memory.md"
MEBIBYTE = 2**20
# A byte that stays for each word would show as 24 MiB in the second half of 50 million words.
MOST_GROWTH_MEBIBYTES = 20.0
# Samples at the middle and at the end that are compared, as a share of all: the resident memory goes up and down.
_SHARE_COMPARED = 0.1
_HELD_OUT_WORDS = 500
_HELD_OUT_SEED = 2**31


@dataclass
class MemorySettings:
    """What to read and how; the flags of scripts/benchmark --part memory."""

    num_words: int = flag("Words of the generated corpus; counted once and trained on once.", default=50_000_000)
    num_samples: int = flag("Samples of the resident memory in each phase.", default=200)
    max_words_in_memory: int = flag("Distinct words that are counted in memory.", default=200_000)
    max_vocab_size: int = flag("Words of the softmax.", default=300)
    num_lanes: int = flag("Lanes of the loop.", default=128)
    unroll_steps: int = flag("Words of a window.", default=20)
    logging_steps: int = flag("Steps between entries of the loop's history.", default=50)
    output_dir: str = flag("For memory.json and memory.md.", default="output/benchmark")
    seed: int = flag("Of the weights and the text.", default=0)

    def check(self) -> None:
        """Check what can be checked before anything is read.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        least = {"num_samples": 20, "max_vocab_size": 4}
        for name in (
            "num_words",
            "num_samples",
            "max_words_in_memory",
            "max_vocab_size",
            "num_lanes",
            "unroll_steps",
            "logging_steps",
        ):
            if getattr(self, name) < least.get(name, 1):
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be an integer >= {least.get(name, 1)}.")
        window = self.num_lanes * self.unroll_steps
        if self.num_words < 2 * window:
            raise ValueError(
                f"--num_words is {self.num_words}, but one window takes {window} words (--num_lanes times "
                f"--unroll_steps); give at least {2 * window}."
            )


class MemoryCurve:
    """Samples this process's resident memory each time that so many words have gone by.

    Args:
        every: Words between samples.
        resident_bytes: Reads the memory; None for that of this process.
    """

    def __init__(self, every: int, resident_bytes: Callable[[], int] | None = None):
        self.every = every
        self.num_words = 0
        self.samples: list[tuple[int, float]] = []
        self._resident_bytes = resident_bytes or _resident_bytes

    def count(self, words: int) -> None:
        """Let some words go by."""
        before = self.num_words // self.every
        self.num_words += words
        if self.num_words // self.every > before:
            self.samples.append((self.num_words, self._resident_bytes() / MEBIBYTE))

    def describe(self) -> dict[str, Any]:
        """The samples in MiB, by how much the second half of them grew, and whether that is flat."""
        memory = [resident for _, resident in self.samples]
        growth = growth_of_second_half(memory)
        return {
            "words": self.num_words,
            "highest_mebibytes": round(max(memory), 1),
            "growth_mebibytes": round(growth, 2),
            "growth_share": round(growth / memory[len(memory) // 2], 5),
            "most_growth_mebibytes": MOST_GROWTH_MEBIBYTES,
            "is_flat": growth < MOST_GROWTH_MEBIBYTES,
            "samples": [[words, round(resident, 2)] for words, resident in self.samples],
        }


def growth_of_second_half(memory: Sequence[float]) -> float:
    """The median of the last samples less that of the first ones after the middle.

    Args:
        memory: At even distances; at least two.
    """
    half = memory[len(memory) // 2 :]
    compared = max(1, round(_SHARE_COMPARED * len(memory)))
    return statistics.median(half[-compared:]) - statistics.median(half[:compared])


def _resident_bytes() -> int:
    return psutil.Process().memory_info().rss


@dataclass
class WatchedCorpus(Corpus):
    """A corpus whose words are counted as they are read.

    Args:
        watch: Called with the number of words of each sentence.
    """

    watch: Callable[[int], None] = lambda words: None

    def sentences(self, tokenize: Callable[[str], list[str]]) -> Iterator[list[str]]:
        for words in super().sentences(tokenize):
            self.watch(len(words))
            yield words


def run_memory_benchmark(settings: MemorySettings) -> dict[str, Any]:
    """Count the words of a generated corpus, train on them, print how the memory went and write it.

    Returns: What stands in memory.json.
    Raises: ValueError for arguments that cannot be.
    """
    settings.check()
    run = describe_run()
    corpus, tokenizer = generate_corpus(settings.num_words, settings.seed), ElmoCharTokenizer()
    every = max(1, settings.num_words // settings.num_samples)
    counting, training = MemoryCurve(every), MemoryCurve(every)
    started = time.perf_counter()
    with closing(WordCounter(settings.max_words_in_memory)) as counter:
        for words in _watched(corpus, counting).sentences(tokenizer.tokenize):
            counter.add(words)
        counted = choose_vocabulary(counter, settings.max_vocab_size)
    counting_seconds = time.perf_counter() - started
    started = time.perf_counter()
    trainer = _build_trainer(settings, _watched(corpus, training), tokenizer, counted)
    trainer.train()
    training_seconds = time.perf_counter() - started
    results = {
        **run,
        "settings": {name: value for name, value in asdict(settings).items() if name != "output_dir"},
        "distinct_words": counted.num_distinct,
        "counting": {**counting.describe(), "seconds": round(counting_seconds, 1)},
        "training": {
            **training.describe(),
            "seconds": round(training_seconds, 1),
            "words_trained": trainer.num_words,
            "steps": trainer.settings.max_steps,
        },
    }
    write_report(settings.output_dir, RESULTS_FILE, results, REPORT_FILE, render_memory_report(results))
    return results


def _watched(corpus: Corpus, curve: MemoryCurve) -> WatchedCorpus:
    return WatchedCorpus(**vars(corpus), watch=curve.count)


def _build_trainer(
    settings: MemorySettings, corpus: Corpus, tokenizer: ElmoCharTokenizer, counted: VocabularyCounts
) -> LaneTrainer:
    """The real loop over one pass, around a model so small that the words go by fast."""
    torch.manual_seed(settings.seed)
    config = ElmoConfig(
        character_embedding_size=4,
        filters=[[1, 4], [2, 4]],
        num_highway_layers=0,
        projection_size=4,
        cell_size=8,
        num_hidden_layers=1,
        dropout=0.0,
        word_vocab_size=len(counted.vocabulary),
    )
    # Steps that one pass has words for, so that each word goes by once.
    entries = counted.num_words + 2 * counted.num_sentences
    loop = OptimizationArguments(
        per_device_train_batch_size=settings.num_lanes,
        unroll_steps=settings.unroll_steps,
        max_steps=entries // (settings.num_lanes * settings.unroll_steps),
        logging_steps=settings.logging_steps,
    ).with_recipe()
    return LaneTrainer(
        build_objective("full", ElmoForPreTraining(config)),
        tokenizer,
        counted.vocabulary,
        corpus,
        generate_corpus(_HELD_OUT_WORDS, _HELD_OUT_SEED),
        loop,
        Accelerator(cpu=True),
    )
