"""Pre-training from its arguments to its checkpoint: the text, the model, the loop, the files."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.tracking import get_available_trackers
from accelerate.utils import InitProcessGroupKwargs, set_seed

from ..hub import PLOT_FILE, RESULTS_FILE
from ..hub.cards import write_card
from ..hub.plots import plot_run
from ..hub.provenance import describe_run, peak_memory_bytes, write_json
from ..hub.writing import check_keeps_inputs
from ..model import write_code
from ..text.arguments import cutting_of
from ..text.corpora import Corpus, corpus_from_file, corpus_from_files
from ..text.spelling import SPELLING_FILE
from ..text.vocabulary import WordVocabulary
from .arguments import OptimizationArguments, PretrainingArguments
from .checkpoint import (
    RunCheckpoints,
    check_same_run,
    describe_run_settings,
    find_checkpoint,
    from_main_process,
    opened_state,
    run_folder,
)
from .corpus_stats import CorpusStats, check_sorted, read_corpus, write_held_out
from .init import build_model, open_start
from .optim import build_schedule
from .train import LaneTrainer, RunClock

# How accelerate is told to spread one model over several processes.
_SHARDINGS = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM")


def run_pretraining(
    arguments: PretrainingArguments,
    accelerator: Accelerator | None = None,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Pre-train a biLM and write its checkpoint.

    Args:
        arguments: What to train on and how.
        accelerator: Devices and processes; None sets one up.
        report: Called with each line for the user, in the main process only.
    Returns: What results.json holds.
    Raises:
        ValueError, FileNotFoundError, FileExistsError: Bad arguments, bad text, an output_dir that another run writes
            to, or a launch that shards the model, before training begins.
        FloatingPointError, OSError: As `LaneTrainer.train`.
        SystemExit: With 130 after Ctrl-C and 143 after SIGTERM in the loop, when a checkpoint is written and a line
            says so; a second signal ends the process at once.
    """
    clock = RunClock(arguments.max_hours)
    arguments = arguments.with_recipe()
    arguments.check()
    # Before hours of training in which somebody may commit.
    run = describe_run()
    build_schedule(arguments, num_steps=100)
    accelerator = accelerator or build_accelerator(arguments)
    report = report if accelerator.is_main_process else lambda line: None
    with ExitStack() as files:
        folder = from_main_process(lambda: files.enter_context(run_folder(arguments.output_dir)))
        checkpoint = from_main_process(lambda: find_checkpoint(arguments, report))

        # The text and its words.
        start = open_start(arguments)
        train, held_out, held_out_file = _open_text(arguments, folder)

        def read_text() -> tuple[CorpusStats, WordVocabulary, dict[str, int] | None]:
            if checkpoint is None:
                words = start.vocabulary if arguments.vocab_file is None else WordVocabulary.load(arguments.vocab_file)
                return read_corpus(arguments, train, held_out, held_out_file, folder, start.tokenizer, words, report)
            if held_out_file is not None:
                write_held_out(train, held_out_file)
            with opened_state(checkpoint) as shared:
                stats = CorpusStats(**shared["corpus"])
            return stats, WordVocabulary.load(checkpoint), None

        stats, words, counts = from_main_process(read_text)
        report(
            f"training text: {stats.words:,} words in {stats.sentences:,} sentences, {stats.distinct_words:,} "
            f"distinct; softmax over {len(words):,} words"
        )
        for caveat, remedy in stats.caveats():
            report(f"warning: {caveat} {remedy}")

        # The model.
        arguments = arguments.settled(len(words), stats.num_entries, accelerator.num_processes)
        lanes, unroll_steps = arguments.per_device_train_batch_size, arguments.unroll_steps
        if stats.num_entries < lanes * unroll_steps * accelerator.num_processes:
            raise ValueError(
                f"--per_device_train_batch_size {lanes} lanes of --unroll_steps {unroll_steps} words in "
                f"{accelerator.num_processes} processes hold more than the {stats.num_entries:,} words of the training "
                "text, special tokens included. Give more text, fewer lanes or fewer processes."
            )
        if counts is not None and arguments.objective != "full":
            check_sorted(words, counts)
        set_seed(arguments.seed)
        model = build_model(start, arguments, words, counts, stats, report)
        model.words = words.words
        report(f"model: {model.num_parameters():,} parameters")

        # What makes a run this one; files may lie elsewhere when it resumes.
        sizes = [[os.path.basename(file), os.path.getsize(file)] for file in (*train.files, *held_out.files)]
        settings = describe_run_settings(
            arguments,
            model.config,
            accelerator,
            # A checkpoint that is trained on brings its own.
            **cutting_of(start.tokenizer),
            **{
                "--vocab_file, by a hash,": hashlib.sha256(repr(words.words).encode()).hexdigest()[:16],
                "--train_file and --validation_file, by name and size,": sizes,
            },
        )
        if checkpoint is not None:
            check_same_run(checkpoint, settings)

        def write_model(directory: Path) -> None:
            model.save_pretrained(directory)
            start.tokenizer.save_pretrained(directory)
            write_code(directory)
            if arguments.vocab_file is not None:
                # The spelling of unknown words, which `hf-elmo vocabulary` writes beside the known ones.
                path = Path(arguments.vocab_file)
                spelling = (path if path.is_dir() else path.parent) / SPELLING_FILE
                if spelling.exists():
                    shutil.copyfile(spelling, directory / SPELLING_FILE)

        checkpoints = RunCheckpoints(
            Path(arguments.output_dir).resolve(),
            folder,
            accelerator,
            write_model,
            {"settings": settings, "corpus": asdict(stats)},
            arguments.save_total_limit,
            overwrite=arguments.overwrite_output_dir and checkpoint is None,
        )

        # The loop.
        # Each process draws its own dropout.
        set_seed(arguments.seed + accelerator.process_index)
        if arguments.shuffle_buffer_size:
            train.records = train.records.shuffle(arguments.seed, buffer_size=arguments.shuffle_buffer_size)
        trainer = LaneTrainer(
            model, start.tokenizer, words, train, held_out, arguments, accelerator, checkpoints, clock, report
        )
        if checkpoint is not None:
            trainer.resume(checkpoint)
            report(f"resuming from {checkpoint}, after {trainer.num_words:,} words")
        if arguments.report_to is not None:
            simple = {name: value for name, value in asdict(arguments).items() if isinstance(value, (int, float, str))}
            accelerator.init_trackers(Path(arguments.output_dir).name, config=simple)
        results = {
            **_train(trainer, stats, report),
            "recipe": arguments.recipe,
            "objective": arguments.objective,
            "baselines": stats.baselines,
            "training_text": {
                name: getattr(stats, name) for name in ("words", "sentences", "distinct_words", "unknown_share")
            },
            "vocabulary_size": len(words),
            "parameters": model.num_parameters(),
            **run,
        }

        # The files.
        if accelerator.is_main_process:
            with checkpoints.opened() as directory:
                write_model(directory)
                write_json(directory / RESULTS_FILE, results)
                try:
                    plot_run(results, directory / PLOT_FILE)
                except ImportError as error:
                    report(f"no plot of the run: {error}")
                write_card(directory, checkpoints.output_dir.name)
            report(
                f"checkpoint: {arguments.output_dir}, step {results['kept_step']:,} of {trainer.step:,}: held-out "
                f"perplexity {results['perplexity']['mean']:,.1f}; the best was step {results['best_step']:,}"
            )
        accelerator.wait_for_everyone()
        # DDP goes before its process group: as the last that holds it, it would wait for gloo's threads with the
        # interpreter locked, and they wait for the interpreter to let go of what they sent.
        del trainer
        accelerator.free_memory()
        accelerator.end_training()
        return results


