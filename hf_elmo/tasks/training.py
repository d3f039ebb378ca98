"""The run of a task: a Trainer for each seed, resumed where it was stopped, and the directory that it writes.

output_dir/
  unfinished/              until the run has gone well
    run.json               the data and the settings of all seeds
    seed-S/checkpoint-N/   what the Trainer saves of a seed
    seed-S/...             the model and the predictions of a seed, and once it is done its results.json
    layers/                the layers of a frozen biLM that are kept for this run alone
    .lock                  held by the run that writes here
  ...                      what is in the folder of the best seed moves here at the end, which replaces all else
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from huggingface_hub.utils import WeakFileLock
from safetensors.torch import load_model
from tqdm.auto import tqdm
from transformers import (
    EarlyStoppingCallback,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from ..given import check_least, flag
from ..hub import RESULTS_FILE, WEIGHTS_FILE
from ..hub.cards import RESULT_PREFIXES, render_scores, write_card
from ..hub.provenance import command_to_resume, describe_run, write_json
from ..hub.writing import check_output_directory, files_written_aside, leftovers_of, written_aside
from ..model.modeling_elmo import IGNORED_LABEL
from ..text.progress import track
from .layer_cache import collate_with_layers, keep_layers
from .readers import AnyExamples

if TYPE_CHECKING:
    from .task import Task

# The flag of transformers that asks for each step, and the split it works on.
STEPS = {"do_train": "train", "do_eval": "validation", "do_predict": "test"}
UNFINISHED = "unfinished"
STATE_FILE = "trainer_state.json"
RUN_FILE = "run.json"
# What results.json keeps of the Trainer's arguments, beside the command.
_SETTINGS = [
    "learning_rate",
    "num_train_epochs",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "weight_decay",
    "max_grad_norm",
    "seed",
    "num_seeds",
]


def _unlike_transformers(default: Any) -> Any:
    """A field of TrainingArguments with another default, which --help leaves out as it does all the others."""
    return flag(argparse.SUPPRESS, default=default)


# Some of transformers' fields have no None, which here stands for what is settled later.
@dataclass
class TaskTrainingArguments(TrainingArguments):
    """The training: defaults that suit a small head on a frozen biLM."""

    output_dir: str = flag("Directory of the model, its scores and its predictions.")
    overwrite_output_dir: bool = flag("Replace what output_dir holds, when the run has gone well.", default=False)
    learning_rate: float | None = flag(  # type: ignore[assignment]
        "Peak learning rate; by default 1e-3, or 1e-4 where a pre-trained biLM is trained too.", default=None
    )
    num_train_epochs: float = flag("Passes over the training data.", default=10.0)
    per_device_train_batch_size: int = flag("Examples per device and training step.", default=32)
    early_stopping_patience: int | None = flag(
        "With load_best_model_at_end: stop after so many evaluations in a row that are not better.", default=None
    )
    num_seeds: int = flag(
        "Trainings, with the seeds from --seed (42) on; the mean and the deviation of the scores are told, and the "
        "model that is best on the validation data is kept.",
        default=1,
    )
    resume_from_checkpoint: str | None = flag(
        "Resume from a checkpoint-N directory, from the `last` one of output_dir or, with `auto`, from that if there "
        "is one.",
        default=None,
    )
    per_device_eval_batch_size: int = _unlike_transformers(32)
    logging_strategy: str = _unlike_transformers("epoch")
    eval_strategy: str = _unlike_transformers("epoch")
    save_strategy: str = _unlike_transformers("no")
    train_sampling_strategy: str = _unlike_transformers("group_by_length")

    def __post_init__(self) -> None:
        # transformers itself turns do_eval on where eval_strategy is set: keep what was really asked for.
        self.steps_asked = [step for step in STEPS if getattr(self, step)]
        self.metric_asked, self.keeps_checkpoints = self.metric_for_best_model is not None, self.save_strategy != "no"
        if self.load_best_model_at_end and not self.keeps_checkpoints:
            self.save_strategy, self.save_total_limit = "best", 1
        super().__post_init__()
        self.resumes_newest = self.resume_from_checkpoint in ("auto", "last")
        self.directory = Path(self.output_dir)


def choose_splits(splits: dict[str, AnyExamples], args: TaskTrainingArguments) -> dict[str, AnyExamples]:
    """The splits that the `do_...` flags ask for, all of them without any; settles those flags and when to evaluate.

    Raises: ValueError naming the flag that asks for what is not there.
    """
    for step in args.steps_asked:
        if STEPS[step] not in splits:
            raise ValueError(
                f"{step} is on, but there is no {STEPS[step]} data; give --{STEPS[step]}_file or a dataset with that "
                "split, or leave the flag out."
            )
    wanted = {STEPS[step] for step in args.steps_asked} or set(splits)
    if "train" in wanted:
        wanted.add("validation")
    chosen = {split: examples for split, examples in splits.items() if split in wanted}
    for step, split in STEPS.items():
        setattr(args, step, split in chosen)
    if not args.do_eval:
        args.eval_strategy = IntervalStrategy.NO
    check_least(args, ["num_seeds", "early_stopping_patience"], 1)
    for name in ("load_best_model_at_end", "early_stopping_patience"):
        if getattr(args, name) and args.eval_strategy == IntervalStrategy.NO:
            raise ValueError(
                f"{name} is set, but nothing is evaluated in training; give --validation_file or --validation_fraction "
                "and no --eval_strategy, or leave it out."
            )
    if args.num_seeds > 1 and args.resume_from_checkpoint is not None and not args.resumes_newest:
        raise ValueError(
            f"num_seeds is {args.num_seeds}, but resume_from_checkpoint names one run; 'auto' resumes the seeds of "
            "output_dir."
        )
    return chosen


def check_run_directory(args: TaskTrainingArguments) -> None:
    """Check, before any work is done, that a run can write to its output_dir, or resume what is there.

    Raises: FileExistsError where it holds something else; FileNotFoundError where there is nothing to resume.
    """
    path, is_stopped = args.directory, _can_resume(args.directory / UNFINISHED)
    if args.resume_from_checkpoint == "last" and not is_stopped:
        raise FileNotFoundError(
            f"resume_from_checkpoint is 'last', but output_dir {str(path)!r} holds nothing of a run that was stopped; "
            "pass 'auto' to start where there is nothing."
        )
    if is_stopped and not (args.resumes_newest or args.overwrite_output_dir):
        raise FileExistsError(
            f"output_dir {str(path)!r} holds a run that was stopped; resume it with --resume_from_checkpoint auto, "
            "name another one, or pass --overwrite_output_dir to replace it."
        )
    is_empty = path.is_dir() and all(entry.name == UNFINISHED or entry.name[0] == "." for entry in path.iterdir())
    check_output_directory(path, args.overwrite_output_dir or is_empty)


def run(task: Task) -> dict[str, Any]:
    args = task.training_args
    facts: dict[str, Any] = {
        "model": task.description,
        "task": task.name,
        "unseen_labels": [*task.unseen_labels],
        "data": task.data,
        "settings": {name: getattr(args, name) for name in _SETTINGS},
        "card": asdict(task.describe_card()),
    }
    results = {**facts, **describe_run()}
    task.say(f"Model: {task.description}")
    encoded = {split: task.encode(split) for split in task.splits}
    runs: dict[int, dict[str, Any]] = {}
    with _unfinished(args, facts) as path:
        for number in range(args.num_seeds):
            seed = args.seed + number
            folder = path / f"seed-{seed}"
            done = json.loads((folder / RESULTS_FILE).read_text(encoding="utf-8")) if _is_done(folder) else None
            if args.num_seeds > 1:
                task.say(f"\nSeed {seed}, {number + 1} of {args.num_seeds}" + (" was done before." if done else ":"))
            if done is None:
                if number:
                    set_seed(seed)
                    task.model, _ = task.build_model()
                done = {**facts, **_run_seed(task, encoded, folder, seed)}
                if args.process_index == 0:
                    with files_written_aside(folder / RESULTS_FILE) as (aside,):
                        write_json(aside, done)
            runs[seed] = done
            PartialState().wait_for_everyone()
        best = best_of(runs, cast("str", args.metric_for_best_model), cast("bool", args.greater_is_better))
        results.update(runs[best])
        if args.num_seeds > 1:
            results.update({"kept_seed": best, **_summarize(runs, [*task.scores, "loss"])})
        task.say(f"\n{render_scores(results)}")
        if args.process_index == 0:
            folder = path / f"seed-{best}"
            write_json(folder / RESULTS_FILE, results)
            if "train" in task.splits:
                write_card(folder, args.directory.resolve().name)
            _keep(folder, args)
    task.say(f"\nWritten to {args.directory}.")
    return results


def best_of(runs: Mapping[int, Mapping[str, Any]], score: str, greater_is_better: bool) -> int:
    """The seed of the results with the best validation score; the first where they have none, or the same one."""
    key, sign = f"eval_{score.removeprefix('eval_')}", 1 if greater_is_better else -1
    return max(runs, key=lambda seed: sign * runs[seed].get(key, 0.0))


def _summarize(runs: Mapping[int, Mapping[str, Any]], scores: Sequence[str]) -> dict[str, Any]:
    """Of several seeds a row for each, and the mean and the deviation, of a sample, of each score on each split."""
    names = [f"{prefix}_{score}" for prefix in RESULT_PREFIXES.values() for score in scores]
    values = {name: [run[name] for run in runs.values() if name in run] for name in names}
    kept = {*names, "train_loss", "kept_step", "layer_shares"}
    return {
        "seeds": [{"seed": seed, **{key: run[key] for key in run if key in kept}} for seed, run in runs.items()],
        "mean": {name: statistics.fmean(numbers) for name, numbers in values.items() if numbers},
        "deviation": {name: statistics.stdev(numbers) for name, numbers in values.items() if numbers},
    }


class _Trainer(Trainer):
    """Keeps from the model what only scores want: the number of a row, and labels that the model does not know.

    These stand for labels behind its own: they are left out of the loss.
    """

    num_labels = math.inf

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        own = {name: value for name, value in inputs.items() if name != "row"}
        if self.num_labels == math.inf:
            return super().compute_loss(model, own, *args, **kwargs)
        own["labels"] = own["labels"].masked_fill(own["labels"] >= self.num_labels, IGNORED_LABEL)
        found = super().compute_loss(model, own, *args, **kwargs)
        # A mean over none of the batch.
        return (found[0].nan_to_num(), *found[1:]) if isinstance(found, tuple) else found


def _run_seed(task: Task, datasets: Mapping[str, Any], folder: Path, seed: int) -> dict[str, Any]:
    """Train, evaluate and predict once, and write the model and the predictions; the results."""
    layers = {}
    if task.model.uses_elmo and task.model.config.freeze_bilm:
        sentences = itertools.chain.from_iterable(map(task.sentences, datasets.values()))
        directory = task.model_args.layer_cache_dir or folder.parent / "layers"
        model = task.model.to(task.training_args.device)
        layers = keep_layers(model, sentences, directory, partial(print, flush=True))

    def score(output: Any) -> dict[str, float]:
        results, _ = task.report("validation", output)
        return {name: value for name, value in results.items() if isinstance(value, float)}

    args = copy.copy(task.training_args)
    args.output_dir, args.seed, args.restore_callback_states_from_checkpoint = str(folder), seed, True
    trainer = _Trainer(
        model=task.model,
        args=args,
        data_collator=collate_with_layers(task.collate, layers),
        train_dataset=datasets.get("train"),
        eval_dataset=datasets.get("validation"),
        processing_class=task.tokenizer,
        compute_metrics=score,
        preprocess_logits_for_metrics=task.keep,
        callbacks=[ExactResume(), Lines(task.scores)],
    )
    if task.unseen_labels:
        trainer.num_labels = len(task.labels)
    if args.early_stopping_patience is not None:
        trainer.add_callback(EarlyStoppingCallback(args.early_stopping_patience))
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    results: dict[str, Any] = {}
    if "train" in task.splits:
        named = Path(args.resume_from_checkpoint) if args.resume_from_checkpoint else None
        results = _train(trainer, newest_checkpoint(folder) if args.resumes_newest else named)
        if args.load_best_model_at_end and trainer.state.best_metric is not None:
            results["kept_step"] = trainer.state.best_global_step
        shares = task.model.layer_shares() if task.model.uses_elmo else []
        results["layer_shares"] = shares[: task.model.num_read_mixes]
        trainer.save_model(str(folder))
        if not args.keeps_checkpoints:
            trainer.state.best_model_checkpoint = None
        if trainer.is_world_process_zero():
            trainer.state.save_to_json(str(folder / STATE_FILE))
    # The Trainer groups what is predicted by length too: out of its order.
    args.train_sampling_strategy, trainer.compute_metrics = "random", None
    folder.mkdir(exist_ok=True)
    for split, prefix in RESULT_PREFIXES.items():
        if split in task.splits:
            output = trainer.predict(datasets[split], metric_key_prefix=prefix)
            found, files = task.report(split, output)
            results |= {**(output.metrics or {}), **{f"{prefix}_{name}": value for name, value in found.items()}}
            if trainer.is_world_process_zero():
                for suffix, lines in files.items():
                    with open(folder / f"{split}_predictions{suffix}", "w", encoding="utf-8", newline="\n") as file:
                        file.writelines(f"{line}\n" for line in lines)
    return results


def _train(trainer: Trainer, checkpoint: Path | None) -> dict[str, Any]:
    """Train, from a checkpoint if there is one; the epochs that were trained, and the mean loss of the logged steps."""
    state: Any = TrainerState.load_from_json(str(checkpoint / STATE_FILE)) if checkpoint else None
    if checkpoint is None or not state.stateful_callbacks["TrainerControl"]["args"]["should_training_stop"]:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    else:
        # Behind the last step the Trainer would take one more.
        if trainer.args.load_best_model_at_end and state.best_global_step:
            checkpoint = checkpoint.parent / f"checkpoint-{state.best_global_step}"
        load_model(cast("torch.nn.Module", trainer.model), checkpoint / WEIGHTS_FILE)
        trainer.state = state
    total = counted = 0.0
    for entry in trainer.state.log_history:
        if "loss" in entry:
            total += entry["loss"] * (entry["step"] - counted)
            counted = entry["step"]
    return {"epoch": trainer.state.epoch, **({"train_loss": total / counted} if counted else {})}


class ExactResume(TrainerCallback, ExportableState):
    """Has a resumed run draw and log what the run that was stopped would have; the Trainer restores its attributes."""

    def __init__(self) -> None:
        # The random numbers of each process where the epoch began, and those of the epoch that is resumed.
        self._starts: list[str] = []
        self.resumed_starts: list[str] = []
        self._is_due = False

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"args": {}, "attributes": {"resumed_starts": self._starts}}

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self.resumed_starts and not _is_between_epochs(state):
            # The Trainer restores random numbers behind the batches that it skips; which these are is drawn before.
            start = bytearray.fromhex(self.resumed_starts[args.process_index])
            torch.set_rng_state(torch.frombuffer(start, dtype=torch.uint8))
        self.resumed_starts = []
        self._starts = gather_object([bytes(torch.get_rng_state().numpy()).hex()])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        # A checkpoint of an epoch's last step has in it what follows at the epoch's end: an evaluation, for example.
        self._is_due = control.should_save and _is_between_epochs(state)
        control.should_save = control.should_save and not self._is_due
        self._log_before_saving(args, control)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        control.should_save = control.should_save or self._is_due
        self._log_before_saving(args, control)

    def _log_before_saving(self, args: TrainingArguments, control: Any) -> None:
        # The Trainer keeps no losses that are not logged. An evaluation says whether the best is saved.
        if control.should_save or (control.should_evaluate and args.save_strategy == SaveStrategy.BEST):
            control.should_log = True


def _is_between_epochs(state: TrainerState) -> bool:
    return float(state.epoch or 0).is_integer()


class Lines(TrainerCallback):
    """How far the training is, and a line for each log that has a loss or a score in it, those named in percent."""

    def __init__(self, scores: Sequence[str]) -> None:
        self._scores = scores

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # Of a run that is resumed the steps that are left.
        count, shown = state.max_steps - state.global_step, state.is_world_process_zero and not args.disable_tqdm
        self._steps: Any = track(range(count), "training", "steps", count, shown)
        next(self._steps, None)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        next(self._steps, None)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._steps.close()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        start = f"epoch {logs.get('epoch', 0):g} of {args.num_train_epochs:g}" if args.max_steps <= 0 else ""
        start = start or f"step {state.global_step} of {args.max_steps}"
        if "loss" in logs:
            tqdm.write(f"{start}: training loss {float(logs['loss']):.4f}, learning rate {logs['learning_rate']:.3g}")
        if "eval_loss" in logs:
            scores = ", ".join(f"{name} {100 * logs[f'eval_{name}']:.2f}" for name in self._scores)
            tqdm.write(f"{start}: validation loss {logs['eval_loss']:.4f}, {scores}")


@contextmanager
def _unfinished(args: TaskTrainingArguments, facts: Mapping[str, Any]) -> Iterator[Path]:
    """Let one run, of one or several processes, write to its output_dir; where it fails, what can be resumed stays.

    Raises: FileExistsError where another run writes there, or what is resumed has other data or settings.
    """
    directory, state = args.directory.resolve(), PartialState()
    path, is_new = directory / UNFINISHED, not directory.exists()
    with ExitStack() as lock:
        if state.is_main_process:
            path.mkdir(parents=True, exist_ok=True)
            try:
                # To be had at once, where no other run holds it.
                lock.enter_context(WeakFileLock(path / ".lock", timeout=0.05))
            except TimeoutError as error:
                raise FileExistsError(
                    f"output_dir {str(args.directory)!r} is being written to by another run; name another one, or wait."
                ) from error
            for entry in [*leftovers_of(directory), *(path.glob("seed-*") if not args.resumes_newest else ())]:
                shutil.rmtree(entry)
            if not _can_resume(path):
                with files_written_aside(path / RUN_FILE) as (aside,):
                    write_json(aside, facts)
        state.wait_for_everyone()
        try:
            _check_same_run(path, facts)
            yield path
            state.wait_for_everyone()
        except BaseException as error:
            if state.is_main_process and _can_resume(path) and not isinstance(error, FileExistsError):
                print(f"note: resume this run with: {command_to_resume()}", file=sys.stderr)
            raise
        finally:
            if state.is_main_process:
                # Their files of layers may be larger than all else.
                shutil.rmtree(path / "layers" if _can_resume(path) else path, ignore_errors=True)
                if is_new and not any(directory.iterdir()):
                    directory.rmdir()


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint of a folder that was written to its end: it has the Trainer's state, which is last."""
    whole = [entry for entry in folder.glob("checkpoint-*") if _is_whole(entry)]
    return max(whole, key=lambda entry: int(entry.name.partition("-")[2]), default=None)


