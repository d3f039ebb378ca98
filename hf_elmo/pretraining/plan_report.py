"""A plan as Markdown: the tables of one run, and the document of model_cards/scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from ..checkpoints.tables import markdown_table
from ..flags import part_of
from ..model.configuration_elmo import ElmoConfig
from ..text.vocabulary import WordVocabulary
from ..text.word_vectors import set_token_inputs
from . import plan as scale
from .plan import TrainingPlan, plan_config
from .plan_arguments import PAPER_FILES, PAPER_VOCABULARY, PlanArguments
from .recipes import OptimizationArguments
from .run import open_corpora
from .starting_model import Start
from .text_facts import TextFacts, read_training_text

# The paper's run (Peters et al. 2018, sec. 3.4; bilm-tf's page): ten passes, three GPUs, two weeks.
PAPER_WORDS, PAPER_PROCESSES, PAPER_LANES = 768_648_884, 3, 128
PAPER_WORDS_PER_SECOND = 10 * PAPER_WORDS / (14 * 24 * 3600 * PAPER_PROCESSES)
# Names of rows and titles of tables.
_SENDING, _SENDING_ALL = "sending for a step, nothing overlapping", "sending for all steps"
_SHARE, _DAYS = "share of the text that each process reads", "days at {:,.0f} words/s in each process"
_TITLES = {
    "run": "run",
    "parameters": "parameters",
    "memory": "memory of a step in each process",
    "loader": "memory of the loader's tables in each process, at most",
    "operations": "operations per word, forward and backward",
}
_ASSUMED = (
    "Assumed: {words_per_sentence:g} words per sentence where none were counted, {letters_per_word:g} letters per "
    "word; distinct words of a window, and clusters of its targets, by the log-uniform law of the sampler; words that "
    "fill their rows of characters; {link_gigabytes_per_second:g} GB/s of sending; {disk_gigabytes_per_second:g} GB/s "
    "of writing, to which the least --save_steps leaves a hundredth of the time. An entry is a word or a marker of a "
    "lane. What a window keeps is measured with a few words and grows linearly. GB are 10^9 bytes."
)
_DOCUMENT = Path(__file__).with_name("plan_document.md")


def make_plan(arguments: PlanArguments) -> tuple[TrainingPlan, TextFacts]:
    """The sizes that a run with these arguments would have, and its training text.

    A text that is named is read where its figures are not given.

    Raises: ValueError or OSError where the arguments cannot be.
    """
    arguments = arguments.with_recipe()
    arguments.check()
    start = Start.from_arguments(arguments)
    words = start.words if arguments.vocab_file is None else WordVocabulary.load(arguments.vocab_file)
    has_text = arguments.train_file is not None or arguments.dataset_name is not None
    if has_text and (arguments.num_words is None or (words is None and arguments.vocab_size is None)):
        text, words, _ = read_training_text(arguments, open_corpora(arguments), start.tokenizer, words, shown=True)
    else:
        number = arguments.num_words or 10**9
        num_sentences = max(1, round(number / arguments.words_per_sentence))
        text = TextFacts(number, num_sentences, arguments.num_distinct_words or number)
    config = start.config
    if start.source is not None:
        config = ElmoConfig(**{**config.to_dict(), **arguments.overrides})
    elif words is not None:
        options = (arguments.token_inputs, arguments.word_vectors, arguments.word_vector_size)
        is_trained = False if arguments.freeze_word_vectors else None
        set_token_inputs(config, start.tokenizer, words, *options, is_trained, report=lambda line: None)
    elif arguments.token_inputs in ("words", "both"):
        raise ValueError(
            f"--token_inputs {arguments.token_inputs} has a table of words; name --vocab_file or the text."
        )
    vocab_size = arguments.vocab_size or (PAPER_VOCABULARY if words is None else len(words))
    config = plan_config(config, vocab_size, arguments.objective)
    return TrainingPlan(config, part_of(arguments, OptimizationArguments), arguments.num_processes), text


def describe(arguments: PlanArguments) -> dict[str, dict[str, str]]:
    """The figures of one run, by table and row.

    Raises: ValueError or OSError where the arguments cannot be.
    """
    plan, text = make_plan(arguments)
    settings, letters, rate = plan.settings, arguments.letters_per_word, arguments.link_gigabytes_per_second * 1e9
    _, operations = scale.measure_window(plan)
    per_word = {part: count / plan.entries_per_window for part, count in operations.items()}
    steps = settings.count_steps(text.num_entries, text.num_targets, plan.num_processes)
    sent, checkpoint = scale.all_reduce_bytes(plan), scale.checkpoint_bytes(plan)
    files = arguments.num_files or len(open_corpora(arguments)[0].files if arguments.train_file else ()) or PAPER_FILES
    share = scale.share_read(files, plan.num_processes)
    run = {
        "recipe": settings.recipe,
        "objective": settings.objective,
        "words of the softmax": f"{plan.config.word_vocab_size:,}",
        "optimizer": settings.optim,
        "lanes of each process": f"{settings.per_device_train_batch_size:,}",
        "words of a window": f"{settings.unroll_steps:,}",
        "processes": f"{plan.num_processes:,}",
        "entries a step": f"{plan.entries_per_step:,}",
        "words of the text": f"{text.num_words:,}",
        "steps": f"{steps:,}",
        "sent by each process a step": _bytes(sent),
        _SENDING: f"{sent / rate:.3f} s",
        _SENDING_ALL: f"{steps * sent / rate / 3600:.1f} h",
        "tensors of a checkpoint": _bytes(checkpoint),
        "files of the text": f"{files:,}",
        _SHARE: f"{share:.1%}",
        "text that each process reads a pass": _bytes(share * text.num_words * (letters + 1)),
        "disk for counting, at most": _bytes(scale.counting_disk_bytes(text.num_words, text.num_distinct, letters)),
    }
    if (speed := arguments.words_per_second) is not None:
        step = plan.entries_per_step * text.num_words / text.num_entries / (plan.num_processes * speed)
        writing = checkpoint / (arguments.disk_gigabytes_per_second * 1e9)
        run[_DAYS.format(speed)] = f"{steps * step / 86400:.2f}"
        run["least --save_steps"] = f"{math.ceil(100 * writing / step):,}"
    return {
        "run": run,
        "parameters": _with_sum(scale.count_parameters(plan.config), "{:,}".format),
        "memory": _with_sum(scale.step_bytes(plan), _bytes),
        "loader": _with_sum(scale.host_bytes(plan, letters, text.num_distinct), _bytes),
        "operations": _with_sum(per_word, lambda number: f"{number / 1e6:,.0f} million"),
    }


def render_plan(arguments: PlanArguments) -> str:
    """All figures of one run.

    Raises: ValueError or OSError where the arguments cannot be.
    """
    tables = [markdown_table([_TITLES[name], ""], rows.items()) for name, rows in describe(arguments).items()]
    return "\n\n".join([*tables, _ASSUMED.format(**vars(arguments))]) + "\n"


def render_document() -> str:
    """What changes for a billion words on 8 GPUs: model_cards/scale/README.md."""
    arguments = PlanArguments(
        preset="original",
        num_processes=8,
        per_device_train_batch_size=PAPER_LANES,
        words_per_second=PAPER_WORDS_PER_SECOND,
    )
    asked = {name: replace(arguments, objective=name) for name in ("full", "sampled", "adaptive")}
    plain = {name: describe(run) for name, run in asked.items()}
    variants = {"Adagrad": {"optim": "adagrad"}, "bf16": {"bf16": True}}
    varied = {name: [describe(replace(run, **fields)) for run in asked.values()] for name, fields in variants.items()}
    by_count = [describe(replace(asked["sampled"], num_processes=count)) for count in (1, PAPER_PROCESSES, 8)]
    by_files = {
        files: [scale.share_read(files, count) for count in (1, PAPER_PROCESSES, 8)] for files in (PAPER_FILES, 96, 1)
    }
    alone = replace(asked["sampled"], optim="adagrad", num_processes=1)

    def rows(runs: list[dict[str, dict[str, str]]], table: str, names: Iterable[str]) -> list[list[str]]:
        return [[f"{table}, all" if name == "all" else name, *(run[table][name] for run in runs)] for name in names]

    columns = list(plain.values())
    memory = [
        *rows(columns, "parameters", ("word softmax", "all")),
        *rows(columns, "memory", plain["full"]["memory"]),
        *([f"memory, all, {name}", *(run["memory"]["all"] for run in runs)] for name, runs in varied.items()),
        *rows(columns, "operations", ("all",)),
        *rows(columns, "run", ("sent by each process a step", _SENDING, "tensors of a checkpoint")),
    ]
    names = (
        "entries a step",
        "steps",
        "sent by each process a step",
        _SENDING_ALL,
        _DAYS.format(PAPER_WORDS_PER_SECOND),
    )
    processes = [
        *rows(by_count, "run", names),
        *([f"{_SHARE}, {files} files", *(f"{share:.1%}" for share in shares)] for files, shares in by_files.items()),
    ]
    return _DOCUMENT.read_text(encoding="utf-8").format(
        **plain,
        memory_table=markdown_table([f"{PAPER_LANES} lanes, float32, AdamW, 8 processes", *plain], memory),
        process_table=markdown_table(["sampled softmax, processes", "1", f"{PAPER_PROCESSES}", "8"], processes),
        loader_table=markdown_table(["tables of the loader", ""], plain["full"]["loader"].items()),
        alone=describe(alone),
        adagrad=varied["Adagrad"][0],
        paper=by_count[1],
        lanes=PAPER_LANES,
        paper_lanes=PAPER_LANES * PAPER_PROCESSES // 8,
        files=PAPER_FILES,
        assumed=_ASSUMED.format(**vars(arguments)),
    )


def _with_sum(values: dict[str, float], show: Callable[[float], str]) -> dict[str, str]:
    return {name: show(value) for name, value in {**values, "all": sum(values.values())}.items()}


def _bytes(number: float) -> str:
    """In GB from a tenth of one, else in MB; of 10^9 and 10^6 bytes."""
    return f"{number / 1e9:.2f} GB" if number >= 1e8 else f"{number / 1e6:.1f} MB"
