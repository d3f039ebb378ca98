"""Pairs of texts with a label each, such as premise and hypothesis: from JSON of SNLI or KLUE, tables, `datasets`."""

from __future__ import annotations

import os

from datasets import Dataset

from .labelled_texts import LabelledTexts, gather, gather_dataset
from .rows import Column, read_rows

_FIRST_NAMES = ("premise", "sentence1", "text", "question1", "question")
_SECOND_NAMES = ("hypothesis", "sentence2", "text_pair", "question2", "sentence")
_LABEL_NAMES = ("gold_label", "label", "labels")
# By which SNLI says that its annotators did not agree.
_NO_LABEL = ("-",)
_ID_NAMES = ("pairid", "guid", "id", "idx", "index")


def read_pairs(
    path: str | os.PathLike,
    text_column: int | str | None = None,
    text_pair_column: int | str | None = None,
    label_column: int | str | None = None,
    name: str = "file",
) -> LabelledTexts:
    """Read pairs by what the file's name ends in, see `read_rows`; those labelled `-` are counted and left out.

    Args:
        path: The file, UTF-8.
        text_column: Name or number of the column of first texts, the premises; None for the first with a usual name.
        text_pair_column: The same for the second texts, the hypotheses.
        label_column: The same for the labels.
        name: The argument that named the file, for errors.
    Raises: FileNotFoundError; ValueError naming the argument, the file and the line of whatever cannot be read.
    """
    columns = _columns(text_column, text_pair_column, label_column)
    return gather(read_rows(path, columns, name), f"{name} {str(path)!r}", _NO_LABEL)


def pairs_of_dataset(
    dataset: Dataset,
    source: str,
    text_column: int | str | None = None,
    text_pair_column: int | str | None = None,
    label_column: int | str | None = None,
) -> LabelledTexts:
    """Read one split of a dataset with two texts and a label per row; those labelled -1 are left out.

    Raises: ValueError naming the split and the column or the row.
    """
    return gather_dataset(dataset, source, _columns(text_column, text_pair_column, label_column), _NO_LABEL)


def _columns(
    text_column: int | str | None, text_pair_column: int | str | None, label_column: int | str | None
) -> dict[str, Column]:
    return {
        "text": Column("text_column", text_column, _FIRST_NAMES),
        "second": Column("text_pair_column", text_pair_column, _SECOND_NAMES),
        "label": Column("label_column", label_column, _LABEL_NAMES),
        "id": Column("id_column", None, _ID_NAMES, is_optional=True),
    }
