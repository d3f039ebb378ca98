"""Pre-training from its arguments to its checkpoint: the text, the model, the loop, the files."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.tracking import get_available_trackers
from accelerate.utils import set_seed

from ..checkpoints.arguments import HubArguments, SavingArguments
from ..checkpoints.cards import write_card
from ..checkpoints.file_names import CONFIG_FILE, PLOT_FILE, RESULTS_FILE
from ..checkpoints.plots import plot_run
from ..checkpoints.provenance import command_to_resume, describe_run, peak_memory_bytes, write_json
from ..checkpoints.sharing import check_hub_access, push_checkpoint
from ..checkpoints.writing import check_keeps_inputs, folder_aside, moved_into, restore_replaced, written_aside
from ..given.flags import part_of
from ..model.modeling_elmo import ElmoForPreTraining
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.corpora import Corpus, corpus_from_dataset, corpus_from_files, corpus_from_held_out
from ..text.cutting import cutting_of
from ..text.vocabulary import WordVocabulary
from .arguments import ModelArguments, PretrainingArguments
from .digests import has_digests
from .dropouts import set_dropouts
from .evaluation import Perplexity
from .interruption import Interruption, Stopped
from .lane_trainer import LaneTrainer
from .objectives import LaneObjective, build_objective
from .recipes import OptimizationArguments
from .run_directory import STATE_FILE, checkpoints_in, find_checkpoint, find_faults, read_state_file
from .run_state import (
    RunCheckpoints,
    check_fingerprint,
    clear_about_state,
    from_main_process,
    remove_partial_checkpoints,
)
from .schedules import check_schedule
from .starting_model import Start
from .text_facts import (
    TextFacts,
    check_held_out,
    held_out_too,
    look_at_text,
    read_apart,
    read_baselines,
    read_training_text,
)
from .time_budget import RunClock

# Ways to spread one model over several processes, and how accelerate is told of them.
_SHARDINGS = {
    "FSDP": "ACCELERATE_USE_FSDP",
    "DeepSpeed": "ACCELERATE_USE_DEEPSPEED",
    "Megatron-LM": "ACCELERATE_USE_MEGATRON_LM",
}
# Flags that may differ in a resumed run: they change no step that was taken, or the fingerprint has what they name.
_FREE_FLAGS = {
    *(field.name for group in (ModelArguments, SavingArguments, HubArguments) for field in fields(group)),
    *("max_steps", "max_words", "max_hours", "num_train_epochs", "eval_steps", "logging_steps"),
    *("per_device_eval_batch_size", "load_best_model_at_end", "early_stopping_patience"),
    *("skip_baselines", "max_words_in_memory", "vocab_file", "max_vocab_size", "min_count"),
    *("train_file", "validation_file", "dropout", "bf16"),
}


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
        ValueError, FileNotFoundError, FileExistsError: Bad arguments, bad text or a launch that shards the model,
            before training begins.
        FloatingPointError, OSError: As `LaneTrainer.train`.
        SystemExit: With 130 after Ctrl-C and 143 after SIGTERM, when a checkpoint is written and a line says how to go
            on from it; a second signal ends the process at once.
    """
    started = time.time()
    with Interruption() as interruption, ExitStack() as files:
        try:
            return _run(arguments, accelerator, report, interruption, RunClock(), files)
        except Stopped as stopped:
            if int(os.environ.get("RANK", 0)) == 0:
                report(_describe_stop(stopped, arguments, started))
            raise SystemExit(stopped.exit_code) from None


