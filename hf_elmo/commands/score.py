"""Score a text's words by the language models inside ELMo."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..given.flags import flag
from .command_line import run_command
from .text_input import ReadingArguments, read_lines, warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.score_report import Report
    from ..inference.scoring import ScoreTotals

STANDARD_OUTPUT = "-"


_EXAMPLES = """
examples:
  hf-elmo score --model_name_or_path output/my-elmo --input_file sentences.txt
  hf-elmo score --model_name_or_path output/my-elmo --input_file sentences.txt --output_file scores.csv --carry_state
  hf-elmo score --model_name_or_path output/my-elmo --input_file sentences.txt --substitutes 5 --word new
"""


@dataclass(kw_only=True)
class ScoringArguments(ReadingArguments):
    """What is scored and written."""

    output_file: str | None = flag(
        "File to write, in one rename at the end: .tsv or .csv, a row per word, or .jsonl, an object per line; - for "
        "standard output. It holds log probabilities in nats and surprisals in bits, where each word stands in its "
        "line, and the numbers of the lines, from 0; lines without words are left out. Left out, the first sentences "
        "are shown, in bits.",
        default=None,
    )
    output_format: Literal["tsv", "csv", "jsonl"] | None = flag("Format of the output.", default=None)
    carry_state: bool = flag(
        "Carry the state from line to line, as in one long text; without it each line is read by itself.", default=False
    )
    substitutes: int = flag("How many words to propose for the place named by --position or --word.", default=0)
    position: int | None = flag(
        "The place, in each sentence that is long enough, to find substitutes for; from 0.", default=None
    )
    word: str | None = flag("The word to find substitutes for, wherever it stands.", default=None)
    prior: Literal["zipf", "uniform"] = flag(
        "What the product of both directions is divided by: the words' shares by Zipf's law, or 1.", default="zipf"
    )
    vocab_file: str | None = flag("Words of the softmax, one per line.", default=None)
    max_sentences_shown: int = flag("Sentences on the screen where there is no output_file.", default=5)
    chunk_size: int = flag("Words whose distributions over the vocabulary are held at a time.", default=64)
    overwrite_output_file: bool = flag("Replace an existing output file when the run has ended well.", default=False)

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """What --help says of flags whose default is worked out later."""
        return super().shown_defaults() | {
            "output_format": "by the name's ending, and tsv for -",
            "vocab_file": "those of the checkpoint",
        }

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError or FileExistsError naming the argument, the value got and the value wanted.
        """
        from ..checkpoints.writing import check_output_file

        if self.substitutes < 0:
            raise ValueError(f"--substitutes is {self.substitutes}; it must be >= 0.")
        places = [name for name in ("position", "word") if getattr(self, name) is not None]
        if self.substitutes and len(places) != 1:
            raise ValueError(
                f"--substitutes is {self.substitutes} with {' and '.join(places) or 'no place'}; name the place by one "
                "of --position and --word."
            )
        if places and not self.substitutes:
            raise ValueError(f"--{places[0]} names a place for substitutes, but --substitutes is 0; say how many.")
        if self.position is not None and self.position < 0:
            raise ValueError(f"--position is {self.position}; it must be >= 0.")
        if self.substitutes and self.carry_state:
            raise ValueError(
                f"--substitutes is {self.substitutes} with --carry_state; substitutes are found in each line by "
                "itself. Leave one of the two out."
            )
        if self.output_file is None:
            if self.output_format is not None:
                raise ValueError(f"--output_format is {self.output_format!r} without --output_file; name one, or -.")
        else:
            self.file_format()
            if self.output_file != STANDARD_OUTPUT:
                check_output_file(self.output_file, self.overwrite_output_file)

    def file_format(self) -> str:
        """The format of the output.

        Raises: ValueError where the name of the file does not say it.
        """
        from ..inference.score_report import ROW_FORMATS

        ending = Path(self.output_file or "").suffix.removeprefix(".")
        found = self.output_format or ("tsv" if self.output_file == STANDARD_OUTPUT else ending)
        if found not in ROW_FORMATS:
            raise ValueError(
                f"--output_file is {self.output_file!r}; its name must end in one of "
                f"{', '.join(f'.{known}' for known in ROW_FORMATS)}, or --output_format must say what it is to be."
            )
        return found


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(ScoringArguments, run_scoring, argv, prog, __doc__, _EXAMPLES)


