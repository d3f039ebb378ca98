"""Which files of a directory are a bilm-tf model's, whatever they are called there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .arrays import open_hdf5_arrays
from .checked_files import ConversionError

_HDF5_SUFFIXES = (".hdf5", ".h5")


@dataclass(frozen=True)
class _Kind:
    """One of the files.

    Args:
        wanted: What it is called, for messages.
        names: Names that are taken before all others.
        fits: Whether another name may be one.
    """

    wanted: str
    names: tuple[str, ...]
    fits: Callable[[str], bool]


_KINDS = {
    "options_file": _Kind(
        "an options.json", ("options.json",), lambda name: name.endswith(".json") and "options" in name
    ),
    "weight_file": _Kind(
        "an hdf5 of weights",
        ("weights.hdf5", "model.hdf5"),
        lambda name: name.endswith(_HDF5_SUFFIXES) and "softmax" not in name,
    ),
    "vocab_file": _Kind(
        "a list of words",
        ("vocab.txt.gz", "vocab.txt"),
        lambda name: name.startswith("vocab") and name.endswith((".txt", ".txt.gz")),
    ),
}


def candidates(source: Path, name: str) -> list[Path]:
    """The files of a source that may be the one that an argument names; one where its name says so.

    Args:
        source: A directory, or an hdf5 of weights.
        name: The argument, "options_file", "weight_file" or "vocab_file".
    """
    kind = _KINDS[name]
    if not source.is_dir():
        if not source.is_file() or not source.name.endswith(_HDF5_SUFFIXES):
            return []
        if name == "weight_file":
            return [source]
        # The released models' pairs lie side by side: ..._weights.hdf5 and ..._options.json.
        paired = source.with_name(f"{source.stem.replace('weights', 'options')}.json")
        if name == "options_file" and "options" in paired.name and paired.is_file():
            return [paired]
        source = source.parent
    found = sorted(path for path in source.iterdir() if path.is_file() and kind.fits(path.name))
    named = [path for wanted in kind.names for path in found if path.name == wanted]
    return named[:1] or found


def find(source: Path, name: str) -> Path:
    """The one file of a source that an argument names; of several hdf5 the one that has a model's keys.

    Raises: ConversionError where there is none, or several; ImportError where h5py is missing.
    """
    found = candidates(source, name)
    if name == "weight_file" and len(found) > 1:
        found = [path for path in found if _holds_weights(path)] or found
    if len(found) == 1:
        return found[0]
    wanted = _KINDS[name].wanted
    have = f"{len(found)} that may be it ({_quoted(found)})" if found else f"none ({_listing(source)})"
    raise ConversionError(f"source {str(source)!r} has {have}, wanted {wanted}; name it with {name}.")


def _holds_weights(path: Path) -> bool:
    """Whether an hdf5 has the keys of a token encoder and of LSTMs, which files of vectors or a softmax lack."""
    try:
        with open_hdf5_arrays("weight_file", path) as arrays:
            keys = arrays.keys
    except ConversionError:
        return False
    return bool({"char_embed", "embedding"} & {*keys}) and any("/LSTMCell/" in key for key in keys)


def _listing(source: Path) -> str:
    if not source.is_dir():
        return "it is no directory"
    names = sorted(source.iterdir())
    return f"it holds {_quoted(names)}" if names else "it is empty"


def _quoted(files: Sequence[Path]) -> str:
    more = ", ..." if len(files) > 5 else ""
    return ", ".join(repr(path.name) for path in files[:5]) + more
