"""Checkpoints of a run: written aside by all processes, renamed when whole, checked once when a run resumes.

A `checkpoint-N` is a checkpoint like the finished one, with the state of the run beside it. The folder that the run has
for itself, where all is written first, is `run_folder`'s.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list, gather_object
from huggingface_hub.utils import WeakFileLock

from ..given import UNREADABLE, quoted, read_json, reason
from ..hub.provenance import describe_file, write_json
from ..hub.writing import (
    check_output_directory,
    folder_aside,
    leftovers_of,
    open_to_readers,
    restore_replaced,
    written_aside,
)
from ..model.configuration_elmo import ElmoConfig
from .arguments import ModelArguments, PretrainingArguments, RunArguments

STATE_FILE = "trainer_state.json"
OPTIMIZER_FILE = "optimizer.pt"
DIGESTS_FILE = "digests.json"
_LOCK_FILE = "lock"
# How long to try for a lock that, where it is not to be had at once, another run holds.
_SECONDS_OF_A_TRY = 0.05
_NAME = re.compile(r"checkpoint-(\d+)")
_LONGEST_LIST = 500  # characters of an error that names settings; an altered file may have any number of them
# Flags that may differ in a resumed run: they change no step that was taken, or what they name is compared itself.
FREE_FLAGS = {
    *ModelArguments.__dataclass_fields__,
    *RunArguments.__dataclass_fields__,
    *("max_steps", "max_hours", "num_train_epochs", "learning_rate", "eval_steps", "early_stopping_patience"),
    *("skip_baselines", "vocab_file", "train_file", "validation_file", "bf16"),
}

Result = TypeVar("Result")


def checkpoints_in(output_dir: str | os.PathLike) -> dict[int, Path]:
    """The checkpoints of a run's directory by their steps."""
    path = Path(output_dir)
    found = ((_NAME.fullmatch(entry.name), entry) for entry in path.iterdir()) if path.is_dir() else ()
    return {int(match[1]): entry for match, entry in found if match and entry.is_dir()}


def find_checkpoint(arguments: PretrainingArguments, report: Callable[[str], None]) -> Path | None:
    """The checkpoint to resume from; None for a run that starts.

    With "last" and "auto" it is the newest whole one; a line says which newer ones are not, and why.

    Raises: FileNotFoundError when there is none where one was named, or it is not whole; FileExistsError when the run
        would replace what is in output_dir and was not told to.
    """
    found, resume, checkpoint = checkpoints_in(arguments.output_dir), arguments.resume_from_checkpoint, None
    if resume in ("last", "auto"):
        for _, path in sorted(found.items(), reverse=True):
            if (fault := find_fault(path)) is None:
                return path
            report(f"stepping over {path}, which is not whole: {fault}")
        if resume == "last":
            raise FileNotFoundError(
                f"--resume_from_checkpoint is 'last', but output_dir {arguments.output_dir!r} holds no whole "
                "checkpoint-N; name another --output_dir, or pass 'auto' to start where there is none."
            )
    elif resume is not None:
        checkpoint = Path(resume)
        if fault := find_fault(checkpoint):
            raise FileNotFoundError(
                f"--resume_from_checkpoint {resume!r} is no whole checkpoint of a run: {fault}; name another "
                "checkpoint-N, 'last' or 'auto'. To train on from finished weights use --model_name_or_path."
            )
        if checkpoint.resolve().parent == Path(arguments.output_dir).resolve():
            return checkpoint
    if found and not arguments.overwrite_output_dir:
        raise FileExistsError(
            f"output_dir {arguments.output_dir!r} holds checkpoints of a run; pass --resume_from_checkpoint last to "
            "resume it, --overwrite_output_dir to replace it, or name another one."
        )
    check_output_directory(arguments.output_dir, arguments.overwrite_output_dir)
    return checkpoint