def _run(
    arguments: PretrainingArguments,
    accelerator: Accelerator | None,
    report: Callable[[str], None],
    interruption: Interruption,
    clock: RunClock,
    files: ExitStack,
) -> dict[str, Any]:
    arguments = arguments.with_recipe()
    arguments.check()
    # Before hours of training in which somebody may commit.
    run = describe_run()
    check_schedule(arguments)
    _refuse_sharding()
    accelerator = accelerator or build_accelerator(arguments)
    if not accelerator.is_main_process:
        report = _say_nothing
    checkpoint = from_main_process(lambda: _find_checkpoint(arguments, report), accelerator)
    hub_name = from_main_process(lambda: _find_hub_name(arguments), accelerator)
    start = Start.from_arguments(arguments)
    train = open_train(arguments)
    if accelerator.is_main_process:
        remove_partial_checkpoints(arguments.output_dir)
    held_out_file = None
    if arguments.holds_out:
        folder = from_main_process(lambda: files.enter_context(folder_aside(arguments.output_dir)), accelerator)
        held_out_file = folder / "held_out.jsonl"
    held_out = open_held_out(arguments, held_out_file)
    _check_inputs(arguments, train, held_out)
    facts, words, counts = from_main_process(
        lambda: _read_text(arguments, checkpoint, start, train, held_out, held_out_file, report), accelerator
    )
    arguments = arguments.with_objective(len(words)).with_lanes(facts.num_entries, accelerator.num_processes)
    settings = _settle(arguments, facts, accelerator.num_processes)
    set_seed(arguments.seed)
    model = start.build_model(arguments, words, counts, facts, report)
    set_dropouts(model, settings)
    model.words = words.words
    # The softmax is trained from the start; each layer and the token encoder below it join later.
    if settings.unfreeze_steps * (model.config.num_hidden_layers + 1) >= settings.max_steps >= 0:
        report(f"--unfreeze_steps {settings.unfreeze_steps}: not all layers join in {settings.max_steps} steps")
    report(f"model: {model.num_parameters():,} parameters")
    fingerprint = _fingerprint(arguments, start.tokenizer, words, (train, held_out), accelerator)
    if checkpoint is not None:
        check_fingerprint(checkpoint, fingerprint, model.config)

    def write_model(directory: Path) -> None:
        model.save_pretrained(directory)
        start.tokenizer.save_pretrained(directory)

    checkpoints = RunCheckpoints(
        arguments.output_dir,
        accelerator,
        write_model,
        fingerprint,
        facts.to_dict(),
        arguments.save_total_limit or None,
        overwrite=arguments.overwrite_output_dir and checkpoint is None,
        save_steps=arguments.settled_save_steps(settings.max_steps),
        resumed_from=checkpoint,
    )
    train_corpus = train
    if arguments.shuffle_buffer_size:
        train_corpus = train.shuffled(arguments.seed, arguments.shuffle_buffer_size)
    trainer = LaneTrainer(
        _build_objective(arguments, model, accelerator),
        start.tokenizer,
        words,
        train_corpus,
        held_out,
        settings,
        accelerator,
        on_evaluation=lambda step, perplexity: report(
            _describe_evaluation(step, trainer.settings.max_steps, perplexity)
        ),
        checkpoints=checkpoints,
        interruption=interruption,
        clock=clock,
    )
    if checkpoint is not None:
        trainer.resume(checkpoint)
        report(f"going on from {checkpoint}, after {trainer.num_words:,} words")
    _start_trackers(arguments, accelerator)
    results = {**_train(trainer, facts, report), **_describe_model(arguments, facts, model), **run}
    if accelerator.is_main_process:
        _write_finished(arguments.output_dir, checkpoints, results, hub_name, report)
        report(f"checkpoint: {arguments.output_dir}, {_describe_kept(results)}")
    accelerator.wait_for_everyone()
    accelerator.end_training()
    if hub_name is not None and accelerator.is_main_process:
        # None leaves it to the Hub and to its organisations' own defaults.
        url = push_checkpoint(arguments.output_dir, hub_name, private=arguments.hub_private_repo or None)
        report(f"on the Hub: {url}")
    return results


def _read_text(
    arguments: PretrainingArguments,
    checkpoint: Path | None,
    start: Start,
    train: Corpus,
    held_out: Corpus,
    held_out_file: Path | None,
    report: Callable[[str], None],
) -> tuple[TextFacts, WordVocabulary, dict[str, int] | None]:
    """What the training text holds, the words of the softmax and their counts; a checkpoint has the first two.

    What is held out of the training text is written to `held_out_file` on the way, so that no evaluation reads all of
    the training text.
    """
    counts = None
    if checkpoint is not None:
        with clear_about_state(checkpoint, STATE_FILE):
            facts = TextFacts.from_dict(read_state_file(checkpoint)["facts"])
        words = WordVocabulary.load(checkpoint)
        if held_out_file is not None:
            for _ in read_apart(train, lambda line: [line], held_out_file, "finding the held-out text", True):
                pass
    else:
        given = start.given_words(arguments)
        for warning in look_at_text(arguments, train, start.tokenizer):
            report(f"warning: {warning}")
        facts, words, counts = read_training_text(arguments, train, start.tokenizer, given, held_out_file, shown=True)
        facts.held_out_files_trained_on = held_out_too(arguments, train, held_out)
    if held_out_file is not None:
        check_held_out(arguments, held_out_file)
    report(
        f"training text: {facts.num_words:,} words in {facts.num_sentences:,} sentences, {facts.num_distinct:,} "
        f"distinct; softmax over {len(words):,} words"
    )
    if checkpoint is None and not arguments.skip_baselines:
        read_baselines(facts, train, held_out, start.tokenizer, words, report, shown=True)
    for warning in facts.warnings():
        report(f"warning: {warning}")
    return facts, words, counts


