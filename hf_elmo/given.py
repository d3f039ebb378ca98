"""What users and strangers give, within bounds: files, their names, JSON, flags, optional packages; how it is named."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import struct
import tokenize
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

MEBIBYTE = 2**20
MAX_JSON_BYTES = 64 * MEBIBYTE
# Messages quote what they found, and what strangers write has no end.
_LONGEST_QUOTE, _LONGEST_REASON = 80, 200
# What libraries raise over files that are damaged or hold something else than they take for granted; OSError is the
# system's.
UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    SafetensorError,
    StopIteration,  # of datasets, for an empty file
    StrictDataclassError,
    SyntaxError,  # of NumPy, which reads the headers of its files as Python
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
    tokenize.TokenError,
)


def read_file(path: str | os.PathLike, most: int, where: str) -> bytes:
    """A whole file of at most so many bytes; ValueError calls it `where` before more is held in memory."""
    with Path(path).open("rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{where} holds more than {most:,} bytes, the most that such a file has; check what it is.")
    return data


def path_inside(directory: str | os.PathLike, name: str, where: str) -> Path:
    """The path of what a stranger's file names in a directory, in the form of any system.

    Raises: ValueError, which calls the file `where`, for a name that is absolute, climbs or is empty.
    """
    forms = (PurePosixPath(name), PureWindowsPath(name))
    leads_out = any(form.is_absolute() or form.drive or form.root or ".." in form.parts for form in forms)
    if leads_out or "\0" in name or not forms[0].parts:
        raise ValueError(
            f"{where} names the file {quoted(name)}, which is not inside of its directory; get the files again from "
            "whom you trust."
        )
    return Path(directory) / name


def read_json(path: str | os.PathLike, where: str, most: int = MAX_JSON_BYTES) -> Any:
    """The value that a file of JSON of at most so many bytes holds; errors call it `where`, as `parse_json` does."""
    return parse_json(read_file(path, most, where), where)


def parse_json(data: str | bytes, where: str) -> Any:
    """The value of a text of JSON; ValueError calls the file `where` and names the line that is not JSON."""
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
        return json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}, line {error.lineno} is not JSON: {error.msg} at column {error.colno}.") from error
    except (ValueError, RecursionError) as error:
        # Bytes of no encoding, numbers of thousands of digits, lists in lists in lists.
        raise ValueError(f"{where} holds what cannot be read as JSON ({error}).") from error


def quoted(value: object) -> str:
    """A value as errors show it, cut where it is long."""
    return _cut(repr(value), _LONGEST_QUOTE)


def reason(error: BaseException) -> str:
    """What a library says went wrong, as the one line of bounded length that an error of ours quotes."""
    said = " ".join(str(error).split())
    if isinstance(error, pickle.UnpicklingError):
        # torch says in a page how to run the code of a pickle all the same.
        said = "a pickle of more than tensors and plain values, or damaged"
    elif not isinstance(error, (ValueError, StrictDataclassError)):
        said = f"{type(error).__name__}: {said}"
    return _cut(said, _LONGEST_REASON)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def require(package: str, what: str, extra: str) -> ModuleType:
    """An optional package, by which `what` (plural) is read or written; ImportError names the extra that brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"{what} need {name}, not installed; run: pip install 'hf_elmo[{extra}]'") from error


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
