"""Draw how surprising the words of a text are, as a heat map, and write a row for each word as the text has it."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..given.flags import flag
from .command_line import run_command
from .look_pages import PageArguments
from .text_input import read_lines, warn_of_raw_text

_EXAMPLES = """
examples:
  hf-elmo look surprisal --model_name_or_path output/my-elmo --input_file story.txt --output_file story.html
"""
_COLUMNS = ("line", "position", "word", "forward", "backward", "both", "pieces", "unknown")


@dataclass(kw_only=True)
class SurprisalArguments(PageArguments):
    """What is drawn."""

    endings = (".tsv",)

    output_file: str = flag(
        "Page to write, .html; beside it stand the picture, .png, and a table, .tsv, with the bits of each word as "
        "white space cuts the text: the sums over the pieces that the model reads."
    )
    direction: Literal["forward", "backward", "both"] = flag(
        "What the picture, and the page at first, shows: surprisal by what is left of a word, right of it, or both.",
        default="forward",
    )
    carry_state: bool = flag(
        "Carry the state from line to line, as in one long text; without it each line is read by itself.", default=False
    )
    vocab_file: str | None = flag("Words of the softmax, one per line.", default=None)

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """What --help says of flags whose default is worked out later."""
        return super().shown_defaults() | {"vocab_file": "those of the checkpoint"}


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(SurprisalArguments, look_at_surprisal, argv, prog, __doc__, _EXAMPLES)


def look_at_surprisal(arguments: SurprisalArguments) -> None:
    """Write the page, the table and the picture.

    Raises: ValueError, OSError or ImportError naming the argument, or what is not installed.
    """
    from ..checkpoints.writing import files_written_aside
    from ..inference.scorer import ElmoScorer
    from ..inference.surprisal import DIRECTIONS, sum_by_spaces
    from ..inference.surprisal_page import plot_surprisals, render_surprisals
    from ..inference.word_places import place_words
    from ..text.progress import track

    arguments.check()
    scorer = ElmoScorer(
        arguments.model_name_or_path,
        arguments.vocab_file,
        arguments.device,
        max_words_per_batch=arguments.max_words_per_batch,
    )
    warn_of_raw_text(arguments, scorer.tokenizer.pre_tokenizer)
    placed = (
        (number, line, place_words(line, scorer.tokenizer, arguments.text_is_tokenized))
        for number, line in enumerate(read_lines(arguments.input_file, arguments.text_column))
    )
    kept, read = itertools.tee(each for each in placed if each[2].words)
    stream = scorer.stream((each.words for _, _, each in read), arguments.carry_state)
    numbers, lines = [], []
    # The scores first: the lines are those that have been scored.
    for scores, (number, line, each) in zip(track(stream, "scoring", "sentences"), kept, strict=False):
        numbers.append(number)
        lines.append(sum_by_spaces(line, each, scores))
    if not lines:
        raise ValueError(f"input_file {arguments.input_file!r} holds no words; give one with text in it.")
    files = arguments.files()
    facts = [f"model {Path(scorer.name).name}", f"text {Path(arguments.input_file).name}", "drawn by hf_elmo"]
    with files_written_aside(*files) as aside:
        aside[0].write_text(render_surprisals(lines, arguments.direction, facts), encoding="utf-8")
        with open(aside[1], "w", encoding="utf-8", newline="") as table:
            # As R and Python's csv read a table without quotes: no word between white space has a tab in it.
            rows = csv.writer(table, "excel-tab", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
            rows.writerow(_COLUMNS)
            for number, words in zip(numbers, lines, strict=True):
                for position, word in enumerate(words):
                    bits = (f"{getattr(word, name):.6f}" for name in DIRECTIONS)
                    rows.writerow([number, position, word.word, *bits, word.pieces, word.unknown])
        for picture in aside[2:]:
            plot_surprisals(lines, arguments.direction, picture)
    words = [word for line in lines for word in line]
    means = ", ".join(f"{name} {sum(getattr(word, name) for word in words) / len(words):.2f}" for name in DIRECTIONS)
    print(f"{len(words):,} words in {len(lines):,} lines; bits a word, on the average: {means}.")
    print(f"Wrote {', '.join(map(str, files))}.")
