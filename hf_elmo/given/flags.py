"""Flags of the commands: fields of dataclasses with their help, and the checks that all groups of them share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal, get_args, get_origin, get_type_hints


def flag(text: str, positional: bool = False, **defaults: Any) -> Any:
    """A field of a dataclass that is a flag of a command, or a word in the order of such fields if `positional`."""
    # argparse formats its help, and transformers' parser hands it all other entries.
    return field(metadata={"help": text.replace("%", "%%")} | ({"positional": True} if positional else {}), **defaults)


def check_choices(arguments: Any) -> None:
    """Check the fields that are annotated as `Literal[...]`; None where that is the default."""
    for name, hint in get_type_hints(type(arguments)).items():
        options = [part for part in (hint, *get_args(hint)) if get_origin(part) is Literal]
        value = getattr(arguments, name)
        if not options or (value is None and type(arguments).__dataclass_fields__[name].default is None):
            continue
        choices = get_args(options[0])
        if value not in choices:
            raise ValueError(f"--{name} is {value!r}; it must be one of {', '.join(choices)}.")


def check_least(arguments: Any, names: Sequence[str], least: int) -> None:
    """Check that each of these fields is at least so much, or None."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value < least:
            kind = "an integer " if least else ""
            raise ValueError(f"--{name} is {value}; it must be {kind}>= {least}.")


def read_json_object(name: str, value: str | None, example: str) -> dict[str, Any]:
    """A flag that is JSON, read; an empty object where it is None. ValueError names the flag."""
    try:
        read = json.loads(value or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--{name} is not JSON ({error}); wanted '{example}'.") from error
    if not isinstance(read, dict):
        raise ValueError(f"--{name} is {read!r}; wanted an object, '{example}'.")
    return read
