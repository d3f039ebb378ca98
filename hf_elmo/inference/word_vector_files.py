"""Vectors of words without context, layer 0, in word2vec's files, which gensim's KeyedVectors loads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ..checkpoints.writing import check_output_file, files_written_aside
from ..given.bounded_files import quoted
from ..text.packed_lines import decoded_lines
from .embedder import ElmoEmbedder


def read_words(file: str | os.PathLike, name: str = "vocabulary") -> tuple[list[str], int]:
    """The words of a file, one per line, each once, and how many lines repeat an earlier one; empty lines are none.

    Args:
        file: UTF-8; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        name: The argument that names it.
    Raises: FileNotFoundError; ValueError naming the file and the line that is not UTF-8 or holds white space inside,
        which word2vec's files cannot have in a word, or where there are no words.
    """
    words: dict[str, None] = {}
    num_read = 0
    for number, line in decoded_lines(file, name):
        word = line.strip()
        if len(word.split()) > 1:
            where = f"{name} {str(file)!r}, line {number}"
            raise ValueError(f"{where} holds {quoted(word)}; wanted one word per line, without white space inside.")
        if word:
            words[word] = None
            num_read += 1
    if not words:
        raise ValueError(f"{name} {str(file)!r} holds no words; give a file with a word per line.")
    return list(words), num_read - len(words)


def check_word_vector_file(output_file: str | os.PathLike, overwrite: bool = False) -> Path:
    """Check, before any work is done, that word vectors can be written to a file of this name.

    Raises: ValueError where its ending is no format's; FileExistsError when the name is taken.
    """
    if Path(output_file).suffix not in _ENTRIES:
        raise ValueError(
            f"output_file {str(output_file)!r} ends in {Path(output_file).suffix!r}; word vectors are written as .bin, "
            "word2vec's binary file, or .txt or .vec, its text. Give the name one of these endings."
        )
    return check_output_file(output_file, overwrite)


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
        output_file: Its ending says the format. It appears under its name when it is complete.
        overwrite: Whether an existing file may be replaced.
        max_words_per_batch: Words computed at once.
    Returns: The file's path.
    Raises: ValueError or FileExistsError as `check_word_vector_file`.
    """
    target = check_word_vector_file(output_file, overwrite)
    entry = _ENTRIES[target.suffix]
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


_ENTRIES = {".bin": _binary_entry, ".txt": _text_entry, ".vec": _text_entry}