def _build_objective(
    arguments: PretrainingArguments, model: ElmoForPreTraining, accelerator: Accelerator
) -> LaneObjective:
    # Each process draws its own negatives and its own dropout.
    seed = arguments.seed + accelerator.process_index
    options = {}
    if arguments.objective == "sampled":
        options["sparse_gradients"] = arguments.has_sparse_gradients(accelerator.num_processes)
    objective = build_objective(arguments.objective, model, arguments.num_negative_samples, seed, **options)
    set_seed(seed)
    return objective


def _train(trainer: LaneTrainer, facts: TextFacts, report: Callable[[str], None]) -> dict[str, Any]:
    """Run the loop, and what results.json holds of it."""
    perplexity = trainer.train()
    if trainer.step < trainer.settings.max_steps:
        patience = trainer.settings.early_stopping_patience
        report(f"stopped at step {trainer.step:,}: none of the last {patience} evaluations was the best")
    cold = trainer.evaluate(cold=True)
    bits = perplexity.bits_per_character
    report(
        f"held-out perplexity {perplexity.mean:,.1f} with carried states, {cold.mean:,.1f} with each sentence alone; "
        + ("no bits per character: too many words are unknown" if bits is None else f"{bits:.3f} bits per character")
    )
    caveats = facts.caveats(perplexity.unknown_share)
    save_steps = None if trainer.checkpoints is None else trainer.checkpoints.save_steps
    peak_memory = peak_memory_bytes(trainer.accelerator.device)
    if peak_memory is not None:
        report(f"memory: {peak_memory / 1e9:,.2f} GB at most, in the main process")
    for caveat in caveats:
        report(f"warning: {caveat}")
    return {
        "caveats": caveats,
        "perplexity": asdict(perplexity),
        "perplexity_cold": asdict(cold),
        "kept_step": trainer.kept_step,
        "best_step": trainer.best_step,
        "evaluations": trainer.evaluations,
        "words_trained": trainer.num_words,
        "seconds": round(trainer.train_seconds, 1),
        "words_per_second": round(trainer.num_words / trainer.train_seconds, 1),
        "hours": round(trainer.clock.seconds / 3600, 4),
        "peak_memory_bytes": peak_memory,
        "num_processes": trainer.accelerator.num_processes,
        "settings": _record(trainer.settings, save_steps),
        "resumed_from_steps": trainer.resumed_from_steps,
        "num_legs": len(trainer.resumed_from_steps) + 1,
        **({"settled_by_the_clock": trainer.budget.state_dict()["decisions"]} if trainer.budget else {}),
        "history": trainer.history,
    }


def _describe_model(arguments: PretrainingArguments, facts: TextFacts, model: ElmoForPreTraining) -> dict[str, Any]:
    return {
        "recipe": arguments.recipe,
        "objective": arguments.objective,
        **facts.results(),
        "vocabulary_size": model.config.word_vocab_size,
        "parameters": model.num_parameters(),
    }


def _refuse_sharding() -> None:
    """Refuse what accelerate would do with the model, by the variables that its launcher and its plugins set."""
    for name, variable in _SHARDINGS.items():
        if os.environ.get(variable, "false").lower() == "true":
            raise ValueError(
                f"{variable} is set, but pre-training does not work with {name}; start it with torchrun, or with "
                f"accelerate launch without {name}: each process holds the whole model."
            )


def build_accelerator(arguments: PretrainingArguments) -> Accelerator:
    """The devices and processes that a run's arguments ask for.

    Raises: ImportError when the tracker's package is not there.
    """
    if arguments.report_to is not None:
        available = [str(getattr(tracker, "value", tracker)) for tracker in get_available_trackers()]
        if arguments.report_to not in available:
            raise ImportError(
                f"--report_to is {arguments.report_to!r}, of which no package is installed; those there are: "
                f"{', '.join(available) or 'none'}. For TensorBoard: pip install 'hf_elmo[tracking]'."
            )
    return Accelerator(
        gradient_accumulation_steps=arguments.gradient_accumulation_steps,
        mixed_precision="bf16" if arguments.bf16 else None,
        log_with=arguments.report_to,
        project_dir=_logging_directory(arguments),
        # Without a GPU and without this, accelerate starts as many lone processes as torchrun has ranks.
        cpu=not torch.accelerator.is_available(),
    )


