"""Write directories and files under another name and rename them when complete, so that a failure loses nothing.

What is to be in a directory is written into a hidden folder inside of it, and its entries are renamed at the end.
Nothing crosses the border of the directory, which may be a mount point (a container's volume) or have a parent that
cannot be written.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..given import flag
from . import CONFIG_FILE

# Hidden folders: of what is being written, and of what steps aside while that takes its place.
_PARTIAL, _REPLACED = ".partial", ".replaced"


@dataclass(frozen=True, kw_only=True)
class OutputArguments:
    """Where it is written."""

    output_dir: str = flag("Directory to write; nothing in it has its name before it is whole.")
    overwrite_output_dir: bool = flag(
        "Replace a full output directory; what it holds stays until something whole takes its place.", default=False
    )


def check_output_directory(directory: str | os.PathLike, overwrite: bool = False) -> Path:
    """Check, before any work is done, that a result can be written to a directory, empty or to be overwritten.

    Raises: FileExistsError when it is full, not a directory, or below what is not one.
    """
    path = Path(directory)
    _check_not_below_file("output_dir", path)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"output_dir {str(path)!r} is a file; name a directory.")
    if path.is_dir() and not overwrite and set(path.resolve().iterdir()) - set(leftovers_of(path)):
        raise FileExistsError(
            f"output_dir {str(path)!r} is not empty; name another one, or pass --overwrite_output_dir to replace it."
        )
    return path


def check_output_file(output_file: str | os.PathLike, overwrite: bool = False, name: str = "output_file") -> Path:
    """Check, before any work is done, that a file can be written; a link stands for the file it names.

    Raises: FileExistsError, which calls it `name`, when the name is taken or lies below a file.
    """
    target = Path(output_file).resolve()
    _check_not_below_file(name, target)
    if target.is_dir():
        raise FileExistsError(f"{name} {str(output_file)!r} is a directory; name a file to write.")
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{name} {str(output_file)!r} is there; name another, or pass --overwrite_output_file to replace it."
        )
    return target


def _check_not_below_file(name: str, path: Path) -> None:
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise FileExistsError(f"{name} {str(path)!r} lies below the file {str(nearest)!r}; name another one.")


def check_keeps_inputs(directory: str | os.PathLike, files: Iterable[tuple[str, str | os.PathLike]]) -> None:
    """Check that replacing a directory would not take along what a run reads: arguments and the paths they name."""
    for name, file in files:
        path = Path(file).resolve()
        if Path(directory).resolve() in (path, *path.parents):
            raise ValueError(
                f"output_dir {str(directory)!r} holds {name} {str(file)!r}, which would be replaced along with it; "
                "name another directory."
            )


@contextmanager
def folder_aside(directory: str | os.PathLike) -> Iterator[Path]:
    """Give a fresh hidden folder in `directory`, which is made for it; neither is left behind without need."""
    target = Path(directory).resolve()
    is_new = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".", suffix=_PARTIAL, dir=target))
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        if is_new:
            with suppress(OSError):
                target.rmdir()


@contextmanager
def written_aside(directory: str | os.PathLike, overwrite: bool = False, keeps_others: bool = False) -> Iterator[Path]:
    """Give a fresh folder; its content is that of `directory` when the block ends, and only if it ends well.

    With `keeps_others` what `directory` holds under other names stays.
    """
    target = check_output_directory(directory, overwrite).resolve()
    with folder_aside(target) as aside:
        yield aside
        there = set(target.iterdir()) - set(leftovers_of(target))
        _put_in_place(aside, target, {path for path in there if not keeps_others or (aside / path.name).exists()})


def _put_in_place(aside: Path, target: Path, replaced: set[Path]) -> None:
    """Move what is in `aside` to `target`, and `replaced` out of its way; on an error nothing has moved."""
    open_to_readers(aside)
    old = aside.with_suffix(_REPLACED)
    old.mkdir()
    # The config is away first and there last: nobody takes a directory without it for a checkpoint.
    leaving = sorted(replaced, key=lambda path: path.name != CONFIG_FILE)
    coming = sorted(aside.iterdir(), key=lambda path: path.name == CONFIG_FILE)
    moves = [(path, old / path.name) for path in leaving] + [(path, target / path.name) for path in coming]
    moved: list[tuple[Path, Path]] = []
    try:
        for source, place in moves:
            os.rename(source, place)
            moved.append((source, place))
    except BaseException:
        for source, place in reversed(moved):
            os.rename(place, source)
        old.rmdir()
        raise
    # Under this name, that of an empty folder by now, it does not come back.
    os.rename(old, aside)


def leftovers_of(directory: str | os.PathLike) -> list[Path]:
    """The hidden folders in a directory that processes are writing, or left there when they were killed."""
    places = Path(directory).resolve().glob(".*")
    return sorted(path for path in places if path.suffix in (_PARTIAL, _REPLACED) and path.is_dir())


def restore_replaced(directory: str | os.PathLike) -> None:
    """Move back what had stepped aside in a directory when a process was killed that was replacing it."""
    for path in leftovers_of(directory):
        if path.suffix == _REPLACED:
            for entry in path.iterdir():
                target = path.parent / entry.name
                if target.is_dir() and not target.is_symlink():
                    shutil.rmtree(target)
                else:
                    target.unlink(missing_ok=True)
                os.rename(entry, target)
            path.rmdir()


def open_to_readers(directory: Path) -> None:
    """Let whoever may read its neighbors read a directory: mkdtemp and safetensors write for the owner's eyes only."""
    mask = os.umask(0)
    os.umask(mask)
    for path in (directory, *directory.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


@contextmanager
def files_written_aside(*targets: Path) -> Iterator[list[Path]]:
    """Give a path aside for each target; they take the targets' names when the block ends, and only if it ends well."""
    with ExitStack() as folders:
        aside = []
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=_PARTIAL, dir=target.parent)
            aside.append(Path(folders.enter_context(folder)) / target.name)
        yield aside
        for finished, target in zip(aside, targets, strict=True):
            os.replace(finished, target)
