"""The text that a command reads with a checkpoint, and the files that it writes, checked before any work is done."""

from __future__ import annotations

import glob
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..given import flag
from ..text.files import STANDARD_INPUT

if TYPE_CHECKING:
    from ..inference.embedder import ElmoEmbedder
    from ..text.corpora import Corpus


@dataclass(kw_only=True)
class CheckpointArguments:
    """The checkpoint."""

    model_name_or_path: str = flag("Checkpoint, a directory or a name on the Hub.")
    device: str | None = flag("cpu, cuda, cuda:1 and so on; left out, cuda where there is one.", default=None)

    def embedder(self, **options: Any) -> ElmoEmbedder:
        """The checkpoint's embedder."""
        from ..inference.embedder import ElmoEmbedder

        return ElmoEmbedder(self.model_name_or_path, **{"device": self.device, **options})


@dataclass(kw_only=True)
class ReadingArguments(CheckpointArguments):
    """The text."""

    input_file: str = flag(
        "Text, one sentence per line, or .jsonl or .parquet; each also as .gz, .bz2, .xz or .zst; - for "
        "text from standard input. A quoted glob names several files.",
    )
    text_is_tokenized: bool = flag(
        "Words stand between white space; without it the checkpoint's tokenizer cuts them.", default=False
    )
    text_column: str = flag("Column that holds the text, in JSON and Parquet.", default="text")


def open_text(arguments: Any, **options: Any) -> Corpus:
    """The text of --input_file; raises as `corpus_from_files`, whose options these are."""
    from ..text.corpora import corpus_from_file, corpus_from_files

    if arguments.input_file == STANDARD_INPUT:
        return corpus_from_file(STANDARD_INPUT, "input_file")
    return corpus_from_files([arguments.input_file], "input_file", arguments.text_column, **options)


def warn_of_raw_text(arguments: Any, pre_tokenizer: str, corpus: Corpus) -> None:
    """Say, on stderr, where the first lines of a text do not look as a tokenizer with that pre_tokenizer reads them."""
    from ..text.raw_text import look_at

    # Standard input is read once.
    if arguments.input_file != STANDARD_INPUT:
        cut = "whitespace" if arguments.text_is_tokenized else pre_tokenizer
        for warning in look_at(corpus.lines(), corpus.name, cut, can_choose=False):
            print(f"warning: {warning}", file=sys.stderr)


def facts_of(arguments: Any) -> list[str]:
    """What a page says of its model and text, without the folders of this machine."""
    model, text = arguments.model_name_or_path, arguments.input_file
    named = [f"text {Path(text).name}"] if text not in (None, STANDARD_INPUT) else []
    return [f"model {Path(model).resolve().name if Path(model).is_dir() else model}", *named, "drawn by hf_elmo"]


def check_targets(arguments: Any, names: Sequence[str]) -> dict[str, Path]:
    """The files to write by the arguments that name them, but for standard output; the one called "html" is a page.

    Raises: FileExistsError where a name is taken; ValueError where a page is not called .html, or two files are one.
    """
    from ..hub.writing import check_output_file

    read = str(arguments.input_file)
    taken = {Path(file).resolve(): "input_file" for file in (read, *glob.glob(read, recursive=True))}
    targets = {}
    for name in names:
        file = getattr(arguments, name)
        if file in (None, "-"):
            continue
        if name == "html" and not file.endswith((".html", ".htm")):
            raise ValueError(f"--html is {file!r}; it must end in .html.")
        target = Path(file).resolve()
        if target in taken:
            raise ValueError(f"--{name} is {file!r}, which is the {taken[target]} too; name another file.")
        taken[target] = name
        targets[name] = check_output_file(file, arguments.overwrite_output_file, name)
    return targets
