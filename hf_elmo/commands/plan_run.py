"""What a run of pre-training takes, as Markdown: of one plan, or of the document in model_cards/scale."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..checkpoints.arguments import PRESETS
from ..checkpoints.tables import markdown_table
from ..model.configuration_elmo import ElmoConfig
from ..pretraining import plan as scale
from ..pretraining.plan import TrainingPlan, plan_config

_OBJECTIVE_NAMES = {"full": "full", "sampled": "sampled, 8,192", "adaptive": "adaptive"}

# The paper's run (Peters et al. 2018, sec. 3.4; bilm-tf's page): three GPUs, the Billion Word Benchmark.
PAPER_WORDS, PAPER_VOCABULARY, PAPER_PROCESSES, PAPER_LANES = 768_648_884, 793_471, 3, 128
PAPER_EPOCHS, PAPER_DAYS = 10, 14
# Files of the benchmark's training text.
PAPER_FILES = 99
PAPER_WORDS_PER_SECOND = PAPER_EPOCHS * PAPER_WORDS / (PAPER_DAYS * 24 * 3600 * PAPER_PROCESSES)
# Share of the time that writing checkpoints may take.
_SHARE_OF_WRITING = 0.01


def _help(text: str, **defaults: Any) -> Any:
    return field(metadata={"help": text}, **defaults)


@dataclass
class PlanArguments:
    """Compute what a run of pre-training takes; the flags of scripts/plan_run.py, named as run_pretraining.py's are."""

    preset: str | None = _help("A published size: small, medium or original (the default).", default=None)
    config_name: str | None = _help("A config.json, or a directory with one, instead.", default=None)
    vocab_size: int = _help("Words of the softmax.", default=PAPER_VOCABULARY)
    objective: str = _help("full, sampled or adaptive.", default="full")
    optim: str = _help("adamw or adagrad.", default="adamw")
    bf16: bool = _help("Whether the factors of matrix products are bfloat16.", default=False)
    num_processes: int = _help("Processes, of a GPU each.", default=8)
    per_device_train_batch_size: int = _help("Lanes of each process.", default=PAPER_LANES)
    unroll_steps: int = _help("Words of a window.", default=20)
    gradient_accumulation_steps: int = _help("Windows to an optimizer step.", default=1)
    num_negative_samples: int = _help("Words that the sampled softmax draws for each direction.", default=8192)
    num_words: int = _help("Words to train on, without markers.", default=1_000_000_000)
    num_distinct_words: int | None = _help(
        "Distinct words of the text; left out, more than are counted in memory.", default=None
    )
    words_per_sentence: float = _help("Assumed of the text.", default=25.0)
    letters_per_word: float = _help("Assumed of the text.", default=5.0)
    num_files: int = _help("Files that the text lies in.", default=PAPER_FILES)
    link_gigabytes_per_second: float = _help("Assumed rate at which a process sends, in 10^9 bytes.", default=10.0)
    disk_gigabytes_per_second: float = _help("Assumed rate of writing, in 10^9 bytes.", default=1.0)
    words_per_second: float | None = _help("Assumed of each process; without it no time is given.", default=None)
    document: bool = _help("Print the document of model_cards/scale instead.", default=False)

    def check(self) -> None:
        """Check what the plan itself does not.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        if self.preset is not None and self.config_name is not None:
            raise ValueError("--preset and --config_name each name the sizes of the model; give one of them.")
        if self.preset not in (None, *PRESETS):
            raise ValueError(f"--preset is {self.preset!r}; it must be one of {', '.join(PRESETS)}.")
        for name in (
            "num_words",
            "num_distinct_words",
            "words_per_sentence",
            "letters_per_word",
            "num_files",
            "link_gigabytes_per_second",
            "disk_gigabytes_per_second",
            "words_per_second",
        ):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"--{name} is {value}; it must be > 0.")

    def build_plan(self) -> TrainingPlan:
        """The sizes of the run.

        Raises: ValueError or OSError where they cannot be.
        """
        self.check()
        if self.config_name is None:
            config = getattr(ElmoConfig, self.preset or "original")()
        elif os.path.exists(self.config_name):
            config = ElmoConfig(**ElmoConfig.get_config_dict(self.config_name)[0])
        else:
            raise FileNotFoundError(f"--config_name {self.config_name!r} does not exist; name a config.json.")
        return TrainingPlan(
            plan_config(config, self.vocab_size, self.objective),
            self.objective,
            self.optim,
            "bf16" if self.bf16 else "no",
            self.per_device_train_batch_size,
            self.unroll_steps,
            self.num_processes,
            self.gradient_accumulation_steps,
            self.num_negative_samples,
            # As run_pretraining.py decides.
            (self.objective, self.optim, self.num_processes) == ("sampled", "adagrad", 1),
        )


def print_plan(arguments: PlanArguments) -> None:
    """Print the tables of a plan, or the document."""
    print(render_document() if arguments.document else render_plan(arguments), end="")


def render_plan(arguments: PlanArguments) -> str:
    """All figures of one run.

    Raises: ValueError or OSError where the arguments cannot be.
    """
    plan = arguments.build_plan()
    distinct = scale.expected_distinct_words(plan.entries_per_window, plan.config.word_vocab_size)
    parameters, memory = scale.count_parameters(plan.config), scale.step_bytes(plan, distinct)
    host = scale.host_bytes(
        plan, arguments.letters_per_word, arguments.words_per_sentence, arguments.num_distinct_words
    )
    operations = scale.operations_per_window(plan, distinct)
    tables = [
        markdown_table(["parameters", ""], [*_rows(parameters, _count), ("**all**", _count(sum(parameters.values())))]),
        markdown_table(
            ["memory of a step in each process", ""],
            [*_rows(memory, _bytes), ("**all**", _bytes(sum(memory.values())))],
        ),
        markdown_table(["memory of the loader in each process, at most", ""], _rows(host, _bytes)),
        markdown_table(
            ["operations of a word, forward and backward", ""],
            [(part, _millions(count / plan.entries_per_window)) for part, count in operations.items()],
        ),
        markdown_table(["run", ""], _run_rows(arguments, plan)),
    ]
    return "\n\n".join([*tables, _assumptions(arguments, distinct)]) + "\n"


def save_steps_for(plan: TrainingPlan, arguments: PlanArguments, words_per_second: float) -> int:
    """The least number of steps between checkpoints at which writing them takes at most a hundredth of the time."""
    writing = scale.checkpoint_bytes(plan) / (arguments.disk_gigabytes_per_second * 1e9)
    words = plan.entries_per_step / (1 + 2 / arguments.words_per_sentence)
    step = scale.seconds_of_training(plan, words, words_per_second)
    return -int(-writing // (_SHARE_OF_WRITING * step))


def render_document() -> str:
    """What changes for a billion words on 8 GPUs: model_cards/scale/README.md."""
    arguments = PlanArguments()
    plans = {
        objective: replace(arguments, objective=objective).build_plan() for objective in ("full", "sampled", "adaptive")
    }
    distinct = scale.expected_distinct_words(plans["full"].entries_per_window, PAPER_VOCABULARY)
    counts = {count: replace(plans["sampled"], num_processes=count) for count in (1, PAPER_PROCESSES, 8)}
    alone = replace(counts[1], optim="adagrad", sparse_gradients=True)
    sent = {objective: _bytes(scale.all_reduce_bytes(plan)) for objective, plan in plans.items()}
    rows_alone = scale.gradient_bytes(alone)
    full, adaptive = plans["full"], plans["adaptive"]
    host = scale.host_bytes(full, arguments.letters_per_word, arguments.words_per_sentence)
    words = replace(arguments, words_per_second=PAPER_WORDS_PER_SECOND)
    save_steps = save_steps_for(plans["sampled"], words, PAPER_WORDS_PER_SECOND)
    written = (
        "# A billion words on 8 GPUs\n\n"
        f"What changes from the paper's 3 processes to 8, for the Original model and a softmax over "
        f"{PAPER_VOCABULARY:,} words. Every figure is computed from sizes by `hf_elmo/pretraining/plan.py`, whose "
        "formulas the tests hold to real models, optimizers, autograd graphs, operation counters and streams; none is "
        "measured on GPUs. `python scripts/plan_run.py --help` computes them for other sizes, "
        "`python scripts/plan_run.py --document` writes this page.",
        "## Memory and one step of each process",
        markdown_table(
            [f"{plans['full'].num_lanes} lanes of 20 words, float32, AdamW, 8 processes", *_OBJECTIVE_NAMES.values()],
            _memory_rows(plans, distinct, arguments),
        ),
        "“Kept” is what the forward pass leaves for the backward pass; “at work” are two arrays of one direction's "
        "logits that the backward pass of the softmax adds. The libraries' own memory is not counted. Bounds are taken "
        "where the text decides: every entry has a target, and words fill their 50 characters.",
        "## Processes",
        markdown_table(["sampled softmax", *(f"{count}" for count in counts)], _process_rows(counts, arguments)),
        f"Days: {arguments.num_words:,} words at {PAPER_WORDS_PER_SECOND:,.0f} words/s in each process, which is the "
        f"paper's speed ({PAPER_EPOCHS} x {PAPER_WORDS:,} words, {PAPER_PROCESSES} GTX 1080, {PAPER_DAYS} days); it is "
        "an assumption, and so is that 8 processes keep it.",
        "## What to choose",
        "\n".join(
            [
                f"- **The softmax.** The full one needs {_bytes(_step_total(full, distinct))} in each process at "
                f"{full.num_lanes} lanes, of which {_bytes(_logit_bytes(full, distinct))} are logits and what belongs "
                f"to them; `--objective sampled` needs {_bytes(_step_total(plans['sampled'], distinct))}, `adaptive` "
                f"{_bytes(_step_total(adaptive, distinct))}. Evaluation by the full softmax is in blocks and needs no "
                "such arrays.",
                f"- **Communication.** The softmax's gradient is dense wherever there is more than one process: "
                f"{_bytes(4 * full.config.word_vocab_size * full.config.projection_size)} of "
                f"{_bytes(scale.gradient_bytes(full))}, so that each process sends {sent['full']} a step, also with "
                f"the sampled softmax, whose gradient has few rows that are not zeros. `--objective adaptive` sends "
                f"{sent['adaptive']}. With one process, `--optim adagrad` and the sampled softmax the gradients are "
                f"sparse and take {_bytes(rows_alone)}; there is no exchange of sparse rows between processes. Where "
                "links are slow, `--gradient_accumulation_steps` k sends once for k windows.",
                f"- **Lanes.** With {full.num_lanes} lanes in each of 8 processes a step has "
                f"{counts[8].entries_per_step:,} entries where the paper's had {counts[3].entries_per_step:,}: fewer "
                f"and larger steps, for which a learning rate has to be found anew. "
                f"`--per_device_train_batch_size {_lanes_of_the_paper(8)}` keeps the paper's step.",
                f"- **Files.** Cut the text into a multiple of the processes, all of like size. The {PAPER_FILES} "
                f"files of the Billion Word Benchmark are one for 3 processes; with 8 every process reads and decodes "
                f"all of the text and keeps each 8th record, with 96 files it reads its own 12.",
                f"- **Counting.** Every process counts all of the text before the first step, in at most "
                f"{_bytes(host['word counts'])}, and again for the baselines (`--skip_baselines`); a run that is "
                "resumed does not. Make the vocabulary once with `scripts/build_vocabulary.py`, and share it.",
                f"- **Checkpoints.** The tensors of one are {_bytes(scale.checkpoint_bytes(plans['sampled']))} with "
                f"AdamW ({_bytes(scale.checkpoint_bytes(replace(plans['sampled'], optim='adagrad')))} with Adagrad, "
                f"{_bytes(scale.checkpoint_bytes(adaptive))} adaptive); `--save_total_limit 2` needs room for three. "
                f"At {arguments.disk_gigabytes_per_second:g} GB/s and the speed above, `--save_steps {save_steps}` is "
                "the least that keeps writing below a hundredth of the time.",
                f"- **Optimizer.** Adagrad keeps one number a weight where AdamW keeps two: "
                f"{_bytes(scale.optimizer_bytes(replace(full, optim='adagrad')))} for "
                f"{_bytes(scale.optimizer_bytes(full))}. `--bf16` makes products faster and hardly anything smaller: "
                "weights, gradients, states and the scan's own numbers stay in float32.",
            ]
        ),
        "## Host memory of each process, at most",
        markdown_table(["of the loader; none of it grows with the text", ""], _rows(host, _bytes)),
        _assumptions(arguments, distinct),
    )
    return "\n\n".join(written) + "\n"


def _memory_rows(plans: dict[str, TrainingPlan], distinct: int, arguments: PlanArguments) -> list[tuple[str, ...]]:
    columns = [scale.step_bytes(plan, distinct) for plan in plans.values()]

    def row(name: str, cells: Sequence[str]) -> tuple[str, ...]:
        return (name, *cells)

    def each(function: Any) -> list[Any]:
        return [function(plan) for plan in plans.values()]

    rows = [
        row("parameters", each(lambda plan: _count(sum(scale.count_parameters(plan.config).values())))),
        row("of them in the softmax", each(lambda plan: _count(scale.count_parameters(plan.config)["word softmax"]))),
        *(row(part, [_bytes(column[part]) for column in columns]) for part in columns[0]),
        row("**all**", [f"**{_bytes(sum(column.values()))}**" for column in columns]),
        row("all, Adagrad", each(lambda plan: _bytes(_step_total(replace(plan, optim="adagrad"), distinct)))),
        row("all, bf16", each(lambda plan: _bytes(_step_total(replace(plan, precision="bf16"), distinct)))),
        row("sent by each process a step", each(lambda plan: _bytes(scale.all_reduce_bytes(plan)))),
        row(
            f"the same at {arguments.link_gigabytes_per_second:g} GB/s, nothing overlapping",
            each(lambda plan: f"{scale.seconds_of_communication(plan, arguments.link_gigabytes_per_second):.2f} s"),
        ),
        row(
            "operations a word, forward and backward",
            each(
                lambda plan: _millions(
                    sum(scale.operations_per_window(plan, distinct).values()) / plan.entries_per_window
                )
            ),
        ),
        row("tensors of a checkpoint", each(lambda plan: _bytes(scale.checkpoint_bytes(plan)))),
    ]
    return rows


def _process_rows(counts: dict[int, TrainingPlan], arguments: PlanArguments) -> list[tuple[str, ...]]:
    words = (arguments.num_words, arguments.words_per_sentence)
    link = arguments.link_gigabytes_per_second
    cells = {
        "entries a step": [f"{plan.entries_per_step:,}" for plan in counts.values()],
        f"steps for {arguments.num_words:,} words": [
            f"{scale.count_steps(plan, *words):,}" for plan in counts.values()
        ],
        "lanes of each process for the paper's step": [f"{_lanes_of_the_paper(count)}" for count in counts],
        "sent by each process a step": [_bytes(scale.all_reduce_bytes(plan)) for plan in counts.values()],
        f"sent by each process, all steps, at {link:g} GB/s": [
            f"{scale.count_steps(plan, *words) * scale.seconds_of_communication(plan, link) / 3600:.1f} h"
            for plan in counts.values()
        ],
        "days of training": [
            f"{scale.seconds_of_training(plan, words[0], PAPER_WORDS_PER_SECOND) / 86400:.1f}"
            for plan in counts.values()
        ],
        **{
            f"share of the text that each reads, {files} files": [
                f"{scale.share_read(files, count):.1%}" for count in counts
            ]
            for files in (PAPER_FILES, 96, 1)
        },
    }
    return [(name, *row) for name, row in cells.items()]


def _run_rows(arguments: PlanArguments, plan: TrainingPlan) -> list[tuple[str, str]]:
    words = (arguments.num_words, arguments.words_per_sentence)
    share = scale.share_read(arguments.num_files, plan.num_processes)
    text = arguments.num_words * (arguments.letters_per_word + 1)
    distinct = arguments.num_distinct_words
    # Words of a text are distinct at most once each.
    disk = scale.counting_disk_bytes(
        arguments.num_words, arguments.num_words if distinct is None else distinct, arguments.letters_per_word
    )
    rows = [
        ("entries a step", f"{plan.entries_per_step:,}"),
        (f"steps for {arguments.num_words:,} words", f"{scale.count_steps(plan, *words):,}"),
        ("sent by each process a step", _bytes(scale.all_reduce_bytes(plan))),
        (
            f"the same at {arguments.link_gigabytes_per_second:g} GB/s, nothing overlapping",
            f"{scale.seconds_of_communication(plan, arguments.link_gigabytes_per_second):.3f} s",
        ),
        ("tensors of a checkpoint", _bytes(scale.checkpoint_bytes(plan))),
        (f"text that each process reads a pass, {arguments.num_files} files", f"{_bytes(share * text)}, {share:.1%}"),
        ("disk for counting words, at most", _bytes(disk)),
    ]
    if arguments.words_per_second is not None:
        seconds = scale.seconds_of_training(plan, arguments.num_words, arguments.words_per_second)
        rows += [
            (f"days at {arguments.words_per_second:,.0f} words/s in each process", f"{seconds / 86400:.2f}"),
            (
                "least --save_steps with writing below a hundredth of the time",
                f"{save_steps_for(plan, arguments, arguments.words_per_second):,}",
            ),
        ]
    return rows


def _assumptions(arguments: PlanArguments, distinct: int) -> str:
    return (
        f"Assumed: {arguments.words_per_sentence:g} words a sentence, {arguments.letters_per_word:g} letters a word; a "
        f"window has {distinct:,} distinct words, and its targets fall into clusters, by the log-uniform law of the "
        f"sampler; {arguments.link_gigabytes_per_second:g} GB/s of sending, {arguments.disk_gigabytes_per_second:g} "
        "GB/s of writing. An entry is a word or a marker of a lane. GB are 10^9 bytes."
    )


def _step_total(plan: TrainingPlan, distinct: int) -> int:
    return sum(scale.step_bytes(plan, distinct).values())


def _logit_bytes(plan: TrainingPlan, distinct: int) -> int:
    return scale.kept_bytes(plan, distinct)["word softmax"] + scale.softmax_working_bytes(plan)


def _lanes_of_the_paper(num_processes: int) -> int:
    """Lanes of each process that together are as many as the paper's."""
    return PAPER_LANES * PAPER_PROCESSES // num_processes


def _rows(values: dict[str, int], show: Any) -> list[tuple[str, str]]:
    return [(name, show(value)) for name, value in values.items()]


def _count(number: int) -> str:
    return f"{number:,}"


def _bytes(number: float) -> str:
    """In GB from a tenth of one, else in MB; of 10^9 and 10^6 bytes."""
    if number >= 1e8:
        return f"{number / 1e9:.2f} GB"
    return f"{number / 1e6:.1f} MB"


def _millions(number: float) -> str:
    return f"{number / 1e6:,.0f} million"
