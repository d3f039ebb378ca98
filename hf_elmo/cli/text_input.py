"""What every command asks for that reads a text with a checkpoint, and the lines of that text."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..given.flags import flag

if TYPE_CHECKING:
    from ..text.corpora import Corpus

STANDARD_INPUT = "-"


@dataclass
class ReadingArguments:
    """The checkpoint and the text."""

    model_name_or_path: str = flag("Checkpoint, a directory or a name on the Hub.")
    input_file: str = flag(
        "Text, one sentence per line, or .jsonl or .parquet; each also as .gz, .bz2, .xz or .zst; - for "
        "text from standard input. A quoted glob names several files.",
    )
    text_is_tokenized: bool = flag(
        "Words stand between white space; without it the checkpoint's tokenizer cuts them.", default=False
    )
    text_column: str = flag("Column that holds the text, in JSON and Parquet.", default="text")
    max_words_per_batch: int = flag("Words computed at once, special tokens and padding included.", default=2048)
    device: str | None = flag("cpu, cuda, cuda:1 and so on; left out, cuda where there is one.", default=None)


def read_lines(input_file: str, text_column: str, output_file: str | None = None) -> Iterator[str]:
    """All lines of a text, also those without words; neither stripped nor held in memory.

    Args:
        input_file: A path or glob that the corpus reader knows, or "-" for standard input, as text.
        text_column: Column of JSON and Parquet records that holds the text.
        output_file: What the run writes, which must not be what it reads.
    Raises: FileNotFoundError for a pattern without a file; ValueError for an empty file, for a file that is the
        output_file too, and (when its turn comes) for a line that is not UTF-8.
    """
    if input_file == STANDARD_INPUT:
        return lines_of_standard_input()
    from ..text.corpora import corpus_from_files

    corpus = corpus_from_files([input_file], "input_file", text_column)
    if output_file is not None and Path(output_file).resolve() in (Path(file).resolve() for file in corpus.files):
        raise ValueError(f"output_file {output_file!r} is the input_file too; name another one.")
    return cast(Iterator[str], corpus.lines())


def warn_of_raw_text(arguments: ReadingArguments, pre_tokenizer: str, corpus: Corpus | None = None) -> None:
    """Say, on stderr, where the first lines of a text do not look as the checkpoint will read them.

    Args:
        arguments: Name the text; of standard input nothing is known before it is read.
        pre_tokenizer: How the checkpoint's tokenizer cuts text.
        corpus: The text, where it is open already.
    """
    if arguments.input_file == STANDARD_INPUT:
        return
    from ..text.corpora import corpus_from_files
    from ..text.first_look import look_at

    corpus = corpus or corpus_from_files([arguments.input_file], "input_file", arguments.text_column)
    cut = "whitespace" if arguments.text_is_tokenized else pre_tokenizer
    where = corpus.name if arguments.input_file is None else f"input_file {arguments.input_file!r}"
    for warning in look_at(corpus).warnings(where, cut, can_choose=False):
        print(f"warning: {warning}", file=sys.stderr)


def lines_of_standard_input() -> Iterator[str]:
    """The lines of standard input, which must be UTF-8, as they come.

    Raises: ValueError naming the line that is not UTF-8.
    """
    for number in itertools.count(1):
        line = sys.stdin.buffer.readline()
        if not line:
            return
        try:
            # A mark at the beginning that says in which order bytes come is no part of the first word.
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"input_file '-': line {number} of standard input is not UTF-8; convert the text first, for example "
                "with `iconv -f LATIN1 -t UTF-8`."
            ) from error
        yield text.removesuffix("\n").removesuffix("\r")
