"""The directory of a fine-tuning run: its checkpoints, what a killed run left there, and who writes to it.

output_dir/
  checkpoint-N/          what a run is resumed from, while it lasts and where --save_strategy keeps them
  seed-S/                the same of one seed of several; with its model and SEED_FILE once it is done
  .layers/               the layers of a frozen biLM that are kept for this run alone
  .*.partial/            what moves into the directory at the end
  .lock                  held by the run that writes here
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from huggingface_hub.utils import WeakFileLock
from safetensors import SafetensorError

from ..hub.file_names import CONFIG_FILE, WEIGHTS_FILE
from ..hub.provenance import command_to_resume
from ..hub.writing import check_output_directory, leftovers_of, moved_into, open_to_readers
from .arguments import TaskTrainingArguments

STATE_FILE = "trainer_state.json"
# What is left of a seed that is done; the last of its files to be written.
SEED_FILE = "seed.json"
# What STATE_FILE has in it of `ExactResume`.
RESUME_STATE = "ExactResume"
LAYERS_FOLDER = ".layers"
_LOCK_FILE = ".lock"
# What is no result: a directory with nothing else in it is empty.
_HIDDEN = re.compile(rf"{re.escape(_LOCK_FILE)}|{re.escape(LAYERS_FOLDER)}|\..*\.(partial|replaced)")
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_SEED = re.compile(r"seed-\d+")
# How long to try for a lock that, where it is not to be had at once, another run holds.
_SECONDS_OF_A_TRY = 0.05


@dataclass
class RunDirectory:
    """What one run writes to.

    Args:
        path: The directory.
        aside: A folder in it whose files move there when the run ends well.
        is_resumed: Whether the run goes on with what the directory holds.
        old: What it holds of others, which this run replaces.
    """

    path: Path
    aside: Path
    is_resumed: bool
    old: list[Path]

    def remove_old(self) -> None:
        """Remove what is replaced, all processes together; before something of the run takes its place."""
        if self.old:
            if PartialState().is_main_process:
                for path in self.old:
                    remove(path)
            self.old = []
            PartialState().wait_for_everyone()


@contextmanager
def run_directory(args: TaskTrainingArguments) -> Iterator[RunDirectory]:
    """Let one run, of one or several processes, write to its output_dir.

    What a dead run left there is removed, but for what this one goes on with. Where the block fails, checkpoints stay.

    Raises: FileExistsError where another run writes there. What Ctrl-C, a full disk and other errors of the system
        raise in the block says what is kept and how to resume.
    """
    path, state = args.directory.resolve(), PartialState()
    is_new = not path.exists()
    with ExitStack() as lock:
        if state.is_main_process:
            path.mkdir(parents=True, exist_ok=True)
            try:
                lock.enter_context(WeakFileLock(path / _LOCK_FILE, timeout=_SECONDS_OF_A_TRY))
            except TimeoutError as error:
                raise FileExistsError(
                    f"output_dir {str(args.directory)!r} is being written to by another run; name another one, or wait."
                ) from error
        run = None
        try:
            with ExitStack() as aside:
                shared: list[Any] = [None]
                if state.is_main_process:
                    _remove_leftovers(path)
                    is_resumed = resumes_in_place(args)
                    old = [] if is_resumed else _shown(path)
                    shared = [RunDirectory(path, aside.enter_context(moved_into(path)), is_resumed, old)]
                broadcast_object_list(shared)
                run = shared[0]
                yield run
                state.wait_for_everyone()
                run.remove_old()
            if state.is_main_process:
                _settle(args, path)
        except (KeyboardInterrupt, Exception) as error:
            if state.is_main_process and (told := _what_happened(error)):
                kept = "nothing of this run is kept" if run is None or run.old else _what_is_kept(args)
                raise type(told)(f"{told}; {kept}") from error
            raise
        finally:
            if state.is_main_process:
                _remove_leftovers(path, LAYERS_FOLDER, _LOCK_FILE)
                if is_new and not any(path.iterdir()):
                    path.rmdir()


def check_run_directory(args: TaskTrainingArguments) -> None:
    """Check, before any work is done, that a run can write to its output_dir, or resume what is there.

    Raises: FileExistsError where it is full, not a directory, or below what is not one; FileNotFoundError where there
        is no such checkpoint, or none that is whole.
    """
    path = args.directory
    if resumes_in_place(args):
        return
    checkpoints = _checkpoints_in(path)
    if not args.overwrite_output_dir and (checkpoints or seeds_in(path)):
        way = "resume it with --resume_from_checkpoint auto, name another one"
        if args.resumes_newest and checkpoints:
            faults = (f"{checkpoint.name}: {_find_fault(checkpoint, args)}" for checkpoint in checkpoints)
            way = f"none can be resumed ({'; '.join(faults)}): name another one"
        raise FileExistsError(
            f"output_dir {str(path)!r} holds checkpoints of a run; {way}, or pass --overwrite_output_dir to replace it."
        )
    check_output_directory(path, args.overwrite_output_dir or (path.is_dir() and not _shown(path)))


def resumes_in_place(args: TaskTrainingArguments) -> bool:
    """Whether a run goes on with what its output_dir holds; raises FileNotFoundError as `find_checkpoint`."""
    if args.num_seeds > 1:
        return args.resumes_newest and bool(seeds_in(args.directory))
    checkpoint = find_checkpoint(args)
    return checkpoint is not None and checkpoint.resolve().parent == args.directory.resolve()


def find_checkpoint(args: TaskTrainingArguments) -> Path | None:
    """The checkpoint that a run is resumed from; None for a run that starts.

    Raises: FileNotFoundError where there is none, though one is named or has to be there, or it is not whole.
    """
    resume, path = args.resume_from_checkpoint, args.directory
    if resume is None:
        return None
    if args.resumes_newest:
        newest = newest_checkpoint(args, path)
        if newest is None and str(resume).lower() != "auto":
            raise FileNotFoundError(
                f"resume_from_checkpoint is {resume!r}, but output_dir {str(path)!r} holds no whole checkpoint-N; name "
                "another one, or pass 'auto' to start where there is none."
            )
        return newest
    checkpoint = Path(resume)
    if not checkpoint.is_dir():
        raise FileNotFoundError(
            f"resume_from_checkpoint {resume!r} is not a directory; name a checkpoint-N that a run saved, 'last' or "
            "'auto'."
        )
    fault = _find_fault(checkpoint, args)
    if fault is not None:
        raise FileNotFoundError(f"resume_from_checkpoint {resume!r} is not whole: {fault}; name another one.")
    return checkpoint


def newest_checkpoint(args: TaskTrainingArguments, folder: Path) -> Path | None:
    """The newest checkpoint in a folder that can be resumed, if there is any."""
    return next((path for path in _checkpoints_in(folder) if _find_fault(path, args) is None), None)


def seeds_in(path: Path) -> list[Path]:
    """The folders of the seeds of a run."""
    return [entry for entry in path.glob("*") if _SEED.fullmatch(entry.name) and entry.is_dir()]


def _checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first, but for what is not all there."""
    steps = {int(match[1]): entry for entry in folder.glob("*") if (match := _CHECKPOINT.fullmatch(entry.name))}
    return [entry for _, entry in sorted(steps.items(), reverse=True) if entry.is_dir() and not _is_half_of_one(entry)]


