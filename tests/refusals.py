"""Calls that must be refused: the type of the error and what it names, and not its wording."""

from collections.abc import Callable
from typing import Any

import pytest


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
