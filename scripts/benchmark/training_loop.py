"""How fast the real training loop is beside its model's own forward and backward pass, and how fast rows are made."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from accelerate import Accelerator

from hf_elmo.checkpoints.provenance import describe_run
from hf_elmo.given.flags import flag
from hf_elmo.model.modeling_elmo import ElmoForPreTraining
from hf_elmo.model.tokenization_elmo import ElmoCharTokenizer
from hf_elmo.pretraining.lane_trainer import LaneTrainer
from hf_elmo.pretraining.lanes import LaneFiller, LaneWindow
from hf_elmo.pretraining.objectives import OBJECTIVES, LaneObjective, build_objective
from hf_elmo.pretraining.optimizers import build_optimizer
from hf_elmo.pretraining.recipes import OptimizationArguments
from hf_elmo.pretraining.starting_model import with_softmax
from hf_elmo.text.corpora import Corpus
from hf_elmo.text.vocabulary import WordVocabulary, count_words

from .generated_text import generate_corpus
from .report import render_training_report, write_report
from .sizes import SIZES
from .targets import COLLATOR_WORDS_PER_SECOND, FORWARD_BACKWARD, LOOP, WITH_OPTIMIZER, judge, to_json, training_loop
from .timing import Seconds, median_ratio, summarize, time_interleaved
from .training_text import name_text, open_text, windows_without_end

RESULTS_FILE, REPORT_FILE = "training.json", "training.md"
# The loop scores held-out text before and after, which is no part of a training step: as little as there can be.
_HELD_OUT_WORDS = 1


@dataclass
class TrainingBenchmarkSettings:
    """What to measure; the flags of scripts/benchmark --part training."""

    sizes: list[str] = flag("Models: tiny, small, medium, original.", default_factory=lambda: ["small"])
    objectives: list[str] = flag("Softmaxes: full, sampled, adaptive.", default_factory=lambda: ["full"])
    text_file: str | None = flag("Text, a sentence per line; generated if left out.", default=None)
    num_words: int = flag("Words of the generated text, and most that the collator reads.", default=500_000)
    max_vocab_size: int = flag("Most words of the softmax.", default=20_000)
    num_negative_samples: int = flag("Words that the sampled softmax draws.", default=8192)
    num_lanes: int = flag("Lanes of the loop.", default=32)
    unroll_steps: int = flag("Words of a window.", default=20)
    steps: int = flag("Steps of the loop, and windows of its peers, in a round.", default=40)
    rounds: int | None = flag("Rounds; left out, as many as fit into seconds_per_case, from 5 to 100.", default=None)
    seconds_per_case: float = flag("Seconds that the rounds of a case are to take.", default=120.0)
    threads: int | None = flag("Of torch, in the loop; the collator has one.", default=None)
    output_dir: str = flag("For training.json and training.md.", default="output/benchmark")
    seed: int = flag("Of the weights and the generated text.", default=0)

    def check(self) -> None:
        """Check what can be checked before anything is built.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        for name, valid in (("sizes", tuple(SIZES)), ("objectives", OBJECTIVES)):
            for value in getattr(self, name):
                if value not in valid:
                    raise ValueError(f"--{name} holds {value!r}; wanted one of {', '.join(valid)}.")
        for name in ("num_words", "num_negative_samples", "num_lanes", "unroll_steps", "steps", "rounds", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} is {value}; it must be an integer >= 1.")


@dataclass
class TrainingCase:
    """The loop and its peers over the same windows.

    Args:
        name, size: Of the case.
        num_targets: Words and closing markers of the ready-made windows.
        num_trained: What the loop counted in its last run.
        functions: By name; each trains on all windows.
    """

    name: str
    size: str
    num_targets: int
    num_trained: int = 0
    functions: dict[str, Callable[[], None]] = field(default_factory=dict)

    def check(self) -> None:
        """Raises: ValueError when the loop did not train on the windows of its peers."""
        if self.num_trained != self.num_targets:
            raise ValueError(
                f"the loop trained on {self.num_trained} words and its peers on {self.num_targets}; their times do not "
                "compare. Make the ready-made windows as the loop makes its own."
            )


def run_training_benchmark(settings: TrainingBenchmarkSettings) -> dict[str, Any]:
    """Time the loop and the collator, print the report and write it.

    Returns: What stands in training.json.
    Raises: ValueError or OSError for arguments that cannot be.
    """
    settings.check()
    # Before minutes in which somebody may commit.
    run = describe_run()
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
        run["machine"]["threads"] = settings.threads
    tokenizer, corpus = ElmoCharTokenizer(), open_text(settings)
    counts, _ = count_words(corpus.sentences(tokenizer.tokenize))
    vocabulary = WordVocabulary.from_counts(counts, settings.max_vocab_size)
    collator = time_collator(settings, tokenizer, corpus, vocabulary)
    timings, outcomes = [], []
    for size, name in itertools.product(settings.sizes, settings.objectives):
        print(f"timing the training loop, {size}, {name} softmax ...", flush=True)
        case = build_case(settings, size, name, corpus, tokenizer, vocabulary)
        seconds = time_interleaved(case.functions, settings.rounds, settings.seconds_per_case)
        case.check()
        timings.append(_describe(case, settings, seconds))
        outcomes += judge(case.name, size, settings.num_lanes, seconds)
    results = {
        **run,
        "text": name_text(settings),
        "vocabulary_size": len(vocabulary),
        "settings": {key: value for key, value in asdict(settings).items() if key not in ("text_file", "output_dir")},
        "targets": to_json(outcomes),
        "timings": timings,
        "collator": collator,
    }
    write_report(settings.output_dir, RESULTS_FILE, results, REPORT_FILE, render_training_report(results))
    return results


