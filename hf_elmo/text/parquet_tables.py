"""Parquet files looked at before they are streamed: what each is, which columns it has and what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import fsspec
import pyarrow as pa
from datasets import Features
from pyarrow import parquet

from ..given.reasons import UNREADABLE, reason
from .packed_lines import UNPACKING_ERRORS


def check_tables(files: Sequence[str], column: str, name: str) -> None:
    """Check by its footer that each file is Parquet and has text in a column.

    Args:
        files: The files, packed or not.
        column: The column of the text.
        name: The argument that names the files.
    Raises: ValueError naming the file, and the columns that there are.
    """
    for file in files:
        with open_table(file, name) as table:
            schema = table.schema_arrow
        try:
            # What `datasets` has written there of the columns, and believes more than the table.
            Features.from_arrow_schema(schema)
        except UNREADABLE as error:
            raise ValueError(
                f"{name} {file!r} says of its columns what `datasets` does not know ({reason(error)}); write it "
                "anew, or read it with the version that wrote it."
            ) from error
        if column not in schema.names:
            raise ValueError(
                f"{name} {file!r} has no column {column!r}; it has {sorted(schema.names)[:20]}. Name the right one "
                "with --text_column."
            )
        if not _is_text(schema.field(column).type):
            raise ValueError(
                f"{name} {file!r}: column {column!r} holds {schema.field(column).type}, not text. Name a column of "
                "strings with --text_column."
            )


def check_rows(file: str, name: str) -> None:
    """Read a file through.

    Raises: ValueError naming the file where it is damaged.
    """
    with open_table(file, name) as table:
        for batch in table.iter_batches():
            # Text that is not UTF-8 is nothing that Parquet itself looks for.
            batch.validate(full=True)


@contextmanager
def open_table(file: str, name: str) -> Iterator[parquet.ParquetFile]:
    """A Parquet file, packed or not.

    Raises: ValueError naming the file where it is none or is damaged, also while it is read.
    """
    try:
        with fsspec.open(file, "rb", compression="infer") as stream:
            yield parquet.ParquetFile(stream)
    # Text that is not UTF-8 and times out of reach are found when they are made Python's.
    except (pa.ArrowException, ArithmeticError, UnicodeDecodeError, *UNPACKING_ERRORS) as error:
        if getattr(error, "errno", None) is not None:
            raise
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"{name} {file!r} is no Parquet file, or is damaged ({said}); get the file again.") from error


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    # A column of nothing but null has no type of its own.
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