def _find_fault(checkpoint: Path, args: TaskTrainingArguments) -> str | None:
    """What keeps a run from resuming a checkpoint; None where nothing does."""
    state = _read_state(checkpoint)
    if state is None:
        return f"{STATE_FILE} is missing or broken"
    if RESUME_STATE not in state.get("stateful_callbacks", {}):
        return f"{STATE_FILE} is not of such a run"
    of_each = ["rng_state.pth"] if args.world_size == 1 else [f"rng_state_{n}.pth" for n in range(args.world_size)]
    for name in (WEIGHTS_FILE, "optimizer.pt", "scheduler.pt", *of_each):
        if not (checkpoint / name).is_file():
            return f"{name} is missing"
    best = state.get("best_global_step")
    if args.load_best_model_at_end and best and not (checkpoint.parent / f"checkpoint-{best}" / WEIGHTS_FILE).is_file():
        return f"checkpoint-{best}, the best one, is not beside it"
    return None


def _read_state(checkpoint: Path) -> dict[str, Any] | None:
    """The Trainer's state, which it writes last; None where it has not come so far."""
    try:
        state = json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None


def _shown(path: Path) -> list[Path]:
    """What a directory holds beside leftovers."""
    return [entry for entry in path.iterdir() if not (_HIDDEN.fullmatch(entry.name) or _is_half_of_one(entry))]