def open_train(arguments: PretrainingArguments) -> Corpus:
    """The training text, which holds out a fraction of itself where no held-out text is named."""
    if arguments.dataset_name is not None:
        train = corpus_from_dataset(
            arguments.dataset_name, arguments.dataset_config_name, arguments.train_split, arguments.text_column
        )
    else:
        by_document = arguments.reset_state == "document"
        train = corpus_from_files(arguments.train_file or (), "--train_file", arguments.text_column, by_document)
    return train.holding_out(arguments.validation_split_percentage / 100) if arguments.holds_out else train


def open_held_out(arguments: PretrainingArguments, held_out_file: Path | None) -> Corpus:
    """The held-out text that is named, or what a pass over the training text writes to `held_out_file`."""
    if held_out_file is not None:
        return corpus_from_held_out(held_out_file, "--validation_split_percentage")
    if arguments.validation_file is None and arguments.dataset_name and arguments.validation_split:
        return corpus_from_dataset(
            arguments.dataset_name, arguments.dataset_config_name, arguments.validation_split, arguments.text_column
        )
    by_document = arguments.reset_state == "document"
    return corpus_from_files(arguments.validation_file or (), "--validation_file", arguments.text_column, by_document)


def _check_inputs(arguments: PretrainingArguments, *corpora: Corpus) -> None:
    inputs: list[tuple[str, str | Path]] = [(corpus.name, file) for corpus in corpora for file in corpus.files]
    for name in ("vocab_file", "word_vectors"):
        if getattr(arguments, name) is not None:
            inputs.append((f"--{name}", getattr(arguments, name)))
    if arguments.model_name_or_path is not None and os.path.isdir(arguments.model_name_or_path):
        inputs.append(("--model_name_or_path", Path(arguments.model_name_or_path) / CONFIG_FILE))
    check_keeps_inputs(arguments.output_dir, inputs)


def _settle(arguments: PretrainingArguments, facts: TextFacts, num_processes: int) -> OptimizationArguments:
    """How the loop runs, epochs and words turned into steps."""
    settings = part_of(arguments, OptimizationArguments)
    max_steps = settings.count_steps(facts.num_entries, facts.num_targets, num_processes)
    # What is left out besides follows the number of steps, which the clock settles.
    return replace(settings, max_steps=max_steps) if settings.max_hours else settings.with_steps(max_steps)


def _record(settings: OptimizationArguments, save_steps: int | None) -> dict[str, Any]:
    """The loop's settings by the names that results.json and checkpoints have had for them from the start."""
    same = (
        "unroll_steps",
        "max_steps",
        "gradient_accumulation_steps",
        "optim",
        "learning_rate",
        "muon_learning_rate",
        "weight_decay",
        "ema_decay",
        "adam_beta2",
        "adagrad_initial_accumulator",
        "warmup_steps",
        "lr_scheduler_type",
        "lr_scheduler_kwargs",
        "max_hours",
        "loss_scale",
        "max_grad_norm",
        "layer_learning_rate_decay",
        "input_dropout",
        "layer_dropout",
        "output_dropout",
        "recurrent_dropout",
    )
    return {
        "num_lanes": settings.per_device_train_batch_size,
        **{name: getattr(settings, name) for name in same},
        "group_learning_rates": settings.learning_rates,
        "unfreeze_steps": settings.unfreeze_steps,
        **({"decay_ratio": settings.decay_ratio} if settings.lr_scheduler_type == "warmup_stable_decay" else {}),
        "eval_steps": settings.eval_steps,
        "save_steps": save_steps,
        "logging_steps": settings.logging_steps,
        "eval_num_lanes": settings.per_device_eval_batch_size,
        "reset_state": settings.reset_state,
        "reset_probability": settings.reset_probability,
    }


def _fingerprint(
    arguments: PretrainingArguments,
    tokenizer: ElmoCharTokenizer,
    words: WordVocabulary,
    corpora: Sequence[Corpus],
    accelerator: Accelerator,
) -> dict[str, Any]:
    """What a resumed run must have in common with the one that wrote the checkpoint, beside the config."""
    return {
        **{name: value for name, value in asdict(arguments).items() if name not in _FREE_FLAGS},
        # A checkpoint that is trained on brings its own.
        **cutting_of(tokenizer),
        "words": hashlib.sha256("\n".join(words.words).encode("utf-8", "surrogatepass")).hexdigest()[:16],
        # By name and size: they may lie elsewhere now.
        "text": [[os.path.basename(file), os.path.getsize(file)] for corpus in corpora for file in corpus.files],
        "num_processes": accelerator.num_processes,
        "mixed_precision": accelerator.mixed_precision,
        "ends_by_the_clock": arguments.max_hours is not None,
    }


