"""The vocabulary file of a bilm-tf model: the words of its softmax, and of its table where it reads words."""

from __future__ import annotations

import gzip
import os
import string
import zlib
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np

from ..given.bounded_files import MEBIBYTE, read_at_most
from ..text.vocabulary import SPECIAL_WORDS, WordVocabulary
from .checked_files import ConversionError, existing_file, one_line

# Closes the lists of words of the One Billion Word benchmark; bilm-tf passes over it, so that it has no row.
_END_OF_LIST = "!!!MAXTERMID"
# The largest list that is known has 8 MB.
_MOST_BYTES = 1024 * MEBIBYTE


@dataclass(frozen=True)
class ForeignWords:
    """The words of a vocabulary file.

    Args:
        where: What errors call the file.
        vocabulary: The words, the special ones first.
        places: The place in the file of each of them, as its rows of weights stand.
    """

    where: str
    vocabulary: WordVocabulary
    places: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.places)

    def reorder(self, rows: np.ndarray) -> np.ndarray:
        """Rows in the order of the file, (V, ...), in the order of the vocabulary."""
        return rows if self.places == tuple(range(len(self))) else rows[list(self.places)]


def read_vocabulary(vocab_file: str | os.PathLike) -> ForeignWords:
    """Read a vocabulary file, one word per line, packed by gzip where its name ends in .gz.

    bilm-tf finds `<S>`, `</S>` and `<UNK>` wherever they stand (in the released models' file `</S>` is the first line);
    here they come first.

    Raises: ConversionError naming the file, what was found and what is wanted; FileNotFoundError.
    """
    where = f"vocab_file {str(vocab_file)!r}"
    words = _read_words(where, vocab_file)
    missing = [word for word in SPECIAL_WORDS if word not in words]
    if missing:
        raise ConversionError(
            f"{where} has no line {missing[0]!r} among its {len(words)} words; bilm-tf's lists hold "
            f"{', '.join(SPECIAL_WORDS)}. Name the file that the model was trained with."
        )
    special = [words.index(word) for word in SPECIAL_WORDS]
    places = (*special, *(place for place in range(len(words)) if place not in special))
    try:
        vocabulary = WordVocabulary([words[place] for place in places])
    except ValueError as error:
        raise ConversionError(f"{where}: {one_line(error)}") from error
    return ForeignWords(where, vocabulary, places)


def encode_words(vocabulary: WordVocabulary) -> bytes:
    """A vocabulary as bilm-tf's file, one word per line."""
    return "".join(f"{word}\n" for word in vocabulary.words).encode("utf-8")


def _read_words(where: str, vocab_file: str | os.PathLike) -> list[str]:
    path = existing_file("vocab_file", vocab_file)
    try:
        with cast("BinaryIO", gzip.open(path)) if path.suffix == ".gz" else path.open("rb") as stream:
            lines = read_at_most(stream, _MOST_BYTES, where).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConversionError(f"{where} is not UTF-8: see line {line}. Convert it first.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ConversionError(
            f"{where} is not packed by gzip, or damaged ({one_line(error)}); get it again."
        ) from error
    if lines[-1] == "":
        lines.pop()
    # bilm-tf strips white space of any kind. Here only ASCII's: "x" with a no-break space would be a second "x".
    words = [line.strip(string.whitespace) for line in lines]
    return [word for word in words if word != _END_OF_LIST]