def run_scoring(arguments: ScoringArguments) -> ScoreTotals:
    """Score a text, write or show the scores and print the perplexities of the whole.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..inference.score_report import ScoredLine, describe_totals
    from ..inference.scorer import ElmoScorer
    from ..inference.scoring import ScoreTotals
    from ..inference.word_places import place_words
    from ..text.progress import track

    arguments.check()
    lines = read_lines(arguments.input_file, arguments.text_column, arguments.output_file)
    scorer = ElmoScorer(
        arguments.model_name_or_path,
        arguments.vocab_file,
        arguments.device,
        arguments.prior,
        arguments.max_words_per_batch,
        arguments.chunk_size,
    )
    warn_of_raw_text(arguments, scorer.tokenizer.pre_tokenizer)
    placed = (place_words(line, scorer.tokenizer, arguments.text_is_tokenized) for line in lines)
    with_words = ((number, each) for number, each in enumerate(placed) if each.words)
    kept, read = itertools.tee(with_words)
    stream = scorer.stream((each.words for _, each in read), arguments.carry_state)
    totals, started = ScoreTotals(), time.perf_counter()
    num_places = num_without = 0
    with _open_report(arguments) as report:
        # The scores first: the numbers are those of the sentences that have been scored.
        for scores, (number, each) in zip(track(stream, "scoring", "sentences"), kept, strict=False):
            places = _find_places(arguments, each.words)
            substitutes = {place: scorer.substitutes(each.words, place, arguments.substitutes) for place in places}
            report(ScoredLine(number, each, scores, substitutes))
            num_places += len(substitutes)
            num_without += not substitutes
            totals += scores.totals
        if not totals.num_words:
            raise ValueError(f"input_file {arguments.input_file!r} holds no words; give one with text in it.")
        if arguments.word is not None and not num_places:
            raise ValueError(f"--word is {arguments.word!r}, which stands in no sentence of input_file; name another.")
        if arguments.position is not None and not num_places:
            raise ValueError(
                f"--position is {arguments.position}, and no sentence of input_file has so many words; name a smaller "
                "one, or a word with --word."
            )
    # Where the rows go to standard output, nothing else may.
    screen = sys.stderr if arguments.output_file == STANDARD_OUTPUT else sys.stdout
    seconds = time.perf_counter() - started
    print(describe_totals(totals, seconds, scorer.device, arguments.carry_state), file=screen)
    if arguments.position is not None and num_without:
        print(
            f"Sentences without substitutes, too short for position {arguments.position}: {num_without:,}.", file=screen
        )
    if arguments.output_file not in (None, STANDARD_OUTPUT):
        print(f"Wrote {arguments.output_file}.")
    return totals


def _find_places(arguments: ScoringArguments, words: Sequence[str]) -> list[int]:
    """The positions of a sentence that substitutes are wanted for."""
    if arguments.word is not None:
        return [place for place, word in enumerate(words) if word == arguments.word]
    return [] if arguments.position is None or arguments.position >= len(words) else [arguments.position]


@contextmanager
def _open_report(arguments: ScoringArguments) -> Iterator[Report]:
    """What writes a line to the output or, where none is named, shows the first lines."""
    from ..checkpoints.writing import files_written_aside
    from ..inference.score_report import describe_scores, open_rows

    if arguments.output_file is None:
        shown = itertools.count()
        yield lambda line: print(describe_scores(line)) if next(shown) < arguments.max_sentences_shown else None
    elif arguments.output_file == STANDARD_OUTPUT:
        yield open_rows(sys.stdout, arguments.file_format())
    else:
        target = Path(arguments.output_file).resolve()
        with files_written_aside(target) as (aside,), open(aside, "w", encoding="utf-8", newline="") as file:
            yield open_rows(file, arguments.file_format())
