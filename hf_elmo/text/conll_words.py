"""The words of CoNLL columns and CoNLL-U, a sentence at a time, whatever else stands in the columns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Literal

from ..given.bounded_files import quoted
from .packed_lines import decoded_lines

ColumnFormat = Literal["conll", "conllu"]
# What the names of files of columns end in.
COLUMN_FORMATS: dict[str, ColumnFormat] = {
    ".conllu": "conllu",
    **dict.fromkeys((".conll", ".iob", ".iob2", ".bio"), "conll"),
}
_FORM = 1  # the place of the word in CoNLL-U
_SPACES = re.compile("[ \t]+")
# "3-4" are the two words written as one, "8.1" a word that is not written at all: neither is a word of the sentence.
_RANGE_OR_EMPTY = re.compile(r"\d+[-.]\d+")


def conll_sentences(
    file: str | os.PathLike, column_format: ColumnFormat, word_column: int | None = None, name: str = "input_file"
) -> Iterator[list[str]]:
    """Read the words of a file, UTF-8, with a word per line and a blank line between sentences.

    The first line with words decides what parts columns: tabs, where it has one, else any run of spaces or tabs. Lines
    that begin with `-DOCSTART-` end a sentence and are skipped; of CoNLL-U comments, ranges and empty nodes are, too.

    Args:
        file: Path, or any address that fsspec opens; `.gz`, `.bz2`, `.xz` and `.zst` are unpacked on the way.
        column_format: "conll" or "conllu".
        word_column: Place of the words, from 0, or backwards from -1; None for the format's own: 0, and 1 of CoNLL-U.
        name: The argument that names the file.
    Raises: FileNotFoundError; ValueError naming the file and the line that is not UTF-8 or has no such column.
    """
    column = (_FORM if column_format == "conllu" else 0) if word_column is None else word_column
    has_tabs = True if column_format == "conllu" else None
    sentence: list[str] = []
    for number, line in decoded_lines(file, name):
        where = f"{name} {str(file)!r}, line {number}"
        line = line.rstrip("\r\n")
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            if sentence:
                yield sentence
            sentence = []
            continue
        if column_format == "conllu" and line.startswith("#"):
            continue
        has_tabs = "\t" in line if has_tabs is None else has_tabs
        fields = line.split("\t") if has_tabs else _SPACES.split(line.strip(" \t"))
        if column_format == "conllu" and _RANGE_OR_EMPTY.fullmatch(fields[0]):
            continue
        if not -len(fields) <= column < len(fields):
            raise ValueError(
                f"{where} has {len(fields)} columns ({quoted(line)}), and none with the number {column}; repair the "
                "line, or name another --word_column."
            )
        # A word may be a space and nothing else, as in data cut into characters.
        word = fields[column].strip(" ") or fields[column]
        if not word:
            raise ValueError(f"{where} has an empty word in column {column}; fill it in or remove the line.")
        sentence.append(word)
    if sentence:
        yield sentence