def _train(trainer: LaneTrainer, stats: CorpusStats, report: Callable[[str], None]) -> dict[str, Any]:
    """Run the loop, and what results.json holds of it."""
    perplexity = trainer.train()
    if not trainer.is_done:
        patience = trainer.arguments.early_stopping_patience
        report(f"stopped at step {trainer.step:,}: none of the last {patience} evaluations was the best")
    zero_state = trainer.evaluate(zero_state=True)
    bits = perplexity.bits_per_character
    report(
        f"held-out perplexity {perplexity.mean:,.1f} with carried states, {zero_state.mean:,.1f} with each sentence "
        "alone; "
        + ("no bits per character: too many words are unknown" if bits is None else f"{bits:.3f} bits per character")
    )
    peak_memory = peak_memory_bytes(trainer.accelerator.device)
    report(f"memory: {peak_memory / 1e9:,.2f} GB at most, in the main process")
    caveats = [caveat for caveat, _ in stats.caveats(perplexity.unknown_share)]
    for caveat in caveats:
        report(f"warning: {caveat}")
    # With --max_hours the steps are known by now.
    arguments = replace(trainer.arguments, max_steps=max(trainer.arguments.max_steps, trainer.step))
    names = (*OptimizationArguments.__dataclass_fields__, "logging_steps", "save_steps", "warmup_ratio")
    return {
        "caveats": caveats,
        "perplexity": asdict(perplexity),
        "perplexity_cold": asdict(zero_state),
        "kept_step": trainer.kept_step,
        "best_step": trainer.best_step,
        "evaluations": trainer.evaluations,
        "words_trained": trainer.num_words,
        "seconds": round(trainer.train_seconds, 1),
        "words_per_second": round(trainer.words_per_second, 1),
        "hours": round(trainer.clock.seconds / 3600, 4),
        "peak_memory_bytes": peak_memory,
        "num_processes": trainer.accelerator.num_processes,
        "settings": {name: getattr(arguments, name) for name in (*names, "max_grad_norm")},
        "resumed_from_steps": trainer.resumed_from_steps,
        "num_legs": len(trainer.resumed_from_steps) + 1,
        "history": trainer.history,
    }