def _is_half_of_one(entry: Path) -> bool:
    """Whether it is a checkpoint that was not written, or not removed, to its end."""
    if not (_CHECKPOINT.fullmatch(entry.name) and entry.is_dir()):
        return False
    return _read_state(entry) is None or not all((entry / name).is_file() for name in (CONFIG_FILE, WEIGHTS_FILE))


def _remove_leftovers(path: Path, *names: str) -> None:
    """Remove what is not all there, empty folders of seeds, and what has these names."""
    folders = [path, *seeds_in(path)]
    halves = [entry for folder in folders for entry in folder.iterdir() if _is_half_of_one(entry)]
    for entry in (*leftovers_of(path), *halves, *(path / name for name in names)):
        remove(entry)
    for folder in folders[1:]:
        if not any(folder.iterdir()):
            folder.rmdir()


def _settle(args: TaskTrainingArguments, path: Path) -> None:
    """Keep of a run that has gone well what was asked for, for all who may read its neighbours."""
    for folder in seeds_in(path):
        remove(folder)
    for checkpoint in _checkpoints_in(path):
        if args.load_best_model_at_end and not args.checkpoints_asked:
            remove(checkpoint)
        else:
            open_to_readers(checkpoint)


def _what_happened(error: BaseException) -> BaseException | None:
    """What a user can be told on one line: Ctrl-C and errors of the system, a full disk among them."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt("stopped")
    if isinstance(error, FileExistsError | BrokenPipeError):
        return None
    # What torch and safetensors make of a file that cannot be written.
    if isinstance(error, OSError | SafetensorError) or "inline_container" in str(error):
        return OSError(f"{error}; is the disk full?" if "inline_container" in str(error) else str(error))
    return None


def _what_is_kept(args: TaskTrainingArguments) -> str:
    """What there is to resume a run from, and how."""
    path = args.directory
    kept = [newest_checkpoint(args, path)]
    kept += [seed if (seed / SEED_FILE).is_file() else newest_checkpoint(args, seed) for seed in sorted(seeds_in(path))]
    if any(kept):
        return f"resume from {', '.join(str(entry) for entry in kept if entry)} with: {command_to_resume()}"
    return "nothing is kept" + ("; --save_strategy says when to save" if args.save_strategy == "no" else "")


def remove(entry: Path) -> None:
    """Remove a file, or a folder with all that is in it."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with suppress(OSError):
            entry.unlink(missing_ok=True)


def read_seed(path: Path, facts: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    """The results of a seed and lines about them; None where it is not done.

    Raises: FileExistsError where it was trained with other settings than these.
    """
    if not path.is_file():
        return None
    done = json.loads(path.read_text(encoding="utf-8"))
    differing = [name for name, now in json.loads(json.dumps(facts)).items() if done["facts"].get(name) != now]
    if differing:
        raise FileExistsError(
            f"output_dir {str(path.parent.parent)!r} holds {path.parent.name}, which was trained with other "
            f"{' and '.join(differing)}; name another one, or pass --overwrite_output_dir to replace it."
        )
    return done["results"], done["table"]


def point_to(old: Path, new: Path) -> None:
    """Have the Trainer's notes on checkpoints that move name the directory that they will be in."""
    before, after = (json.dumps(str(path))[1:-1] for path in (old, new))
    for path in old.rglob(STATE_FILE):
        path.write_text(path.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
