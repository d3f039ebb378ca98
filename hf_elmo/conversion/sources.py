"""Other programs' ELMo checkpoints: the formats, archives of them, and the one way in for all."""

from __future__ import annotations

import inspect
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer

from ..given import MEBIBYTE, reason
from ..hub import CONVERSION_FILE
from ..hub.cards import write_card
from ..hub.provenance import describe_file, describe_run, write_json
from ..hub.writing import check_keeps_inputs, check_output_directory, written_aside
from ..model import write_code
from ..model.modeling_elmo import ElmoPreTrainedModel
from . import allennlp, bilm_tf, elmoformanylangs
from .alignment import NO_MATRIX, align_layers
from .reading import MOST_COMPRESSION, Converted

# What unpacks to more than MOST_COMPRESSION times its size, and to more than this, is made to fill a disk.
_SMALL = 16 * MEBIBYTE

# Each is a module that `recognizes` a source and can `read` it; the first that recognizes one reads it.
FORMATS = {"allennlp": allennlp, "elmoformanylangs": elmoformanylangs, "bilm-tf": bilm_tf}


def load_external(source: str | os.PathLike, **options: Any) -> tuple[ElmoPreTrainedModel, PreTrainedTokenizer]:
    """Read an ELMo checkpoint of another program, a directory, archive or file, without writing anything.

    Args:
        options: `options_file`, `softmax_file` and `vocab_file`, as far as the format knows them, for files that are
            not beside the weights; `tokenizer_options`, arguments of `ElmoCharTokenizer`; and `alignment_files`, see
            `alignment.align_layers`.
    Returns: The model, in evaluation mode, and its tokenizer.
    Raises: ValueError where the source is of no known format, damaged, or no model that can be held here, or an option
        is not known to its format; FileNotFoundError; ImportError.
    """
    with _opened(source) as path:
        _, converted = _read(source, path, options)
    return converted.model, converted.tokenizer


def convert(
    source: str | os.PathLike, output_dir: str | os.PathLike, overwrite: bool = False, **options: Any
) -> tuple[str, Converted]:
    """As `load_external`, into a directory that AutoModel and AutoTokenizer load, with a card; all of it or nothing.

    Returns: The name of the format, and what was read.
    """
    inputs = {name: value for name, value in options.items() if name.endswith("_file") and value is not None}
    inputs |= {"source": source, **_numbered(options.get("alignment_files"))}
    check_keeps_inputs(output_dir, inputs.items())
    check_output_directory(output_dir, overwrite)
    with _opened(source) as path:
        name, converted = _read(source, path, options)
        files = converted.files if path == Path(source) else {"source": Path(source), **converted.files}
        with written_aside(output_dir, overwrite) as directory:
            converted.model.save_pretrained(directory)
            converted.tokenizer.save_pretrained(directory)
            write_code(directory)
            if converted.words is not None:
                converted.words.save(directory)
            facts = {
                "format": name,
                "files": {argument: describe_file(file) for argument, file in files.items()},
                "options": converted.options,
                "license": f"{FORMATS[name].LICENSE}; the weights have the license of whoever published them.",
                "notes": converted.notes,
            }
            write_json(directory / CONVERSION_FILE, facts | describe_run())
            write_card(directory, Path(output_dir).resolve().name)
    return name, replace(converted, files=files)


def _read(source: str | os.PathLike, path: Path, options: Mapping[str, Any]) -> tuple[str, Converted]:
    name = next((each for each, format in FORMATS.items() if format.recognizes(path)), None)
    if name is None:
        known = "; ".join(f"{format.FILES} ({each})" for each, format in FORMATS.items())
        raise ValueError(f"source {str(source)!r} is of no known format; expected {known}.")
    given = {option: value for option, value in options.items() if value is not None and option != "alignment_files"}
    known_options = [*inspect.signature(FORMATS[name].read).parameters][1:]
    if unknown := given.keys() - known_options:
        raise ValueError(
            f"{min(unknown)} has no meaning for the format {name}, which knows {', '.join(known_options)}."
        )
    converted = FORMATS[name].read(path, **given)
    matrices = options.get("alignment_files")
    if matrices:
        align_layers(converted.model, matrices)
    return name, replace(converted, files={**converted.files, **_numbered(matrices)})


def _numbered(alignment_files: Sequence[str | os.PathLike] | None) -> dict[str, Path]:
    """The files of matrices by names that tell them apart."""
    return {f"alignment_files {n}": Path(file) for n, file in enumerate(alignment_files or ()) if file != NO_MATRIX}


@contextmanager
def _opened(source: str | os.PathLike) -> Iterator[Path]:
    """The directory or file that a source is; of an archive the directory with its files, which is gone afterwards."""
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"source {str(source)!r} does not exist; name a directory or a file.")
    with tempfile.TemporaryDirectory(prefix="hf_elmo.") as folder:
        try:
            is_archive = path.is_file() and _unpack(path, Path(folder))
        except Exception as error:  # what the libraries raise depends on where the damage lies
            raise ValueError(f"source {str(source)!r} cannot be unpacked ({reason(error)}); get it again.") from error
        if not is_archive:
            yield path
            return
        inside = Path(folder)
        # Archives are often made of a folder, to which macOS adds one of its own.
        while len(names := [name for name in inside.iterdir() if name.name != "__MACOSX"]) == 1 and names[0].is_dir():
            inside = names[0]
        try:
            yield inside
        except (ValueError, FileNotFoundError) as error:
            # Where it was unpacked to is gone when the error is read.
            kind = ValueError if isinstance(error, ValueError) else FileNotFoundError
            raise kind(str(error).replace(str(inside), str(path))) from error


def _unpack(path: Path, folder: Path) -> bool:
    """Unpack an archive whose members are files and directories; False where it is no zip or tar archive."""
    most = MOST_COMPRESSION * path.stat().st_size + _SMALL
    with path.open("rb") as stream:
        is_zip = stream.read(2) == b"PK"
    if is_zip:
        with zipfile.ZipFile(path) as archive:
            _check_size(sum(member.file_size for member in archive.infolist()), most)
            # Names that lead out of the folder are taken for names within, and links for files.
            archive.extractall(folder)
        return True
    if not tarfile.is_tarfile(path):
        return False
    with tarfile.open(path) as tar:
        size = 0
        for member in tar:
            _check_size(size := size + member.size, most)
            if not member.isfile() and not member.isdir():
                raise ValueError(f"{member.name[:80]!r} is a link or a device")
        tar.extractall(folder, filter="data")
        # A damaged header looks like the end, and gzip and xz compare their checksum behind the last byte.
        behind: Any = tar.fileobj
        behind.seek(tar.offset)
        while rest := behind.read(MEBIBYTE):
            _check_size(size := size + len(rest), most)
            if rest.strip(b"\0"):
                raise ValueError(f"what begins at byte {tar.offset} is no member of it")
    return True


def _check_size(num_bytes: int, most: int) -> None:
    if num_bytes > most:
        raise ValueError(f"it unpacks to more than {most:,} bytes, as no weights do")
