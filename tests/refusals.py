"""Calls that must be refused: the type of the error and what it names, and not its wording."""

import functools
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hf_elmo

_PACKAGE = Path(hf_elmo.__file__).parent
_LONGEST_MESSAGE = 1200
# Seconds of work for a file of some kilobytes.
_SLOWEST = 2
# What Python tells of that a file must never make it do.
_RUNS = ("os.exec", "os.posix_spawn", "os.system", "pickle.find_class", "socket.connect", "subprocess.Popen")
_watched: list[bool] = []


def assert_refused(
    error: type[Exception] | tuple[type[Exception], ...], named: str | tuple[str, ...], call: Callable, *args: Any, **kw
) -> str:
    """Check that a call raises an error that names what is wrong, and return its message.

    Args:
        error: The type of the error, or several.
        named: What the message must name: an argument, a key, a file, a value; or several of them.
        call: What to call, with the arguments that follow.
    """
    try:
        call(*args, **kw)
    except error as caught:
        message = str(caught)
    else:
        pytest.fail(f"nothing was refused, wanted {error} naming {named!r}: {call} with {args} {kw}")
    for name in (named,) if isinstance(named, str) else named:
        assert name in message, f"{name!r} is not named for {args} {kw}: {message}"
    return message


def assert_own_error(error: Exception, named: str) -> None:
    """Check that an error over a file is the project's own, which a command shows as one line without a traceback.

    Its type is ValueError or OSError, code of the project raised it and no other, and its message is short, on one line
    and names the file.

    Args:
        error: What was raised.
        named: The file, or the directory where that is what the user named.
    """
    told = f"{type(error).__module__}.{type(error).__name__}: {str(error)[:_LONGEST_MESSAGE]}"
    assert isinstance(error, (ValueError, OSError)), told
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert Path(last.filename).is_relative_to(_PACKAGE), f"raised by {last.filename}, line {last.lineno}: {told}"
    assert named in str(error), f"{named} is not named: {told}"
    assert "\n" not in str(error) and len(str(error)) <= _LONGEST_MESSAGE, f"not one short line: {told}"


class Code:
    """A pickle of it makes a directory, "ran" where it runs if no other is named, when it is read as pickles are."""

    def __init__(self, path: str | Path = "ran"):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


class FileRanSomething(BaseException):
    """Reading a file started a process, called what a pickle names, or reached for the network; nothing catches it."""


def assert_read_or_refused(read: Callable[[], Any], named: str) -> None:
    """Check that a file is read or refused by an error of our own, soon, and that nothing it holds is run.

    Args:
        read: Reads the file; other files of its kind were read before.
        named: As for `assert_own_error`.
    Raises: AssertionError; FileRanSomething.
    """
    start = time.process_time()
    try:
        with _nothing_is_run():
            read()
    except Exception as error:
        assert_own_error(error, named)
    seconds = time.process_time() - start
    assert seconds < _SLOWEST, f"reading took {seconds:.1f} seconds of work"


@contextmanager
def _nothing_is_run() -> Iterator[None]:
    _add_hook()
    _watched.append(True)
    try:
        yield
    finally:
        _watched.pop()


@functools.cache
def _add_hook() -> None:
    # There is no way to take it away again.
    sys.addaudithook(_refuse_runs)


def _refuse_runs(event: str, arguments: tuple) -> None:
    if _watched and event in _RUNS:
        raise FileRanSomething(f"{event} {arguments}"[:_LONGEST_MESSAGE])
