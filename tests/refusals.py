"""Calls that must be refused: the type of the error and what it names, and not its wording."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hf_elmo

_PACKAGE = Path(hf_elmo.__file__).parent
_LONGEST_MESSAGE = 1200


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
