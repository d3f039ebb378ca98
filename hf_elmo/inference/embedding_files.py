"""Vectors in one file: an array per sentence in HDF5 or NumPy's npz, or a vector per word in word2vec's formats."""

from __future__ import annotations

import itertools
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from ..given.bounded_files import quoted
from ..hub.extras import require
from ..hub.writing import check_output_file, files_written_aside
from ..text.files import decoded_lines
from .embedder import ElmoEmbedder

# Where AllenNLP keeps its map from sentences to the names of their datasets.
SENTENCE_TO_INDEX = "sentence_to_index"
ARRAY_SUFFIXES = (".hdf5", ".h5", ".npz")
WORD_SUFFIXES = (".bin", ".txt", ".vec")

# Takes a name and what to store under it: an array, or a text.
Put = Callable[[str, "np.ndarray | str"], None]


def check_embedding_file(output_file: str | os.PathLike, suffixes: Sequence[str], overwrite: bool = False) -> Path:
    """Check, before any work is done, that vectors can be written to a file of this name.

    Args:
        output_file: The file to write; its suffix says the format.
        suffixes: `ARRAY_SUFFIXES` or `WORD_SUFFIXES`.
        overwrite: Whether an existing file may be replaced.
    Returns: The file's path; a link stands for the file it names.
    Raises: ValueError for another suffix; FileExistsError when the name is taken; ImportError where the format wants
        h5py and it is missing.
    """
    suffix = Path(output_file).suffix
    if suffix not in suffixes:
        raise ValueError(
            f"output_file {str(output_file)!r} ends in {suffix!r}; it must end in one of {', '.join(suffixes)}. Arrow "
            "and Parquet are written as shards, into an output_dir."
        )
    if suffix in (".hdf5", ".h5"):
        require("h5py", "hdf5 files", "conversion")
    return check_output_file(output_file, overwrite)


def write_embeddings(
    output_file: str | os.PathLike,
    arrays: Iterable[np.ndarray],
    sentences: Iterable[str] | None = None,
    overwrite: bool = False,
    dtype: Literal["float32", "float16"] = "float32",
) -> tuple[int, int]:
    """Write vectors to a file, an array per sentence under its number, "0", "1" and so on.

    `.hdf5` or `.h5` has the layout of bilm-tf's dump and of AllenNLP's `elmo` command: `h5py.File(name)["0"]`. `.npz`
    is NumPy's own, `np.load(name)["0"]`. In both, an array is read when it is asked for. The file appears under its
    name when it is complete; where anything fails before, nothing is left behind.

    Args:
        output_file: The file to write; its suffix says the format.
        arrays: One array per sentence, as `embed` gives them; taken one by one.
        sentences: The text of each sentence, for an entry `sentence_to_index` as AllenNLP's: (1,), a JSON object from
            sentences to the names of their arrays. Sentences that are alike are all in it, and a JSON reader takes
            the last, as in AllenNLP's. The whole text is held in memory until the end.
        overwrite: Whether an existing file may be replaced.
        dtype: Of the numbers in the file. float16 halves it and keeps three digits.
    Returns: How many sentences and how many words were written.
    Raises: As `check_embedding_file`; ValueError when there are not as many sentences as arrays; FloatingPointError
        where a number is too large for float16.
    """
    target = check_embedding_file(output_file, ARRAY_SUFFIXES, overwrite)
    open_file = _npz_file if target.suffix == ".npz" else _hdf5_file
    num_sentences = num_words = 0
    entries = []
    with files_written_aside(target) as (aside,), open_file(aside) as put:
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
def _hdf5_file(path: Path) -> Iterator[Put]:
    h5py = require("h5py", "hdf5 files", "conversion")
    with h5py.File(path, "w") as file:

        def put(name: str, value: np.ndarray | str) -> None:
            if isinstance(value, str):
                file.create_dataset(name, (1,), dtype=h5py.string_dtype())[0] = value
            else:
                file.create_dataset(name, data=value)

        yield put


@contextmanager
def _npz_file(path: Path) -> Iterator[Put]:
    # np.savez would hold all arrays at once.
    with zipfile.ZipFile(path, "w") as file:

        def put(name: str, value: np.ndarray | str) -> None:
            array = np.array([value]) if isinstance(value, str) else value
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)

        yield put


def read_words(file: str | os.PathLike, name: str = "vocab_file") -> list[str]:
    """The words of a file, one per line, each once; empty lines are none.

    Args:
        file: UTF-8, compressed or not.
        name: The argument that names it.
    Raises: FileNotFoundError; ValueError naming the file and the line that is not UTF-8 or holds white space inside,
        which word2vec's files cannot have in a word, or where there are no words.
    """
    words: dict[str, None] = {}
    for number, line in decoded_lines(file, name):
        word = line.strip()
        if len(word.split()) > 1:
            where = f"{name} {str(file)!r}, line {number}"
            raise ValueError(f"{where} holds {quoted(word)}; wanted one word per line, without white space inside.")
        if word:
            words[word] = None
    if not words:
        raise ValueError(f"{name} {str(file)!r} holds no words; give a file with a word per line.")
    return list(words)


def write_word_vectors(
    embedder: ElmoEmbedder,
    words: Sequence[str],
    output_file: str | os.PathLike,
    overwrite: bool = False,
    max_words_per_batch: int = 2048,
) -> Path:
    """Write the token encoder's vector of each word, P numbers: half of layer 0, whose two halves are the same.

    `gensim.models.KeyedVectors.load_word2vec_format(name, binary=True)` loads `.bin`, and without `binary` the others.

    Args:
        embedder: Gives the vectors.
        words: Each once, without white space.
        output_file: Its suffix says the format. It appears under its name when it is complete.
        overwrite: Whether an existing file may be replaced.
        max_words_per_batch: Words computed at once.
    Returns: The file's path.
    Raises: As `check_embedding_file`.
    """
    target = check_embedding_file(output_file, WORD_SUFFIXES, overwrite)
    entry = _binary_entry if target.suffix == ".bin" else _text_entry
    with files_written_aside(target) as (aside,), open(aside, "wb") as file:
        file.write(f"{len(words)} {embedder.vector_size // 2}\n".encode())
        for start in range(0, len(words), max_words_per_batch):
            part = words[start : start + max_words_per_batch]
            file.writelines(map(entry, part, encode_words(embedder, part)))
    return target


@torch.inference_mode()
def encode_words(embedder: ElmoEmbedder, words: Sequence[str]) -> np.ndarray:
    """The token encoder's vectors of words as they are read, lower-cased for example, (words, P), float32."""
    rows = torch.from_numpy(embedder.tokenizer.encode_words(words)).to(embedder.device)
    return embedder.model.token_encoder(rows).float().cpu().numpy()


def _binary_entry(word: str, vector: np.ndarray) -> bytes:
    return f"{word} ".encode() + vector.astype("<f4").tobytes()


def _text_entry(word: str, vector: np.ndarray) -> bytes:
    # Nine digits are every number of float32.
    return f"{word} {' '.join(map('{:.9g}'.format, vector.tolist()))}\n".encode()
