"""Checkpoints of a run: written aside by all processes, renamed when whole, and what it takes to go on from one."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator

from ..checkpoints.loading import load_config
from ..checkpoints.provenance import write_json
from ..checkpoints.writing import leftovers_of, open_to_readers, written_aside
from ..given.bounded_files import quoted
from ..given.reasons import UNREADABLE, reason
from ..model.configuration_elmo import ElmoConfig
from .digests import write_digests
from .run_directory import OPTIMIZER_FILE, STATE_FILE, checkpoints_in, find_fault, rank_file, read_state_file

Result = TypeVar("Result")

_LONGEST_FLAG = 60  # of what an altered file may have in a flag's place
# Entries of a fingerprint that are no flag's value.
_NOT_FLAGS = {
    "words": "--vocab_file, by a hash of the words,",
    "text": "--train_file and --validation_file, by name and size of the text,",
    "mixed_precision": "--bf16, as mixed precision,",
    "num_processes": "the number of processes",
    "ends_by_the_clock": "--max_hours, as whether the clock ends it,",
}


@dataclass
class RunState:
    """Everything besides the weights that decides how a run goes on.

    Args:
        step: Optimizer steps taken.
        shared: What all processes have in common, for JSON: words trained, history, evaluations and the like.
        optimizer: State of the optimizer and its schedule, equal in all processes.
        own: What is this process's alone: its place in the text, LSTM states, random numbers.
    """

    step: int
    shared: dict[str, Any]
    optimizer: dict[str, Any]
    own: dict[str, Any]


@dataclass
class RunCheckpoints:
    """The `checkpoint-N` directories of one run.

    Each is a checkpoint like the finished one, with the state of the run beside it. It is written under another name by
    all processes, which see one file system, and takes its own in one rename: whatever has the name is whole.

    Args:
        output_dir: Where they stand.
        accelerator: The processes; each writes its own state, the main one all the rest.
        write_model: Writes what `from_pretrained` loads into a directory.
        fingerprint: What a run that goes on has to have in common with this one, by name, for JSON.
        facts: What a run that goes on need not find out again, for JSON.
        save_total_limit: Most checkpoints kept; the last and the best one always are. None keeps all.
        overwrite: Whether a full output_dir is replaced when the first checkpoint stands.
        save_steps: Steps between checkpoints; None for none but that of an interruption.
        resumed_from: The checkpoint that the run went on from; None where it started.
    """

    output_dir: str | os.PathLike
    accelerator: Accelerator
    write_model: Callable[[Path], None]
    fingerprint: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    save_total_limit: int | None = None
    overwrite: bool = False
    save_steps: int | None = None
    resumed_from: Path | None = None

    def find(self, step: int) -> Path | None:
        """The whole checkpoint of a step, here or beside the one that was gone on from; None where there is none."""

        def look() -> Path | None:
            # Until the first checkpoint has replaced a full directory, that holds those of another run.
            places = [] if self.overwrite else [self.output_dir]
            places += [self.resumed_from.parent] if self.resumed_from else []
            found = (Path(place) / f"checkpoint-{step}" for place in places)
            return next((path for path in found if path.is_dir() and find_fault(path) is None), None)

        return from_main_process(look, self.accelerator)

    def save(self, state: RunState, best_step: int | None) -> Path:
        """Write one checkpoint, all processes together; older ones go when it stands.

        Args:
            state: Of the run, after a whole step.
            best_step: Step of the checkpoint with the best evaluation, which is kept.
        Raises: OSError, in all processes, when one could not write; all checkpoints from before are still there.
        """
        output_dir = Path(self.output_dir).resolve()
        target = output_dir / f"checkpoint-{state.step}"
        aside = output_dir / f".checkpoint-{state.step}.partial"
        is_main = self.accelerator.is_main_process
        with self._in_agreement(state.step, aside):
            if is_main:
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir(parents=True)
        with self._in_agreement(state.step, aside):
            torch.save(state.own, aside / rank_file(self.accelerator.process_index))
            if is_main:
                self._write_shared(aside, state, best_step)
        with self._in_agreement(state.step, aside):
            if is_main:
                write_digests(aside)
                open_to_readers(aside)
                _to_disk(aside)
                self._put_in_place(aside, target)
                self._remove_old(state.step, best_step)
        return target

    def _write_shared(self, directory: Path, state: RunState, best_step: int | None) -> None:
        self.write_model(directory)
        torch.save(state.optimizer, directory / OPTIMIZER_FILE)
        write_json(
            directory / STATE_FILE,
            {
                "step": state.step,
                "best_step": best_step,
                "num_processes": self.accelerator.num_processes,
                "fingerprint": self.fingerprint,
                "facts": self.facts,
                **state.shared,
            },
        )

    def _put_in_place(self, aside: Path, target: Path) -> None:
        if self.overwrite:
            # The first checkpoint takes the place of all that was there, in one rename.
            with written_aside(target.parent, overwrite=True) as directory:
                os.rename(aside, directory / target.name)
            self.overwrite = False
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = _hide(target) if target.exists() else None
        try:
            os.rename(aside, target)
        except OSError:
            if hidden is not None:
                os.rename(hidden, target)
            raise
        _sync_directory(target.parent)
        if hidden is not None:
            shutil.rmtree(hidden, ignore_errors=True)

    def _remove_old(self, step: int, best_step: int | None) -> None:
        if self.save_total_limit is None:
            return
        found = checkpoints_in(self.output_dir)
        kept = {step} | ({best_step} & found.keys())
        for other in sorted(found.keys() - kept, reverse=True):
            if len(kept) < self.save_total_limit:
                kept.add(other)
            else:
                _remove(found[other])

    @contextmanager
    def _in_agreement(self, step: int, aside: Path) -> Iterator[None]:
        """Wait for all processes; when one of them failed, all do, and what was written aside is removed."""
        failure, cause = None, None
        try:
            yield
        except Exception as error:
            # A full disk is an OSError here, a RuntimeError in torch.save and one of its own in safetensors.
            failure, cause = f"{type(error).__name__}: {error}", error
        failures = [failure for failure in gather_objects(failure, self.accelerator) if failure]
        if not failures:
            return
        if self.accelerator.is_main_process:
            shutil.rmtree(aside, ignore_errors=True)
            with suppress(OSError):
                # Where nothing else is in it.
                aside.parent.rmdir()
        last = max(checkpoints_in(self.output_dir), default=None)
        left = "there is none from before" if last is None else f"checkpoint-{last} is still there to resume from"
        raise OSError(
            f"checkpoint-{step} could not be written to output_dir {str(self.output_dir)!r} ({failures[0]}); {left}. "
            "Make room, then start again with --resume_from_checkpoint auto."
        ) from cause


def read_run_state(checkpoint: str | os.PathLike, process_index: int) -> RunState:
    """Read the state of a run for one process, everything on the CPU.

    Raises: ValueError naming the checkpoint and the file where one holds no state.
    """
    checkpoint = Path(checkpoint)
    shared = read_state_file(checkpoint)
    states = []
    for name in (OPTIMIZER_FILE, rank_file(process_index)):
        with clear_about_state(checkpoint, name):
            # Tensors and plain values alone: a pickle of anything else could run code.
            states.append(torch.load(checkpoint / name, map_location="cpu", weights_only=True))
    with clear_about_state(checkpoint, STATE_FILE):
        return RunState(shared["step"], shared, *states)


@contextmanager
def clear_about_state(checkpoint: str | os.PathLike, *files: str) -> Iterator[None]:
    """Say which checkpoint it is, and which of its files, where what is read of it is no state of such a run.

    Args:
        checkpoint: The directory.
        files: What is read in the block.
    Raises: ValueError in the place of what torch, safetensors and the parts of a run make of a wrong file.
    """
    try:
        yield
    except (*UNREADABLE, OSError) as error:
        raise ValueError(
            f"--resume_from_checkpoint {str(checkpoint)!r}: {', '.join(files)} cannot be gone on from "
            f"({reason(error)}); name another checkpoint, or train on from its weights alone with "
            "--model_name_or_path."
        ) from error


def check_fingerprint(checkpoint: str | os.PathLike, now: dict[str, Any], config: ElmoConfig) -> None:
    """Check that a run is the one that a checkpoint belongs to.

    Args:
        checkpoint: The directory to go on from.
        now: The fingerprint of the run that is to go on.
        config: Of its model.
    Raises: ValueError naming the flags that differ, with both values.
    """
    with clear_about_state(checkpoint, STATE_FILE):
        then = dict(read_state_file(checkpoint)["fingerprint"])
    then |= _config_fields(load_config(os.fspath(checkpoint), "--resume_from_checkpoint"))
    # As JSON gives it back.
    now = json.loads(json.dumps({**now, **_config_fields(config)}))
    differing = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)]
    if differing:
        listed = "; ".join(
            f"{_flag_of(name)[:_LONGEST_FLAG]} was {quoted(then.get(name))} and is {quoted(now.get(name))}"
            for name in differing
        )
        raise ValueError(
            f"--resume_from_checkpoint {str(checkpoint)!r} belongs to another run: {listed}. Start with the arguments "
            "of that run, or with another --output_dir; --model_name_or_path takes over its weights alone."
        )


def _flag_of(name: str) -> str:
    """What the user calls an entry of a fingerprint: its flag, if one sets it."""
    return _NOT_FLAGS.get(name, name if name.startswith("config.") else f"--{name}")


def _config_fields(config: ElmoConfig) -> dict[str, Any]:
    """The fields that are ELMo's own, which are those that decide on the numbers, as JSON gives them back."""
    content = json.loads(config.to_json_string(use_diff=False))
    return {f"config.{name}": content.get(name) for name in ElmoConfig.__annotations__ if name in content}


