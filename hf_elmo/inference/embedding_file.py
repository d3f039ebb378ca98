"""Vectors of whole corpora in files: HDF5 as the old tools wrote it, or NumPy's npz; an array per sentence."""

from __future__ import annotations

import itertools
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Literal

import numpy as np

from ..checkpoints.hdf5 import require_h5py
from ..checkpoints.writing import check_output_file, files_written_aside

# Where AllenNLP keeps its map from sentences to the names of their datasets.
SENTENCE_TO_INDEX = "sentence_to_index"
DTYPES = ("float32", "float16")
COMPRESSIONS = ("none", "gzip")

# Takes a name and what to store under it: an array, or a text.
Put = Callable[[str, "np.ndarray | str"], None]


def check_embedding_file(
    output_file: str | os.PathLike,
    overwrite: bool = False,
    dtype: str = "float32",
    compression: str = "none",
) -> Path:
    """Check, before any work is done, that vectors can be written to a file of this name.

    Args:
        output_file: The file to write; its ending says the format.
        overwrite: Whether an existing file may be replaced.
        dtype: Of the numbers in the file, float32 or float16.
        compression: "none" or "gzip".
    Returns: The file's path; a link stands for the file it names.
    Raises: ValueError for another format, dtype or compression; FileExistsError when the name is taken; ImportError
        where the format wants h5py and it is missing.
    """
    for name, value, known in (("storage_dtype", dtype, DTYPES), ("compression", compression, COMPRESSIONS)):
        if value not in known:
            raise ValueError(f"{name} is {value!r}; it must be one of {list(known)}.")
    if _writer_for(output_file) is _hdf5_file:
        require_h5py("vectors of whole corpora")
    return check_output_file(output_file, overwrite)


def write_embeddings(
    output_file: str | os.PathLike,
    arrays: Iterable[np.ndarray],
    sentences: Iterable[str] | None = None,
    overwrite: bool = False,
    dtype: Literal["float32", "float16"] = "float32",
    compression: Literal["none", "gzip"] = "none",
) -> tuple[int, int]:
    """Write vectors to a file, an array per sentence under its number, "0", "1" and so on.

    `.hdf5` or `.h5` has the layout of bilm-tf's dump and of AllenNLP's `elmo` command: `h5py.File(name)["0"]`. `.npz`
    is NumPy's own, `np.load(name)["0"]`. In both, an array is read when it is asked for. The file appears under its
    name when it is complete; where anything fails before, nothing is left behind.

    Args:
        output_file: The file to write; its ending says the format.
        arrays: One array per sentence, as `embed` gives them; taken one by one.
        sentences: The text of each sentence, for an entry `sentence_to_index` as AllenNLP's: (1,), a JSON object from
            sentences to the names of their arrays. Sentences that are alike are all in it, and a JSON reader takes
            the last, as in AllenNLP's. The whole text is held in memory until the end.
        overwrite: Whether an existing file may be replaced.
        dtype: Of the numbers in the file. float16 halves it and keeps three digits.
        compression: "gzip" makes the file about a tenth smaller, and writing several times slower.
    Returns: How many sentences and how many words were written.
    Raises: ValueError as `check_embedding_file`, and when there are not as many sentences as arrays;
        FileExistsError; ImportError; FloatingPointError where a number is too large for float16.
    """
    target = check_embedding_file(output_file, overwrite, dtype, compression)
    num_sentences = num_words = 0
    entries = []
    with files_written_aside(target) as (aside,), _writer_for(output_file)(aside, compression) as put:
        pairs = zip(arrays, itertools.repeat(None)) if sentences is None else itertools.zip_longest(arrays, sentences)
        for array, sentence in pairs:
            if array is None or (sentence is None and sentences is not None):
                raise ValueError(
                    f"sentences and arrays differ in number: one of them ends after {num_sentences}; give each text "
                    "one array, or leave sentences out."
                )
            with np.errstate(over="raise"):
                put(str(num_sentences), array.astype(dtype, copy=False))
            if sentence is not None:
                entries.append(f'{json.dumps(sentence)}: "{num_sentences}"')
            num_sentences += 1
            num_words += array.shape[-2]
        if sentences is not None:
            put(SENTENCE_TO_INDEX, "{" + ", ".join(entries) + "}")
    return num_sentences, num_words


@contextmanager
def _hdf5_file(path: Path, compression: str) -> Iterator[Put]:
    h5py = require_h5py("vectors of whole corpora")
    with h5py.File(path, "w") as file:

        def put(name: str, value: np.ndarray | str) -> None:
            if isinstance(value, str):
                file.create_dataset(name, (1,), dtype=h5py.string_dtype())[0] = value
            # Filters want chunks, which an array without numbers cannot have.
            elif compression == "gzip" and value.size:
                file.create_dataset(name, data=value, compression="gzip", shuffle=True)
            else:
                file.create_dataset(name, data=value)

        yield put


@contextmanager
def _npz_file(path: Path, compression: str) -> Iterator[Put]:
    # np.savez would hold all arrays at once.
    method = zipfile.ZIP_DEFLATED if compression == "gzip" else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as file:

        def put(name: str, value: np.ndarray | str) -> None:
            array = np.array([value]) if isinstance(value, str) else value
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)

        yield put


_WRITERS: dict[str, Callable[[Path, str], AbstractContextManager[Put]]] = {
    ".hdf5": _hdf5_file,
    ".h5": _hdf5_file,
    ".npz": _npz_file,
}


def _writer_for(output_file: str | os.PathLike) -> Callable[[Path, str], AbstractContextManager[Put]]:
    suffix = Path(output_file).suffix
    if suffix not in _WRITERS:
        raise ValueError(
            f"output_file {str(output_file)!r} ends in {suffix!r}; vectors are written as one of "
            f"{', '.join(_WRITERS)}. Give the name one of these endings; Parquet, Arrow and safetensors are written as "
            "shards, into an output_dir."
        )
    return _WRITERS[suffix]