def build_case(
    settings: TrainingBenchmarkSettings,
    size: str,
    objective_name: str,
    corpus: Corpus,
    tokenizer: ElmoCharTokenizer,
    vocabulary: WordVocabulary,
) -> TrainingCase:
    """The real loop from text to weights, and its model alone over the very windows that the loop makes.

    Args:
        settings: Lanes, words and steps.
        size: A key of `SIZES`.
        objective_name: The softmax.
        corpus, tokenizer, vocabulary: The text.
    """
    torch.manual_seed(settings.seed)
    model = ElmoForPreTraining(with_softmax(SIZES[size](), len(vocabulary), objective_name))
    objective = build_objective(objective_name, model, settings.num_negative_samples, settings.seed).train()
    loop = OptimizationArguments(
        per_device_train_batch_size=settings.num_lanes,
        unroll_steps=settings.unroll_steps,
        max_steps=settings.steps,
        per_device_eval_batch_size=1,
    ).with_recipe()
    filler = LaneFiller(tokenizer, vocabulary, settings.num_lanes, settings.unroll_steps)
    windows = list(itertools.islice(windows_without_end(filler, corpus), settings.steps))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = build_optimizer(loop.optim, [{"params": trained, "lr": loop.learning_rate}], loop.adam_beta2)
    case = TrainingCase(training_loop(objective_name), size, sum(window.num_targets for window in windows))

    def train() -> None:
        trainer = LaneTrainer(
            objective,
            tokenizer,
            vocabulary,
            corpus,
            generate_corpus(_HELD_OUT_WORDS),
            loop,
            Accelerator(cpu=True),
        )
        trainer.train()
        case.num_trained = trainer.num_words

    def step() -> None:
        torch.nn.utils.clip_grad_norm_(trained, loop.max_grad_norm)
        optimizer.step()

    case.functions |= {
        LOOP: train,
        FORWARD_BACKWARD: partial(_run_windows, objective, windows),
        WITH_OPTIMIZER: partial(_run_windows, objective, windows, step),
    }
    return case


def time_collator(
    settings: TrainingBenchmarkSettings, tokenizer: ElmoCharTokenizer, corpus: Corpus, vocabulary: WordVocabulary
) -> dict[str, Any]:
    """Words per second, without markers, made into windows on one core: from words, from lines and from the stream."""
    sentences, num_words = [], 0
    for sentence in corpus.sentences(tokenizer.tokenize):
        sentences.append(sentence)
        num_words += len(sentence)
        if num_words >= settings.num_words:
            break
    lines = [" ".join(sentence) for sentence in sentences]

    def streamed() -> Iterator[list[str]]:
        return itertools.islice(corpus.sentences(tokenizer.tokenize), len(sentences))

    sources = {
        "words to windows": lambda: sentences,
        "lines to windows": lambda: map(tokenizer.tokenize, lines),
        "stream to windows": streamed,
    }
    print("timing the collator ...", flush=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = time_interleaved(
            {name: partial(_collate, settings, vocabulary, source) for name, source in sources.items()},
            settings.rounds,
            settings.seconds_per_case / 6,
        )
    finally:
        torch.set_num_threads(threads)
    functions = summarize(seconds, num_words)
    measured = functions["words to windows"]["words_per_second"]
    return {
        "words": num_words,
        "rounds": len(seconds["words to windows"]),
        "functions": functions,
        "target": COLLATOR_WORDS_PER_SECOND,
        "measured": measured,
        "reached": measured >= COLLATOR_WORDS_PER_SECOND,
    }


def _collate(settings: TrainingBenchmarkSettings, vocabulary: WordVocabulary, source: Callable[[], Any]) -> None:
    # Neither has met a word yet, as at the start of a run.
    filler = LaneFiller(ElmoCharTokenizer(), vocabulary, settings.num_lanes, settings.unroll_steps)
    for _ in filler.windows(source()):
        pass


def _run_windows(objective: LaneObjective, windows: list[LaneWindow], step: Callable[[], None] = lambda: None) -> None:
    """Forward and backward over ready-made windows, the state carried along."""
    objective.train()
    state = None
    for window in windows:
        loss = objective(window, state)
        loss.mean.backward()
        step()
        objective.zero_grad()
        state = loss.state.detach()


def _describe(case: TrainingCase, settings: TrainingBenchmarkSettings, seconds: Seconds) -> dict[str, Any]:
    return {
        "case": case.name,
        "size": case.size,
        "batch_size": settings.num_lanes,
        "words": case.num_targets,
        "rounds": len(seconds[LOOP]),
        "share_of": {name: median_ratio(seconds[name], seconds[LOOP]) for name in (FORWARD_BACKWARD, WITH_OPTIMIZER)},
        "functions": summarize(seconds, case.num_targets),
    }
