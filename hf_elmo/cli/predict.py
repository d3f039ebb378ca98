"""Predictions of a task's model, on the screen and in files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..given import check_choices, check_least, flag
from ..tasks import TASKS, task_of
from ..text.arguments import PreTokenizer
from .text_input import STANDARD_INPUT, ReadingArguments, check_targets, facts_of, open_text, warn_of_raw_text

EXAMPLES = """
examples:
  hf-elmo predict "Alice flew to New York ." --model_name_or_path output/my-tagger
  hf-elmo predict --model_name_or_path output/my-tagger --input_file text.txt --output_file tagged.conll
  hf-elmo predict "A man sleeps ." --text_pair "Nobody is awake ." --model_name_or_path output/my-entailment
  hf-elmo predict "Who sat ?" --text_pair "The cat sat ." --model_name_or_path output/my-reader
  hf-elmo predict --model_name_or_path output/my-coreference --input_file chapter.txt --output_file clusters.json
  hf-elmo predict --model_name_or_path output/my-coreference --input_file chapter.txt --html clusters.html
  cat text.txt | hf-elmo predict --model_name_or_path output/my-tagger --input_file -
"""
# Browsers grow slow on longer pages.
_MOST_DRAWN = 1000


@dataclass(kw_only=True)
class PredictionArguments(ReadingArguments):
    """What is predicted, and where it is written."""

    input_file: str | None = flag(  # type: ignore[assignment]
        "Text, one sentence per line (for text pairs both texts, for question answering a question and its context, "
        "with a tab between them; or SQuAD's .json; for labels of words and semantic roles also the words of CoNLL "
        "columns), or .jsonl or .parquet; each also as .gz, .bz2, .xz or .zst; - for text from standard input. A "
        "quoted glob names several files.",
        default=None,
    )
    text: list[str] | None = flag("Sentences, each in quotes.", default=None, positional=True)
    pre_tokenizer: PreTokenizer | None = flag(
        "Pre-tokenizer in place of the checkpoint's: penn for raw English, unicode for raw text, punctuation, or "
        "whitespace.",
        default=None,
    )
    text_pair: str | None = flag("Second text of all pairs, or the context of all questions.", default=None)
    output_file: str | None = flag(
        "File of predictions: .conll for token classification, semantic roles and coreference, .tsv or .jsonl for text "
        "classification, .json (SQuAD's) or .jsonl for answers, .json for coreference. Default: print them.",
        default=None,
    )
    html: str | None = flag(
        "Page of predictions, one .html file that needs no network and runs no scripts; with or without an "
        "output_file.",
        default=None,
    )
    overwrite_output_file: bool = flag("Replace an existing output file or page, at the end of the run.", default=False)
    max_words_per_batch: int = flag("Words computed at once, special tokens and padding included.", default=2048)
    convert_scheme: Literal["IOB1", "IOB2", "BIOES"] | None = flag(
        "Tag scheme of the output, in place of the model's.", default=None
    )

    @property
    def output_suffix(self) -> str:
        """What the name of the output file ends in, ".jsonl" for example; "" where there is none."""
        return "" if self.output_file is None else Path(self.output_file).suffix

    def check(self) -> dict[str, Path]:
        """Check, before any work is done, what is read and written; the files to write by what names them.

        Raises: ValueError or FileExistsError naming the argument.
        """
        check_choices(self)
        check_least(self, ["max_words_per_batch"], 1)
        if (self.input_file is None) == (self.text is None):
            given = "no text" if self.text is None else f"both sentences and input_file {self.input_file!r}"
            raise ValueError(f"{given} given; wanted sentences in quotes, or --input_file FILE (- for standard input).")
        return check_targets(self, ("output_file", "html"))

    def lines(self, takes_words: bool) -> Iterator[Any]:
        """The lines of the input, those of the command line or of the file, also without words; with takes_words those
        of CoNLL columns and of JSON lists are lists of words.

        Raises: FileNotFoundError or ValueError as `open_text`.
        """
        if self.text is not None or self.input_file is None:
            return iter(self.text or ())
        if self.input_file == STANDARD_INPUT and sys.stdin.isatty():
            print("Sentences, one a line; end with Ctrl-D:", file=sys.stderr)
        return open_text(self, takes_words=takes_words).lines()


def predict(arguments: PredictionArguments) -> None:
    """Apply a checkpoint of a task to text of one's own.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..hub.loading import load_config
    from ..hub.writing import files_written_aside
    from ..inference.pages import render_spans
    from ..text.progress import track

    targets = arguments.check()
    architectures = load_config(arguments.model_name_or_path).architectures or []
    entry = task_of(architectures)
    predictor_class = None if entry is None else entry.load().predictor_class
    if predictor_class is None:
        raise ValueError(
            f"model_name_or_path {arguments.model_name_or_path!r} is a checkpoint of "
            f"{', '.join(architectures) or 'no class'}; wanted one that was trained for a task: {', '.join(TASKS)}."
        )
    predictor = predictor_class(arguments)
    if arguments.input_file is not None and "text_is_tokenized" not in predictor.refuses:
        corpus = open_text(arguments, takes_words=predictor.takes_words)
        warn_of_raw_text(arguments, predictor.tokenizer.pre_tokenizer, corpus)
    drawn: list[Any] = []
    count = 0

    def predictions() -> Iterator[Any]:
        nonlocal count
        for count, prediction in enumerate(predictor.predict(), start=1):
            if "html" in targets and count <= _MOST_DRAWN:
                drawn.append(prediction)
            yield prediction
        if not count:
            given = "text" if arguments.input_file is None else f"input_file {arguments.input_file!r}"
            raise ValueError(f"{given} holds no text; give one with text in it.")

    if not targets:
        for prediction in predictions():
            for line in predictor.show(*prediction):
                print(line)
        return
    # All of the files at the end, or none.
    with files_written_aside(*targets.values()) as asides:
        aside = dict(zip(targets, asides, strict=True))
        # Where a page alone is wanted, what is written is dropped.
        with open(aside.get("output_file", os.devnull), "w", encoding="utf-8", newline="\n") as file:
            lines = predictor.lines(track(predictions(), "predicting", predictor.unit))
            file.writelines(f"{line}\n" for line in lines)
        if "html" in aside:
            left_out = [f"the first {len(drawn):,} of {count:,} {predictor.unit}"] if len(drawn) < count else []
            page = render_spans(predictor.title, predictor.draw(drawn), [*facts_of(arguments), *left_out])
            aside["html"].write_text(page, encoding="utf-8", newline="\n")
    names = " and ".join(str(getattr(arguments, name)) for name in targets)
    print(f"Wrote {names}: {count:,} {predictor.unit}.")