def _is_whole(checkpoint: Path) -> bool:
    try:
        return isinstance(json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def _is_done(seed: Path) -> bool:
    return (seed / RESULTS_FILE).is_file()


def _can_resume(path: Path) -> bool:
    """Whether a seed is done there, or was stopped behind a checkpoint."""
    return any(_is_done(seed) or newest_checkpoint(seed) for seed in path.glob("seed-*"))


def _check_same_run(path: Path, facts: Mapping[str, Any]) -> None:
    """Raises: FileExistsError where the seeds of an `unfinished` folder were trained with other data or settings."""
    if json.loads((path / RUN_FILE).read_text(encoding="utf-8")) != json.loads(json.dumps(facts)):
        raise FileExistsError(
            f"output_dir {str(path.parent)!r} holds a run that was stopped, with other data or settings than these; "
            "resume it with its own flags, name another one, or pass --overwrite_output_dir and no "
            "--resume_from_checkpoint to replace it."
        )


def _keep(best: Path, args: TaskTrainingArguments) -> None:
    """Move what is in the folder of the best seed to the output_dir, in the place of all else."""
    path = best.parents[1]
    # The Trainer's notes on its checkpoints.
    old, new = (json.dumps(str(folder))[1:-1] for folder in (best, path))
    for file in best.rglob(STATE_FILE):
        file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with written_aside(path, overwrite=True) as aside:
        for entry in list(best.iterdir()):
            is_checkpoint = entry.name.startswith("checkpoint-")
            if not is_checkpoint or (args.keeps_checkpoints and _is_whole(entry)):
                entry.rename(aside / entry.name)
