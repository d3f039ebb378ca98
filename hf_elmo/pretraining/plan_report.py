"""A plan as Markdown: the table of one run, and the document of model_cards/scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..checkpoints.tables import markdown_table
from ..given.flags import part_of
from ..text.vocabulary import SPECIAL_WORDS, WordVocabulary
from .plan import TrainingPlan, counting_disk_bytes, share_read
from .plan_arguments import PlanArguments
from .recipes import OptimizationArguments
from .run import open_train
from .starting_model import Start
from .text_facts import TextFacts, read_training_text

# The Billion Word Benchmark as the paper's run read it (Peters et al. 2018, sec. 3.4; bilm-tf's page): ten passes,
# three GPUs, two weeks.
PAPER_VOCABULARY, PAPER_WORDS, PAPER_FILES = 793_471, 10**9, 99
PAPER_WORDS_PER_SECOND = 10 * 768_648_884 / (14 * 24 * 3600 * 3)


def make_plan(arguments: PlanArguments) -> tuple[TrainingPlan, TextFacts]:
    """The sizes that a run with these arguments would have, and its training text.

    A text that is named is read where its figures are not given.

    Raises: ValueError or OSError where the arguments cannot be.
    """
    arguments = arguments.with_recipe()
    arguments.check()
    start = Start.from_arguments(arguments)
    words, has_text = start.given_words(arguments), arguments.train_file or arguments.dataset_name
    if has_text and (arguments.num_words is None or (words is None and arguments.vocab_size is None)):
        text, words, _ = read_training_text(arguments, open_train(arguments), start.tokenizer, words, shown=True)
    else:
        number = arguments.num_words or PAPER_WORDS
        num_sentences = max(1, round(number / arguments.words_per_sentence))
        text = TextFacts(number, num_sentences, arguments.num_distinct_words or number)
    if words is None and arguments.token_inputs in ("words", "both"):
        raise ValueError(
            f"--token_inputs {arguments.token_inputs} has a table of words; name --vocab_file or the text."
        )
    if words is None or arguments.vocab_size not in (None, len(words)):
        words = _any_words(arguments.vocab_size or PAPER_VOCABULARY)
    arguments = arguments.with_objective(len(words)).with_lanes(text.num_entries, arguments.num_processes)
    config, _ = start.model_config(arguments, words, report=lambda line: None)
    return TrainingPlan(config, part_of(arguments, OptimizationArguments), arguments.num_processes), text


@cache
def _any_words(number: int) -> WordVocabulary:
    """So many words: a plan asks for no more of them."""
    return WordVocabulary([*SPECIAL_WORDS, *map(str, range(number - len(SPECIAL_WORDS)))])


def describe(arguments: PlanArguments) -> dict[str, str]:
    """The figures of one run, by name.

    Raises: ValueError or OSError where the arguments cannot be.
    """
    plan, text = make_plan(arguments)
    settings, memory, rate = plan.settings, plan.step_bytes, arguments.link_gigabytes_per_second * 1e9
    steps = settings.count_steps(text.num_entries, text.num_targets, plan.num_processes)
    files = arguments.num_files or len(open_train(arguments).files if arguments.train_file else ()) or PAPER_FILES
    sizes = (text.num_words, text.num_distinct, arguments.letters_per_word, arguments.max_words_in_memory)
    rows = {
        "recipe": settings.recipe,
        "objective": settings.objective,
        "optimizer": settings.optim,
        "processes": f"{plan.num_processes:,}",
        "lanes of each process": f"{settings.per_device_train_batch_size:,}",
        "words of a window": f"{settings.unroll_steps:,}",
        "words of the softmax": f"{plan.num_words:,}",
        "words of the text": f"{text.num_words:,}",
        "entries per step": f"{plan.entries_per_step:,}",
        "steps": f"{steps:,}",
        **{f"parameters: {part}": f"{number:,}" for part, number in plan.parameters.items()},
        "parameters, all": f"{sum(plan.parameters.values()):,}",
        **{f"memory of a step: {part}": _bytes(number) for part, number in memory.items()},
        "memory of a step, all": _bytes(sum(memory.values())),
        "sent by each process per step": _bytes(plan.all_reduce_bytes),
        "sending per step, nothing overlapping": f"{plan.all_reduce_bytes / rate:.3f} s",
        "sending for all steps": f"{steps * plan.all_reduce_bytes / rate / 3600:.1f} h",
        "tensors of a checkpoint": _bytes(plan.checkpoint_bytes),
        "files of the text": f"{files:,}",
        "share of the text that each process reads": f"{share_read(files, plan.num_processes):.1%}",
        "disk for counting, at most": _bytes(counting_disk_bytes(*sizes)),
    }
    if (speed := arguments.words_per_second) is not None:
        step = plan.entries_per_step * text.num_words / text.num_entries / (plan.num_processes * speed)
        writing = plan.checkpoint_bytes / (arguments.disk_gigabytes_per_second * 1e9)
        rows[f"days at {speed:,.0f} words/s in each process"] = f"{steps * step / 86400:.2f}"
        rows["least --save_steps"] = f"{math.ceil(100 * writing / step):,}"
    return rows


def render_plan(arguments: PlanArguments) -> str:
    """All figures of one run.

    Raises: ValueError or OSError where the arguments cannot be.
    """
    return f"{_table({'': describe(arguments)})}\n\n{_prose('plan_assumed.md', **vars(arguments))}"


def render_document() -> str:
    """What changes for a billion words on 8 GPUs: model_cards/scale/README.md."""
    run = PlanArguments(
        preset="original",
        num_processes=8,
        per_device_train_batch_size=128,
        objective="full",
        num_negative_samples=8192,
        optim="adamw",
        words_per_second=PAPER_WORDS_PER_SECOND,
    )
    columns: dict[str, dict[str, Any]] = {
        "full": {},
        "full, Adagrad": {"optim": "adagrad"},
        "full, bf16": {"bf16": True},
        "adaptive": {"objective": "adaptive"},
        "sampled": {"objective": "sampled"},
        "sampled, 3 processes": {"objective": "sampled", "num_processes": 3},
        "sampled, 1 process, Adagrad": {"objective": "sampled", "num_processes": 1, "optim": "adagrad"},
    }
    table = _table({name: describe(replace(run, **fields)) for name, fields in columns.items()})
    return _prose("plan_document.md", table=table, assumed=_prose("plan_assumed.md", **vars(run)))


def _prose(name: str, **values: object) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").format(**values)


def _table(columns: Mapping[str, Mapping[str, str]]) -> str:
    names = next(iter(columns.values()))
    return markdown_table(["", *columns], [[name, *(rows[name] for rows in columns.values())] for name in names])


def _bytes(number: float) -> str:
    """In GB from a tenth of one, else in MB; of 10^9 and 10^6 bytes."""
    return f"{number / 1e9:.2f} GB" if number >= 1e8 else f"{number / 1e6:.1f} MB"