def _logging_directory(arguments: PretrainingArguments) -> str:
    # Beside the output, which is replaced as a whole.
    return arguments.logging_dir or str(Path(arguments.output_dir).parent / "runs")


def _start_trackers(arguments: PretrainingArguments, accelerator: Accelerator) -> None:
    if arguments.report_to is not None:
        values = {
            name: value for name, value in asdict(arguments).items() if isinstance(value, (bool, int, float, str))
        }
        accelerator.init_trackers(Path(arguments.output_dir).name, config=values)


def _find_hub_name(arguments: PretrainingArguments) -> str | None:
    """The name on the Hub that the checkpoint will have, found out before training; None where it stays at home."""
    if not arguments.push_to_hub:
        return None
    return check_hub_access(arguments.hub_model_id or Path(arguments.output_dir).resolve().name)


def _write_finished(
    output_dir: str,
    checkpoints: RunCheckpoints,
    results: dict[str, Any],
    name: str | None,
    report: Callable[[str], None],
) -> None:
    """Write what makes a directory a checkpoint: weights, config, code, tokenizer, words, figures, plot, card."""
    if checkpoints_in(output_dir) and not checkpoints.overwrite:
        finished = moved_into(output_dir)
    else:
        finished = written_aside(output_dir, checkpoints.overwrite)
    with finished as directory:
        checkpoints.write_model(directory)
        write_json(directory / RESULTS_FILE, results)
        try:
            plot_run(results, directory / PLOT_FILE)
        except ImportError as error:
            report(f"no plot of the run: {error}")
        write_card(directory, name or Path(output_dir).resolve().name)


def _find_checkpoint(arguments: PretrainingArguments, report: Callable[[str], None]) -> Path | None:
    """The checkpoint to resume from; says which newer ones are not whole."""
    restore_replaced(arguments.output_dir)
    checkpoint = arguments.find_checkpoint()
    if arguments.resume_from_checkpoint in ("last", "auto"):
        for path, fault in find_faults(arguments.output_dir).items():
            report(f"stepping over {path}, which is not whole: {fault}")
    if checkpoint is not None and not has_digests(checkpoint):
        report(f"{checkpoint} carries no digests, as those of older versions: its files are taken as they are")
    return checkpoint


def _describe_kept(results: dict[str, Any]) -> str:
    """Whose weights the finished checkpoint has, and how good they are."""
    kept, last = results["kept_step"], results["evaluations"][-1]
    best = next(entry for entry in results["evaluations"] if entry["step"] == results["best_step"])
    line = f"step {kept:,} of {last['step']:,}: held-out perplexity {results['perplexity']['mean']:,.1f}"
    if kept != last["step"]:
        return f"{line}, the best ({last['mean']:,.1f} at the end)"
    if kept != best["step"]:
        return f"{line}, the last; the best was {best['mean']:,.1f} at step {best['step']:,}, of which nothing is kept"
    return line


def _describe_stop(stopped: Stopped, arguments: PretrainingArguments, started: float) -> str:
    """What is there to go on from, and how, on one line."""
    checkpoint = find_checkpoint("auto", arguments.output_dir)
    # Those of a run that was to be replaced are not this one's.
    is_other = arguments.resume_from_checkpoint is None and (
        checkpoint is None or (checkpoint / STATE_FILE).stat().st_mtime < started
    )
    if stopped.step is None and (checkpoint is None or is_other):
        return "stopped; there is no checkpoint of this run as yet."
    done = f"stopped at step {stopped.step:,}" if stopped.step else "stopped"
    return f"{done}; {checkpoint} is there to go on from: {command_to_resume()}"


def _describe_evaluation(step: int, max_steps: int, perplexity: Perplexity) -> str:
    of = f" of {max_steps}" if max_steps >= 0 else ""
    return (
        f"step {step:>{len(str(max_steps))}}{of}: held-out perplexity {perplexity.mean:,.1f} "
        f"(forward {perplexity.forward:,.1f}, backward {perplexity.backward:,.1f})"
    )


def _say_nothing(line: str) -> None:
    """What the other processes report."""