def random_state() -> dict[str, Any]:
    """Where this process's random numbers stand."""
    version, numbers, gauss = random.getstate()
    state = {"torch": torch.get_rng_state(), "python": [version, list(numbers), gauss]}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Go on with the random numbers of a `random_state`."""
    torch.set_rng_state(state["torch"])
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def gather_objects(value: Any, accelerator: Accelerator) -> list[Any]:
    """Each process's value, in the order of the processes."""
    if accelerator.num_processes == 1:
        return [value]
    gathered: list[Any] = [None] * accelerator.num_processes
    torch.distributed.all_gather_object(gathered, value)
    return gathered


def from_main_process(compute: Callable[[], Result], accelerator: Accelerator) -> Result:
    """What the main process alone computes, sent to all processes; what it raises is raised in all of them."""
    if accelerator.num_processes == 1:
        return compute()
    answer: list[Any] = [None, None]
    if accelerator.is_main_process:
        try:
            answer[0] = compute()
        except BaseException as error:
            # A signal too: the other processes would wait for ever.
            answer[1] = error
    torch.distributed.broadcast_object_list(answer, src=0, group=_patient_processes())
    result, failure = answer
    if failure is not None:
        raise failure
    return result


@functools.cache
def _patient_processes() -> torch.distributed.ProcessGroup:
    """All processes, as they wait for the main one to read a text: for longer than a step's communication may take."""
    return torch.distributed.new_group(backend="gloo", timeout=timedelta(days=1))


def remove_partial_checkpoints(output_dir: str | os.PathLike) -> None:
    """Remove what a killed run left half written or half removed."""
    output_dir = Path(output_dir).resolve()
    for leftover in [*leftovers_of(output_dir), *output_dir.glob(".checkpoint-*.removed")]:
        shutil.rmtree(leftover, ignore_errors=True)


def _remove(directory: Path) -> None:
    # Out of sight first: what has a checkpoint's name is whole, also when this is interrupted.
    shutil.rmtree(_hide(directory), ignore_errors=True)


def _hide(directory: Path) -> Path:
    """Rename a checkpoint to what no run takes for one, and return its path."""
    hidden = directory.with_name(f".{directory.name}.removed")
    shutil.rmtree(hidden, ignore_errors=True)
    os.rename(directory, hidden)
    return hidden


def _to_disk(directory: Path) -> None:
    """Wait until the files are on the disk, so that a power cut after the rename finds them."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
