"""Write directories and files aside and put them in place by a rename, so that a failure never leaves half of one."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .file_names import CONFIG_FILE


def check_output_directory(directory: str | os.PathLike, overwrite: bool = False) -> Path:
    """Check, before any work is done, that a result can be written to `directory`.

    Args:
        directory: The directory to be; it may exist as long as it is empty.
        overwrite: Whether a full one may be replaced.
    Raises: FileExistsError when it is full, not a directory, or below what is not one.
    """
    path = Path(directory)
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise FileExistsError(f"output_dir {str(path)!r} lies below the file {str(nearest)!r}; name another one.")
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"output_dir {str(path)!r} is a file; name a directory.")
    if path.is_dir() and not overwrite and set(path.resolve().iterdir()) - set(leftovers_of(path)):
        raise FileExistsError(
            f"output_dir {str(path)!r} is not empty; name another one, or pass --overwrite_output_dir to replace it."
        )
    return path


def check_keeps_inputs(directory: str | os.PathLike, files: Iterable[tuple[str, str | os.PathLike]]) -> None:
    """Check that replacing a directory as a whole would not take along what the run reads.

    Args:
        directory: The directory to be.
        files: The name of the argument and the path of each file or directory that is read.
    Raises: ValueError naming the argument and the file.
    """
    for name, file in files:
        path = Path(file).resolve()
        if Path(directory).resolve() in (path, *path.parents):
            raise ValueError(
                f"output_dir {str(directory)!r} holds {name} {str(file)!r}, which would be replaced along with it; "
                "name another directory."
            )


def place_aside(directory: str | os.PathLike) -> Path:
    """Where to write what will be moved to `directory`: in its parent, which is made where there is none.

    In `directory` itself where it is a mount point (a container's volume), which no rename crosses, or where its parent
    cannot be written.
    """
    target = Path(directory).resolve()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.parent
    try:
        probe = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return target
        raise
    inside = target / probe.name
    try:
        # Device numbers do not tell: one file system may be mounted twice.
        os.rename(probe, inside)
    except OSError as error:
        probe.rmdir()
        return target if error.errno == errno.EXDEV else target.parent
    inside.rmdir()
    return target.parent


@contextmanager
def folder_aside(directory: str | os.PathLike) -> Iterator[Path]:
    """Give a fresh directory where `place_aside` says; what is left of it when the block ends is removed."""
    target = Path(directory).resolve()
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=place_aside(target)))
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def written_aside(directory: str | os.PathLike, overwrite: bool = False) -> Iterator[Path]:
    """Give a fresh directory beside `directory`; it takes that name when the block ends, and only if it ends well.

    On an exception what was written is removed, and whatever stood under the name before is still there. A mount point
    keeps its name, and what was written takes the place of all that is in it.

    Args:
        directory: The name that the finished directory gets.
        overwrite: Whether it may replace a full directory.
    Raises: FileExistsError as `check_output_directory`.
    """
    # Through a link to the directory it names: renaming the link itself would leave the old one where it is.
    target = check_output_directory(directory, overwrite).resolve()
    with folder_aside(target) as aside:
        yield aside
        open_to_readers(aside)
        if aside.parent == target:
            _replace_content(target, aside)
        else:
            _replace(target, aside)


@contextmanager
def moved_into(directory: str | os.PathLike, last: str) -> Iterator[Path]:
    """Give a fresh directory inside of `directory`; its files move there when the block ends, and only if it ends well.

    What else is in `directory` stays. The files move one by one, which no rename does at once: until all are there the
    file named `last` is not.

    Args:
        directory: A directory that is there.
        last: The file without which nobody takes the directory for finished.
    """
    target = Path(directory).resolve()
    aside = Path(tempfile.mkdtemp(prefix=".finished.", suffix=".partial", dir=target))
    try:
        yield aside
        open_to_readers(aside)
        (target / last).unlink(missing_ok=True)
        for path in sorted(aside.iterdir(), key=lambda path: (path.name == last, path.name)):
            os.replace(path, target / path.name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _replace(target: Path, aside: Path) -> None:
    # A rename cannot replace a full directory: the old one steps aside first and is removed once the new one stands.
    old = aside.with_suffix(".replaced")
    if target.exists():
        os.rename(target, old)
    try:
        os.rename(aside, target)
    except OSError:
        if old.exists():
            os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _replace_content(target: Path, aside: Path) -> None:
    """Put what is in `aside` in the place of all else that is in `target`; on an error nothing has moved."""
    old = aside.with_suffix(".replaced")
    old.mkdir()
    # What others write aside stays.
    replaced = set(target.iterdir()) - set(leftovers_of(target))
    # The config last: nobody takes a directory without it for a checkpoint.
    written = sorted(aside.iterdir(), key=lambda path: path.name == CONFIG_FILE)
    moves = [(path, old / path.name) for path in replaced] + [(path, target / path.name) for path in written]
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
    # Under this name, that of an empty directory by now, it does not come back.
    os.rename(old, aside)


def leftovers_of(directory: str | os.PathLike) -> list[Path]:
    """What killed processes left beside or in a directory that they were writing aside or replacing."""
    target = Path(directory).resolve()
    # As mkdtemp makes names, so that a directory "a" is not taken for the owner of what belongs to "a.b".
    name = re.compile(rf"\.{re.escape(target.name)}\.(checkpoint-\d+|[a-z0-9_]{{8}})\.(partial|replaced)")
    places = [place for place in (target.parent, target) if place.is_dir()]
    found = (path for place in places for path in place.iterdir() if name.fullmatch(path.name) and path.is_dir())
    return sorted(found)


def restore_replaced(directory: str | os.PathLike) -> None:
    """Give a directory back its name, or what was in it, that had stepped aside when the process was killed."""
    target = Path(directory).resolve()
    for path in leftovers_of(target):
        if path.suffix != ".replaced":
            continue
        if path.parent == target:
            for entry in path.iterdir():
                _remove(target / entry.name)
                os.rename(entry, target / entry.name)
            path.rmdir()
        elif not target.exists():
            os.rename(path, target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def open_to_readers(directory: Path) -> None:
    """Let whoever may read its neighbours read a directory: mkdtemp and safetensors write for the owner's eyes only."""
    mask = os.umask(0)
    os.umask(mask)
    for path in (directory, *directory.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def check_output_file(
    output_file: str | os.PathLike,
    overwrite: bool = False,
    name: str = "output_file",
    flag: str = "--overwrite_output_file",
) -> Path:
    """Check, before any work is done, that a file can be written; a link stands for the file it names.

    Args:
        output_file: The file to be.
        overwrite: Whether one that is there may be replaced.
        name: The argument that names it, for errors.
        flag: The flag that allows to replace it, for errors.
    Raises: FileExistsError when the name is taken or lies below a file.
    """
    target = Path(output_file).resolve()
    nearest = next(parent for parent in target.parents if parent.exists())
    if not nearest.is_dir():
        raise FileExistsError(f"{name} {str(output_file)!r} lies below the file {str(nearest)!r}; name another.")
    if target.is_dir():
        raise FileExistsError(f"{name} {str(output_file)!r} is a directory; name a file to write.")
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{name} {str(output_file)!r} is there already; name another one, or pass {flag} to replace it."
        )
    return target


@contextmanager
def files_written_aside(*targets: Path) -> Iterator[list[Path]]:
    """Give a path aside for each target; they take the targets' names when the block ends, and only if it ends well."""
    with ExitStack() as folders:
        aside = []
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
            aside.append(Path(folders.enter_context(folder)) / target.name)
        yield aside
        for finished, target in zip(aside, targets, strict=True):
            os.replace(finished, target)