def find_fault(checkpoint: Path) -> str | None:
    """The first file of a checkpoint that is not what the run wrote; None where all are."""
    try:
        expected = read_json(checkpoint / DIGESTS_FILE, DIGESTS_FILE)["sha256"]
        found = compute_digests(checkpoint)
        wrong = [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        wrong = [DIGESTS_FILE]
    return f"{quoted(wrong[0])} is missing, or not what was written" if wrong else None


def compute_digests(directory: Path) -> dict[str, str]:
    """The SHA-256 of each file: a second's work per gigabyte."""
    return {
        path.name: describe_file(path)["sha256"]
        for path in directory.iterdir()
        if path.is_file() and path.name != DIGESTS_FILE and not path.name.startswith(".")
    }


@contextmanager
def run_folder(output_dir: str | os.PathLike) -> Iterator[Path]:
    """A hidden folder in output_dir that a run has for itself while it lasts.

    What killed runs left there is put back or removed.

    Raises: FileExistsError when another run writes to output_dir, or it is no directory.
    """
    check_output_directory(output_dir, overwrite=True)
    with folder_aside(output_dir) as folder, WeakFileLock(folder / _LOCK_FILE):
        others = [path for path in leftovers_of(output_dir) if path.resolve() != folder.resolve()]
        for lock in (other / _LOCK_FILE for other in others if (other / _LOCK_FILE).exists()):
            try:
                with WeakFileLock(lock, timeout=_SECONDS_OF_A_TRY):
                    pass
            except TimeoutError as error:
                raise FileExistsError(
                    f"output_dir {str(output_dir)!r} is being written to by another run; name another one, or wait."
                ) from error
        restore_replaced(output_dir)
        for other in others:
            shutil.rmtree(other, ignore_errors=True)
        yield folder


@dataclass
class RunCheckpoints:
    """The `checkpoint-N` directories of one run, written by all processes, which see one file system."""

    output_dir: Path
    folder: Path  # the run's own
    accelerator: Accelerator
    write_model: Callable[[Path], None]  # writes what `from_pretrained` loads
    shared: dict[str, Any]  # for a run that resumes, beside what `save` is given
    save_total_limit: int = 0  # most that are kept, the last and the best one at least; 0 keeps all
    overwrite: bool = False  # whether a full output_dir is replaced when the first checkpoint stands

    def find(self, step: int) -> Path | None:
        """The whole checkpoint of a step; None where there is none."""
        # Until the first checkpoint has replaced a full directory, that holds those of another run.
        path = self.output_dir / f"checkpoint-{step}"
        return from_main_process(lambda: None if self.overwrite or find_fault(path) else path)

    def save(
        self,
        step: int,
        best_step: int | None,
        shared: dict[str, Any],
        optimizers: list[dict[str, Any]],
        own: dict[str, Any],
    ) -> Path:
        """Write one checkpoint, all processes together; older ones go when it stands, the best one excepted.

        Args:
            shared, optimizers: What all processes have in common, for JSON, and the states of their optimizers.
            own: What is this process's alone.
        Raises: OSError, in all processes, when one could not write; all checkpoints from before are still there.
        """
        aside = self.folder / f"checkpoint-{step}"
        is_main = self.accelerator.is_main_process
        with self._in_agreement(aside):
            aside.mkdir(parents=True, exist_ok=True)
            torch.save(own, aside / f"rank-{self.accelerator.process_index}.pt")
            if is_main:
                self.write_model(aside)
                torch.save(optimizers, aside / OPTIMIZER_FILE)
                write_json(aside / STATE_FILE, {"step": step, **self.shared, **shared})
        with self._in_agreement(aside):
            if is_main:
                write_json(aside / DIGESTS_FILE, {"sha256": compute_digests(aside)})
                open_to_readers(aside)
                # On the disk before older ones go: a power cut must not cost both.
                for path in aside.iterdir():
                    with path.open("rb+") as file:
                        os.fsync(file)
                with self.opened() as directory:
                    os.rename(aside, directory / aside.name)
                self._remove_old(step, best_step)
        return self.output_dir / aside.name

    @contextmanager
    def opened(self) -> Iterator[Path]:
        """A fresh folder whose entries go to output_dir when the block ends well; the first ones may replace all."""
        with written_aside(self.output_dir, overwrite=True, keeps_others=not self.overwrite) as directory:
            yield directory
        self.overwrite = False

    def _remove_old(self, last: int, best: int | None) -> None:
        found, kept = checkpoints_in(self.output_dir), {last, best}
        # Later ones are of a run that was given up: the one that resumes from the last must not meet them.
        removed = [step for step in found if step > last]
        by_worth = sorted({*found} - {*removed}, key=lambda step: (step in kept, step), reverse=True)
        if self.save_total_limit:
            removed += by_worth[max(self.save_total_limit, len(kept & {*found})) :]
        for step in removed:
            # Out of sight first: what has a checkpoint's name is whole, also when this is interrupted.
            os.rename(found[step], self.folder / "removed")
            shutil.rmtree(self.folder / "removed", ignore_errors=True)

    @contextmanager
    def _in_agreement(self, aside: Path) -> Iterator[None]:
        """Wait for all processes; when one of them failed, all do, and what was written aside is removed."""
        failure, cause = None, None
        try:
            yield
        except Exception as error:
            # A full disk is an OSError here, a RuntimeError in torch.save and one of its own in safetensors.
            failure, cause = f"{type(error).__name__}: {error}", error
        failures = [failure for failure in gather_object([failure]) if failure]
        if not failures:
            return
        if self.accelerator.is_main_process:
            shutil.rmtree(aside, ignore_errors=True)
        last = max(checkpoints_in(self.output_dir), default=None)
        left = "there is none from before" if last is None else f"checkpoint-{last} is still there to resume from"
        raise OSError(
            f"{aside.name} could not be written to output_dir {str(self.output_dir)!r} ({failures[0]}); {left}. "
            "Make room, then start again with --resume_from_checkpoint auto."
        ) from cause


@contextmanager
def opened_state(checkpoint: Path) -> Iterator[dict[str, Any]]:
    """What all processes of a run have in common; what goes wrong in the block is a ValueError that names the
    checkpoint."""
    try:
        yield read_json(checkpoint / STATE_FILE, STATE_FILE)
    except (*UNREADABLE, OSError) as error:
        raise ValueError(
            f"--resume_from_checkpoint {str(checkpoint)!r} holds no state that this run can resume from "
            f"({reason(error)}); name another checkpoint, or take over its weights alone with --model_name_or_path."
        ) from error


def describe_run_settings(
    arguments: PretrainingArguments, config: ElmoConfig, accelerator: Accelerator, **more: Any
) -> dict[str, Any]:
    """What a resumed run must have in common with the one that wrote the checkpoint, as JSON gives it back."""
    # The fields that are ELMo's own are those that decide on the numbers.
    fields = json.loads(config.to_json_string(use_diff=False))
    settings = {
        **{f"--{name}": value for name, value in asdict(arguments).items() if name not in FREE_FLAGS},
        **{f"config.{name}": fields[name] for name in ElmoConfig.__annotations__ if name in fields},
        "the number of processes": accelerator.num_processes,
        "--bf16, as mixed precision,": accelerator.mixed_precision,
        **more,
    }
    return json.loads(json.dumps(settings))


def check_same_run(checkpoint: Path, now: dict[str, Any]) -> None:
    """Check that a run, by its `describe_run_settings`, is the one that a checkpoint belongs to.

    Raises: ValueError naming the flags that differ, with both values.
    """
    with opened_state(checkpoint) as shared:
        then = {**shared["settings"]}
    differing = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)]
    if differing:
        listed = "; ".join(f"{name} was {quoted(then.get(name))} and is {quoted(now.get(name))}" for name in differing)
        raise ValueError(
            f"--resume_from_checkpoint {str(checkpoint)!r} belongs to another run: {listed[:_LONGEST_LIST]}. Start "
            "with its arguments, or with another --output_dir; --model_name_or_path takes over its weights alone."
        )


def from_main_process(compute: Callable[[], Result]) -> Result:
    """What the main process alone computes, sent to all processes; what it raises is raised in all of them."""
    answer: list[Any] = [None, None]
    if PartialState().is_main_process:
        try:
            answer[0] = compute()
        except BaseException as error:
            # A signal too: the other processes would wait for ever.
            answer[1] = error
    result, failure = broadcast_object_list(answer)
    if failure is not None:
        raise failure
    return result
