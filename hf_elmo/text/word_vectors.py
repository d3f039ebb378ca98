"""Word vectors from GloVe and word2vec text files, and the words that a model's table of vectors is filled with."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch

from ..given import quoted
from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel, ElmoTaskModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .files import numbered_lines

_SPECIAL = (BOS_TOKEN, EOS_TOKEN)
# Words whose rows are made at a time: the tokenizer's rows take eight bytes per character, the kept ones two.
_WORDS_AT_A_TIME = 2**16
# Of a word and its numbers, in bytes; the largest vectors in use take some thousands.
_LONGEST_LINE = 2**24
_HEADER = re.compile(rb"\s*\d{1,15}\s+\d{1,15}\s*")


class WordVectors(NamedTuple):
    """The words of a file, each once and in its order, and their vectors, (words, D), float32."""

    words: list[str]
    vectors: np.ndarray


def read_word_vectors(
    file: str | os.PathLike,
    words: Iterable[str] | None = None,
    vector_size: int | None = None,
    lower_case: bool = False,
) -> WordVectors:
    """Read the vectors of the wanted words from a text file; no others are held in memory.

    A line is a word and its D numbers, as in GloVe's files; a first line of two whole numbers is word2vec's count of
    words and size. The last D fields of a line are its vector: words may hold spaces, as in GloVe's 840B file. Of a
    word that stands there twice the first vector is taken, as gensim does. Numbers of words that are not wanted are
    not checked, nor are the lines after the last word that is.

    Args:
        file: As of `numbered_lines`.
        words: Words to look for; None for all.
        vector_size: Size D of the vectors; None takes it from the first line, whose word then has to be without spaces.
        lower_case: Whether the file's words are lower-cased, `<S>` and `</S>` excepted.
    Raises: FileNotFoundError; ValueError naming the file and the line where it is damaged, or when no word is found.
    """
    wanted = None if words is None else set(words)
    found: dict[str, None] = {}
    numbers, num_entries, promised, size = array("f"), 0, None, vector_size
    for number, line in numbered_lines(file, "word_vectors", _LONGEST_LINE):
        where = f"word_vectors {str(file)!r}, line {number}"
        # White space is ASCII's alone, as it is in bytes: some files hold words that are a no-break space.
        parts = line.split()
        if not num_entries and promised is None and _HEADER.fullmatch(line):
            promised, size = map(int, parts)
            if vector_size not in (None, size):
                raise ValueError(f"{where}: the vectors have the size {size}, but word_vector_size is {vector_size}.")
        elif parts:
            num_entries += 1
            size = len(parts) - 1 if size is None else size
            name, fields = parts[:-size], parts[-size:]
            # Words may hold spaces, but one that ends in a number is a vector that is too long.
            if size < 1 or not name or (len(name) > 1 and _as_numbers(name[-1:]) is not None):
                raise ValueError(
                    f"{where} has {len(parts)} fields; wanted a word and {max(size, 1)} numbers, as the lines before "
                    "it or word_vector_size have them."
                )
            try:
                raw = name[0] if len(name) == 1 else line.rsplit(None, size)[0].lstrip()
                word = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{where} is not UTF-8 ({error}). Convert it first.") from error
            word = word.lower() if lower_case and word not in _SPECIAL else word
            if word not in found and (wanted is None or word in wanted):
                vector = _as_numbers(fields)
                if vector is None:
                    raise ValueError(f"{where} holds {quoted(fields)} where finite numbers are wanted; mend the line.")
                numbers.frombytes(vector.tobytes())
                found[word] = None
                if wanted is not None and len(found) == len(wanted):
                    break
    else:
        if promised not in (None, num_entries) or not num_entries:
            raise ValueError(
                f"word_vectors {str(file)!r} holds {num_entries} vectors{f' of {promised}' if promised else ''}; it is "
                "empty, damaged or was cut off. Get it again."
            )
    if wanted is not None and not found:
        raise ValueError(
            f"word_vectors {str(file)!r} has no vector for any of the {len(wanted)} wanted words; check the language "
            "and the case of its words (--do_lower_case)."
        )
    return WordVectors(list(found), np.frombuffer(numbers, dtype=np.float32).reshape(len(found), -1))


def _as_numbers(fields: list[bytes]) -> np.ndarray | None:
    """The numbers of some fields, (D,), float32; None where they are not all finite numbers."""
    try:
        with np.errstate(over="ignore"):
            numbers = np.array(fields, dtype=np.float32)
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


@dataclass
class WordTable:
    """What a model's table of word vectors is filled with."""

    rows: np.ndarray  # character ids of the words, (V, C), int16, each row once
    vectors: np.ndarray | None  # theirs, (V, D), float32; None for those that are learned from what the model has
    unknown: np.ndarray | None  # the vector of all other words, (D,); None as before

    def fill(self, model: ElmoPreTrainedModel) -> None:
        """Fill the table that a model has of its task's own, or else that of its token encoder.

        Raises: ValueError when the model has no table or one of another size.
        """
        table = model.features.word_table if isinstance(model, ElmoTaskModel) else None
        table = table or cast(ElmoModel, model.base_model).token_encoder.word_table
        if table is None:
            raise ValueError(
                f"the config's token_inputs is {model.config.token_inputs!r}, which has no word table to fill; set it "
                "to 'words' or 'both' before the model is built, or the word_table_size of a task's head."
            )
        parts = (None if part is None else torch.from_numpy(part) for part in (self.vectors, self.unknown))
        table.fill(torch.from_numpy(self.rows), *parts)


def build_word_table(
    tokenizer: ElmoCharTokenizer, words: Sequence[str], vectors: np.ndarray | None = None
) -> WordTable:
    """Make the rows of words as the tokenizer makes those of text, those of `<S>` and `</S>` too.

    Where two words have one row (by lower-casing, or because their first bytes fill the row) the first is taken. With
    vectors, `<S>` and `</S>` where they have none get numbers drawn with the mean and the spread of the others, and the
    vector of unknown words is the mean of all.

    Args:
        tokenizer, words: What makes the rows, and of which words.
        vectors: A vector for each, (words, D), float32; None for a table that is learned.
    Raises: ValueError when there are not as many vectors as words.
    """
    if vectors is not None and len(vectors) != len(words):
        raise ValueError(f"vectors has {len(vectors)} rows, but words has {len(words)}; give one vector per word.")
    special = [word for word in _SPECIAL if word not in words]
    every = [*words, *special]
    parts = (every[start : start + _WORDS_AT_A_TIME] for start in range(0, len(every), _WORDS_AT_A_TIME))
    rows = np.concatenate([tokenizer.encode_words(part).astype(np.int16) for part in parts])
    firsts = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    if vectors is None:
        return WordTable(rows[firsts], None, None)
    unknown = vectors.mean(axis=0)
    drawn = np.random.default_rng(0).normal(unknown, vectors.std(axis=0), (len(special), vectors.shape[1]))
    return WordTable(rows[firsts], np.concatenate([vectors, drawn.astype(vectors.dtype)])[firsts], unknown)
