"""Vectors in one file: an array per sentence in HDF5 or NumPy's npz, or a vector per word in word2vec's formats."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..given import quoted
from ..hub.extras import require
from ..hub.writing import check_output_file, files_written_aside
from ..text.files import decoded_lines
from .embedder import ElmoEmbedder

ARRAY_SUFFIXES = (".hdf5", ".h5", ".npz")
WORD_SUFFIXES = (".bin", ".txt", ".vec")


def check_embedding_file(output_file: str | os.PathLike, suffixes: Sequence[str], overwrite: bool = False) -> Path:
    """The path of a file that vectors can be written to, `ARRAY_SUFFIXES` or `WORD_SUFFIXES` being its formats."""
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
    target: Path, arrays: Iterable[np.ndarray], sentences: Iterable[str] = (), dtype: str = "float32"
) -> tuple[int, int]:
    """Write an array per sentence under its number, "0", "1" and so on; the file appears when it is complete.

    HDF5 has the layout of bilm-tf's dump and of AllenNLP's `elmo` command, `sentence_to_index` with it: a JSON object
    from the sentences, which are looked at in the end, to the names of their arrays, of equal ones the last.

    Returns: How many sentences and how many words were written.
    Raises: FloatingPointError where a number is too large for float16.
    """
    num_sentences = num_words = 0
    with files_written_aside(target) as (aside,), _open_arrays(aside) as put:
        for array in arrays:
            with np.errstate(over="raise"):
                put(str(num_sentences), array.astype(dtype, copy=False))
            num_sentences += 1
            num_words += array.shape[-2]
        if target.suffix != ".npz":
            put("sentence_to_index", [json.dumps({text: str(number) for number, text in enumerate(sentences)})])
    return num_sentences, num_words


@contextmanager
def _open_arrays(path: Path) -> Iterator[Callable[[str, Any], object]]:
    if path.suffix == ".npz":
        # np.savez would hold all arrays at once.
        with zipfile.ZipFile(path, "w") as archive:

            def put(name: str, array: np.ndarray) -> None:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array)

            yield put
        return
    h5py = require("h5py", "hdf5 files", "conversion")
    with h5py.File(path, "w") as file:
        yield lambda name, array: file.create_dataset(name, data=array)


def read_words(file: str | os.PathLike, name: str = "vocab_file") -> list[str]:
    """The words of a file, one per line, each once; ValueError names a line with white space inside, or not UTF-8."""
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


@torch.inference_mode()
def write_word_vectors(
    embedder: ElmoEmbedder, words: Sequence[str], target: Path, max_words_per_batch: int = 2048
) -> None:
    """Write the token encoder's vector of each word, P numbers: half of layer 0, whose two halves are the same.

    `gensim.models.KeyedVectors.load_word2vec_format(name, binary=True)` loads `.bin`, and without `binary` the others.
    The words are read as the tokenizer has them, lower-cased for example.
    """
    with files_written_aside(target) as (aside,), open(aside, "wb") as file:
        file.write(f"{len(words)} {embedder.vector_size // 2}\n".encode())
        for start in range(0, len(words), max_words_per_batch):
            part = words[start : start + max_words_per_batch]
            rows = torch.from_numpy(embedder.tokenizer.encode_words(part)).to(embedder.device)
            vectors = embedder.model.token_encoder(rows).float().cpu().numpy()
            for word, vector in zip(part, vectors.astype("<f4"), strict=True):
                # Nine digits are every number of float32.
                digits = f"{' '.join(map('{:.9g}'.format, vector.tolist()))}\n".encode()
                file.write(f"{word} ".encode() + (vector.tobytes() if target.suffix == ".bin" else digits))
