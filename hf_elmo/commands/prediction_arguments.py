"""What `hf-elmo predict` asks for, whatever the task, and the lines that it reads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..given.flags import flag
from ..text.cutting import PreTokenizer
from .text_input import STANDARD_INPUT, ReadingArguments, read_lines


@dataclass(kw_only=True)
class PredictionArguments(ReadingArguments):
    """What is predicted, and where it is written."""

    input_file: str | None = flag(  # type: ignore[assignment]
        "Text, one sentence per line (of classifiers of pairs both texts, of readers a question and its context, "
        "a tab between them), or .jsonl or .parquet; "
        "each also as .gz, .bz2, .xz or .zst; - for text from standard input. A quoted glob names several files.",
        default=None,
    )
    text: list[str] | None = flag("Sentences, each in quotes.", default=None, positional=True)
    pre_tokenizer: PreTokenizer | None = flag(
        "How text is cut into words, where not as by the checkpoint's tokenizer: penn for raw English, unicode for raw "
        "text, punctuation, or whitespace.",
        default=None,
    )
    text_pair: str | None = flag(
        "The second text of all pairs, for classifiers of pairs, or the context of all questions, for readers; without "
        "it a tab parts the texts of each.",
        default=None,
    )
    output_file: str | None = flag(
        "File to write in the task's own form, in one rename at the end: of taggers CoNLL columns, word and label; of "
        "classifiers the number of each line, from 0, its label and all probabilities between tabs, or where the name "
        "ends in .jsonl an object per line; of readers SQuAD's JSON of answers, or .jsonl; of coreference models JSON "
        "with character offsets, or where the name ends in .conll CoNLL-2012's columns. Without it the predictions are "
        "shown.",
        default=None,
    )
    html: str | None = flag(
        "Page to write, with or without an output_file: one .html file to open in a browser, which needs no network "
        "and runs no scripts, with answers marked in their contexts, roles above their predicates, and clusters, "
        "entities and labels in colours.",
        default=None,
    )
    overwrite_output_file: bool = flag(
        "Replace an existing output file or page when the run has ended well.", default=False
    )
    convert_scheme: Literal["IOB1", "IOB2", "BIOES"] | None = flag(
        "Write the labels of spans in this scheme, whatever the model's.", default=None
    )

    @property
    def output_ending(self) -> str:
        """What the name of the output file ends in, ".jsonl" for example; "" where there is none."""
        return "" if self.output_file is None else Path(self.output_file).suffix

    def lines(self) -> Iterator[str]:
        """The lines of the input, those of the command line or of the file, also without words.

        Raises: FileNotFoundError or ValueError as `read_lines`.
        """
        if self.text is not None or self.input_file is None:
            return iter(self.text or ())
        if self.input_file == STANDARD_INPUT and sys.stdin.isatty():
            print("Sentences, one a line; end with Ctrl-D:", file=sys.stderr)
        return read_lines(self.input_file, self.text_column, self.output_file)
