"""The formats of other programs that can be read, which of them a source is, and the one way in for all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer

from ..given.archives import is_archive, unpacked
from ..model.modeling_elmo import ElmoPreTrainedModel
from .alignment import NO_MATRIX, align_layers, listed
from .allennlp import ALLENNLP
from .bilm_tf import BILM_TF
from .bilm_tf_training import BILM_TF_TRAINING
from .checked_files import ConversionError
from .efml import EFML
from .foreign import ForeignFormat, ForeignModel, check_output, save_foreign
from .simple_elmo import SIMPLE_ELMO

# In this order: the first that recognises a source reads it, so that what is told by more files comes before.
FORMATS: tuple[ForeignFormat, ...] = (ALLENNLP, EFML, BILM_TF_TRAINING, SIMPLE_ELMO, BILM_TF)


def load_foreign(
    source: str | os.PathLike, format: str | None = None, **options: Any
) -> tuple[ElmoPreTrainedModel, PreTrainedTokenizer]:
    """Read an ELMo checkpoint of another program, without writing anything.

    Args:
        source: A directory, a zip or tar archive, or a file of a format that `FORMATS` lists.
        format: The name of the format; None tells it by the files.
        options: What that format's reader takes besides: `vocab_file` or `tokenizer_options` for example. Of every
            format, `alignment_files`: see `alignment.align_layers`.
    Returns: The model, in evaluation mode, and its tokenizer.
    Raises:
        ConversionError: The source is of no known format, or damaged, or no model that can be held here; or the
            format's reader takes no such option.
        FileNotFoundError: There is no such source.
        ImportError: A package that the format needs is missing.
    """
    with _opened(source) as path:
        foreign = read_foreign(path, find_format(path, format), options)
    return foreign.model, foreign.tokenizer


def convert_foreign(
    source: str | os.PathLike,
    output_dir: str | os.PathLike,
    format: str | None = None,
    overwrite: bool = False,
    **options: Any,
) -> tuple[ForeignFormat, ForeignModel]:
    """Write a directory that AutoModel and AutoTokenizer load from a checkpoint of another program, with a card.

    Args:
        source, format, options: As for `load_foreign`.
        output_dir: The directory to write; on any error it is left as it was.
        overwrite: Whether a full output_dir may be replaced.
    Returns: The format that it was, and what was read and written.
    Raises: As `load_foreign`; FileExistsError where output_dir is not empty and `overwrite` is not set.
    """
    # Whatever else is read, files that options name among it.
    named = {name: value for name, value in options.items() if name.endswith("_file") and value is not None}
    named |= _numbered(options.get("alignment_files"))
    check_output(output_dir, overwrite, {"source": source, **named})
    with _opened(source) as path:
        found = find_format(path, format)
        foreign = read_foreign(path, found, options)
        if path != Path(source):
            foreign = replace(foreign, files={"source": Path(source), **foreign.files})
        save_foreign(foreign, found, output_dir, overwrite)
    return found, foreign


def find_format(path: Path, name: str | None = None) -> ForeignFormat:
    """The format of a directory or file.

    Args:
        path: What was given, or what an archive was unpacked to.
        name: The format's name where it was given.
    Raises: ConversionError naming the formats there are.
    """
    if name is not None:
        named = [each for each in FORMATS if each.name == name]
        if not named:
            raise ConversionError(f"format is {name!r}; it must be one of {', '.join(each.name for each in FORMATS)}.")
        return named[0]
    for each in FORMATS:
        if each.recognises(path):
            return each
    known = "; ".join(f"{each.name}, {each.files}" for each in FORMATS)
    raise ConversionError(
        f"source {str(path)!r} is of no format that is known here ({known}). Name the directory or file that holds "
        "the model, or say by format what it is."
    )


def read_foreign(path: Path, origin: ForeignFormat, options: dict[str, Any]) -> ForeignModel:
    """Read a directory or file of a format.

    Raises: As `load_foreign`.
    """
    options = dict(options)
    alignment_files = options.pop("alignment_files", None)
    unknown = [name for name, value in options.items() if name not in origin.options and value is not None]
    if unknown:
        raise ConversionError(
            f"{unknown[0]} has no meaning for the format {origin.name}, which knows {', '.join(origin.options)}."
        )
    foreign = origin.load(path, **{name: value for name, value in options.items() if value is not None})
    if not alignment_files:
        return foreign
    align_layers(foreign.model, alignment_files)
    return replace(foreign, files={**foreign.files, **_numbered(alignment_files)})


def _numbered(alignment_files: str | os.PathLike | Sequence[str | os.PathLike] | None) -> dict[str, Path]:
    """The files of matrices by names that tell them apart."""
    files = enumerate(listed(alignment_files or ()))
    return {f"alignment_files {place}": Path(file) for place, file in files if file != NO_MATRIX}


def _innermost(directory: Path) -> Path:
    """The directory itself, or the one that is all there is in it: archives are often made of a folder."""
    # macOS adds a folder of its own.
    inside = [path for path in directory.iterdir() if path.name != "__MACOSX"]
    return _innermost(inside[0]) if len(inside) == 1 and inside[0].is_dir() else directory


@contextmanager
def _opened(source: str | os.PathLike) -> Iterator[Path]:
    """The directory or file that a source is, or what is in an archive."""
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"source {str(source)!r} is not there; name an existing directory or file.")
    if not is_archive(path):
        yield path
        return
    try:
        with unpacked(path, f"source {str(source)!r}") as directory:
            try:
                yield _innermost(directory)
            except (ConversionError, FileNotFoundError) as error:
                # Where it was unpacked to is nowhere when the error is read.
                raise type(error)(str(error).replace(str(directory), str(path))) from error
    except ConversionError:
        raise
    except ValueError as error:
        raise ConversionError(str(error)) from error