def build_accelerator(arguments: PretrainingArguments) -> Accelerator:
    """The devices and processes that a run's arguments ask for.

    Raises: ImportError when the tracker's package is not there; ValueError when accelerate is to shard the model.
    """
    for variable in _SHARDINGS:
        if os.environ.get(variable, "false").lower() == "true":
            raise ValueError(
                f"{variable} is set, but each process of pre-training holds the whole model; start it with torchrun, "
                "or with accelerate launch without that."
            )
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if not arguments.bf16 and launched not in ("no", "bf16"):
        raise ValueError(
            f"ACCELERATE_MIXED_PRECISION is {launched!r}, which wants scaled gradients; use --bf16, which needs none, "
            "or full precision."
        )
    available = [str(tracker) for tracker in get_available_trackers()]
    if arguments.report_to not in (None, *available):
        raise ImportError(
            f"--report_to is {arguments.report_to!r}, of which no package is installed; those there are: "
            f"{', '.join(available) or 'none'}. For TensorBoard: pip install 'hf_elmo[tracking]'."
        )
    return Accelerator(
        mixed_precision="bf16" if arguments.bf16 else None,
        log_with=arguments.report_to,
        # Beside the output, which is replaced as a whole.
        project_dir=str(Path(arguments.output_dir).parent / "runs"),
        # Without a GPU and without this, accelerate starts as many lone processes as torchrun has ranks.
        cpu=not torch.accelerator.is_available(),
        # The others wait while the main process reads the text.
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(days=1))],
    )


def _open_text(arguments: PretrainingArguments, folder: Path) -> tuple[Corpus, Corpus, Path | None]:
    """The training text, the held-out text, and where a pass over the one writes the other, if it is cut from it."""
    by_document, held_out_file = arguments.reset_state == "document", None
    train = arguments.open_train(by_document)
    if arguments.validation_file is None and (arguments.dataset_name is None or arguments.validation_split is None):
        train.held_out_fraction = arguments.validation_split_percentage / 100
        held_out_file = folder / "held_out.jsonl"
        held_out = corpus_from_file(held_out_file, "--validation_split_percentage")
    elif arguments.validation_file is None:
        held_out = arguments.open_dataset(str(arguments.validation_split))
    else:
        files = arguments.validation_file
        held_out = corpus_from_files(files, "--validation_file", arguments.text_column, by_document)
    inputs = [(corpus.name, file) for corpus in (train, held_out) for file in corpus.files]
    for name in ("vocab_file", "word_vectors", "model_name_or_path"):
        file = getattr(arguments, name)
        if file is not None and os.path.exists(file):
            inputs.append((f"--{name}", file))
    check_keeps_inputs(arguments.output_dir, inputs)
    return train, held_out, held_out_file
